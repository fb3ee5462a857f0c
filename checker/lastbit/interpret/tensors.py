"""Tensors of float64 arrays, and what stands unrounded between them.

A `Held` tensor is an array of values of a format. What is computed from such and not yet rounded
stays an expression (`Mapped`, `Viewed`, `Taken`, `Folded`), so that

- a rounding evaluates it in pieces that stay in the cache, as enclosures;
- an element that its enclosure does not decide is computed again, exactly, by walking the
  expression for that element alone (`exact_at`);
- a product that a sum reduces is never stored at its full size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lastbit.errors import LastbitError
from lastbit.formats import F64, Format, as_exact
from lastbit.graph import Input, Shape, View, broadcast_shapes
from lastbit.interpret import intervals as iv
from lastbit.interpret.digits import Digits, join
from lastbit.interpret.elementary import elementary
from lastbit.interpret.intervals import Interval
from lastbit.interpret.views import view_array
from lastbit.reals import FUNCTIONS, Number
from lastbit.rounding import Rounding

Indices: TypeAlias = NDArray[np.int64]
Objects: TypeAlias = NDArray[Any]
Window: TypeAlias = tuple[int, int, int]  # an axis counted from the last (-1), start, stop

CHUNK: Final = 1 << 14  # elements that are evaluated at once
LARGEST: Final = 1 << 25  # elements that one tensor may have
MOST_EXACT: Final = 1 << 16  # elements that are computed again, exactly


class ArrayLimitError(LastbitError):
    """Something that the array domain could do only at a size or a cost beyond reason.

    Attributes:
        what: what was asked for.
        limit: how much of it is done.
    """

    def __init__(self, what: str, limit: int) -> None:
        self.what, self.limit = what, limit
        super().__init__(f"{what}; the array domain does at most {limit}. Sample fewer outputs.")


class Tensor:
    """A tensor; `closed` is the sum that a rounding closed here, and that rounding."""

    shape: Shape
    digits: Digits | None = None
    closed: tuple[Tensor, Rounding] | None = None
    _whole: Interval | None = None

    @property
    def args(self) -> tuple[Tensor, ...]:
        """The tensors that this one is computed from."""
        return ()

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def whole(self) -> Interval:
        """Return enclosures of all elements; their arrays may have more zeros in their strides."""
        if self._whole is None:
            if self.size > LARGEST:
                raise ArrayLimitError(f"a tensor has {self.size} elements at once", LARGEST)
            _settle(self)
            self._whole = self._evaluate()
        return self._whole

    def _evaluate(self) -> Interval:
        raise NotImplementedError

    def exact_at(self, places: Indices) -> Objects:
        """Return the exact values of some elements, as an array of `Number` objects.

        Args:
            places: indices into the flattened tensor, an array of any shape.
        """
        raise NotImplementedError


class Held(Tensor):
    """Values of a format, or any binary64 numbers, in an array of float64 or float32."""

    def __init__(
        self,
        array: NDArray[np.floating[Any]],
        fmt: Format | None = None,
        closed: tuple[Tensor, Rounding] | None = None,
    ) -> None:
        self.array, self.format, self.closed = array, fmt, closed
        self.shape = array.shape
        self.digits = None if fmt is None else _digits_of(fmt)

    def _evaluate(self) -> Interval:
        return iv.exactly(self.array)

    def exact_at(self, places: Indices) -> Objects:
        """Return the exact values of some elements."""
        at = np.unravel_index(places, self.shape) if self.shape else ()
        taken = np.broadcast_to(np.asarray(self.array[at], np.float64), places.shape)
        return _object_array([as_exact(v) for v in taken.ravel().tolist()], places.shape)


class Fixed(Tensor):
    """One number, of no dimension."""

    def __init__(self, value: Number) -> None:
        self.value, self.shape = value, ()
        self.digits = Digits.of_number(value) if isinstance(value, Fraction) else None

    def _evaluate(self) -> Interval:
        return iv.of_number(self.value)

    def exact_at(self, places: Indices) -> Objects:
        """Return the number, as often as asked."""
        return _object_array([self.value] * places.size, places.shape)


class Mapped(Tensor):
    """An elementwise function of tensors that broadcast."""

    def __init__(self, fn: str, xs: tuple[Tensor, ...]) -> None:
        self.fn, self.xs = fn, xs
        self.shape = broadcast_shapes(*(x.shape for x in xs))
        self.digits = _digits_of_map(fn, xs)
        self.precise = fn == "mul" and self.digits is not None and _fits_binary64(self.digits)

    @property
    def args(self) -> tuple[Tensor, ...]:
        """The arguments."""
        return self.xs

    def _evaluate(self) -> Interval:
        lo, hi, exact = np.empty(self.shape), np.empty(self.shape), True
        unknown = None
        for index, part in pieces(self):
            lo[index], hi[index] = part.lo, part.hi
            exact = exact and part.hi is part.lo
            if part.unknown is not None:
                unknown = np.zeros(self.shape, np.bool_) if unknown is None else unknown
                unknown[index] = part.unknown
        return Interval(lo, lo if exact else hi, unknown)

    def exact_at(self, places: Indices) -> Objects:
        """Return the function of the arguments' exact elements."""
        at = np.unravel_index(places, self.shape) if self.shape else ()
        args = [x.exact_at(_flat_index(at, x.shape, places)) for x in self.xs]
        return _objects(np.frompyfunc(_remembered(self.fn), len(args), 1)(*args))


