"""One result model; one file for each output format."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from lastbit.result import Result

FORMATS = ("text", "json", "sarif", "junit", "github", "markdown", "html")


class Renderer(Protocol):
    """What the module of an output format offers: a function named `render`."""

    def __call__(self, result: Result) -> str:
        """Return the whole report, with a newline at its end."""


def renderer(name: str) -> Renderer:
    """Return the renderer of an output format, importing its module now."""
    return cast("Renderer", import_module(f"lastbit.report.{name}").render)
