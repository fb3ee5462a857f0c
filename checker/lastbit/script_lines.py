"""Write a graph as straight-line Python, for `lastbit.script`.

A value becomes one line below its own text; a sum that is no running sum becomes the additions of
its tree, as `lastbit.schedule.fold` gives them. Names of helpers are those of
`lastbit.script_helpers`; a rounding is a function named after its format (`round_name`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from lastbit.choices import Choice, choice_of
from lastbit.formats import Format
from lastbit.graph import (
    Const,
    Input,
    Map,
    Node,
    Reduce,
    Round,
    View,
    broadcast,
    matmul,
)
from lastbit.machines import Unit
from lastbit.printing import tail_words
from lastbit.rounding import Mode, Rounding
from lastbit.script_parts import fraction_text
from lastbit.script_tree import LONG, fused, sum_text, unsupported

HELPER = {"max": "maximum", "min": "minimum", "abs": "absolute"}
EXTREME = {"max": ("greatest", "-math.inf"), "min": ("least", "math.inf")}


def round_name(rounding: Rounding) -> str:
    """Return the name of the function that rounds, such as `bf16` or `f32_rtz_flush`."""
    if rounding.mode is Mode.STOCHASTIC:
        raise unsupported("stochastic rounding")
    return f"{rounding.format.short}{tail_words(rounding)}".replace(" ", "_")


def step_name(unit: Unit, fmt: str) -> str:
    """Return the name of the function that does one step of a matrix unit."""
    return f"{unit.machine}_{unit.width}_{fmt}"


@dataclass(slots=True)
class Lines:
    """The lines of one side.

    Attributes:
        names: the Python name of each value of the program.
        lines: the lines so far.
        texts: by key of a node, the expression that reads it.
        roundings: the functions that round, by name.
        steps: the steps of matrix units, by name: the unit and the accumulator's format.
        taken: the names given to what has none in the program.
    """

    names: dict[str, str]
    lines: list[str] = field(default_factory=list)
    texts: dict[bytes, str] = field(default_factory=dict)
    roundings: dict[str, Rounding] = field(default_factory=dict)
    steps: dict[str, tuple[Unit, Format]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def value(self, name: str, node: Node) -> None:
        """Write a named value, and what it needs that has no name."""
        order, uses = _needed(node, self.texts)
        for inner in order[:-1]:
            text = self._text(inner)
            if len(text) > LONG or (uses[inner.key] > 1 and not isinstance(inner, Const)):
                text = self.assign("part", text)
            self.texts[inner.key] = text
        text = self.texts.get(node.key) or self._text(node)
        self.lines.append(f"{self.names[name]} = {text}")
        self.texts[node.key] = self.names[name]

    def fresh(self, stem: str) -> str:
        """Return a name that is not in use."""
        used = {*self.names.values(), *self.taken}
        name = next(n for i in range(1, 2**31) if (n := f"{stem}{i}") not in used)
        self.taken.add(name)
        return name

    def assign(self, stem: str, text: str) -> str:
        """Give an expression a name of its own and return the name."""
        name = self.fresh(stem)
        self.lines.append(f"{name} = {text}")
        return name

    def rounding(self, rounding: Rounding) -> str:
        """Return the name of the function for a rounding."""
        name = round_name(rounding)
        self.roundings[name] = rounding
        return name

    def step(self, unit: Unit, fmt: Format) -> str:
        """Return the name of the function for a step of a matrix unit."""
        name = step_name(unit, fmt.short)
        self.steps[name] = unit, fmt
        if fmt.short == "f16" or not unit.cuts:
            self.rounding(Rounding.of(fmt))
        return name

    def _text(self, node: Node) -> str:
        xs = [self.texts[arg.key] for arg in reads(node)]
        match node:
            case Const(value=str(name)):
                return name.upper()
            case Const(value=float(value)):
                return "-0.0" if value == 0 else f"{'-' if value < 0 else ''}math.{abs(value)}"
            case Const(value=value):
                return fraction_text(Fraction(value))
            case Map(fn=fn) if fn.startswith("opaque:"):
                raise unsupported(f"the opaque function {fn[7:]!r}")
            case Map(fn=fn):
                return f"{HELPER.get(fn, fn)}({', '.join(xs)})"
            case Round(rounding=rounding):
                return f"{self.rounding(rounding)}({xs[0]})"
            case Reduce() as inner:
                return self._reduced(inner, node, xs)
            case View(xs=(Reduce() as inner,)) if product_of(node) is not None:
                return self._reduced(inner, node, xs)
            case View():
                return _view(node, xs)
        raise TypeError(f"{type(node).__name__} is no node of a graph")

    def _reduced(self, node: Reduce, whole: Node, xs: Sequence[str]) -> str:
        """Return the expression of a reduction, or of the matrix product around it."""
        if (choice := choice_of(node.op)) is not None:
            return _chosen(choice, f"along({xs[0]}, {node.axis})")
        if node.op != "sum":
            helper, empty = EXTREME[node.op]
            return f"{helper}(along({xs[0]}, {node.axis}))" if node.length else _full(node, empty)
        if node.length == 0:
            return _full(whole, "Fraction(0)")
        axes = (node.axis, node.axis) if node is whole else (1, 0)
        slabs = [f"along({x}, {axis})" for x, axis in zip(xs, axes, strict=False)]
        if fused(node):
            low_a, low_b = (operand_format(x).emin for x in reads(whole))
            terms = f"factors({', '.join(slabs)}, {low_a}, {low_b})"
        else:
            terms = slabs[0] if node is whole else f"products({', '.join(xs)})"
        return f"exact_sum({terms})" if node.acc is None else sum_text(self, node, terms)


def _chosen(choice: Choice, terms: str) -> str:
    """Return the expression of a choice among terms."""
    if choice.ties is None:
        return f"largest({terms}, {choice.nth})"
    if choice.ties == "any":
        raise unsupported("the index of any of several equal elements")
    last = ", last=True" if choice.ties == "last" else ""
    return f"index_of_largest({terms}, {choice.nth}{last})"


def _full(node: Node, value: str) -> str:
    return f"np.full({node.shape}, {value}, dtype=object)"


def _view(node: View, xs: Sequence[str]) -> str:
    if node.kind == "concat":
        return f"np.concatenate([{', '.join(xs)}], axis={node.params[0]})"
    (x,) = xs
    if node.kind == "broadcast":
        return f"np.broadcast_to({x}, {node.shape})"
    if node.kind != "slice":
        return f"np.{node.kind}({x}, {node.params})"
    parts = []
    bounds: tuple[tuple[int, int, int], ...] = node.params  # type: ignore[assignment]
    for (start, stop, step), size in zip(bounds, node.xs[0].shape, strict=True):
        whole = (start, stop, step) == (0, size, 1)
        low, high = ("", "") if whole else (start, "" if stop < 0 else stop)
        parts.append(f"{low}:{high}" + (f":{step}" if step != 1 else ""))
    return f"{x}[{', '.join(parts) or '()'}]"


def reads(node: Node) -> tuple[Node, ...]:
    """Return the nodes whose expressions the line of a node reads."""
    match node:
        case View() if (factors := product_of(node)) is not None:
            return factors
        case Reduce() if fused(node):
            return _factors(node)
    return node.args


def _needed(root: Node, known: dict[bytes, str]) -> tuple[list[Node], Counter[bytes]]:
    """Return the nodes that need an expression, arguments first, and how often each is read."""
    order: list[Node] = []
    uses: Counter[bytes] = Counter()
    seen = set(known)
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node.key not in seen:
            seen.add(node.key)
            stack.append((node, True))
            args = reads(node)
            uses.update(arg.key for arg in args)
            stack.extend((arg, False) for arg in reversed(args))
    return order or [root], uses


def product_of(node: Node) -> tuple[Node, Node] | None:
    """Return the factors where a node is a matrix product."""
    match node:
        case View(
            kind="reshape", xs=(Reduce(op="sum", x=Map(fn="mul", xs=(left, right))) as sum_,)
        ):
            match left, right:
                case (
                    View(kind="reshape", xs=(a,)),
                    View(kind="reshape", xs=(View(kind="transpose", xs=(b,)),)),
                ) if len(a.shape) == len(b.shape) == 2 and a.shape[1] == b.shape[0]:
                    same = matmul(a, b, sum_.schedule, sum_.acc).key == node.key
                    return (a, b) if same else None
    return None


def _factors(node: Reduce) -> tuple[Node, Node]:
    """Return the operands of the products that a matrix unit adds, in the shape of the products.

    Raises:
        InputError: the terms are no products.
    """
    views: list[View] = []
    x = node.x
    while isinstance(x, View) and len(x.xs) == 1:
        views.append(x)
        x = x.xs[0]
    if not (isinstance(x, Map) and x.fn == "mul"):
        raise unsupported("a step of a matrix unit over terms that are no products")
    a, b = (broadcast(factor, x.shape) for factor in x.xs)
    for view in reversed(views):
        a, b = (View(view.kind, (factor,), view.params) for factor in (a, b))
    return a, b


def operand_format(node: Node) -> Format:
    """Return the format of an operand of a matrix unit.

    Raises:
        InputError: it is not certainly a value of a format.
    """
    match node:
        case View(xs=xs) if len(formats := {operand_format(x) for x in xs}) == 1:
            return formats.pop()
        case Input(format=fmt):
            return fmt
        case Round(rounding=rounding) | Reduce(op="sum", acc=Rounding() as rounding):
            return rounding.format
    raise unsupported("a step of a matrix unit over operands of no format")