class Viewed(Tensor):
    """A view of tensors that are not held."""

    def __init__(self, node: View, xs: tuple[Tensor, ...]) -> None:
        self.node, self.xs, self.shape = node, xs, node.shape
        self.digits = join(*(x.digits for x in xs))

    @property
    def args(self) -> tuple[Tensor, ...]:
        """What is viewed."""
        return self.xs

    def _view(self, arrays: list[Any]) -> Any:
        full = (np.broadcast_to(a, x.shape) for a, x in zip(arrays, self.xs, strict=True))
        return view_array(self.node, tuple(full))

    def _evaluate(self) -> Interval:
        wholes = [x.whole() for x in self.xs]
        lo = self._view([whole.lo for whole in wholes])
        exact = all(whole.hi is whole.lo for whole in wholes)
        hi = lo if exact else self._view([whole.hi for whole in wholes])
        if all(whole.unknown is None for whole in wholes):
            return Interval(lo, hi)
        masks = [np.False_ if whole.unknown is None else whole.unknown for whole in wholes]
        return Interval(lo, hi, self._view(masks))

    def exact_at(self, places: Indices) -> Objects:
        """Return the exact elements that the view shows at some places."""
        starts = np.cumsum([0, *(x.size for x in self.xs)])
        numbered = [
            np.arange(start, start + x.size).reshape(x.shape)
            for start, x in zip(starts, self.xs, strict=False)
        ]
        sources = self._view(numbered).reshape(-1)[places]
        out = np.empty(places.shape, object)
        for start, x in zip(starts, self.xs, strict=False):
            mine = (sources >= start) & (sources < start + x.size)
            if mine.any():
                out[mine] = x.exact_at(sources[mine] - start)
        return out


class Taken(Tensor):
    """One slab of a tensor: its element `i` along the first axis."""

    def __init__(self, x: Tensor, i: int, whole: Interval | None = None) -> None:
        self.x, self.i, self.shape = x, i, x.shape[1:]
        self.digits, self._whole = x.digits, whole

    @property
    def args(self) -> tuple[Tensor, ...]:
        """The tensor that the slab is of."""
        return (self.x,)

    def _evaluate(self) -> Interval:
        part = enclose(self.x, (-len(self.x.shape), self.i, self.i + 1))
        return part.each(lambda array: array[0])

    def exact_at(self, places: Indices) -> Objects:
        """Return exact elements of the slab."""
        return self.x.exact_at(places + self.i * self.size)


def enclose(root: Tensor, window: Window | None = None) -> Interval:
    """Return enclosures of the elements of a tensor, or of a window of it.

    Maps are evaluated for the window only; everything else as a whole, once.
    """
    found: dict[int, Interval] = {}
    for tensor in _postorder(root):
        if isinstance(tensor, Mapped) and tensor._whole is None:
            xs = tuple(found[id(x)] for x in tensor.xs)
            found[id(tensor)] = elementary(tensor.fn, xs, tensor.precise)
        else:
            found[id(tensor)] = _cut(tensor.whole(), tensor.shape, window)
    return found[id(root)]


def _settle(root: Tensor) -> None:
    """Evaluate what stands behind a tensor as a whole, arguments first: no recursion is deep."""
    seen: set[int] = set()
    stack = [(x, False) for x in root.args]
    while stack:
        tensor, done = stack.pop()
        if done:
            tensor.whole()
        elif tensor._whole is None and id(tensor) not in seen:
            seen.add(id(tensor))
            if not isinstance(tensor, Mapped):
                stack.append((tensor, True))
            stack.extend((x, False) for x in tensor.args)


def _postorder(root: Tensor) -> Iterator[Tensor]:
    """Yield maps that are not evaluated and what they read, arguments first, each once."""
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        tensor, done = stack.pop()
        if done:
            yield tensor
        elif id(tensor) not in seen:
            seen.add(id(tensor))
            stack.append((tensor, True))
            if isinstance(tensor, Mapped) and tensor._whole is None:
                stack.extend((x, False) for x in tensor.xs)


