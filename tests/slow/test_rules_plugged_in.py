"""Rules of a user's own package are found through an entry point, and mistakes in it are named.

Each package is a folder on the path with a `dist-info` beside it, as an installer leaves it.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TEMPLATE = Path(__file__).parents[2] / "docs" / "rule_template"
RULE = '''
"""ACM201 plus-zero: adds 0.

Why it matters: it does not.
Error: exact.
Source: none.
"""

from lastbit.change import Change
from lastbit.graph import apply, Round, const
from lastbit.patterns import outer_rounding
from lastbit.rule import Rewrite, breaks, holds

RULE = Rewrite(
    code="ACM201",
    name="plus-zero",
    claim=Change.BITWISE,
    prose=__doc__,
    graph="x: f32[N]\\ny: f32 = x * 3",
    at=("y",),
    sizes={"N": 1},
    rewrite=lambda site: {
        "y": Round(apply("add", site.node, const(0)), outer_rounding(site.node).rounding)
    },
    examples=(holds(x=1),),
    loses=("domain",),
)
'''
Install = Callable[..., None]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Return what installs a package of rules: its files, and its entry points."""

    def put(
        files: Mapping[str, str], entries: str = "acme = acme_rules", name: str = "acme-rules"
    ) -> None:
        info = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[lastbit.rules]\n{entries}\n")
        for path, text in files.items():
            file = tmp_path / path
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")

    return put


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return what runs the command line in a process that finds the package."""

    def lastbit(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {more.get('before', 'pass')}"
        command = [sys.executable, "-c", f"{code}; from lastbit.cli import main; main()"]
        return subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=120, check=False
        )

    return lastbit


PACKAGE = {"acme_rules/__init__.py": "", "acme_rules/acm201_plus_zero.py": RULE}


def test_a_file_dropped_into_a_package_is_a_rule(install: Install, run: Run) -> None:
    install({**PACKAGE, "acme_rules/_shared.py": "no = rule"})
    listed = run("rules")
    assert listed.returncode == 0
    assert [line for line in listed.stdout.splitlines() if "plus-zero" in line] == [
        line for line in listed.stdout.splitlines() if line.startswith("ACM201  plus-zero ")
    ]
    assert listed.stdout.startswith("ACM201  plus-zero ")  # before CVT401: ordered by code
    assert "RED201" in listed.stdout
    checked = run("rules", "--check", "ACM201")
    assert checked.stderr == ""
    first, last = checked.stdout.splitlines()
    assert re.fullmatch(r"ACM201  plus-zero  transform  bitwise  bitwise  \d+ instances  ok", first)
    assert last.startswith("checked 1 rule;")
    assert checked.returncode == 0
    assert run("explain", "plus-zero").stdout.startswith("ACM201 plus-zero: adds 0.")


def test_a_plan_uses_a_rule_that_is_plugged_in(install: Install, run: Run, tmp_path: Path) -> None:
    install(PACKAGE)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        "schema = 1\n[graph]\nname = 'g'\nsymbols = { N = 8 }\n"
        "text = '''\nx: f32[N]\ny: f32 = x * 3\n'''\n"
        "[[transform]]\nrule = 'plus-zero'\nat = ['y']\n"
    )
    done = run("lint", str(plan), "--select", "ACM201", "--select", "ACM")
    assert "ACM201 plus-zero at `y`" in done.stdout
    assert done.returncode == 0


def test_a_rule_that_is_plugged_in_is_held_to_what_it_says(install: Install, run: Run) -> None:
    install({**PACKAGE, "acme_rules/acm201_plus_zero.py": RULE.replace("BITWISE", "ROUNDING")})
    done = run("rules", "--check", "ACM201")
    assert done.returncode == 1
    first, second = done.stdout.splitlines()[1:3]
    assert first == "    claims `rounding`, and no example breaks"
    assert re.fullmatch(
        r"    claims `rounding`, and none of \d+ instances changes a bit on an ordinary run", second
    )


def test_a_rule_of_ours_is_found_without_the_others(install: Install, run: Run) -> None:
    install({**PACKAGE, "acme_rules/acm201_plus_zero.py": "raise RuntimeError('read')"})
    assert run("explain", "RED201").returncode == 0
    assert "RuntimeError: read" in run("explain", "plus-zero").stderr


PLAN = """
schema = 1
[graph]
name = "g"
symbols = { N = 8 }
text = "x: f32[N]\\ny: f32 = x * 3"
"""
RAISED = "ACM201 plus-zero raises ZeroDivisionError: integer modulo by zero, where it"


@pytest.mark.parametrize(
    ("changed", "step", "doing"),
    [
        ("finds=lambda standing: [1 % 0],", "", "finds dangers"),
        ("finds=lambda standing: (1 % 0 for _ in [1]),", "", "finds dangers"),
        ("requires=(Require('no', lambda site: 1 % 0),),",
         "[[transform]]\nrule = 'plus-zero'\nat = ['y']", "is applied at `y`"),
    ],
)  # fmt: skip
def test_a_rule_that_raises_is_named_with_its_file(
    install: Install, run: Run, tmp_path: Path, changed: str, step: str, doing: str
) -> None:
    rule = RULE.replace("import Rewrite,", "import Require, Rewrite,")
    rule = rule.replace("examples=", f"{changed}\n    examples=")
    install({**PACKAGE, "acme_rules/acm201_plus_zero.py": rule})
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN + step)
    done = run("lint", str(plan))
    assert done.returncode == 2
    here = HERE.format(folder=tmp_path)
    assert f"rule file {here}: {RAISED} {doing}.{SEE}" in done.stderr
    assert "Traceback" not in done.stderr


HERE = "'{folder}/acme_rules/acm201_plus_zero.py' of acme-rules"
SEE = " See CONTRIBUTING, `add a rule`."
WRONG = {
    "no RULE": ({"acm201_plus_zero": "x = 1"}, f"rule file {HERE}: it has no RULE.{SEE}"),
    "another code": (
        {"acm201_plus_zero": RULE.replace('code="ACM201"', 'code="ACM202"')},
        f"rule file {HERE}: its rule has the code ACM202; the file is named after the code.{SEE}",
    ),
    "an error": (
        {"acm201_plus_zero": "import nowhere"},
        "rule file 'acme_rules/acm201_plus_zero.py' of acme-rules: it cannot be imported "
        f"(ModuleNotFoundError: No module named 'nowhere').{SEE}",
    ),
    "a code twice": (
        {"acm201_plus_zero": RULE, "acm201_again": RULE.replace("plus-zero", "again")},
        f"rule file {HERE}: 'ACM201' is taken by ACM201 again in "
        f"'{{folder}}/acme_rules/acm201_again.py' of acme-rules.{SEE}",
    ),
    "a name of ours": (
        {"acm201_plus_zero": RULE.replace("plus-zero", "split-k")},
        f"rule file {HERE}: 'split-k' is taken by RED201 split-k in "
        f"'{{rules}}/red201_split_k.py' of lastbit.{SEE}",
    ),
    "no rules": ({}, f"rule file 'acme_rules' of acme-rules: the package holds no rules.{SEE}"),
}


@pytest.mark.parametrize(("files", "message"), WRONG.values(), ids=WRONG)
def test_a_file_that_is_no_rule_is_named(
    files: Mapping[str, str], message: str, install: Install, run: Run, tmp_path: Path
) -> None:
    texts = {f"acme_rules/{name}.py": text for name, text in files.items()}
    install({"acme_rules/__init__.py": "", **texts})
    done = run("rules")
    rules = Path(__file__).parents[2] / "rules"
    assert done.stderr.strip() == message.format(folder=tmp_path, rules=rules)
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ("acme = acme_nowhere", "ModuleNotFoundError: No module named 'acme_nowhere'"),
        ("acme = keyword", "AttributeError: module 'keyword' has no attribute '__path__'"),
    ],
)
def test_an_entry_that_names_no_package_is_named(
    entries: str, reason: str, install: Install, run: Run
) -> None:
    install({}, entries)
    done = run("rules", "--check")
    package = entries.split()[-1]
    assert done.stderr.strip() == (
        f"rule file {package!r} of acme-rules: it is no package that can be imported ({reason})."
        f"{SEE}"
    )
    assert done.returncode == 2


def test_two_packages_are_found_and_told_apart(install: Install, run: Run) -> None:
    install(PACKAGE)
    other = RULE.replace("ACM201", "BEE301").replace("plus-zero", "plus-nothing")
    files = {"bee_rules/__init__.py": "", "bee_rules/bee301_plus_nothing.py": other}
    install(files, "bee = bee_rules", "bee")
    codes = [line.split()[0] for line in run("rules").stdout.splitlines()]
    assert codes[:2] == ["ACM201", "BEE301"]


def test_looking_up_rules_that_are_plugged_in_imports_nothing_heavy(
    install: Install, run: Run
) -> None:
    install(PACKAGE)
    before = "import atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr))"
    done = run("rules", before=before)
    assert "ACM201" in done.stdout
    modules = set(done.stderr.split())
    assert "acme_rules.acm201_plus_zero" in modules
    assert not {"numpy", "torch", "mpmath", "ml_dtypes"} & modules


def test_the_template_is_a_package_whose_rule_passes(install: Install, run: Run) -> None:
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text(encoding="utf-8"))
    entries = project["project"]["entry-points"]["lastbit.rules"]
    files = {
        str(path.relative_to(TEMPLATE)): path.read_text(encoding="utf-8")
        for package in project["tool"]["setuptools"]["packages"]
        for path in (TEMPLATE / package).glob("*.py")
    }
    install(files, "\n".join(f"{k} = {v}" for k, v in entries.items()), project["project"]["name"])
    done = run("rules", "--check", "ACM101")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].endswith("ok")
    assert "ACM101" in (TEMPLATE / "README.md").read_text(encoding="utf-8")
