"""`lastbit order`: reveal the order in which a function adds."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from lastbit.cli import CLEAN, FINDINGS

if TYPE_CHECKING:
    from lastbit.order import Order

HELP = """Reveal the order in which TARGET adds up, from calls alone.

TARGET is a function of a file, FILE.py:NAME, or a name: numpy.sum, numpy.add.reduce, numpy.dot,
numpy.matmul, math.fsum, torch.sum, torch.dot, torch.mm, torch.matmul. It is given a vector of N
elements and returns their sum; a function that also takes an array of such rows is given many at
once, where that does not change the bits. Products are with ones.

Numbers so large that others vanish beside them show which elements meet before which. The tree
is that for this N, format and shape of call. Exit code 1: no fixed tree, or another one than
--against has.

\b
    lastbit order numpy.sum --n 1000
    lastbit order torch.mm --n 4096 --as bf16 --device cuda --rows 64 --columns 64
    lastbit order sums.py:mine --n 64 --against "pairwise(8)"
"""


@click.command("order", help=HELP, short_help="Reveal the order in which a function adds.")
@click.argument("target", metavar="TARGET")
@click.option("--n", default=64, show_default=True, help="The number of elements.")
@click.option("--as", "fmt", metavar="FORMAT", default="f32", show_default=True, help="Of what.")
@click.option("--rows", type=int, help="Rows of every call; otherwise the order of one vector.")
@click.option("--columns", default=1, show_default=True, help="Columns of ones in a product.")
@click.option("--axis", type=int, default=-1, show_default=True, help="0 for arrays [N, rows].")
@click.option("--library", default="numpy", show_default=True, help="Arrays for FILE.py:NAME.")
@click.option("--device", default="cpu", show_default=True, help="Of torch tensors.")
@click.option("--one-by-one", is_flag=True, help="Give it one vector at a time.")
@click.option(
    "--repeats",
    type=click.IntRange(min=2),
    default=3,
    show_default=True,
    help="How often the same call must give the same bits.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--against",
    metavar="TARGET|SCHEDULE",
    help="Say where this order first differs from that of another function, or of a schedule.",
)
@click.option("--draw/--no-draw", default=None, help="Draw the tree, or not; else small ones.")
@click.option("--format", "shown", type=click.Choice(["text", "json"]), default="text")
def command(target: str, against: str | None, draw: bool | None, shown: str, **options: Any) -> int:
    """Reveal one order or compare two, print them, and return the exit code."""
    from lastbit.order import NoTreeError, report

    n, fmt = options["n"], options["fmt"]
    try:
        first = _revealed(target, options)
        second = _other(against, options) if against else None
    except NoTreeError as error:
        if shown == "json":
            _print_json(report.finding_json(error, n, fmt))
        else:
            click.echo(f"{error}\nkind: {error.kind}")
        return FINDINGS
    same = second is None or first.tree == second.tree
    if shown == "json":
        found = report.as_json(first)
        if second is not None:
            other = report.as_json(second)
            found["against"] = {**other, "same": same, "difference": first.difference(second)}
        _print_json(found)
    else:
        click.echo(report.text(first, draw), nl=False)
        if second is not None:
            click.echo("\n" + report.text(second, draw and not same), nl=False)
            click.echo("\n" + first.difference(second))
    return CLEAN if same else FINDINGS


def _print_json(found: dict[str, Any]) -> None:
    from lastbit.order.report import SCHEMA

    click.echo(json.dumps({"schema": SCHEMA, "command": "order", **found}, ensure_ascii=False))


def _revealed(target: str, options: dict[str, Any]) -> Order:
    from lastbit.order import reveal_order

    chosen = {key: value for key, value in options.items() if key not in ("n", "fmt")}
    with contextlib.redirect_stdout(sys.stderr):  # what the function prints is no result
        return reveal_order(target, options["n"], format=options["fmt"], **chosen)


def _other(text: str, options: dict[str, Any]) -> Order:
    """Return the order of another function, or that of a schedule."""
    from lastbit.order import order_of_schedule

    if ":" in text or re.fullmatch(r"\w+(\.\w+)+", text):
        return _revealed(text, options)
    return order_of_schedule(text, options["n"], options["fmt"])
