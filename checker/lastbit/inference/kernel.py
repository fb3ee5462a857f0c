"""The kernel as a black box: called with arrays, its results taken as codes."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

import numpy as np

from lastbit.errors import InputError, Problem
from lastbit.formats import Format
from lastbit.inference.arrays import codes_of, native, plain_array
from lastbit.round_array import Codes
from lastbit.tracing.calls import Side

LIBRARIES: Final = ("numpy", "torch")
TORCHES: Final = ("torch", "triton")
NUMPIES: Final = ("numpy", "ml_dtypes")
MOST_FOLLOWED: Final = 40  # functions that a kernel calls

Arrays = Mapping[str, Codes]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A result that the reference has.

    Attributes:
        name: its name.
        format: its format.
        shape: its shape.
    """

    name: str
    format: Format
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.format.short}{list(self.shape)}"


@dataclass(frozen=True)
class Kernel:
    """A callable on arrays.

    Attributes:
        call: the callable.
        inputs: the format of each input, in the order of the reference.
        results: what the reference returns.
        library: whose arrays it reads: `numpy` or `torch`.
        device: where torch tensors lie.
    """

    call: Callable[..., Any]
    inputs: Mapping[str, Format]
    results: Sequence[Wanted]
    library: str
    device: str = "cpu"

    @property
    def side(self) -> Side:
        """Return the kernel as a function that messages can name."""
        return Side("kernel", self.call)

    @property
    def name(self) -> str:
        """Return the name of the callable."""
        return getattr(self.call, "__name__", type(self.call).__name__)

    def __call__(self, codes: Arrays) -> dict[str, Codes]:
        """Return the codes of each result on some inputs.

        Raises:
            InputError: the kernel fails, or returns something else than the reference does.
        """
        try:
            given = {
                name: native(codes[name], fmt, self.library, self.device)
                for name, fmt in self.inputs.items()
            }
        except (RuntimeError, AssertionError) as error:  # what torch raises for a device
            reason = str(error).partition("\n")[0].rstrip(".")
            remedy = "Name one that torch has: cpu, cuda:0."
            problem = Problem(f"no array can lie on {self.device!r}: {reason}", remedy)
            raise InputError([problem]) from error
        with np.errstate(all="ignore"):
            returned = self._run(given)
        return self._results(returned)

    def _run(self, given: Mapping[str, Any]) -> Any:
        try:
            return self.side.run(lambda: self._called(given))
        except InputError as error:
            if not isinstance(error.__cause__, Exception):
                raise
            remedy = f"It was given arrays of {self.library}; --arrays gives others."
            problems = [Problem(p.message, p.remedy or remedy, p.place) for p in error.problems]
            raise InputError(problems) from error.__cause__

    def _called(self, given: Mapping[str, Any]) -> Any:
        with contextlib.redirect_stdout(sys.stderr):
            if self._takes_names():
                return self.call(**given)
            return self.call(*given.values())

    def _takes_names(self) -> bool:
        """Return whether the kernel's parameters have the names of the inputs.

        Raises:
            InputError: it needs more inputs, or takes fewer.
        """
        try:
            found = inspect.signature(self.call).parameters
        except (TypeError, ValueError):
            return False  # built in: in the order of the reference
        if all(
            name in found and found[name].kind is not inspect.Parameter.POSITIONAL_ONLY
            for name in self.inputs
        ):
            needed = set(self.inputs)
        else:
            needed = set(list(found)[: len(self.inputs)])
        named = set(self.inputs) <= set(found)
        places = [
            p
            for p in found.values()
            if p.kind is not p.VAR_KEYWORD and (named or p.kind is not p.KEYWORD_ONLY)
        ]
        is_open = any(p.kind is p.VAR_POSITIONAL for p in places)
        fixed = {p.name for p in found.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        missing = [n for n in fixed - needed if found[n].default is inspect.Parameter.empty]
        if missing or (len(places) < len(self.inputs) and not is_open):
            raise self.side.error(
                f"{self.side.label} takes {_listed(found)}, and the reference "
                f"{_listed(self.inputs)}",
                "Take the same inputs, by the same names or in the same order.",
            )
        return set(self.inputs) <= set(found)

    def _results(self, returned: Any) -> dict[str, Codes]:
        if isinstance(returned, Mapping):
            unknown = [r.name for r in self.results if r.name not in returned]
            if unknown and len(returned) == len(self.results):
                values = list(returned.values())
            elif unknown:
                raise self.side.error(
                    f"{self.side.label} returns {_listed(returned)}, and the reference "
                    f"{_listed([r.name for r in self.results])}"
                )
            else:
                values = [returned[r.name] for r in self.results]
        elif isinstance(returned, tuple | list):
            values = list(returned)
        else:
            values = [returned]
        if len(values) != len(self.results):
            raise self.side.error(
                f"{self.side.label} returns {len(values)} results, and the reference "
                f"{len(self.results)}",
                "Return the same results in the same order.",
            )
        return {
            wanted.name: self._codes(wanted, value)
            for wanted, value in zip(self.results, values, strict=True)
        }

    def _codes(self, wanted: Wanted, value: Any) -> Codes:
        what = f"{self.side.label} returns"
        found = plain_array(value)
        if found is None:
            raise self.side.error(
                f"{what} a value of type {type(value).__name__} as `{wanted.name}`",
                "Return an array of numpy or torch.",
            )
        array, held = found
        if [n for n in array.shape if n != 1] != [n for n in wanted.shape if n != 1]:
            raise self.side.error(
                f"{what} `{wanted.name}` with the shape {list(array.shape)}, and the reference "
                f"with {list(wanted.shape)}",
                "Return the same shape.",
            )
        codes = codes_of(array, held, wanted.format)
        if isinstance(codes, str):
            raise self.side.error(
                f"{what} `{wanted.name}` as {codes}; the reference rounds it to "
                f"{wanted.format.short}",
                f"Let both return one format. It was given arrays of {self.library}; --arrays "
                "gives others.",
            )
        return np.ascontiguousarray(codes.reshape(wanted.shape))


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def library_of(call: Callable[..., Any], given: str | None) -> str:
    """Return whose arrays a kernel reads.

    Args:
        call: the kernel.
        given: `numpy` or `torch`; None: torch where the kernel is part of it or names it, itself
            or in functions of its file that it calls, and where its file imports torch and the
            kernel names no numpy; else numpy.

    Raises:
        InputError: it is neither.
    """
    if given is not None:
        if given not in LIBRARIES:
            problem = Problem(f"unknown arrays {given!r}", f"Allowed: {', '.join(LIBRARIES)}.")
            raise InputError([problem])
        return given
    if _names(call, TORCHES, set()):
        return "torch"
    home = getattr(inspect.unwrap(call), "__globals__", {})
    imports = any(inspect.ismodule(v) and _is_part(v, TORCHES) for v in home.values())
    return "torch" if imports and not _names(call, NUMPIES, set()) else "numpy"


def _names(call: Any, roots: Sequence[str], seen: set[int]) -> bool:
    """Return whether a callable is part of some packages, or names something that is."""
    own = inspect.unwrap(call)
    if id(own) in seen or len(seen) > MOST_FOLLOWED:
        return False
    seen.add(id(own))
    bound = getattr(own, "__self__", None)
    if any(_is_part(one, roots) for one in (own, type(own), bound, type(bound))):
        return True
    code, used = getattr(own, "__code__", None), getattr(own, "__globals__", {})
    if code is None:
        inner = getattr(type(own), "__call__", None)  # noqa: B004  the method itself is wanted
        return inspect.isfunction(inner) and _names(inner, roots, seen)
    named = [used.get(name) for name in _names_in(code)]
    for found in [*named, *_held_by(own)]:
        if _is_part(found, roots):
            return True
        local = inspect.isfunction(found) and found.__globals__ is used
        if local and _names(found, roots, seen):
            return True
    return False


def _held_by(function: Any) -> Iterator[Any]:
    """Yield what a function takes from those around it."""
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not assigned yet
            yield cell.cell_contents


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _is_part(value: Any, roots: Sequence[str]) -> bool:
    home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
    return str(home).partition(".")[0] in roots
