"""Read a graph that torch.fx printed as Python: `fx_graph_readable.py`, `fx_graph_transformed.py`.

The text is parsed, never run. Each line is `name: "f32[2, 3]" = target(arguments)`, with a comment
before it that names the line of the user's source.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field
from typing import Any

from lastbit.errors import LastbitError, Place
from lastbit.expression import parse_expression
from lastbit.importers.imported import ImportedFileError, Size
from lastbit.statement import MAX_SIZE
from lastbit.tracing.source import shown_file

MOST_NODES = 50_000
MOST_TEXT = 8 * 2**20  # characters of a file
MOST_LINE = 100_000  # characters
LONGEST_SIZE = 2000  # characters of a size
MOST_NESTED = 20  # lists and calls in one another

DTYPES = {
    "bf16": "bf16", "f16": "f16", "f32": "f32", "f64": "f64", "i64": "i64", "i32": "i32",
    "i16": "i16", "i8": "i8", "u8": "u8", "b8": "bool", "f8e4m3fn": "e4m3fn",
    "f8e5m2": "e5m2", "f8e4m3fnuz": "e4m3fnuz", "f8e5m2fnuz": "e5m2fnuz", "f8e8m0fnu": "e8m0",
}  # fmt: skip
EIGHT = ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0")  # formats of 8 bits
TORCH_DTYPES = {
    "bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool",
    "float8_e4m3fn": "e4m3fn", "float8_e5m2": "e5m2", "float8_e4m3fnuz": "e4m3fnuz",
    "float8_e5m2fnuz": "e5m2fnuz", "float8_e8m0fnu": "e8m0",
}  # fmt: skip

_TYPE = re.compile(r"(\w+)\[([^\[\]]*)\](.*)", re.ASCII | re.DOTALL)
_SYMBOL = re.compile(r"Sym\((.*)\)", re.DOTALL)
_FILE = re.compile(r"# File: ([^\n]{1,1000}?):(\d{1,9}) in ")
_WORDS = {"inf": float("inf"), "nan": float("nan")}


@dataclass(frozen=True, slots=True)
class Ref:
    """A node as an argument of another one."""

    name: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the graph.

    Attributes:
        name: as printed.
        target: the operator, `aten.add.Tensor`; empty for an input, `getitem` for a part.
        args: references, numbers, sizes, lists of these.
        keywords: the same, by name.
        dtype: a short name; None where the node is no tensor.
        dims: the size of each axis, an expression of symbols.
        place: the line of the user's source.
        device: where it lives, if the file says so.
        recast: whether it is a cast from one 16-bit format to another, or to an 8-bit one: that
            rounds what is rounded already.
    """

    name: str
    target: str
    args: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    dtype: str | None = None
    dims: tuple[str, ...] = ()
    place: Place = field(default_factory=Place)
    device: str = ""
    recast: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the nodes among the arguments, in order."""
        found: list[str] = []
        stack: list[Any] = [list(self.keywords.values()), list(self.args)]
        while stack:
            one = stack.pop()
            if isinstance(one, Ref):
                found.append(one.name)
            elif isinstance(one, list | tuple):
                stack += reversed(one)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Graph:
    """A printed graph.

    Attributes:
        file: as a report names it.
        nodes: by name, in order.
        results: what it returns; parts that are no nodes are left out.
        symbols: the names of sizes.
    """

    file: str
    nodes: dict[str, Node]
    results: tuple[str, ...]
    symbols: tuple[str, ...]


def read_graph(text: str, file: str) -> Graph:
    """Return the graph of a file that torch.fx printed.

    Raises:
        ImportedFileError: the text is no such graph; the error says where.
    """
    return _Reader(text, file).graph()


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self.file, self.line = file, 1
        self.nodes: dict[str, Node] = {}
        self.sizes: dict[str, Size] = {}  # nodes that are sizes
        self.symbols: dict[str, None] = {}
        if len(text) > MOST_TEXT:
            self.fail(f"it has more than {MOST_TEXT} characters")
        lines = text.splitlines()
        if any(len(line) > MOST_LINE for line in lines):
            self.fail(f"a line has more than {MOST_LINE} characters")
        self.places = list(_places(lines))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text.replace("class <lambda>", "class graph"))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.line = getattr(error, "lineno", None) or 1
            self.fail(f"this is no Python: {getattr(error, 'msg', None) or 'nested too deeply'}")
        self.body = self._forward(tree)

    def fail(self, cause: str) -> Any:
        remedy = "Take the file as torch._inductor wrote it."
        raise ImportedFileError(f"{self.file}:{self.line}", cause, remedy)

    def _forward(self, tree: ast.Module) -> ast.FunctionDef:
        classes = [one for one in tree.body if isinstance(one, ast.ClassDef)]
        for one in classes[0].body if classes else ():
            if isinstance(one, ast.FunctionDef) and one.name == "forward":
                return one
        self.fail("it holds no class with a method `forward`")
        raise AssertionError

    def graph(self) -> Graph:
        for arg in self.body.args.args[1:]:
            self.line = arg.lineno
            self._input(arg)
        results: tuple[str, ...] = ()
        for statement in self.body.body:
            self.line = statement.lineno
            if len(self.nodes) > MOST_NODES:
                self.fail(f"there are more than {MOST_NODES} nodes")
            if isinstance(statement, ast.AnnAssign | ast.Assign):
                self._assign(statement)
            elif isinstance(statement, ast.Return):
                results = tuple(self._returned(statement.value))
        return Graph(self.file, self.nodes, results, tuple(self.symbols))

    def _input(self, arg: ast.arg) -> None:
        dtype, dims, device = self._type(arg.annotation)
        if dtype is None and dims:
            self.sizes[arg.arg] = Size(dims[0])
            return
        if dtype is None:
            self.fail(f"the input `{arg.arg}` has no format and shape")
        self.nodes[arg.arg] = Node(arg.arg, "", dtype=dtype, dims=dims, device=device)

    def _assign(self, statement: ast.AnnAssign | ast.Assign) -> None:
        target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
        if not isinstance(target, ast.Name):
            return
        annotation = statement.annotation if isinstance(statement, ast.AnnAssign) else None
        name, value = target.id, statement.value
        if annotation is None and (value is None or _is_deletion(statement)):
            return
        if name in self.nodes:
            self.fail(f"`{name}` is given twice")
        dtype, dims, device = self._type(annotation)
        if dtype is None and dims:
            self.sizes[name] = Size(dims[0])
            return
        operator, args, keywords = self._call(value)
        place = self.places[self.line - 1]
        source = self.nodes[args[0].name].dtype if args and isinstance(args[0], Ref) else None
        recast = {source, dtype} == {"bf16", "f16"} or (dtype in EIGHT and source != dtype)
        self.nodes[name] = Node(name, operator, args, keywords, dtype, dims, place, device, recast)

    def _call(self, value: ast.expr | None) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        if isinstance(value, ast.Subscript):
            return "getitem", (self._value(value.value), self._value(value.slice)), {}
        if isinstance(value, ast.Attribute):
            return "get_attr", (_dotted(value),), {}
        if isinstance(value, ast.Call):
            args = tuple(self._value(arg) for arg in value.args)
            keywords = {one.arg: self._value(one.value) for one in value.keywords if one.arg}
            operator = _dotted(value.func).removeprefix("torch.ops.")
            return operator, args, keywords
        if isinstance(value, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Name | ast.Constant):
            return "size", (), {}  # arithmetic on sizes, whose result nobody could read
        self.fail(f"a {type(value).__name__} stands where an operator is called")
        raise AssertionError

    def _value(self, value: ast.expr, depth: int = 0) -> Any:
        if depth > MOST_NESTED:
            self.fail("lists are nested too deeply")
        if isinstance(value, ast.Constant):
            return value.value
        if isinstance(value, ast.Name):
            if value.id in self.sizes:
                size = self.sizes[value.id]
                return int(size) if size.isdigit() else size
            if value.id in _WORDS and value.id not in self.nodes:
                return _WORDS[value.id]
            if value.id not in self.nodes:
                self.fail(f"reads `{value.id[:100]}`, which no earlier line gives")
            return Ref(value.id)
        if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
            inner = self._value(value.operand, depth + 1)
            return -inner if isinstance(inner, int | float) else str(inner)
        if isinstance(value, ast.List | ast.Tuple):
            return [self._value(one, depth + 1) for one in value.elts]
        if isinstance(value, ast.Attribute):
            word = _dotted(value)
            return TORCH_DTYPES.get(word.removeprefix("torch."), word)
        return ast.unparse(value)[:200]  # a device, a layout: known to no operator of the table

    def _returned(self, value: ast.expr | None) -> list[str]:
        found = []
        elements = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
        for one in elements:
            if isinstance(one, ast.Name) and one.id in self.nodes:
                if self.nodes[one.id].dtype is not None:
                    found.append(one.id)
            elif isinstance(one, ast.Name) and one.id not in self.sizes:
                self.fail(f"returns `{one.id[:100]}`, which no line gives")
        return found

    def _type(self, annotation: ast.expr | None) -> tuple[str | None, tuple[str, ...], str]:
        """Return type, sizes and device of `"bf16[2, s0][s0, 1]cuda:0"`; no type for a size."""
        if not isinstance(annotation, ast.Constant) or not isinstance(annotation.value, str):
            return None, (), ""
        text = annotation.value
        symbol = _SYMBOL.fullmatch(text)
        if symbol:
            return None, (self._size(symbol[1]),), ""
        match = _TYPE.fullmatch(text)
        if not match:
            return None, (), ""
        if match[1] not in DTYPES:
            self.fail(f"the type {match[1]!r} is not known")
        dims = tuple(self._size(one) for one in match[2].split(",") if one.strip())
        return DTYPES[match[1]], dims, re.sub(r"^\[[^\]]*\]", "", match[3])

    def _size(self, text: str) -> str:
        text = text.strip()
        if text.isdigit() and len(text) < 20 and int(text) <= MAX_SIZE:
            return text
        try:
            expression = parse_expression(text[:LONGEST_SIZE])
            found = expression.text if expression.symbols else str(expression.evaluate({}))
        except (LastbitError, ValueError, ArithmeticError) as error:
            self.fail(f"a size is {text[:60]!r}: {error}")
        self.symbols.update(dict.fromkeys(expression.symbols))
        return found


def _is_deletion(statement: ast.AnnAssign | ast.Assign) -> bool:
    """Return whether a line is `a = b = None`."""
    value = statement.value
    return isinstance(value, ast.Constant) and value.value is None


def _dotted(value: ast.expr) -> str:
    """Return `torch.ops.aten.add.Tensor`; other expressions as a text."""
    parts: list[str] = []
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    parts.append(value.id if isinstance(value, ast.Name) else "?")
    return ".".join(reversed(parts))


def _places(lines: list[str]) -> list[Place]:
    """Return for each line the place in the user's source that the last comment named."""
    found, place = [], Place()
    for line in lines:
        if "# File: " in line:
            match = _FILE.search(line[:2000])
            place = Place(shown_file(match[1]), int(match[2])) if match else Place()
        elif line.lstrip().startswith("# No stacktrace"):
            place = Place()
        found.append(place)
    return found