def _cut(whole: Interval, shape: Shape, window: Window | None) -> Interval:
    if window is None:
        return whole
    axis, start, stop = window
    if -axis > len(shape) or shape[axis] == 1:
        return whole
    index = (..., slice(start, stop), *(slice(None),) * (-axis - 1))
    return whole.each(lambda array: array[index])


def pieces(x: Tensor) -> Iterator[tuple[Any, Interval]]:
    """Yield enclosures of parts of a tensor that together cover it, each with its index."""
    if x.size <= CHUNK or not isinstance(x, Mapped) or x._whole is not None:
        yield ..., enclose(x)
        return
    for window, index in _windows(x.shape):
        yield index, enclose(x, window)


def _windows(shape: Shape) -> Iterator[tuple[Window, Any]]:
    """Yield windows that cover a shape, each with its index; along the best axis for that."""
    axis = next((i for i, n in enumerate(shape) if n > 1), 0)
    rest = math.prod(shape[axis + 1 :])
    if rest > CHUNK:
        axis = max(range(len(shape)), key=lambda i: shape[i])
        rest = math.prod(shape) // max(shape[axis], 1)
    step = max(1, CHUNK // max(rest, 1))
    for start in range(0, shape[axis], step):
        stop = min(start + step, shape[axis])
        yield (axis - len(shape), start, stop), (*(slice(None),) * axis, slice(start, stop))


def viewed(node: View, xs: tuple[Tensor, ...]) -> Tensor:
    """Return a view; slices and transposes of a map become those of its arguments."""
    if all(isinstance(x, Held) for x in xs):
        held: list[Held] = [x for x in xs if isinstance(x, Held)]
        formats = {x.format for x in held}
        array = view_array(node, tuple(x.array for x in held))
        return Held(array, formats.pop() if len(formats) == 1 else None)
    (x, *others) = xs
    if not others and isinstance(x, Mapped) and node.kind in ("slice", "transpose"):
        args = tuple(_viewed_argument(node, arg, len(x.shape)) for arg in x.xs)
        return Mapped(x.fn, args)
    return Viewed(node, xs)


def _viewed_argument(node: View, x: Tensor, rank: int) -> Tensor:
    """Return the slice or transpose of an argument that broadcasts to `rank` axes."""
    if not x.shape:
        return x
    full = (1,) * (rank - len(x.shape)) + x.shape
    node_of = shown(full)
    if full != x.shape:
        x = viewed(View("reshape", (shown(x.shape),), full), (x,))
    if node.kind == "transpose":
        return viewed(View("transpose", (node_of,), node.params), (x,))
    bounds = tuple(
        (0, min(1, len(range(*bound))), 1) if size == 1 else bound  # type: ignore[misc]
        for size, bound in zip(full, node.params, strict=True)
    )
    return viewed(View("slice", (node_of,), bounds), (x,))


def shown(shape: Shape) -> Any:
    """Return a node of a shape, for views that are made here."""
    return Input("", F64, shape=shape)


def _flat_index(at: tuple[Indices, ...], shape: Shape, places: Indices) -> Indices:
    """Return flat indices into an argument of `shape` for multi-indices of the broadcast shape."""
    flat = np.zeros(places.shape, np.int64)
    for size, index in zip(shape, at[len(at) - len(shape) :], strict=True):
        flat = flat * size + (index if size > 1 else 0)
    return flat


@lru_cache(maxsize=64)
def _digits_of(fmt: Format) -> Digits:
    return Digits.of_format(fmt)


def _digits_of_map(fn: str, xs: tuple[Tensor, ...]) -> Digits | None:
    known = [x.digits for x in xs]
    if fn == "mul" and known[0] is not None and known[1] is not None:
        return _product(known[0], known[1])
    if fn in ("neg", "abs", "relu"):
        return None if known[0] is None else known[0].plain()
    if fn in ("max", "min", "select"):
        return join(*known[-2:])
    return None


@lru_cache(maxsize=1024)
def _product(a: Digits, b: Digits) -> Digits:
    return a * b


def _fits_binary64(digits: Digits) -> bool:
    return digits.count <= 53 and digits.least >= -1000 and digits.bound < 2**1000


@lru_cache(maxsize=64)
def _remembered(fn: str) -> Callable[..., Number]:
    """Return a function of the exact core that remembers results: many elements are alike."""
    return lru_cache(maxsize=1 << 14, typed=True)(FUNCTIONS[fn])


def _objects(array: Any) -> Objects:
    if isinstance(array, np.ndarray):
        return array
    return _object_array([array], ())


def _object_array(values: list[Any], shape: Shape) -> Objects:
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)
