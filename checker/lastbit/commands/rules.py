"""`lastbit rules`: list the rules."""

from __future__ import annotations

import json

import click


@click.command("rules", help="List the rules: code, name, the change each claims, and its title.")
@click.option("--format", "shown", type=click.Choice(["text", "json"]), default="text")
def command(shown: str) -> None:
    """Print one line for each rule, ordered by code."""
    from lastbit.registry import load_rules

    rules = load_rules().values()
    rows = [
        {"code": rule.code, "name": rule.name, "claim": str(rule.claim), "title": rule.summary}
        for rule in rules
    ]
    if shown == "json":
        click.echo(json.dumps({"rules": rows}, indent=2, ensure_ascii=False))
        return
    widths = {key: max(len(row[key]) for row in rows) for key in ("code", "name", "claim")}
    for row in rows:
        columns = "  ".join(row[key].ljust(width) for key, width in widths.items())
        click.echo(f"{columns}  {row['title']}")
