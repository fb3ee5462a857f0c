"""`lastbit explain`: say what a rule means and why it matters."""

from __future__ import annotations

import click


@click.command("explain", help="Say what the rule of this code means and why it matters.")
@click.argument("code", metavar="CODE")
def command(code: str) -> None:
    """Print the rule's prose, claim, requirements and examples."""
    from lastbit.registry import explain

    click.echo(explain(code).rstrip("\n"))
