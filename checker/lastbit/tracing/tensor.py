"""Values that record what is computed with them, so that a plain function becomes a graph.

    def after(x, w):
        g = lastbit.matmul(x, w, acc="f32", schedule="split(4)").to("bf16")
        return (lastbit.silu(g) * 2).to("bf16")

Nothing rounds unless the function says so: `.to(format)` is the only rounding, and everything
else is exact. A sum is exact too, unless it is given an accumulator and the tree that adds it up.
Every operator of the text form (`lastbit.ops`) is a function and a method here; a reduction keeps
its axis, with size 1. A number is what it is, to the last bit: the literal `0.1` is the binary64
number nearest to a tenth, `Fraction(1, 10)` is a tenth.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from keyword import iskeyword
from typing import Any, NoReturn

from lastbit.errors import LastbitError, Problem, did_you_mean
from lastbit.ops import COMPOSITES, ELEMENTWISE, NAMED_REALS, OPERATORS
from lastbit.rounding import Rounding
from lastbit.statement import RESERVED
from lastbit.tracing.foreign import UFUNCS, instead_of, instead_of_attribute
from lastbit.tracing.op import (
    Op,
    exact_number,
    format_given,
    integer,
    keywords_of,
    slice_word,
    tree_of,
)
from lastbit.tracing.sizes import Size, Sizes, TraceError, fail
from lastbit.tracing.source import caller

__all__ = ["Op", "Size", "Tensor", "TraceError", "as_tensor", "named", "opaque", "operator_named"]

MAX_POWER = 8

# What Python's operators mean; the signs that `Size` shares are looked up here.
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


class Tensor:
    """A value of a traced function; it records what is computed with it and holds no number."""

    __slots__ = ("_op", "_table")

    def __init__(self, op: Op, table: Sizes | None) -> None:
        self._op, self._table = op, table

    @property
    def shape(self) -> tuple[Size, ...]:
        """Return the size of each axis."""
        from lastbit.tracing.shape import shape_of

        table = self._table or Sizes({})
        return tuple(Size(text, table) for text in shape_of(self._op, table))

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    @property
    def T(self) -> Tensor:  # noqa: N802  numpy's name
        """Return the value with its axes in reverse order."""
        return operate("transpose", (self,), {})

    def to(
        self,
        fmt: object = None,
        *,
        overflow: str | None = None,
        mode: str = "rne",
        subnormals: str = "keep",
    ) -> Tensor:
        """Round to a format: the only rounding there is.

        Args:
            fmt: a format, such as "bf16".
            overflow: what a result beyond the largest finite number becomes: "inf", "nan" or
                "saturate"; None: the first of these that the format can do.
            mode: the rounding mode, such as "rtz".
            subnormals: "keep" or "flush".

        Raises:
            TraceError: there is no such format, or it cannot do that.
        """
        return _rounded(self, fmt, overflow, mode, subnormals)

    def named(self, name: str) -> Tensor:
        """Return the value under a name for reports, in place of its variable's."""
        return named(self, name)

    def __add__(self, other: object) -> Tensor:
        return _binary("add", self, other)

    def __radd__(self, other: object) -> Tensor:
        return _binary("add", other, self)

    def __sub__(self, other: object) -> Tensor:
        return _binary("sub", self, other)

    def __rsub__(self, other: object) -> Tensor:
        return _binary("sub", other, self)

    def __mul__(self, other: object) -> Tensor:
        return _binary("mul", self, other)

    def __rmul__(self, other: object) -> Tensor:
        return _binary("mul", other, self)

    def __truediv__(self, other: object) -> Tensor:
        return _binary("div", self, other)

    def __rtruediv__(self, other: object) -> Tensor:
        return _binary("div", other, self)

    def __matmul__(self, other: object) -> Tensor:
        return _binary("matmul", self, other)

    def __rmatmul__(self, other: object) -> Tensor:
        return _binary("matmul", other, self)

    def __lt__(self, other: object) -> Tensor:
        return _binary("less", self, other)

    def __le__(self, other: object) -> Tensor:
        return _binary("less_equal", self, other)

    def __gt__(self, other: object) -> Tensor:
        return _binary("less", other, self)

    def __ge__(self, other: object) -> Tensor:
        return _binary("less_equal", other, self)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return _binary("equal", self, other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return _binary("sub", 1, _binary("equal", self, other))

    __hash__ = object.__hash__

    def __neg__(self) -> Tensor:
        return operate("neg", (self,), {})

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return operate("abs", (self,), {})

    def __pow__(self, power: object) -> Tensor:
        if type(power) is not int or not 1 <= power <= MAX_POWER:
            remedy = f"Allowed: 1 to {MAX_POWER}; else write lastbit.exp(y * lastbit.log(x))."
            if power == 0.5:
                remedy = "Write lastbit.sqrt(x)."
            elif power == -0.5:
                remedy = "Write lastbit.rsqrt(x)."
            fail(f"a value is raised to the power {power!r}", remedy)
        return _record(Op("power", (self._op,), (str(power),)), self._table)

    def __rpow__(self, base: object) -> Tensor:
        if base == 2:
            return operate("exp2", (self,), {})
        fail(f"{base!r} is raised to a power", "Write lastbit.exp2(x), or lastbit.exp(x).")

    def __getitem__(self, key: object) -> Tensor:
        parts = key if isinstance(key, tuple) else (key,)
        words = tuple(slice_word(part) for part in _without_ellipsis(self, parts))
        return _record(Op("slice", (self._op,), words), self._table)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        made = operator_named(name)
        if made is None:
            place, _ = caller()
            message = f"a Tensor has no attribute {name!r}"
            problem = Problem(message, instead_of_attribute(name), place)
            raise NoAttributeError([problem])
        return lambda *args, **keywords: made(self, *args, **keywords)

    # What asks for numbers, which there are none of yet.

    def __bool__(self) -> bool:
        fail(
            "a condition needs a number, and a Tensor holds none while a function is traced",
            "Write lastbit.select(x > 0, a, b) for both cases, or decide by a plain Python value.",
        )

    def _no_number(self, what: str = "float(x)") -> NoReturn:
        fail(
            f"{what} needs a number, and a Tensor holds none while a function is traced",
            'Write lastbit.exp(x) in place of math.exp(x), and x.to("f32") to round.',
        )

    def __float__(self) -> float:
        self._no_number()

    def __int__(self) -> int:
        self._no_number("int(x)")

    def __index__(self) -> int:
        self._no_number("an integer")

    def __complex__(self) -> complex:
        self._no_number("complex(x)")

    def __round__(self, digits: object = None) -> NoReturn:
        fail("round(x) means decimal digits", 'Write x.to("bf16"), or lastbit.floor(x + 0.5).')

    def __floordiv__(self, other: object) -> NoReturn:
        fail("`//` is no operator of lastbit", "Write lastbit.floor(x / y).")

    def __mod__(self, other: object) -> NoReturn:
        fail("`%` is no operator of lastbit", "Write x - y * lastbit.floor(x / y).")

    def __iter__(self) -> Iterator[Tensor]:
        fail(
            "a Tensor is iterated over",
            "Write operators on whole axes, or slices: x[i : i + 1] in a loop over numbers.",
        )

    def __len__(self) -> int:
        return int(self.shape[0])

    def __contains__(self, item: object) -> bool:
        fail("`in` needs numbers", "Write lastbit.equal(x, y).max(axis=-1).")

    def __setitem__(self, key: object, value: object) -> None:
        fail(
            "an element of a Tensor is assigned, and values do not change",
            "Write lastbit.concat(a, b, axis=0), or lastbit.select(condition, a, b).",
        )

    def __array__(self, *_: object, **__: object) -> NoReturn:
        fail("numpy asks for the numbers of a Tensor", "Write lastbit's own operators.")

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **keywords: Any) -> Any:
        name = str(ufunc.__name__)
        if method == "__call__" and name in UFUNCS and not keywords:
            return UFUNCS[name](*(as_tensor(value, self._table) for value in given))
        self._foreign("numpy", name if method == "__call__" else f"{name}.{method}")

    def __array_function__(self, function: Any, *_: object) -> NoReturn:
        self._foreign("numpy", str(getattr(function, "__name__", function)))

    @classmethod
    def __torch_function__(cls, function: Any, *_: object, **__: object) -> NoReturn:
        cls._foreign("torch", str(getattr(function, "__name__", function)))

    def __jax_array__(self) -> NoReturn:
        fail("jax asks for the numbers of a Tensor", "Write lastbit's own operators.")

    @staticmethod
    def _foreign(library: str, name: str) -> NoReturn:
        fail(
            f"{library}.{name} works on {library}'s own arrays, and a Tensor of lastbit is none",
            instead_of(name),
        )

    def __repr__(self) -> str:
        return f"<Tensor {self._op.label or self._op.name}>"


