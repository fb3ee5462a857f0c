"""See what no dispatch mode sees: launches of Triton kernels, and graphs of torch.compile."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Protocol


class _Watcher(Protocol):
    def compiled(self) -> None:
        """Be told that a graph runs that torch.compile made."""


class Calls(Protocol):
    """Numbers calls and names them."""

    @property
    def watcher(self) -> _Watcher:
        """Return what is told of every call."""

    @property
    def busy(self) -> bool:
        """Return whether an operator runs, or an audit of it."""

    def call(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, **facts: Any
    ) -> Any:
        """Tell of one call."""


@contextlib.contextmanager
def launches(calls: Calls) -> Iterator[None]:
    """See launches of Triton kernels and of compiled graphs, where the target has loaded these."""
    with contextlib.ExitStack() as stack:
        graphs = sys.modules.get("torch._inductor.output_code")
        kind = getattr(graphs, "CompiledFxGraph", None)
        if kind is not None:
            stack.enter_context(_counted(kind, calls))
        if "triton" not in sys.modules:
            yield
            return
        for module, kind in (
            ("triton.runtime.jit", "JITFunction"),
            ("triton.runtime.autotuner", "Autotuner"),
            ("triton.runtime.autotuner", "Heuristics"),
            ("triton.runtime.interpreter", "GridExecutor"),
        ):
            with contextlib.suppress(ImportError, AttributeError):
                stack.enter_context(_seen(getattr(import_module(module), kind), calls))
        yield


@contextlib.contextmanager
def _counted(kind: Any, calls: Calls) -> Iterator[None]:
    """Tell of calls of compiled graphs; the library's operators inside are seen as others are."""
    original = kind.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not calls.busy:
            calls.watcher.compiled()
        return original(self, *args, **kwargs)

    kind.__call__ = call
    try:
        yield
    finally:
        kind.__call__ = original


@contextlib.contextmanager
def _seen(kind: Any, calls: Calls) -> Iterator[None]:
    """Tell of launches by a class of launchers."""
    method = "__call__" if kind.__name__ == "GridExecutor" else "run"
    original = getattr(kind, method)

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if calls.busy or kwargs.get("warmup"):
            return original(self, *args, **kwargs)

        def launch(*given: Any, **named: Any) -> Any:
            return original(self, *given, **named)

        kernel = _kernel(self)
        # Whether it adds atomically is read from it; a function is told nothing else.
        launch.__dict__["kernel_source"] = str(getattr(kernel, "src", ""))
        name = f"triton.{getattr(kernel, '__name__', type(kernel).__name__)}"
        facts = {"written": None, "drawing": False, "unset": frozenset[int]()}
        return calls.call(name, launch, args, kwargs, **facts)

    setattr(kind, method, run)
    try:
        yield
    finally:
        setattr(kind, method, original)


def _kernel(launcher: Any) -> Any:
    """Return the innermost launcher that has a source, else what is launched in the end."""
    while hasattr(launcher, "fn") and not hasattr(launcher, "src"):
        launcher = launcher.fn
    return launcher
