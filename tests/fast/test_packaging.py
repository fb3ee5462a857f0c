"""The package list of pyproject.toml is explicit; it equals the packages on disk."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]


def _packages_on_disk():
    for package, folder in SETUPTOOLS["package-dir"].items():
        for init in (ROOT / folder).rglob("__init__.py"):
            inside = init.parent.relative_to(ROOT / folder).parts
            yield ".".join((package, *inside))


def test_the_package_list_equals_the_packages_on_disk():
    assert sorted(SETUPTOOLS["packages"]) == sorted(_packages_on_disk())


def test_every_module_lies_in_a_package():
    modules = [m for d in SETUPTOOLS["package-dir"].values() for m in (ROOT / d).rglob("*.py")]
    assert modules
    assert [m for m in modules if not (m.parent / "__init__.py").exists()] == []


def test_the_version_is_the_same_everywhere():
    import lastbit

    assert PROJECT["project"]["version"] == lastbit.__version__
    assert f"## [{lastbit.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_development_tool_is_pinned():
    loose = [r for r in PROJECT["project"]["optional-dependencies"]["dev"] if "==" not in r]
    assert loose == []
