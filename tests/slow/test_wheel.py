"""The wheel alone, in a new environment and another folder, lints the example without torch."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SOURCES = (
    "checker",
    "rules",
    "reference_kernels",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)


def _done(*command, cwd, code=0):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def _run(*command, cwd):
    return _done(*command, cwd=cwd).stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Build the wheel from a copy, install it alone, and return the new environment."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(path, source / name, ignore=skip)
        else:
            shutil.copy(path, source / name)
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
    _run(*build, source, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    _run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=folder)
    python = environment / "bin/python"
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", python)
    _run(*pip, "install", "--no-index", "--no-deps", wheel, cwd=folder)
    # The dependencies are those of the environment that runs this test. Python reads no .pth file
    # of a folder named in a .pth file, so an editable lastbit there stays out of sight.
    (_site_packages(environment) / "dependencies.pth").write_text(
        sysconfig.get_path("purelib") + "\n", encoding="utf-8"
    )
    return environment


def _site_packages(environment):
    (folder,) = environment.glob("lib/python*/site-packages")
    return folder


def test_the_only_top_level_name_is_lastbit(installed):
    names = {path.name for path in _site_packages(installed).iterdir()} - {"dependencies.pth"}
    assert {name for name in names if not name.endswith(".dist-info")} == {"lastbit"}


def test_the_wheel_is_what_runs(installed, tmp_path):
    where = _run(
        installed / "bin/python", "-c", "print(__import__('lastbit').__file__)", cwd=tmp_path
    )
    assert Path(where.strip()).is_relative_to(installed)


def test_the_command_answers(installed, tmp_path):
    command = installed / "bin/lastbit"
    assert _run(command, "--version", cwd=tmp_path) == "lastbit, version 0.1.0\n"
    assert "RED201" in _run(command, "rules", cwd=tmp_path)


def test_the_command_lints_the_example_and_imports_no_torch(installed, tmp_path):
    plan = ROOT / "examples/qwen3_8b_ffn.toml"
    command = ("-X", "importtime", installed / "bin/lastbit", "lint", plan)
    # Its bad branches are findings: exit code 1.
    done = _done(installed / "bin/python", *command, cwd=tmp_path, code=1)
    assert done.stdout.splitlines()[-1].startswith("decided ")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "lastbit.lint" in imported
    assert not {name for name in imported if name.split(".")[0] == "torch"}
