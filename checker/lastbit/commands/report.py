"""`lastbit report`: render a result again, in any format."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from lastbit.cli import COMMANDS, wants_color
from lastbit.commands.shared import Outputs, report_options
from lastbit.errors import InputError, Place, Problem
from lastbit.files import write_atomically
from lastbit.report import renderer
from lastbit.report import text as text_report
from lastbit.result import Result, from_json

HELP = """Render a result again, in any format, without judging anything anew.

RESULT is a JSON file that `lastbit lint` or `lastbit check` wrote, or `lastbit audit`, which has
text and json only. Exit codes are those of the run that wrote it.

\b
    lastbit lint plan.toml --output json=result.json
    lastbit report result.json --format markdown
    lastbit report result.json --output sarif=lastbit.sarif --output junit=lastbit.xml
"""


@click.command("report", help=HELP, short_help="Render a result again, in any format.")
@click.argument("path", metavar="RESULT")
@report_options
@click.option("-q", "--quiet", is_flag=True, help="Text: the last line only.")
def command(path: str, shown: str, outputs: Outputs, quiet: bool) -> int:
    """Print the report, write the others, and return the exit code of the result."""
    document = _document(path)
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema == "lastbit.audit/1":
        return _give_audit(document, path, shown, outputs, quiet)
    made_by = schema.removeprefix("lastbit.").partition("/")[0] if isinstance(schema, str) else ""
    if made_by in COMMANDS:
        message = f"is a result of `lastbit {made_by}`, not of lint, check or audit"
        raise InputError([Problem(message, "That command has its own --format.", Place(path))])
    result = from_json(document, path)
    for name, target in outputs:
        write_atomically(target, _rendered(result, name, path))
    if shown == "text" and quiet:
        click.echo(text_report.last_line(result))
    elif shown == "text":
        color = wants_color(sys.stdout)
        click.echo(text_report.render(result, color=color, json_path=path), nl=False)
    else:
        click.echo(renderer(shown)(result), nl=False)
    return result.exit_code


def _document(path: str) -> Any:
    try:
        return json.loads(Path(path).read_bytes())
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
    except RecursionError:
        message = "is nested too deeply"
    except ValueError as error:
        message = f"is no JSON: {error}"
    remedy = "Make one with `lastbit lint PLAN --output json=FILE`."
    raise InputError([Problem(message, remedy, Place(path))])


def _rendered(result: Result, name: str, path: str) -> str:
    if name == "text":
        return text_report.render(result, json_path=path)
    return renderer(name)(result)


def _give_audit(document: Any, path: str, shown: str, outputs: Outputs, quiet: bool) -> int:
    from lastbit.audit.records import from_json as audit_of
    from lastbit.commands.audit import FORMATS, give

    for name in (shown, *(name for name, _ in outputs)):
        if name not in FORMATS:
            message = f"is a result of `audit`, which {name!r} does not show"
            remedy = f"Formats: {', '.join(FORMATS)}."
            raise InputError([Problem(message, remedy, Place(path))])
    return give(audit_of(document, path), shown, outputs, quiet)
