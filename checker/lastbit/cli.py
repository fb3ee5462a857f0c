"""The command line: `lastbit COMMAND ...`.

A command's module is imported when the command is called, so that `lastbit --help` stays light.

Exit codes: 0 clean, 1 findings, 2 bad usage or unreadable input, 3 a defect of lastbit itself,
130 interrupted, 141 the reader of the output went away.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import IO, NoReturn

import click

from lastbit import __version__
from lastbit.errors import LastbitError, did_you_mean

CLEAN, FINDINGS, BAD_INPUT, DEFECT, INTERRUPTED, NO_READER = 0, 1, 2, 3, 130, 141

COMMANDS = {
    "check": "Compare two functions or models: what kind of change is it?",
    "lint": "Judge each transform of a plan, and models as they stand.",
    "compare": "Compare two tensors, or two files of them, in ulp.",
    "audit": "Run a program, and say which operator breaks which promise.",
    "explore": "Rank the ways to run a plan's program by traffic.",
    "predict": "Predict the bits of a matrix product on a machine.",
    "infer": "Infer from bits what a kernel computes.",
    "order": "Reveal the order in which a function adds.",
    "tolerance": "Plant faults, and list those that a comparison lets pass.",
    "replay": "Run a step's witness again, or write it as a script.",
    "report": "Render a result again, in any format.",
    "rules": "List the rules.",
    "merge": "Join the results of an audit's shards.",
    "explain": "Say what a rule means and why it matters.",
    "ops": "List the operators that are known.",
}


class Commands(click.Group):
    """A group that imports `lastbit.commands.NAME` when NAME is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name, importing its module now."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"lastbit.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown command with the nearest known one."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}. {did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table; no command is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lastbit")
def commands() -> None:
    """Say what a change to an operator graph does to its numbers.

    Exit codes: 0 clean, 1 findings, 2 bad usage or unreadable input.
    """


def wants_color(stream: IO[str] | None) -> bool:
    """Say whether to colour a stream: NO_COLOR, then FORCE_COLOR, then whether it is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


# What a write to a full or broken device fails with.
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}

# Threads of a matrix library would fight with our processes, and their number could move bits.
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")
    if sys.stderr is None:  # it was closed: what goes there is lost
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without Unicode gets escapes rather than an error.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Run the command line and return the exit code; errors go to stderr as text."""
    if sys.stdout is None:
        _say("lastbit: the output is closed. Write > /dev/null to go without it.")
        return BAD_INPUT
    try:
        code = _invoke(arguments)
        sys.stdout.flush()
        return code
    except click.ClickException as error:
        with contextlib.suppress(OSError):
            error.show()
        return BAD_INPUT
    except LastbitError as error:
        _say(str(error))
        return BAD_INPUT
    except KeyboardInterrupt:
        _say("lastbit: interrupted")
        return INTERRUPTED
    except SystemExit as error:
        from lastbit.tracing.calls import exited

        _say(str(exited(error)))
        return BAD_INPUT
    except BrokenPipeError:
        _drop_output()
        return NO_READER
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _UNWRITABLE and not error.filename:
            _drop_output()
            _say(f"lastbit: the output cannot be written: {error.strerror}.")
            return BAD_INPUT
        with contextlib.suppress(OSError):
            traceback.print_exc()
        _say("lastbit: this is a defect of lastbit; nothing was decided.")
        return DEFECT


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # there is no other place to say it
        click.echo(text, err=True)


def _drop_output() -> None:
    """Send what is still buffered nowhere, so that Python does not complain at exit."""
    with contextlib.suppress(OSError, ValueError):  # a stream without a file has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _invoke(arguments: list[str]) -> int:
    # click's own `main` answers an interrupt and a closed pipe with exit code 1, which means
    # findings here.
    try:
        with commands.make_context("lastbit", arguments, color=wants_color(sys.stdout)) as context:
            code = commands.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return code if isinstance(code, int) else CLEAN
