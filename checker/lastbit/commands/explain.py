"""`lastbit explain`: say what a rule means, and show its graphs and a witness."""

from __future__ import annotations

import click


@click.command(
    "explain",
    help="Say what the rule of this code or name means, and show its graphs and a witness.",
)
@click.argument("code", metavar="CODE")
def command(code: str) -> None:
    """Print the rule's prose, claim, requirements, graphs, examples and witness."""
    from lastbit.explaining import explain

    click.echo(explain(code).rstrip("\n"))
