"""`lastbit audit`: run a program, and say which operator breaks which promise."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from lastbit.cli import wants_color
from lastbit.commands.shared import output_options
from lastbit.errors import InputError, Problem
from lastbit.files import require_folder, write_atomically

if TYPE_CHECKING:
    from lastbit.audit.records import Audit
    from lastbit.audit.running import Options

HELP = """Run TARGET and say which of its operators breaks which promise, at which sizes, and why.

TARGET is a function, a module, or a function that returns a module, FILE.py:NAME, with an attribute
`inputs`: a tuple of tensors, or a function that returns one, best with a parameter `batch`, the
number of rows. Every operator of a run is run again by itself on the inputs that it had: on some
rows, in other places, with other rows beside them, again and again, with other numbers of threads.
One that differs only because its inputs differ is not blamed.

Exit code 1: an operator breaks a promise, or something was not decided. A process that a launcher
started as one of several, by RANK and WORLD_SIZE, ends with 0 once its part is written to a JSON
file, so that the launcher does not end the others; `lastbit merge` then gives the exit code.

\b
    lastbit audit model.py:build
    lastbit audit model.py:build --device cuda --batch sweep --output json=audit.json
    lastbit audit model.py:step --batch 1,7,64 --batch-axis x=0 --batch-axis mask=0
