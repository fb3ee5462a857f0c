"""`lastbit lint`: judge each transform of a plan, and models as they stand."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from datetime import date

import click

from lastbit.commands.shared import Outputs, give, report_options, run_options
from lastbit.result import Result


def _codes(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    if given:
        from lastbit.codes import heads
        from lastbit.registry import load_rules

        known = heads(load_rules())
        for code in given:
            if code not in known:
                message = f"{code!r} is no code; write one as RED201, or a family: RED."
                raise click.BadParameter(message)
    return given


@click.command(
    "lint",
    help="Judge each transform of the plans, models (.pt2, .onnx) as they stand, and what "
    "Inductor's kernels did, from its debug folder. "
    "Exit code 1: findings that fail.",
)
@click.argument("plans", metavar="PLAN...", nargs=-1, required=True)
@report_options
@click.option(
    "--select",
    metavar="CODE",
    multiple=True,
    callback=_codes,
    help="Keep only findings of this code or family; repeatable.",
)
@click.option(
    "--ignore",
    metavar="CODE",
    multiple=True,
    callback=_codes,
    help="Drop findings of this code or family; repeatable.",
)
@run_options(today="The day that [[allow]] ends are compared with")
def command(
    plans: tuple[str, ...],
    shown: str,
    outputs: Outputs,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    seed: int,
    today: date,
    quiet: bool,
) -> int:
    """Judge the plans, print the report, write the others, and return the exit code."""
    from lastbit.lint import lint_plans

    gc.set_threshold(100_000)  # graphs hold no cycles; looking for them takes a tenth of the time
    progress = None if quiet or not sys.stderr.isatty() else _show_progress
    result = lint_plans(plans, today=today, seed=seed, progress=progress)
    return give(chosen(result, select, ignore), shown, outputs, quiet)


def chosen(result: Result, select: tuple[str, ...], ignore: tuple[str, ...]) -> Result:
    """Return the result with the selected findings only; the steps stay."""
    kept = tuple(
        finding
        for finding in result.findings
        if (not select or finding.code.startswith(select)) and not finding.code.startswith(ignore)
    )
    return replace(result, findings=kept)


def _show_progress(done: int, total: int, label: str) -> None:
    end = "\r\x1b[K" if done == total else f"\r\x1b[K{done} of {total}  {label[:60]}"
    click.echo(end, err=True, nl=False)
