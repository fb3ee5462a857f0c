"""The libraries behind ONNX files, imported when they are needed, with errors that name the extra.

`onnx` reads files, `onnxruntime` runs them; a file is read without onnxruntime.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lastbit.errors import InputError, Problem


def load_onnx(file: str = "") -> Any:
    """Return the module `onnx`.

    Args:
        file: what is to be read, for the message.

    Raises:
        InputError: it is not installed.
    """
    return _load("onnx", f"{file} is an ONNX model, and " if file else "")


def load_runtime() -> Any:
    """Return the module `onnxruntime`.

    Raises:
        InputError: it is not installed.
    """
    return _load("onnxruntime", "")


def _load(name: str, why: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        message = f"{why}{name} is not installed"
        remedy = "Run `pip install 'lastbit[onnx]'`."
        raise InputError([Problem(message, remedy)]) from None