class NoAttributeError(TraceError, AttributeError):
    """A Tensor has no such method or attribute."""


def _record(op: Op, table: Sizes | None) -> Tensor:
    place, label = caller()
    if label in RESERVED:
        label = f"{label}_"
    object.__setattr__(op, "place", place)
    object.__setattr__(op, "label", label)
    return Tensor(op, table)


def as_tensor(value: object, table: Sizes | None = None) -> Tensor:
    """Return a value as a Tensor; a number stands for exactly itself.

    Raises:
        TraceError: it is no number that can take part.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Size):
        return Tensor(Op("size", words=(value.text,)), value.table)
    return Tensor(Op("const", value=exact_number(value)), table)


def _binary(name: str, left: object, right: object) -> Tensor:
    return operate(name, (left, right), {})


def operate(name: str, given: Sequence[object], keywords: Mapping[str, object]) -> Tensor:
    """Return what an operator makes of its arguments.

    Raises:
        TraceError: the arguments do not fit the operator.
    """
    op = COMPOSITES.get(name)
    arity = ELEMENTWISE[name][0] if op is None else op.arity
    values, words = _split(name, given, arity, op is not None and op.integers)
    tables = (v._table for v in given if isinstance(v, Tensor) and v._table is not None)
    table = next(tables, None)
    args = tuple(as_tensor(value, table)._op for value in values)
    table = table or next((v.table for v in given if isinstance(v, Size)), None)
    allowed = keywords_of(name)
    for word in keywords:
        if word not in allowed:
            remedy = did_you_mean(word, allowed) if allowed else "It takes none."
            if word in ("keepdims", "keepdim"):
                remedy = "A reduction keeps its axis, with size 1; leave it out."
            fail(f"{name} has no argument {word!r}", remedy)
    acc, schedule = tree_of(keywords)
    integers = tuple(
        (word, integer(keywords[word])) for word in ("axis", "nth") if word in keywords
    )
    made = Op(name, args, words, integers, acc=acc, schedule=schedule)
    if name == "reshape" and "-1" in words:
        from lastbit.tracing.shape import without_minus_one

        made = Op(name, args, without_minus_one(made, table or Sizes({})))
    return _record(made, table)


def _split(
    name: str, given: Sequence[object], arity: int | None, integers: bool
) -> tuple[Sequence[object], tuple[str, ...]]:
    """Return the values and the integers among the arguments of an operator."""
    if integers:
        assert arity is not None
        rest = given[arity:]
        flat = rest[0] if len(rest) == 1 and isinstance(rest[0], tuple | list) else rest
        values, words = given[:arity], tuple(integer(size) for size in flat)
    else:
        if arity is None and len(given) == 1 and isinstance(given[0], tuple | list):
            given = given[0]
        values, words = given, ()
    if len(values) != arity and not (arity is None and values):
        wanted = "at least 1 value" if arity is None else f"{arity} value{'s' * (arity != 1)}"
        fail(f"{name} takes {wanted}, given {len(values)}", "")
    return values, words


def _rounded(x: Tensor, fmt: object, overflow: str | None, mode: str, subnormals: str) -> Tensor:
    if fmt is None:
        fail("a rounding needs a format", 'Write x.to("bf16"), or lastbit.round(x, "bf16").')
    made = format_given(fmt)
    try:
        rounding = Rounding.of(made, mode, overflow, subnormals)  # type: ignore[arg-type]
    except LastbitError as error:
        fail(str(error).rstrip("."))
    return _record(Op("to", (x._op,), rounding=rounding), x._table)


def _without_ellipsis(x: Tensor, parts: tuple[object, ...]) -> tuple[object, ...]:
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), None)
    if at is None:
        return parts
    missing = x.ndim - len(parts) + 1
    return (*parts[:at], *[slice(None)] * missing, *parts[at + 1 :])


def named(x: Tensor, name: str) -> Tensor:
    """Return a value under a name for reports; values of one name on both sides are compared.

    Raises:
        TraceError: the name cannot be.
    """
    if not isinstance(x, Tensor):
        fail(f"{x!r} is no Tensor", 'Write lastbit.named(x, "t").')
    if not isinstance(name, str) or not name.isidentifier() or iskeyword(name) or name in RESERVED:
        fail(f"{name!r} cannot name a value", 'Write a word such as "t".')
    op = x._op
    facts = (op.name, op.args, op.words, op.keywords, op.rounding, op.acc, op.schedule, op.value)
    return Tensor(Op(*facts, op.place, name), x._table)


def opaque(name: str, *xs: object) -> Tensor:
    """Return an elementwise function that lastbit knows by name only.

    Raises:
        TraceError: the name cannot be, or nothing is given.
    """
    if not isinstance(name, str) or not name.isidentifier() or not xs:
        fail("opaque needs a name and values", 'Write lastbit.opaque("name", x).')
    tables = [x._table for x in xs if isinstance(x, Tensor)]
    table = next((table for table in tables if table is not None), None)
    args = tuple(as_tensor(x, table)._op for x in xs)
    return _record(Op(f"opaque {name}", args), table)


@lru_cache(maxsize=256)
def operator_named(name: str) -> Callable[..., Tensor] | None:
    """Return the operator of this name as a function; None where there is none."""
    if name not in OPERATORS:
        return None
    if name == "round":
        return _round

    def call(*given: object, **keywords: object) -> Tensor:
        return operate(name, given, keywords)

    meaning = COMPOSITES[name].meaning if name in COMPOSITES else ELEMENTWISE[name][1]
    call.__name__ = call.__qualname__ = name
    words = keywords_of(name)
    takes = f"\n\nKeywords: {', '.join(words)}." if words else ""
    call.__doc__ = f"Return {meaning}; exact, until it is rounded with `.to`.{takes}"
    return call


def _round(
    x: object,
    fmt: object = None,
    *,
    overflow: str | None = None,
    mode: str = "rne",
    subnormals: str = "keep",
) -> Tensor:
    """Round a value to a format; the same as `x.to(fmt)`."""
    return _rounded(as_tensor(x), fmt, overflow, mode, subnormals)


_round.__name__ = _round.__qualname__ = "round"  # Python's own messages name it so


def constant_named(name: str) -> Tensor | None:
    """Return a named real, such as pi; None where there is none of this name."""
    return Tensor(Op("const", value=name), None) if name in NAMED_REALS else None
