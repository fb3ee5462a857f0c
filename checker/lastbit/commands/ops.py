"""`lastbit ops`: list the operators that are known, with what each computes and where it rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from lastbit.cli import CLEAN, FINDINGS

SHORT_HELP = "List the operators that are known."
HELP = f"{SHORT_HELP} NAME is part of a name; exit code 1: no name has it."


@click.command(
    "ops",
    help=f"{SHORT_HELP} NAME is part of a name; exit code 1: no name has it.",
    short_help=SHORT_HELP,
)
@click.argument("name", required=False)
@click.option("--format", "shown", type=click.Choice(["text", "json"]), default="text")
def command(name: str | None, shown: str) -> int:
    """Print one line for each operator, by family, and return the exit code."""
    families = {
        family: {op: text for op, text in rows.items() if name is None or name in op}
        for family, rows in _families().items()
    }
    code = CLEAN if any(families.values()) else FINDINGS
    if shown == "json":
        click.echo(json.dumps({"schema": "lastbit.ops/1", "families": families}, indent=2))
        return code
    if code != CLEAN:
        click.echo(f"{name!r} is not covered: in a model it is opaque, equal on equal inputs")
        return code
    for family, rows in families.items():
        if rows:
            click.echo(f"{family}:")
        for op, text in rows.items():
            click.echo(f"  {op:<42}  {text}")
    total = sum(map(len, families.values()))
    click.echo(f"{total} operators; any other of a model is opaque: equal on equal inputs")
    return CLEAN


def _families() -> Mapping[str, Mapping[str, str]]:
    """Return by family the operators, each with its contract."""
    from lastbit.importers.aten import FAMILIES
    from lastbit.importers.onnx.table import OPERATORS as ONNX
    from lastbit.ops import COMPOSITES, ELEMENTWISE

    own = {name: f"{meaning}; exact" for name, (_, meaning) in sorted(ELEMENTWISE.items())}
    own |= {name: f"{op.meaning}; exact" for name, op in sorted(COMPOSITES.items())}
    own["round"] = "to a format; the only rounding"
    families = {"lastbit": dict(sorted(own.items()))}
    for family, rows in FAMILIES.items():
        families[f"torch {family}"] = {name: rows[name].contract for name in sorted(rows)}
    families["onnx"] = {op.label: op.meaning for op in ONNX.values()}
    return families
