"""Load the function that `file.py:name` names."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import linecache
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from lastbit.errors import InputError, Place, Problem, did_you_mean
from lastbit.tracing.calls import raised_in_file


def load_targets(*texts: str) -> list[Callable[..., Any]]:
    """Return functions of files, which are run for that, each once.

    Args:
        texts: `file.py:name`, or `file.py:Class.name`.

    Raises:
        InputError: there is no such file or function, or the file cannot be run.
    """
    loaded: dict[str, ModuleType] = {}
    return [_function(text, loaded) for text in texts]


def _function(text: str, loaded: dict[str, ModuleType]) -> Callable[..., Any]:
    file, colon, name = text.rpartition(":")
    if not colon or not file or not name or os.sep in name:
        problem = f"{text!r} names no function"
        remedy = f"Write {text if text.endswith('.py') else 'idea.py'}:before."
        if text.endswith((".toml", ".json")):
            remedy = f"It is a plan: write `lastbit lint {text}`."
        raise InputError([Problem(problem, remedy)])
    module = _load(file, loaded)
    found: Any = module
    for part in name.split("."):
        names = [n for n, value in vars(found).items() if callable(value) and n[:1] != "_"]
        if not hasattr(found, part):
            own = [n for n in names if getattr(getattr(found, n), "__module__", "") == _name(file)]
            remedy = did_you_mean(part, own) if own else "It defines no function."
            raise InputError([Problem(f"there is no function {name!r}", remedy, Place(file))])
        found = getattr(found, part)
    if not callable(found):
        message = f"`{name}` is of type {type(found).__name__}, no function"
        raise InputError([Problem(message, "Name a function.", Place(file))])
    return found  # type: ignore[no-any-return]


def _name(file: str) -> str:
    stem = os.path.splitext(os.path.basename(file))[0]
    return f"_checked_{''.join(c if c.isalnum() else '_' for c in stem)}"


def _load(file: str, loaded: dict[str, ModuleType]) -> ModuleType:
    real = os.path.realpath(file)
    if real in loaded:
        return loaded[real]
    name = _name(file)
    loader = importlib.machinery.SourceFileLoader(name, file)
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    try:
        data = loader.get_data(file)
    except OSError as error:
        remedy = "Name a Python file." if error.errno else ""
        raise InputError(
            [Problem(f"cannot be read: {error.strerror}", remedy, Place(file))]
        ) from None
    text = importlib.util.decode_source(data) if _is_text(data) else ""
    # Messages show the lines that were run, whatever becomes of the file.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(real))  # a file beside it can be imported
    try:
        with contextlib.redirect_stdout(sys.stderr):
            # Always from the source: bytecode of a file that changed within a second is stale.
            exec(loader.source_to_code(data, file), module.__dict__)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise raised_in_file(error, file) from error
    loaded[real] = module
    return module


def _is_text(data: bytes) -> bool:
    try:
        importlib.util.decode_source(data)
    except (SyntaxError, UnicodeDecodeError):
        return False
    return True
