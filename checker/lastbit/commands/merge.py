"""`lastbit merge`: join the results of shards."""

from __future__ import annotations

import click

from lastbit.commands.audit import FORMATS, give
from lastbit.commands.shared import output_options

HELP = """Join the results of an audit that was spread over processes or machines.

RESULT are the JSON files that `lastbit audit --shard i/n --output json=FILE` wrote. What a lost
shard would have audited counts as not decided, and the report says which shards are missing.
Exit codes are those of the audit: a shard that torchrun started ends with 0 once it is written, and
merging gives the exit code of all of them. Shards of a source that was edited between them are
refused.

\b
    torchrun --nproc-per-node 2 --no-python \\
        lastbit audit model.py:build --output 'json=part-{shard}.json'
    lastbit merge part-*.json --output json=audit.json
"""


@click.command("merge", help=HELP, short_help="Join the results of an audit's shards.")
@click.argument("results", metavar="RESULT...", nargs=-1, required=True)
@output_options(FORMATS)
@click.option("-q", "--quiet", is_flag=True, help="Text: the last line only.")
def command(
    results: tuple[str, ...], shown: str, outputs: tuple[tuple[str, str], ...], quiet: bool
) -> int:
    """Merge the results, print the report, write the others, and return the exit code."""
    from lastbit.audit.merging import merge, read_audits

    return give(merge(read_audits(results)), shown, outputs, quiet)
