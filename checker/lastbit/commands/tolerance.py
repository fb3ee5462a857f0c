"""`lastbit tolerance`: which wrong results does a comparison let pass?"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from lastbit.cli import CLEAN, FINDINGS, wants_color

if TYPE_CHECKING:
    from lastbit.tolerance.comparators import Comparison
    from lastbit.tolerance.records import Subject

HELP = """Plant faults in a result and list those that COMPARATOR lets pass.

COMPARATOR is a function of a file, FILE.py:NAME, called with (actual, expected); it raises
AssertionError or returns False for what it refuses. Without one, --rtol and --atol are tried:
|actual - expected| <= atol + rtol * |expected|, NaN never passing; one left out is 0. What is
compared stands in the options, or in the function's attributes: `op`, `shape`, `format`, `acc`,
`budget`, `machine`, `library`.

The faults: zeros, one wrong element, NaN, another shape, another type, a factor of 1.09, epsilon
0.1 for 1e-6 in a norm, one of 32 columns forgotten, a value stored in FP8 on the way, n - 1 for n,
permuted rows, a flipped sign. Beside them stands the smallest bound that admits every order and
rounding that the budget allows, how it follows, and which of the faults it would miss too.

Exit code 0: every fault is caught; 1: one passes.

\b
    lastbit tolerance tests/helpers.py:close --op norm --shape 64,4096 --as bf16
    lastbit tolerance --rtol 0.1 --atol 0.1 --op matmul --shape 64,64,4096 --as bf16
"""
_OPTIONS = {"op": "--op norm", "shape": "--shape 64,4096", "format": "--as bf16"}


@click.command("tolerance", help=HELP, short_help="Which wrong results does a comparison pass?")
@click.argument("comparator", metavar="[COMPARATOR]", required=False)
@click.option("--rtol", type=float, help="Try a rule with this relative part.")
@click.option("--atol", type=float, help="Try a rule with this absolute part.")
@click.option("--op", metavar="OP", help="elementwise, sum, mean, norm (RMS) or matmul.")
@click.option(
    "--shape", metavar="M,N[,K]", help="Of a matmul rows, columns and depth; else of the input."
)
@click.option("--as", "fmt", metavar="FORMAT", help="Of inputs and results: f32, f16 or bf16.")
@click.option("--acc", metavar="FORMAT", help="In which sums are added up; f32 by default.")
@click.option(
    "--budget",
    metavar="CHANGE",
    help="What a legal result may change: bitwise, reassociation (by default) or rounding.",
)
@click.option(
    "--machine", metavar="MACHINE", help="Whose matrix unit may compute a matmul, as hopper."
)
@click.option("--library", metavar="LIBRARY", help="Whose arrays: numpy (by default) or torch.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every draw."
)
@click.option("--format", "shown", type=click.Choice(["text", "json"]), default="text")
@click.option("-q", "--quiet", is_flag=True, help="Text: the last line only.")
def command(comparator: str | None, seed: int, shown: str, quiet: bool, **options: Any) -> int:
    """Audit one comparison, print what passes, and return the exit code."""
    from lastbit.codec import to_plain
    from lastbit.tolerance import audit_tolerance
    from lastbit.tolerance.text import last_line, render

    comparison = _comparison(comparator, options.pop("rtol"), options.pop("atol"))
    found = audit_tolerance(comparison, replace(_subject(comparison, options), seed=seed))
    if shown == "json":
        text = json.dumps(to_plain(found), indent=2, allow_nan=False) + "\n"
    elif quiet:
        text = last_line(found) + "\n"
    else:
        text = render(found, color=wants_color(sys.stdout))
    click.echo(text, nl=False)
    return CLEAN if found.passes else FINDINGS


def _comparison(comparator: str | None, rtol: float | None, atol: float | None) -> Comparison:
    from lastbit.tolerance.comparators import load_comparison, rule_of

    rule = (rtol, atol)
    if comparator is not None:
        if rule != (None, None):
            raise click.UsageError("give a COMPARATOR, or --rtol and --atol, not both.")
        return load_comparison(comparator)
    if rule == (None, None):
        raise click.UsageError("name a COMPARATOR as FILE.py:NAME, or give --rtol and --atol.")
    for name, value in (("--rtol", rtol), ("--atol", atol)):
        if value is not None and not 0 <= value < float("inf"):
            raise click.UsageError(f"{name} is {value!r}; it must be at least 0, and finite.")
    return rule_of(rtol or 0.0, atol or 0.0)


def _subject(comparison: Comparison, options: dict[str, Any]) -> Subject:
    """Return what is compared: the options count before the function's attributes.

    Raises:
        InputError: something is missing, or unknown.
    """
    from lastbit.errors import InputError, Problem, did_you_mean
    from lastbit.tolerance.records import BUDGETS, FORMATS, LIBRARIES, OPS, Subject

    given: dict[str, Any] = dict(comparison.given)
    renamed = {"fmt": "format"}
    given.update({renamed.get(k, k): v for k, v in options.items() if v is not None})
    unsaid = f"of what `{comparison.label}` compares is not given"
    if not isinstance(given.get("machine", ""), str):
        given["machine"] = str(given["machine"])
    problems = [
        Problem(f"the {name} {unsaid}", f"Write {option}, or set the function's `{name}`.")
        for name, option in _OPTIONS.items()
        if name not in given
    ]
    known = {"op": OPS, "format": FORMATS, "acc": FORMATS, "budget": BUDGETS, "library": LIBRARIES}
    for name, allowed in known.items():
        value = given.get(name, allowed[0])
        if value not in allowed:
            problems.append(Problem(f"{name} is {value!r}", did_you_mean(str(value), allowed)))
    if "shape" in given:
        shape = _shape(given["shape"])
        if shape is None:
            message = f"shape is {given['shape']!r}, which is none"
            problems.append(Problem(message, "Write --shape 64,4096."))
        given["shape"] = shape
    if problems:
        raise InputError(problems)
    return Subject(**given)


def _shape(given: Any) -> tuple[int, ...] | None:
    if isinstance(given, str) and re.fullmatch(r"\d{1,9}(,\d{1,9})*", given.replace(" ", "")):
        return tuple(int(size) for size in given.split(","))
    if isinstance(given, tuple | list) and given and all(type(size) is int for size in given):
        return tuple(given)
    return None
