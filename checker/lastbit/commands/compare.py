"""`lastbit compare`: two tensors, or two files of them, in ulp."""

from __future__ import annotations

import json
import re
import sys
from typing import Literal

import click

from lastbit.cli import CLEAN, FINDINGS, wants_color
from lastbit.commands.shared import read_ulps

HELP = """Compare the tensors of two files, bit by bit and in ulp.

Files are .npy, .npz, .safetensors, .pt (weights only), or raw bytes with --as and --shape. Tensors
are matched by name; where each file holds one, by that. Files larger than memory are read block by
block. Exit code 0: every bit is equal, or the distance is within --max-ulp; 1: otherwise.

\b
    lastbit compare before.safetensors after.safetensors
    lastbit compare a.npy b.npy --max-ulp f32=2
    lastbit compare a.bin b.bin --as bf16 --shape 4096,4096 --scale row --max-ulp bf16=1
"""


def _shape(_: click.Context, __: click.Parameter, given: str | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    if not re.fullmatch(r"\d{1,15}(,\d{1,15})*", given.replace(" ", "")):
        raise click.BadParameter(f"{given!r} is no shape; write 4096,64.")
    return tuple(int(size) for size in given.split(","))


@click.command("compare", help=HELP, short_help="Compare two tensors in ulp.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--as", "kind", metavar="FORMAT", help="What the codes of raw files mean, as bf16.")
@click.option("--shape", metavar="M,N", callback=_shape, help="The shape of raw files.")
@click.option(
    "--max-ulp",
    metavar="FORMAT=ULP",
    multiple=True,
    callback=read_ulps,
    help="The distance that is allowed, in ulp of a format; repeatable.",
)
@click.option(
    "--scale",
    type=click.Choice(["tensor", "row", "column"]),
    help="Measure in ulp at the largest magnitude of the tensor, row or column as well, and hold "
    "--max-ulp against that.",
)
@click.option("--format", "shown", type=click.Choice(["text", "json"]), default="text")
@click.option("-q", "--quiet", is_flag=True, help="Text: the last line only.")
def command(
    a: str,
    b: str,
    kind: str | None,
    shape: tuple[int, ...] | None,
    max_ulp: dict[str, float],
    scale: Literal["tensor", "row", "column"] | None,
    shown: str,
    quiet: bool,
) -> int:
    """Compare two files and return the exit code."""
    from lastbit.codec import to_plain
    from lastbit.comparing import compare_files
    from lastbit.comparing.text import last_line, render

    found = compare_files(a, b, element=kind, shape=shape, max_ulp=max_ulp, scale=scale)
    if shown == "json":
        text = json.dumps(to_plain(found), indent=2, allow_nan=False) + "\n"
    elif quiet:
        text = last_line(found) + "\n"
    else:
        text = render(found, color=wants_color(sys.stdout))
    click.echo(text, nl=False)
    return CLEAN if found.passes else FINDINGS
