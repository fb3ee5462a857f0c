"""`lastbit check`: compare two functions or models."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Collection
from datetime import date
from functools import partial
from typing import Any

import click

from lastbit.change import Change
from lastbit.commands.shared import Outputs, give, report_options, run_options
from lastbit.records import PROMISES
from lastbit.result import Result

_SIZES = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(\d+)\s*(?:\.\.\s*(\d+)\s*)?")
_CHANGES = [change.value for change in Change if change != Change.UNKNOWN]

HELP = """Say what kind of change it is to compute AFTER in place of BEFORE.

Both are models (.pt2 of torch.export, .onnx), or both are functions, FILE.py:NAME: of torch, which
are exported, or written with lastbit's own operators. With --compile, AFTER is what torch.compile
makes of BEFORE. In a function of lastbit's operators nothing rounds but
`.to(format)`; a sum is exact unless it is given an accumulator and the tree that adds it up.
Exit code 1: findings that fail.

\b
    # idea.py
    import lastbit
    def before(x, w):
        g = lastbit.matmul(x, w, acc="f32", schedule="seq").to("bf16")
        return lastbit.silu(g).to("bf16")
    def after(x, w):
        g = lastbit.matmul(x, w, acc="f32", schedule="split(4)")
        return lastbit.silu(g).to("bf16")
    before.inputs = {"x": "bf16[M, 4096]", "w": "bf16[4096, 64]"}

\b
    lastbit check idea.py:before idea.py:after --symbol M=1..8192 --batch M

