"""What kernels do that is no transform of a plan: how they write what a reference leaves exact.

A reference says what is rounded; a kernel also chooses the operations between two roundings. Each
choice is written as a `Rewrite`, applied and judged like the rules of the catalogue:

- `step-by-step`: every operation is rounded to a format, as plain arithmetic on arrays does;
- `add-rounding`: one operation inside a value is rounded;
- `other-form`: a function is computed from others (`silu` as x / (1 + exp(-x))), also where one of
  its arguments is a value of its own (`d * r` with `r = rsqrt(v)` as d / sqrt(v)).

Those of sums are in `sum_forms`, and those of constants in `constant_forms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from lastbit.change import Change
from lastbit.definitions import Definitions
from lastbit.formats import as_exact, identical
from lastbit.graph import (
    Const,
    Input,
    Map,
    Node,
    Reduce,
    Round,
    View,
    apply,
    const,
    native_rounding,
    topological,
    with_args,
)
from lastbit.patterns import is_map, is_number, past_views, replace, unrounded
from lastbit.rounding import Rounding, round_exact
from lastbit.rule import Edits, MismatchError, Parameter, Rewrite, Site
from lastbit.schedule import Seq

EXACT = frozenset(("neg", "abs", "max", "min", "relu", "select", "sign", "floor", "ceil")) | {
    "clamp",
    "less",
    "less_equal",
    "equal",
}
"""Functions whose results need no rounding where their arguments needed none."""


# Every operation rounded.


def stepped(root: Node, rounding: Rounding) -> Node:
    """Return a definition in which every operation is rounded, and every constant."""
    built: dict[bytes, Node] = {}
    for node in topological([root]):
        built[node.key] = _stepped(with_args(node, built), rounding)
    return built[root.key]


def _stepped(node: Node, rounding: Rounding) -> Node:
    match node:
        case Round(x=Round() as inner) if inner.rounding == node.rounding:
            return inner
        case Map(fn=fn) if fn not in EXACT:
            return Round(node, rounding)
        case Const(value=value) if _inexact(value, rounding):
            return Round(node, rounding)
        case Reduce(op="sum", acc=None):
            return Reduce("sum", node.x, node.axis, Seq(), rounding)
    return node


def _inexact(value: Fraction | float | str, rounding: Rounding) -> bool:
    if isinstance(value, str):
        return True
    return not identical(round_exact(as_exact(value), rounding), value)


def _step_by_step(site: Site) -> Edits:
    rounding = Rounding.of(site.text("format"))
    program = site.program
    edits = {}
    for name, node in program.nodes.items():
        if not program.is_input(name):
            new = stepped(node, rounding)
            if new.key != node.key:
                edits[name] = new
    if not edits:
        raise MismatchError("an operation is not rounded yet")
    return edits


STEP_BY_STEP = Rewrite(
    code="",
    name="step-by-step",
    claim=Change.ROUNDING,
    prose="step-by-step: every operation is rounded.",
    graph="",
    at=(),
    rewrite=_step_by_step,
    parameters=(Parameter("format", "choice", "the format of each operation", "f32"),),
    title=lambda site: f"every operation is rounded to {site.text('format')}",
)


# One operation rounded.


def inner_operations(root: Node) -> list[Node]:
    """Return the operations inside a definition that no rounding follows at once."""
    rounded = {node.x.key for node in topological([root]) if isinstance(node, Round)}
    outer = past_views(root).key
    return [
        node
        for node in topological([root])
        if node.key not in rounded
        and node.key != outer
        and (
            (isinstance(node, Map) and node.fn not in EXACT)
            or (isinstance(node, Reduce) and node.acc is not None)
        )
    ]


def _add_rounding(site: Site) -> Edits:
    found = inner_operations(site.node)
    number = int(site.text("where"))
    if number >= len(found):
        raise MismatchError("the value holds an operation that is not rounded")
    old = found[number]
    rounding = Rounding.of(site.text("format"))
    if native_rounding(old) == rounding:
        raise MismatchError("the operation is of another format")
    new = replace(site.node, old, Round(old, rounding))
    return {site.name: new}


def _where(site: Site, found: list[Node]) -> str:
    node = found[int(site.text("where"))]
    return written(node, 2)


def written(node: Node, depth: int) -> str:
    """Return a short text of an expression, its inner parts left out."""
    match node:
        case Input(name=name):
            return name
        case Const(value=value):
            if isinstance(value, Fraction):
                whole = value.denominator == 1
                return str(value.numerator) if whole else f"{float(value):g}"
            return str(value)
        case View(xs=(x,)):
            return written(x, depth)
        case Round(x=x, rounding=rounding):
            return f"round({written(x, depth - 1)}, {rounding.format.short})" if depth else "..."
    if not depth:
        return "..."
    args = [written(arg, depth - 1) for arg in node.args]
    match node:
        case Map(fn="add" | "sub" | "mul" | "div" as fn):
            sign = {"add": "+", "sub": "-", "mul": "*", "div": "/"}[fn]
            return f"({args[0]} {sign} {args[1]})"
        case Map(fn=fn):
            return f"{fn}({', '.join(args)})"
        case Reduce(op=op):
            return f"{op}({args[0]})"
    return f"{type(node).__name__.lower()}({', '.join(args)})"


ADD_ROUNDING = Rewrite(
    code="",
    name="add-rounding",
    claim=Change.ROUNDING,
    prose="add-rounding: one operation inside a value is rounded.",
    graph="",
    at=("y",),
    rewrite=_add_rounding,
    parameters=(
        Parameter("where", "choice", "which operation, counted from the innermost"),
        Parameter("format", "choice", "the format"),
    ),
    title=lambda site: (
        f"`{_where(site, inner_operations(site.node))}` inside `{site.name}` is rounded to "
        f"{site.text('format')}"
    ),
)


# Functions from others.

Form = Callable[[Map], Node]


def _gelu(node: Map) -> Node:
    x = node.xs[0]
    return apply("mul", apply("mul", x, Fraction(1, 2)), apply("add", 1, _erf(x)))


def _erf(x: Node) -> Node:
    return apply("erf", apply("mul", x, const("1/sqrt(2)")))


def _gelu_tanh(node: Map) -> Node:
    (x,) = node.xs
    cube = apply("mul", apply("mul", apply("mul", x, x), x), Fraction("0.044715"))
    root = apply("div", const("sqrt(2)"), apply("sqrt", const("pi")))
    inner = apply("mul", root, apply("add", x, cube))
    return apply("mul", apply("mul", x, Fraction(1, 2)), apply("add", 1, apply("tanh", inner)))


def _logistic(x: Node) -> Node:
    return apply("add", 1, apply("exp", apply("neg", x)))


FUNCTION_FORMS: dict[str, dict[str, Form]] = {
    "silu": {
        "x * sigmoid(x)": lambda n: apply("mul", n.xs[0], apply("sigmoid", n.xs[0])),
        "x / (1 + exp(-x))": lambda n: apply("div", n.xs[0], _logistic(n.xs[0])),
        "x * (1 / (1 + exp(-x)))": lambda n: apply(
            "mul", n.xs[0], apply("div", 1, _logistic(n.xs[0]))
        ),
    },
    "sigmoid": {"1 / (1 + exp(-x))": lambda n: apply("div", 1, _logistic(n.xs[0]))},
    "rsqrt": {"1 / sqrt(x)": lambda n: apply("div", 1, apply("sqrt", n.xs[0]))},
    "gelu": {"0.5 x (1 + erf(x / sqrt(2)))": _gelu},
    "gelu_tanh": {"0.5 x (1 + tanh(...))": _gelu_tanh},
    "softplus": {"log1p(exp(x))": lambda n: apply("log1p", apply("exp", n.xs[0]))},
}


def forms_of(node: Map) -> Iterator[tuple[str, Node]]:
    """Yield other ways to compute a function, with their names."""
    for name, form in FUNCTION_FORMS.get(node.fn, {}).items():
        yield name, form(node)
    if node.fn == "mul":
        for x, y in (node.xs, node.xs[::-1]):
            if is_map(y, "rsqrt"):
                yield "x / sqrt(v)", apply("div", x, apply("sqrt", y.args[0]))
            if isinstance(x, Map) and x.fn == "mul":
                a, b = x.xs
                yield "a * (b * c)", apply("mul", a, apply("mul", b, y))
                yield "(a * c) * b", apply("mul", apply("mul", a, y), b)
            if isinstance(x, Map) and x.fn == "div":
                a, b = x.xs
                yield "(a * c) / b", apply("div", apply("mul", a, y), b)
                yield "a * (c / b)", apply("mul", a, apply("div", y, b))
            if is_map(y, "div") and is_number(y.args[0], 1):
                yield "x / v", apply("div", x, y.args[1])
    if node.fn == "div" and is_map(node.xs[1], "div"):
        a, b = node.xs[1].args
        yield "x * (b / a)", apply("mul", node.xs[0], apply("div", b, a))
        yield "(x * b) / a", apply("div", apply("mul", node.xs[0], b), a)
    if node.fn == "div" and isinstance(node.xs[0], Map) and node.xs[0].fn == "mul":
        a, b = node.xs[0].xs
        yield "(a / c) * b", apply("mul", apply("div", a, node.xs[1]), b)
        yield "a * (b / c)", apply("mul", a, apply("div", b, node.xs[1]))
    if node.fn == "add":
        for x, y in (node.xs, node.xs[::-1]):
            if isinstance(x, Map) and x.fn == "add":
                a, b = x.xs
                yield "a + (b + c)", apply("add", a, apply("add", b, y))
                yield "(a + c) + b", apply("add", apply("add", a, y), b)


def other_forms(program: Definitions, name: str) -> list[tuple[Map, str, Node]]:
    """Return every function of a definition that can be computed in another way."""
    found = []
    for node in topological([program.nodes[name]]):
        if isinstance(node, Map):
            for looked in (node, *_looked_through(program, node)):
                found += [(node, form, new) for form, new in forms_of(looked)]
    return [one for one in found if one[2].key != one[0].key and one[2].shape == one[0].shape]


def _looked_through(program: Definitions, node: Map) -> Iterator[Map]:
    """Yield a product or quotient with one factor as it is computed, not rounded."""
    if node.fn not in ("mul", "div"):
        return
    for number, arg in enumerate(node.xs):
        if not isinstance(arg, Input) or program.is_input(arg.name):
            continue
        inner = unrounded(program.nodes[arg.name])
        if is_map(inner, "rsqrt", "div") and inner.shape == arg.shape:
            xs = tuple(inner if i == number else x for i, x in enumerate(node.xs))
            yield Map(node.fn, xs)


def _form(site: Site) -> tuple[Map, str, Node]:
    found = other_forms(site.program, site.name)
    number = int(site.text("where"))
    if number >= len(found):
        raise MismatchError("the value holds a function that has another form")
    return found[number]


def _other_form(site: Site) -> Edits:
    old, _, new = _form(site)
    return {site.name: replace(site.node, old, new)}


OTHER_FORM = Rewrite(
    code="",
    name="other-form",
    claim=Change.BITWISE,
    prose="other-form: a function is computed from others.",
    graph="",
    at=("y",),
    rewrite=_other_form,
    parameters=(Parameter("where", "choice", "which function and form"),),
    title=lambda site: (
        f"`{written(_form(site)[0], 2)}` inside `{site.name}` is computed as `{_form(site)[1]}`"
    ),
)
