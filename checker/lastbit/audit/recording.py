"""Watch a run: every operator of torch, custom ones among them, and launches of Triton kernels.

A dispatch mode sees each operator below autograd, as `aten` or as the library that registered it;
what an operator does inside itself is not seen, and neither is what is run while one is audited.
Triton kernels that are launched directly are seen where they are launched.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

from lastbit.audit.ending import Patience
from lastbit.audit.launching import launches
from lastbit.tracing.source import PACKAGES, shown_file

# They move no numbers, though torch does not call them views.
_VIEWS = {"_unsafe_view", "_local_scalar_dense", "resize_", "set_", "resize_as_", "record_stream"}
_VIEWS |= {"_assert_async", "_assert_scalar", "sym_size", "is_same_size", "equal"}
# Their results hold whatever was in memory.
_UNSET = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty"}
_UNSET |= {"new_empty_strided", "empty_quantized"}
# They read no more of a tensor than its shape and format.
_FILLS = {"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"}

# Results that are a kernel's own memory, by operator and number.
WORKSPACES = {
    "mkldnn_rnn_layer": {3}, "_cudnn_rnn": {3, 4}, "miopen_rnn": {3, 4}, "cudnn_batch_norm": {3},
    "_batch_norm_with_update": {3},
}  # fmt: skip

# Packages whose frames are between the user's line and an operator.
_BETWEEN = PACKAGES | {"triton", "contextlib"}
_TORCH = os.path.dirname(getattr(find_spec("torch"), "origin", None) or "<") + os.sep
# They call the target: frames outside them are none of the user's.
_CALLERS = {"lastbit.audit.filling", "lastbit.tracing.calls"}


@dataclass(slots=True)
class Call:
    """One call of an operator, before it is made.

    Attributes:
        name: `aten.mm.default`, `triton.kernel` or what a library named it.
        function: what is called.
        args: positional arguments.
        kwargs: named arguments.
        index: its number in the run.
        path: of the module that calls it, or empty.
        place: `file:line` of the user's source, or null.
        pair: what the same call has in a run with another batch size: operator, module, place, and
            how many such calls came before.
        written: leaves of the arguments that it writes, by number; null: nobody knows.
        drawing: whether it may draw random numbers.
        unset: results without values of the program, by number.
        values: leaves that are numbers to compute with, and not sizes, by number.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    index: int
    path: str
    place: str | None
    pair: tuple[Any, ...]
    written: frozenset[int] | None
    drawing: bool
    unset: frozenset[int]
    values: frozenset[int] = frozenset()

    def make(self) -> Any:
        """Make the call."""
        return self.function(*self.args, **self.kwargs)


class Watcher(Protocol):
    """What is told of every call, and makes it."""

    def called(self, call: Call) -> Any:
        """Make the call and return what it returns."""

    def compiled(self) -> None:
        """Be told that a graph runs that torch.compile made."""


@contextlib.contextmanager
def watching(watcher: Watcher, module: Any = None, seconds: float | None = None) -> Iterator[None]:
    """Tell a watcher of every operator that is called.

    Args:
        watcher: is told.
        module: the target, whose parts give their names to calls.
        seconds: that the target may take, what the watcher takes left out; None: as long as it
            takes.

    Raises:
        LateError: it takes longer.
    """
    paths = _Paths(module)
    calls = _Calls(watcher, paths, Patience(seconds))
    with contextlib.ExitStack() as stack:
        stack.enter_context(paths.followed())
        stack.enter_context(launches(calls))
        stack.enter_context(_mode(calls))
        yield


class _Calls:
    """Numbers calls and names them."""

    def __init__(self, watcher: Watcher, paths: _Paths, patience: Patience) -> None:
        self.watcher, self.paths, self.patience = watcher, paths, patience
        self.count = 0
        self.seen: Counter[tuple[Any, ...]] = Counter()
        self.busy = False  # inside an operator, or an audit of it

    def call(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, **facts: Any
    ) -> Any:
        """Tell of one call."""
        self.patience.enter()
        place, path = place_of_user(), self.paths.path
        pair = (name, path, place)
        order = self.seen[pair]
        self.seen[pair] += 1
        index, self.count = self.count, self.count + 1
        call = Call(name, function, args, kwargs, index, path, place, (*pair, order), **facts)
        self.busy = True
        try:
            return self.watcher.called(call)
        finally:
            self.busy = False
            self.patience.leave()


