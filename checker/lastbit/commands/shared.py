"""What the commands that judge have in common: where reports go, the seed and the day."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any, TypeVar

import click

from lastbit.cli import wants_color
from lastbit.errors import did_you_mean
from lastbit.files import write_atomically
from lastbit.formats import FORMATS as ALL_FORMATS
from lastbit.report import FORMATS, renderer
from lastbit.report import text as text_report
from lastbit.result import Result

FLOATS = tuple(name for name, fmt in ALL_FORMATS.items() if fmt.kind == "float")
Command = TypeVar("Command", bound=Callable[..., Any])
Outputs = tuple[tuple[str, str], ...]


def _outputs(formats: Sequence[str]) -> Callable[..., Outputs]:
    def read(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> Outputs:
        pairs = []
        for text in given:
            name, _equals, path = text.partition("=")
            if name not in formats or not path:
                allowed = ", ".join(formats)
                raise click.BadParameter(f"{text!r} is no FORMAT=PATH; formats: {allowed}.")
            pairs.append((name, path))
        return tuple(pairs)

    return read


def _date(_: click.Context, __: click.Parameter, given: str | None) -> date:
    if given is None:
        return _default_day()
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise click.BadParameter(f"{given!r} is no date; write one as 2026-01-31.") from None


def _default_day() -> date:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return date.today()
    try:
        return datetime.fromtimestamp(int(epoch), UTC).date()
    except (ValueError, OverflowError, OSError):
        message = f"SOURCE_DATE_EPOCH is {epoch!r}; it must be a number of seconds."
        raise click.UsageError(message) from None


def read_ulps(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    """Return the ulp that are allowed by format, of options FORMAT=ULP."""
    found: dict[str, float] = {}
    for text in given:
        name, _equals, value = text.partition("=")
        name = name.strip()
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice.")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = -1
        if not 0 <= found[name] < float("inf"):
            raise click.BadParameter(f"{text!r} gives no ulp; write bf16=1.")
        if name not in FLOATS:
            raise click.BadParameter(f"{name!r} is no format. {did_you_mean(name, FLOATS)}")
    return found


def output_options(formats: Sequence[str], more: str = "") -> Callable[[Command], Command]:
    """Return what adds the options `--format` and `--output`.

    Args:
        formats: that there are.
        more: a further sentence about paths.
    """
    shown = click.option(
        "--format", "shown", type=click.Choice(formats), default="text", show_default=True
    )
    outputs = click.option(
        "--output",
        "outputs",
        metavar="FORMAT=PATH",
        multiple=True,
        callback=_outputs(formats),
        help=f"Write a report to a file as well; repeatable.{more}",
    )
    return lambda command: shown(outputs(command))


def report_options(command: Command) -> Command:
    """Add the options `--format` and `--output` for every format of a result."""
    return output_options(FORMATS)(command)


def draw_options(today: str) -> Callable[[Command], Command]:
    """Return what adds the options `--seed` and `--today`.

    Args:
        today: what the day is for.
    """
    seed = click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Seed of every draw.",
    )
    day = click.option(
        "--today",
        metavar="YYYY-MM-DD",
        callback=_date,
        help=f"{today}; else SOURCE_DATE_EPOCH, else today.",
    )
    return lambda command: seed(day(command))


def run_options(today: str) -> Callable[[Command], Command]:
    """Return what adds the options `--seed`, `--today` and `--quiet`.

    Args:
        today: what the day is for.
    """
    quiet = click.option(
        "-q", "--quiet", is_flag=True, help="Text: the last line only. No progress."
    )
    return lambda command: draw_options(today)(quiet(command))


def give(result: Result, shown: str, outputs: Outputs, quiet: bool) -> int:
    """Write a result to its files, print it, and return the exit code."""
    for name, path in outputs:
        write_atomically(path, renderer(name)(result))
    click.echo(_shown(result, shown, outputs, quiet), nl=False)
    return result.exit_code


def _shown(result: Result, name: str, outputs: Outputs, quiet: bool) -> str:
    if name != "text":
        return renderer(name)(result)
    if quiet:
        return text_report.last_line(result) + "\n"
    json_path = next((path for kind, path in outputs if kind == "json"), None)
    return text_report.render(result, color=wants_color(sys.stdout), json_path=json_path)
