"""`lastbit lint`: judge each transform of a plan."""

from __future__ import annotations

import gc
import os
import re
import sys
from dataclasses import replace
from datetime import UTC, date, datetime

import click

from lastbit.cli import wants_color
from lastbit.files import write_atomically
from lastbit.report import FORMATS, renderer
from lastbit.report import text as text_report
from lastbit.result import Result

_CODE = re.compile(r"(FUS|RED|DET|QNT|CVT|DOM|COST)\d{0,3}")


def _codes(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for code in given:
        if not _CODE.fullmatch(code):
            raise click.BadParameter(f"{code!r} is no code; write one as RED201, or a family: RED.")
    return given


def _outputs(
    _: click.Context, __: click.Parameter, given: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = []
    for text in given:
        name, _equals, path = text.partition("=")
        if name not in FORMATS or not path:
            allowed = ", ".join(FORMATS)
            raise click.BadParameter(f"{text!r} is no FORMAT=PATH; formats: {allowed}.")
        pairs.append((name, path))
    return tuple(pairs)


def _date(_: click.Context, __: click.Parameter, given: str | None) -> date:
    if given is None:
        return _default_day()
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise click.BadParameter(f"{given!r} is no date; write one as 2026-01-31.") from None


@click.command("lint", help="Judge each transform of the plans. Exit code 1: findings that fail.")
@click.argument("plans", metavar="PLAN...", nargs=-1, required=True)
@click.option("--format", "shown", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option(
    "--output",
    "outputs",
    metavar="FORMAT=PATH",
    multiple=True,
    callback=_outputs,
    help="Write a report to a file as well; repeatable.",
)
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
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every draw."
)
@click.option(
    "--today",
    metavar="YYYY-MM-DD",
    callback=_date,
    help="The day that [[allow]] ends are compared with; else SOURCE_DATE_EPOCH, else today.",
)
@click.option("-q", "--quiet", is_flag=True, help="Text: the last line only. No progress.")
def command(
    plans: tuple[str, ...],
    shown: str,
    outputs: tuple[tuple[str, str], ...],
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
    result = chosen(result, select, ignore)
    for name, path in outputs:
        write_atomically(path, renderer(name)(result))
    click.echo(_shown(result, shown, outputs, quiet), nl=False)
    return result.exit_code


def chosen(result: Result, select: tuple[str, ...], ignore: tuple[str, ...]) -> Result:
    """Return the result with the selected findings only; the steps stay."""
    kept = tuple(
        finding
        for finding in result.findings
        if (not select or finding.code.startswith(select)) and not finding.code.startswith(ignore)
    )
    return replace(result, findings=kept)


def _shown(result: Result, name: str, outputs: tuple[tuple[str, str], ...], quiet: bool) -> str:
    if name != "text":
        return renderer(name)(result)
    if quiet:
        return text_report.last_line(result) + "\n"
    json_path = next((path for kind, path in outputs if kind == "json"), None)
    return text_report.render(result, color=wants_color(sys.stdout), json_path=json_path)


def _default_day() -> date:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return date.today()
    try:
        return datetime.fromtimestamp(int(epoch), UTC).date()
    except (ValueError, OverflowError, OSError):
        message = f"SOURCE_DATE_EPOCH is {epoch!r}; it must be a number of seconds."
        raise click.UsageError(message) from None


def _show_progress(done: int, total: int, label: str) -> None:
    end = "\r\x1b[K" if done == total else f"\r\x1b[K{done} of {total}  {label[:60]}"
    click.echo(end, err=True, nl=False)
