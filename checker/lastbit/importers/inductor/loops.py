"""Read `ir_post_fusion.txt`: what each kernel of Inductor loads, computes and stores.

A kernel is a group of operations that were fused. An operation is either a loop body, printed as a
Python class that is parsed and never run, or a call of a library.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lastbit.importers.imported import ImportedFileError

MOST_OPERATIONS = 50_000
MOST_STATEMENTS = 20_000  # of one loop body

_HEAD = re.compile(r"([A-Za-z_]\w*): (\w+)\(([^()]*)", re.ASCII)
_DEP = re.compile(r"(?:Memory|Star|Weak)Dep\((?:name=)?'(\w+)'", re.ASCII)
_LAYOUT = re.compile(r"\s+(\w+)\.layout = \w+\('(\w+)(?::\d+)?', torch\.(\w+)", re.ASCII)
_GIVEN = re.compile(r"    (\w+): \w+", re.ASCII)
_ALIASES = re.compile(r"\s+(\w+)\.aliases = \[([^\]]*)\]", re.ASCII)
_MUTATIONS = re.compile(r"\s+\w+\.mutations = \[([^\]]*)\]", re.ASCII)
_KERNEL = re.compile(r"\w+\.node\.kernel = (\S+)", re.ASCII)
_FIELD = re.compile(r"[A-Za-z_]\w*\.(\w+)(?:\[\d+\])? =", re.ASCII)
_WORD = re.compile(r"'(\w+)'", re.ASCII)


@dataclass(frozen=True, slots=True)
class Call:
    """A statement of a loop body: `name = function(arguments)`.

    Attributes:
        name: of the result.
        function: `add`, `load`, `to_dtype` ...; `getitem` for a part.
        args: names of results, numbers, texts (buffers, types).
        keywords: the same, by name.
    """

    name: str
    function: str
    args: tuple[object, ...]
    keywords: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ref:
    """A result of the loop body as an argument."""

    name: str


@dataclass(slots=True)
class Operation:
    """An operation.

    Attributes:
        name: `op3`.
        kind: `ComputedBuffer`, `ExternKernelOut`, `ConcatKernel` ...
        kernel: the library function that is called, if any.
        reads: the buffers that it reads.
        gives: the format of each buffer that it writes, by name, as torch names it.
        aliases: the buffer that another one is a part of.
        mutates: the buffers that it writes into, which others gave.
        device: `cpu`, `cuda` ...
        bodies: the loop body, `body`, and its masked parts, by name.
    """

    name: str
    kind: str
    kernel: str = ""
    reads: list[str] = field(default_factory=list)
    gives: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    mutates: list[str] = field(default_factory=list)
    device: str = ""
    bodies: dict[str, list[Call]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fusion:
    """All operations, and those that one loop nest holds together.

    Attributes:
        operations: in order.
        together: for each operation the name of the innermost loop nest that it is in.
        kernel: for each operation the name of the group that is one kernel.
    """

    operations: tuple[Operation, ...]
    together: dict[str, str]
    kernel: dict[str, str]


def read_fusion(text: str, file: str) -> Fusion:
    """Return what `ir_post_fusion.txt` says; it is empty where a graph only moves its inputs.

    Raises:
        ImportedFileError: the text is none; the error says where.
    """
    return _Reader(text, file).fusion()


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self.file, self.lines = file, text.splitlines()
        self.operations: dict[str, Operation] = {}
        self.together: dict[str, str] = {}
        self.kernel: dict[str, str] = {}

    def fail(self, line: int, cause: str) -> None:
        remedy = "Take the file as torch._inductor wrote it."
        raise ImportedFileError(f"{self.file}:{line}", cause, remedy)

    def fusion(self) -> Fusion:
        current: Operation | None = None
        part, number = "", 0
        while number < len(self.lines):
            line = self.lines[number]
            number += 1
            if line.startswith("class ") and current is not None:
                end = number
                while end < len(self.lines) and (not self.lines[end] or self.lines[end][0] == " "):
                    end += 1
                current.bodies = self._bodies(number, self.lines[number - 1 : end])
                number = end
            elif line and line[0] not in " ]":
                head = _HEAD.match(line)
                if head:
                    current, part = self._head(number, head), ""
                elif (found := _FIELD.match(line)) is not None:
                    part = found[1]
            if current is not None:
                self._facts(current, part, line)
        if not self.operations and any(line.strip() for line in self.lines):
            self.fail(1, "it holds no operation")
        return Fusion(tuple(self.operations.values()), self.together, self.kernel)

    def _head(self, number: int, head: re.Match[str]) -> Operation | None:
        name, kind, inner = head[1], head[2], head[3]
        if "SchedulerNode" not in kind and "KernelNode" not in kind:
            return None
        if "," in inner or kind.startswith(("Fused", "OuterLoop", "Foreach", "Grouped")):
            for one in re.findall(r"op\d+", name):
                self.kernel.setdefault(one, name)
                if kind.startswith("Fused"):
                    self.together[one] = name
            return None
        if len(self.operations) >= MOST_OPERATIONS:
            self.fail(number, f"there are more than {MOST_OPERATIONS} operations")
        found = Operation(name, inner.strip() or kind)
        self.operations[name] = found
        self.kernel.setdefault(name, name)
        return found

    def _facts(self, current: Operation, part: str, line: str) -> None:
        if (kernel := _KERNEL.match(line)) is not None:
            current.kernel = kernel[1]
        elif part in ("met_dependencies", "unmet_dependencies"):
            current.reads += _DEP.findall(line)
        elif part == "outputs":
            if (layout := _LAYOUT.match(line)) is not None:
                current.gives[layout[1]] = layout[3]
                current.device = layout[2]
            elif (given := _GIVEN.fullmatch(line)) is not None:
                current.gives.setdefault(given[1], "")
            elif (aliases := _ALIASES.match(line)) is not None:
                for other in _WORD.findall(aliases[2]):
                    current.aliases[aliases[1]] = other
            elif (mutations := _MUTATIONS.match(line)) is not None:
                current.mutates += _WORD.findall(mutations[1])

    def _bodies(self, number: int, lines: list[str]) -> dict[str, list[Call]]:
        try:
            tree = ast.parse("\n".join(lines))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            at = number + (getattr(error, "lineno", None) or 1) - 1
            self.fail(at, "a loop body is no Python")
            return {}
        holder = next((one for one in tree.body if isinstance(one, ast.ClassDef)), None)
        found: dict[str, list[Call]] = {}
        for one in holder.body if holder is not None else ():
            if isinstance(one, ast.FunctionDef):
                if len(one.body) > MOST_STATEMENTS:
                    self.fail(number, f"a loop body has more than {MOST_STATEMENTS} statements")
                found[one.name] = list(_calls(one))
        return found


def _calls(function: ast.FunctionDef) -> Iterator[Call]:
    for statement in function.body:
        if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Name):
            yield Call("", "return", (Ref(statement.value.id),))
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        name, value = statement.targets[0].id, statement.value
        if isinstance(value, ast.Subscript):
            yield Call(name, "getitem", (_plain(value.value), _plain(value.slice)))
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            keywords = {one.arg: _plain(one.value) for one in value.keywords if one.arg}
            yield Call(name, value.func.attr, tuple(map(_plain, value.args)), keywords)


def _plain(value: ast.expr) -> object:
    if isinstance(value, ast.Name):
        return float(value.id) if value.id in ("inf", "nan") else Ref(value.id)
    if isinstance(value, ast.Constant):
        return value.value
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        inner = _plain(value.operand)
        return -inner if isinstance(inner, int | float) else None
    if isinstance(value, ast.Attribute):
        return value.attr
    if isinstance(value, ast.Tuple | ast.List):
        return tuple(map(_plain, value.elts[:64]))
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id == "float"
        and value.args
        and isinstance(value.args[0], ast.Constant)
        and value.args[0].value in ("inf", "-inf", "nan")
    ):
        return float(value.args[0].value)
    return None