def _mode(calls: _Calls) -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            """Let torch.compile compile what it compiles without the audit."""
            return True

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if calls.busy or _moves_nothing(func):
                return func(*args, **kwargs)
            drawing = torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())
            facts = {
                "written": _leaves_where(_is_written, func, args, kwargs),
                "values": _leaves_where(_is_value, func, args, kwargs) or frozenset[int](),
                "unset": _unset(func),
            }
            return calls.call(name_of(func), func, args, kwargs, drawing=drawing, **facts)

    return Mode()  # type: ignore[no-untyped-call]


def name_of(function: Any) -> str:
    """Return the name of an operator, as `aten.mm.default`."""
    return str(function) if hasattr(function, "_schema") else f"higher_order.{function}"


def short_name(name: str) -> str:
    """Return the middle of an operator's name: `mm` of `aten.mm.default`."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else name


def _moves_nothing(function: Any) -> bool:
    """Return whether an operator computes no numbers of the program."""
    if getattr(function, "is_view", False):
        return True
    name = name_of(function)
    if not name.startswith(("aten.", "prim.", "prims.")):
        return False
    return name.startswith("prim.") or short_name(name) in _VIEWS | _UNSET | _FILLS


def _is_written(argument: Any) -> bool:
    return bool(argument.alias_info and argument.alias_info.is_write)


def _is_value(argument: Any) -> bool:
    """Return whether a number for an argument of a schema is one to compute with, and no size."""
    return "int" not in str(argument.type).lower()


def _leaves_where(
    wanted: Callable[[Any], bool], function: Any, args: Any, kwargs: Any
) -> frozenset[int] | None:
    """Return the leaves of arguments that are wanted; None where an operator has no schema."""
    from lastbit.audit.leaves import leaves

    schema = getattr(function, "_schema", None)
    if schema is None:
        return None
    found: list[int] = []
    number = 0
    named = {a.name: a for a in schema.arguments}
    pairs = [(schema.arguments[i], value) for i, value in enumerate(args)]
    pairs += [(named.get(name), value) for name, value in kwargs.items()]
    for argument, value in pairs:
        count = sum(1 for _ in leaves(value))
        if argument is not None and wanted(argument):
            found += range(number, number + count)
        number += count
    return frozenset(found)


def _unset(function: Any) -> frozenset[int]:
    from lastbit.audit.case import NO_VALUES

    schema = getattr(function, "_schema", None)
    returns = () if schema is None else schema.returns
    named = {n for n, one in enumerate(returns) if one.name in NO_VALUES}
    return frozenset(named | WORKSPACES.get(short_name(name_of(function)), set()))


class _Paths:
    """The path of the module that runs."""

    def __init__(self, module: Any) -> None:
        self.names: dict[int, str] = {}
        if module is not None and hasattr(module, "named_modules"):
            self.names = {id(one): name for name, one in module.named_modules()}
        self.stack: list[str] = []

    @property
    def path(self) -> str:
        return self.stack[-1] if self.stack else ""

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Follow the calls of modules."""
        from torch.nn.modules import module as hooks

        def enter(module: Any, _: Any) -> None:
            name = self.names.get(id(module))
            if name is None:  # of a function that is no module itself
                name = ".".join([*filter(None, [self.path]), type(module).__name__])
            self.stack.append(name)

        def leave(module: Any, _: Any, __: Any) -> None:
            self.stack.pop()

        before = hooks.register_module_forward_pre_hook(enter)
        after = hooks.register_module_forward_hook(leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()
            self.stack.clear()


def place_of_user() -> str | None:
    """Return `file:line` of the innermost frame that is the user's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name in _CALLERS:
            return None
        file = frame.f_code.co_filename
        of_torch = file.startswith(("<", _TORCH))  # where it writes code itself
        if name.partition(".")[0] not in _BETWEEN and not of_torch:
            return f"{shown_file(file)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None
