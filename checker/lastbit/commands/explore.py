"""`lastbit explore`: rank the ways to run a plan's program."""

from __future__ import annotations

import sys
from datetime import date

import click

from lastbit.cli import CLEAN
from lastbit.commands.shared import draw_options

HELP = """Rank the ways to run a plan's program by traffic.

Each value is computed in a kernel of its own or in that of a value that reads it; products of one
operand may share one. A kernel with a sum works in tiles whose working set, running sums included,
fits into a block's shared memory on the device. All partitions are looked at, each in all of these
tiles; none is sampled:

\b
    of a product, 16 to 256 rows, 16 to 256 or all columns, 16 to 128 or all terms at a time
    of whole rows, 1 to 128 rows, 512 to 2048 or all terms at a time
    what the plan says in [[kernel]], and in transforms that only place values

Block and loop sizes double from one to the next. These choices change no bit. The plan's other
transforms are options, one at a time: those that its budget forbids are left out, and listed with
the reason. Attention whose scores pass by in blocks is a way to sum: it is among the ways where
`online-softmax` or the graph has it.

The second table is the Pareto front: for less local storage than a line has, only lines below it
are to be had, with more traffic.

\b
    lastbit explore plan.toml --device h100-sxm
    lastbit explore plan.toml --only g --only t --only z --top 3
"""


@click.command("explore", help=HELP, short_help="Rank the ways to run a plan's program by traffic.")
@click.argument("plan", metavar="PLAN")
@click.option(
    "--device",
    "name",
    metavar="NAME",
    help="A device, known or of the plan, in place of its target.",
)
@click.option(
    "--only",
    metavar="VALUE",
    multiple=True,
    help="A value that may share a kernel; repeatable. All others are kernels of their own.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many of the cheapest to list.",
)
@click.option("--format", "shown", type=click.Choice(["text", "json"]), default="text")
@draw_options(today="The day that [[allow]] ends are compared with")
def command(
    plan: str,
    name: str | None,
    only: tuple[str, ...],
    top: int,
    shown: str,
    seed: int,
    today: date,
) -> int:
    """Explore the plan and print what was found."""
    from lastbit.exploring import explore_plan
    from lastbit.report import exploration

    found = explore_plan(plan, device=name, only=only, today=today, seed=seed)
    text = exploration.to_json(found, top) if shown == "json" else exploration.render(found, top)
    sys.stdout.write(text)
    return CLEAN
