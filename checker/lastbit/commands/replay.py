"""`lastbit replay`: run a step's witness again, or write it as a script."""

from __future__ import annotations

import click

from lastbit.cli import CLEAN, FINDINGS


@click.command(
    "replay",
    help="Run the witness of RESULT#STEP again: a JSON result and the id of a step in it. "
    "Exit code 1: the bits are not those of the result.",
)
@click.argument("place", metavar="RESULT#STEP")
@click.option("--script", "as_script", is_flag=True, help="Print a numpy script that shows it.")
def command(place: str, as_script: bool) -> int:
    """Print the replay or the script, and return the exit code."""
    path, _, step = place.rpartition("#")
    if not path or not step:
        raise click.UsageError(f"{place!r} names no step; write RESULT#STEP.")
    from lastbit.replaying import replay, script

    if as_script:
        click.echo(script(path, step), nl=False)
        return CLEAN
    replayed = replay(path, step)
    click.echo(str(replayed))
    return CLEAN if replayed.agrees else FINDINGS