The inputs are those of --input, else of the attribute `inputs` of the functions, else of their
defaults and annotations (`x=lastbit.bf16("M", 4096)`). The files are run.
"""


def _check_new(name: str, found: Collection[str]) -> None:
    if name in found:
        raise click.BadParameter(f"{name!r} is given twice.")


def read_inputs(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Return format and shape of each input by its name."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, spec = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise click.BadParameter(f"{text!r} is no input; write 'x=bf16[M, 4096]'.")
        _check_new(name.strip(), found)
        found[name.strip()] = spec.strip()
    return found


def _symbols(
    _: click.Context, __: click.Parameter, given: tuple[str, ...]
) -> dict[str, tuple[int, int]]:
    found: dict[str, Any] = {}
    for text in given:
        match = _SIZES.fullmatch(text)
        if not match:
            raise click.BadParameter(f"{text!r} gives no sizes; write M=1..8192 or M=64.")
        name, low, high = match.groups()
        _check_new(name, found)
        found[name] = (int(low), int(high or low))
    return found


def _ulp(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    found: dict[str, Any] = {}
    for text in given:
        name, _equals, value = text.partition("=")
        _check_new(name.strip(), found)
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise click.BadParameter(f"{text!r} gives no ulp; write bf16=1.") from None
    return found


@click.command("check", help=HELP, short_help="Compare two functions or models.")
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER", required=False)
@click.option(
    "--input",
    "inputs",
    metavar="NAME=FORMAT[SIZES]",
    multiple=True,
    callback=read_inputs,
    help="Format and shape of an input, 'x=bf16[M, 4096]', and how it is drawn, "
    "'x=bf16[M, 4096] normal(0, 1) in [-8, 8]'; repeatable.",
)
@click.option(
    "--symbol",
    "symbols",
    metavar="NAME=LOW..HIGH",
    multiple=True,
    callback=_symbols,
    help="The sizes of a symbol, M=1..8192 or M=64; repeatable. Otherwise 1 to about 2000.",
)
@click.option("--batch", metavar="NAME", help="The symbol that counts rows.")
@click.option("--max-change", type=click.Choice(_CHANGES), help="The most that is allowed.")
@click.option(
    "--max-ulp",
    metavar="FORMAT=ULP",
    multiple=True,
    callback=_ulp,
    help="The most that is allowed in ulp at scale; repeatable.",
)
@click.option("--elementwise", is_flag=True, help="Count --max-ulp in ulp of each result.")
@click.option(
    "--promise",
    "promises",
    type=click.Choice(PROMISES),
    multiple=True,
    help="A promise that AFTER must keep; repeatable.",
)
@click.option(
    "--compile",
    "compiled",
    is_flag=True,
    help="AFTER is what torch.compile (Inductor) makes of the function BEFORE.",
)
@click.option(
    "--emulate-precision-casts",
    "emulate",
    is_flag=True,
    help="Compile with Inductor's flag of this name, which keeps the roundings.",
)
@click.option(
    "--run/--no-run",
    default=None,
    help="Run both sides and hold them against the prediction: two models of ONNX with ONNX "
    "Runtime, off by default, where the first of its levels (disabled, basic, extended, layout, "
    "all) that changes a verdict is named; a function and its compiled form, on by default.",
)
@click.option(
    "--allow",
    "allows",
    metavar="'CODE at NAME: REASON'",
    multiple=True,
    help="Accept findings of a code at a value, or of FUS190 at an operator that is known by its "
    "name only, 'FUS190 at com.microsoft.GroupQueryAttention: reviewed'; repeatable. "
    "Without `at NAME`: everywhere.",
)
@click.option(
    "--weights/--no-weights",
    "weights",
    default=None,
    help="Compare the numbers of the weights too: of two .pt2 files only where it is asked, "
    "of functions and modules of torch by default.",
)
@report_options
@run_options(today="The day that the result names")
def command(
    before: str,
    after: str | None,
    inputs: dict[str, str],
    symbols: dict[str, tuple[int, int]],
    batch: str | None,
    max_change: str | None,
    max_ulp: dict[str, float],
    elementwise: bool,
    promises: tuple[str, ...],
    compiled: bool,
    emulate: bool,
    run: bool | None,
    allows: tuple[str, ...],
    weights: bool | None,
    shown: str,
    outputs: Outputs,
    seed: int,
    today: date,
    quiet: bool,
) -> int:
    """Judge the change, print the report, write the others, and return the exit code."""
    from lastbit.allowing import read_allow, with_allows

    accepted = [read_allow(text) for text in allows]
    demands: dict[str, Any] = {
        "max_change": max_change,
        "max_ulp": max_ulp,
        "elementwise": elementwise,
        "promises": promises,
        "seed": seed,
        "today": today,
    }
    with contextlib.redirect_stdout(sys.stderr):  # what the user's code prints is no report
        result = _judged(
            before, after, inputs, symbols, batch, compiled, emulate, run, weights, demands
        )
    return give(with_allows(result, accepted, before), shown, outputs, quiet)


def _judged(
    before: str,
    after: str | None,
    inputs: dict[str, str],
    symbols: dict[str, tuple[int, int]],
    batch: str | None,
    compiled: bool,
    emulate: bool,
    run: bool | None,
    weights: bool | None,
    demands: dict[str, Any],
) -> Result:
    """Return the verdict on the change; the arguments are those of the command."""
    from lastbit.checking import check, check_models
    from lastbit.importers.load import is_model
    from lastbit.tracing.targets import load_targets

    if compiled:
        if after is not None or symbols or batch:
            raise click.UsageError("--compile takes one function, with tensors of fixed sizes.")
        if weights:
            raise click.UsageError("Leave out --weights: both sides of --compile share them.")
        from lastbit.importers.inductor.checking import check_compiled

        (target,) = load_targets(before)
        return check_compiled(
            before, target, inputs=inputs, run=run is not False, emulate=emulate or None, **demands
        )
    if after is None or emulate:
        raise click.UsageError("Name BEFORE and AFTER, or one function and --compile.")
    if is_model(before) != is_model(after):
        model, other = (before, after) if is_model(before) else (after, before)
        raise click.UsageError(
            f"{model!r} is a model, and {other!r} is none. "
            "Both must be models (.pt2, .onnx), or both functions: FILE.py:NAME."
        )
    if is_model(before) and is_model(after):
        if inputs:
            raise click.UsageError("--input is for functions; a model says what it reads.")
        exported = all(name.lower().endswith(".pt2") for name in (before, after))
        if weights and not exported:
            raise click.UsageError("--weights is for .pt2 files; those of ONNX always count.")
        demands.update(symbols=symbols, batch=batch, run=bool(run))
        if exported:
            from lastbit.importers.pt2.checking import check_pt2

            return check_pt2(before, after, weights=bool(weights), **demands)
        return check_models(before, after, **demands)
    if run:
        raise click.UsageError("--run is for two models of ONNX, and for --compile.")
    first, second = load_targets(before, after)
    from lastbit.importers.torch_calls import calls_torch

    if calls_torch(first) or calls_torch(second):
        from lastbit.importers.pt2.checking import check_pt2
        from lastbit.importers.torch_export import check_exported

        return check_exported(
            (before, after),
            (first, second),
            partial(check_pt2, weights=weights is not False),
            inputs,
            symbols=symbols,
            batch=batch,
            **demands,
        )
    if weights:
        raise click.UsageError("--weights is for .pt2 files, and for functions of torch.")
    verdict = check(
        first,
        second,
        inputs=inputs,
        symbols=symbols,
        batch=batch,
        **demands,
    )
    return verdict.result