"""
CODES = ("DET650", "DET651", "DET652", "DET653", "DET654", "DET655", "DET690")
FORMATS = ("text", "json")
KEEP = "Give --output 'json=part-{shard}.json', and join the files with `lastbit merge`."
HEADS = {code[:end] for code in CODES for end in range(3, len(code) + 1)}

_NUMBERS = re.compile(r"\d{1,6}(,\d{1,6})*")


def _batch(context: click.Context, _: click.Parameter, given: str | None) -> tuple[int, ...] | str:
    if given is None or given == "sweep":
        return given or ()
    return _numbers(given, "batch sizes; write 1,2,8 or sweep")


def _threads(_: click.Context, __: click.Parameter, given: str | None) -> tuple[int, ...]:
    return () if given is None else _numbers(given, "numbers of threads; write 1,2,8")


def _numbers(given: str, what: str) -> tuple[int, ...]:
    text = given.replace(" ", "")
    numbers = [int(n) for n in text.split(",")] if _NUMBERS.fullmatch(text) else [0]
    if not all(numbers):
        raise click.BadParameter(f"{given!r} gives no {what}.")
    return tuple(dict.fromkeys(numbers))


def _codes(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for code in given:
        if code not in HEADS:
            message = f"{code!r} is no code of an audit; codes: {', '.join(CODES)}."
            raise click.BadParameter(message)
    return given


@click.command("audit", help=HELP, short_help="Say which operator breaks which promise.")
@click.argument("target", metavar="TARGET")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option(
    "--batch",
    "sizes",
    metavar="N,N,...|sweep",
    callback=_batch,
    help="Batch sizes; the largest is run. Otherwise up to 32, on cuda up to 256; sweep: powers of "
    "two up to 256, on cuda up to 4096.",
)
@click.option(
    "--batch-axis",
    "axes",
    metavar="[NAME=]AXIS",
    multiple=True,
    help="The axis of an input that counts rows; repeatable. Otherwise it is found.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=2),
    default=20,
    show_default=True,
    help="How often the same call must give the same bits.",
)
@click.option(
    "--threads",
    metavar="N,N,...",
    callback=_threads,
    help="Numbers of threads on a CPU; the first is that of all other runs.",
)
@click.option("--compile", "compiled", is_flag=True, help="Try the target compiled as well.")
@click.option(
    "--with-remedies",
    "remedies",
    is_flag=True,
    help="Run each culprit again with what may keep its promises, and measure what that costs.",
)
@click.option(
    "--time-limit",
    "seconds",
    type=click.FloatRange(min=0),
    default=100,
    show_default=True,
    help="Seconds; 0: as long as it takes. What is not tried in time is named.",
)
@click.option(
    "--shard",
    "part",
    metavar="I/N",
    help="Audit part i of n of the operators; otherwise RANK and WORLD_SIZE say which.",
)
@click.option(
    "--journal",
    metavar="FILE",
    help="Keep finished operators here, so that an audit that was interrupted goes on.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--select", metavar="CODE", multiple=True, callback=_codes, help="Keep these alone.")
@click.option("--ignore", metavar="CODE", multiple=True, callback=_codes, help="Drop these.")
@output_options(FORMATS, " {shard} in a path becomes 2-of-8.")
@click.option("-q", "--quiet", is_flag=True, help="Text: the last line only. No progress.")
def command(
    target: str,
    device: str,
    sizes: tuple[int, ...] | str,
    axes: tuple[str, ...],
    repeats: int,
    threads: tuple[int, ...],
    compiled: bool,
    remedies: bool,
    seconds: float,
    part: str | None,
    journal: str | None,
    seed: int,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    shown: str,
    outputs: tuple[tuple[str, str], ...],
    quiet: bool,
) -> int:
    """Audit the target, print the report, write the others, and return the exit code."""
    from lastbit.audit.running import Options, sweep_of
    from lastbit.audit.sharding import parse_shard, placed, shard_of_environment

    shard = parse_shard(part) if part else shard_of_environment(os.environ)
    outputs = tuple((name, placed(path, shard, not part)) for name, path in outputs)
    journal = journal and placed(journal, shard, not part)
    for _, path in outputs:
        require_folder(path)
    launched = not part and shard.count > 1
    if launched and "json" not in {shown, *(name for name, _ in outputs)}:
        raise InputError(
            [Problem(f"{shard.count} processes audit a part each and keep none", KEEP)]
        )
    options = Options(
        sizes=sweep_of(device) if isinstance(sizes, str) else sizes,
        axes=axes,
        repeats=repeats,
        threads=threads or default_threads(),
        seed=seed,
        device=device,
        compiled=compiled,
        seconds=seconds or None,
        shard=str(shard) if shard.count > 1 else None,
    )
    progress = Progress(not quiet and sys.stderr is not None and sys.stderr.isatty())
    try:
        result = _audited(target, options, remedies, journal, shard.takes, progress)
    except KeyboardInterrupt:
        progress.clear()
        again = "the same command goes on from there" if journal else "--journal FILE keeps them"
        text = f"lastbit: {progress.done} of {progress.total} operators were audited; {again}."
        click.echo(text, err=True)
        raise
    progress.clear()
    code = give(chosen(result, select, ignore), shown, outputs, quiet)
    if not launched:
        return code
    where = next((path for name, path in outputs if name == "json"), "stdout")
    text = f"lastbit: shard {shard} is written to {where}; `lastbit merge` gives the exit code."
    click.echo(text, err=True)
    return 0


def _audited(
    target: str,
    options: Options,
    remedies: bool,
    journal: str | None,
    mine: Callable[[int], bool],
    progress: Progress,
) -> Audit:
    from lastbit.audit.auditing import Hooks
    from lastbit.audit.explaining import explained, explained_with_remedies
    from lastbit.audit.journal import Journal
    from lastbit.audit.records import CaseRecord
    from lastbit.audit.running import asked_of, audit
    from lastbit.tracing.targets import load_targets

    (found,) = load_targets(target)
    explain = explained_with_remedies if remedies else explained
    hooks = Hooks(finished=progress.finished, mine=mine, progress=progress.show, explain=explain)
    if journal is None:
        return audit(target, found, options, hooks)
    with Journal(journal, asked_of(target, options, remedies), CaseRecord) as kept:

        def finished(record: CaseRecord) -> None:
            kept.add(record.key, record)
            progress.finished(record)

        hooks = replace(hooks, finished=finished, done=dict(kept.done))
        progress.done = len(kept.done)
        return audit(target, found, options, hooks)


class Progress:
    """Shows how far an audit is, on a terminal.

    Attributes:
        done: operators that are finished.
        total: operators that there are, as far as is known.
    """

    def __init__(self, visible: bool) -> None:
        self.visible, self.done, self.total = visible, 0, 0

    def finished(self, _: Any) -> None:
        """Count an operator."""
        self.done += 1

    def show(self, _: int, total: int, name: str) -> None:
        """Say which operator is audited."""
        self.total = total
        if self.visible:
            click.echo(f"\r\x1b[K{self.done} of {total}  {name[:60]}", err=True, nl=False)

    def clear(self) -> None:
        """Leave nothing behind."""
        if self.visible:
            click.echo("\r\x1b[K", err=True, nl=False)


def default_threads() -> tuple[int, ...]:
    """Return the numbers of threads to try: first that of a program of its own, then 1 and 2."""
    asked = os.environ.get("OMP_NUM_THREADS", "1")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    # The command line sets 1 where nothing is set; a program of its own takes every core.
    first = int(asked) if asked.isdigit() and int(asked) > 1 else cores or 1
    return tuple(dict.fromkeys((first, 1, 2)))


def chosen(result: Audit, select: Iterable[str], ignore: Iterable[str]) -> Audit:
    """Return the audit with the selected findings only; the cases stay."""
    wanted, dropped = tuple(select), tuple(ignore)
    kept = tuple(
        finding
        for finding in result.findings
        if (not wanted or finding.code.startswith(wanted)) and not finding.code.startswith(dropped)
    )
    return replace(result, findings=kept)


def give(result: Audit, shown: str, outputs: tuple[tuple[str, str], ...], quiet: bool) -> int:
    """Write an audit to its files, print it, and return the exit code."""
    for name, path in outputs:
        write_atomically(path, rendered(result, name))
    if shown == "text" and quiet:
        from lastbit.audit.text import last_line

        click.echo(last_line(result))
    else:
        click.echo(rendered(result, shown, wants_color(sys.stdout)), nl=False)
    return result.exit_code


def rendered(result: Audit, name: str, color: bool = False) -> str:
    """Return an audit in a format."""
    from lastbit.audit.records import to_json
    from lastbit.audit.text import render

    if name == "json":
        return json.dumps(to_json(result), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return render(result, color=color)
