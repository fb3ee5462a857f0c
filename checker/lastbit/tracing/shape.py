"""The shape of a traced value, as expressions of symbols.

Operators are not asked what they do to a shape: each is built once with a prime for every
different size, and the primes of the result are read back.
"""

from __future__ import annotations

from lastbit.errors import LastbitError
from lastbit.expression import parse_expression
from lastbit.formats import FORMATS
from lastbit.graph import Input, Node, apply
from lastbit.ops import COMPOSITES, FUNCTION, Call
from lastbit.tracing.op import Op
from lastbit.tracing.sizes import Sizes, fail

Shape = tuple[str, ...]

_PRIMES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069, 1087, 1091)


def shape_of(op: Op, table: Sizes) -> Shape:
    """Return the size of each axis of a value.

    Raises:
        TraceError: the shape cannot be told.
    """
    found: dict[bytes, Shape] = {}
    stack = [op]
    while stack:
        top = stack[-1]
        missing = [arg for arg in top.args if arg.key not in found]
        if missing and top.key not in found:
            stack += missing
            continue
        stack.pop()
        if top.key not in found:
            found[top.key] = _shape(top, [found[arg.key] for arg in top.args], table)
    return found[op.key]


def _shape(op: Op, shapes: list[Shape], table: Sizes) -> Shape:
    match op.name:
        case "input":
            return op.words
        case "const" | "size":
            return ()
        case "to" | "power":
            return shapes[0]
        case "reshape" | "broadcast":
            return op.words
        case "transpose":
            order = [int(word) for word in op.words] or list(reversed(range(len(shapes[0]))))
            if sorted(order) != list(range(len(shapes[0]))):
                _untold(op)
            return tuple(shapes[0][axis] for axis in order)
        case "slice":
            if len(op.words) > len(shapes[0]):
                _untold(op)
            parts = zip(op.words, shapes[0], strict=False)
            sliced = tuple(_length(op, word, size, table) for word, size in parts)
            return (*sliced, *shapes[0][len(sliced) :])
        case "concat":
            axis = int(dict(op.keywords).get("axis", "-1"))
            joined = " + ".join(f"({shape[axis]})" for shape in shapes)
            sizes = list(shapes[0])
            sizes[axis] = _plain(joined, table)
            return tuple(sizes)
    return _probed(op, shapes)


def _untold(op: Op) -> None:
    fail(f"the shape of this {op.name} cannot be told", "Do without its shape.")


def _plain(text: str, table: Sizes) -> str:
    """Return an expression; as a number where no symbol is in it at all."""
    expression = parse_expression(text)
    return expression.text if expression.symbols else str(expression.evaluate({}))


def _length(op: Op, word: str, size: str, table: Sizes) -> str:
    start, stop, step = [*word.split(":"), "", ""][:3]
    if step not in ("", "1"):
        _untold(op)
    ends = [_end(part, size) for part in (start or "0", stop or size)]
    if ends[0] == "0":
        return _plain(ends[1], table)
    return _plain(f"({ends[1]}) - ({ends[0]})", table)


def _end(text: str, size: str) -> str:
    return f"({size}) - {text[1:]}" if text.startswith("-") and text[1:].isdigit() else text


def _probed(op: Op, shapes: list[Shape]) -> Shape:
    sizes = list(dict.fromkeys(size for shape in shapes for size in shape if size != "1"))
    if len(sizes) > len(_PRIMES):
        _untold(op)
    primes = {"1": 1, **dict(zip(sizes, _PRIMES, strict=False))}
    texts = {prime: text for text, prime in primes.items()}
    args = [
        Input(f"x{i}", FORMATS["f32"], shape=tuple(primes[size] for size in shape))
        for i, shape in enumerate(shapes)
    ]
    try:
        node = _built(op, tuple(args))
    except (LastbitError, ValueError, IndexError):
        listed = " and ".join(f"[{', '.join(shape)}]" for shape in shapes)
        fail(f"{op.name} of the shapes {listed} has no known shape", "Give equal sizes one name.")
    return tuple(texts[size] if size in texts else str(size) for size in node.shape)


def _built(op: Op, args: tuple[Node, ...]) -> Node:
    composite = COMPOSITES.get(op.name)
    if composite is None:
        return apply(FUNCTION.get(op.name, op.name), *args)
    keywords = {word: int(value) for word, value in op.keywords}
    words = tuple(int(word) for word in op.words)
    return composite.build(Call(args, words, keywords.get("axis", -1), nth=keywords.get("nth", 1)))


def without_minus_one(op: Op, table: Sizes) -> Shape:
    """Return the sizes that a reshape is given, the -1 among them worked out.

    Raises:
        TraceError: there are several, or the shape cannot be told.
    """
    if op.words.count("-1") > 1:
        fail("reshape is given -1 twice", "Leave one size open.")
    total = list(shape_of(op.args[0], table))
    others = [word for word in op.words if word != "-1"]
    for word in list(others):
        if word in total:  # equal sizes cancel
            total.remove(word)
            others.remove(word)
    rest = " * ".join(f"({word})" for word in others)
    whole = " * ".join(f"({word})" for word in total) or "1"
    left = _plain(f"({whole}) // ({rest})" if rest else whole, table)
    return tuple(left if word == "-1" else word for word in op.words)
