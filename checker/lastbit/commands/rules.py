"""`lastbit rules`: list the rules, or check that each does what it claims."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Mapping, Sequence

import click

from lastbit.cli import CLEAN, FINDINGS
from lastbit.errors import InputError, Problem, did_you_mean
from lastbit.rule import Rewrite

SHORT_HELP = "List the rules, or check them: claim, promises, requirements and examples."


@click.command("rules", help=f"{SHORT_HELP} Exit code 1: a rule fails.", short_help=SHORT_HELP)
@click.argument("codes", metavar="[CODE]...", nargs=-1)
@click.option(
    "--check",
    is_flag=True,
    help="Draw instances of each rule, or of those named, and hold its statements against them.",
)
@click.option("--format", "shown", type=click.Choice(["text", "json"]), default="text")
@click.option("--seed", type=click.IntRange(min=0), help="With --check: seed of every draw.")
def command(codes: tuple[str, ...], check: bool, shown: str, seed: int | None) -> int:
    """Print one line for each rule, ordered by code, and return the exit code."""
    if not check:
        if codes:
            raise click.UsageError(
                f"{codes[0]!r} is given without --check. Write `lastbit rules --check {codes[0]}`, "
                f"or `lastbit explain {codes[0]}`."
            )
        if seed is not None:
            raise click.UsageError("--seed is for --check.")
        _list(shown)
        return CLEAN
    return _check(chosen(codes), shown, seed or 0)


def chosen(codes: Sequence[str]) -> list[Rewrite]:
    """Return the rules of some codes, names or families, in the order of their codes; else all.

    Raises:
        InputError: a word is none of these; the text names the nearest.
    """
    from lastbit.registry import load_rules

    rules = load_rules()
    if not codes:
        return list(rules.values())
    found: dict[str, Rewrite] = {}
    problems = []
    for word in codes:
        matching = _matching(word, rules)
        found |= matching
        if not matching:
            names = {name for rule in rules.values() for name in (rule.name, rule.code)}
            problems.append(Problem(f"unknown rule {word!r}", did_you_mean(word, names)))
    if problems:
        raise InputError(problems)
    return [found[code] for code in sorted(found)]


def _matching(word: str, rules: Mapping[str, Rewrite]) -> dict[str, Rewrite]:
    family = {code: rule for code, rule in rules.items() if code.rstrip("0123456789") == word}
    exact = {code: rule for code, rule in rules.items() if word in (rule.name, code, code.lower())}
    return exact or family


def _check(rules: Sequence[Rewrite], shown: str, seed: int) -> int:
    from lastbit.catalogue.pool import check_rules
    from lastbit.catalogue.records import report
    from lastbit.catalogue.text import render

    gc.set_threshold(100_000)  # graphs hold no cycles; looking for them takes a tenth of the time
    checked = check_rules(rules, seed, _show_progress if sys.stderr.isatty() else None)
    if shown == "json":
        click.echo(json.dumps(report(checked), indent=2, ensure_ascii=False))
    else:
        click.echo(render(checked), nl=False)
    return FINDINGS if any(one.failures for one in checked) else CLEAN


def _show_progress(done: int, total: int, code: str) -> None:
    end = "\r\x1b[K" if done == total else f"\r\x1b[K{done} of {total}  {code}"
    click.echo(end, err=True, nl=False, color=True)  # not a colour: it clears the line


def _list(shown: str) -> None:
    from lastbit.registry import load_rules

    rows = [
        {
            "code": rule.code,
            "name": rule.name,
            "kind": "transform" if rule.finds is None else "hazard",
            "claim": str(rule.claim),
            "title": rule.summary,
        }
        for rule in load_rules().values()
    ]
    if shown == "json":
        click.echo(json.dumps({"rules": rows}, indent=2, ensure_ascii=False))
        return
    columns = ("code", "name", "kind", "claim")
    widths = {key: max(len(row[key]) for row in rows) for key in columns}
    for row in rows:
        padded = (row[key].ljust(widths[key]) for key in columns)
        click.echo(f"{'  '.join(padded)}  {row['title']}")
