"""Write the witness of a step as a Python script that needs nothing but numpy.

The script holds the inputs, the two programs as straight-line functions (`lastbit.script_lines`)
and, of `lastbit.script_helpers`, the functions that these need.
"""

from __future__ import annotations

import builtins
import keyword
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lastbit import __version__
from lastbit.errors import InputError, Problem
from lastbit.formats import FORMATS, Format, format_of
from lastbit.graph import Graph, Input, native_rounding, topological
from lastbit.machines import MACHINES
from lastbit.result import Region, Step, Witness, WitnessInput, hex_of
from lastbit.script_lines import Lines
from lastbit.script_parts import (
    all_names,
    bits_function,
    helpers,
    imports,
    rounding_function,
    step_function,
)
from lastbit.text import Program, parse_program

WIDTH = 96  # of the text of comments and literals

MAIN = """\
def bits(side, names, text):
    \"\"\"Return the bits of one side's result at PLACES.\"\"\"
    result = side(*(numbers(*INPUTS[name]) for name in names))
    result = np.asarray(result, dtype=object)
    return [text(result[place]) for place in PLACES]


def main():
    \"\"\"Print both results; return 0 if they are those of the witness, else 1.\"\"\"
    old = {before}
    new = {after}
    for place, x, y in zip(PLACES, old, new):
        print(f"{{OUTPUT}}[{{', '.join(map(str, place))}}] as {format}: {{x}} -> {{y}}")
    if (old, new) == (BEFORE, AFTER):
        print("These are the bits of the witness.")
        return 0
    print(f"The witness says {{', '.join(BEFORE)}} -> {{', '.join(AFTER)}}.")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
"""
OWN_NAMES = {"INPUTS", "OUTPUT", "PLACES", "BEFORE", "AFTER", "before", "after", "bits", "main"}

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a witness.

    Attributes:
        label: `before` or `after`.
        program: its text, parsed.
        graph: its graph.
        output: the name of the value that differs.
        format: the format of its bits.
    """

    label: str
    program: Program
    graph: Graph
    output: str
    format: Format

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the values that the output depends on."""
        keys = {node.key for node in topological([self.graph.values[self.output]])}
        return tuple(name for name, node in self.graph.values.items() if node.key in keys)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs that the output depends on."""
        leaves = {node.name for node in self.graph.inputs}  # two names may mean one input
        return tuple(name for name in self.needed if name in leaves)


def write_script(step: Step | Region, witness: Witness) -> str:
    """Return a self-contained Python script that shows the witness of a step.

    It prints both results as bits and exits with 0 if they are those of the witness, else with 1.

    Args:
        step: the step.
        witness: its witness, with programs.

    Raises:
        InputError: the witness cannot be used, or holds what a script cannot express.
    """
    if witness.program is None or witness.output is None:
        raise _unusable("it has no program")
    texts = {"before": witness.program.before, "after": witness.program.after}
    sides = [_side(label, text, witness) for label, text in texts.items()]
    names = _python_names(name for side in sides for name in side.graph.values)
    written = [Lines(names) for _ in sides]
    functions = [_function(side, lines) for side, lines in zip(sides, written, strict=True)]
    is_real = "class Real:" in helpers("\n".join(functions))
    definitions = [
        *(bits_function(fmt, is_real) for fmt in dict.fromkeys(side.format for side in sides)),
        *(rounding_function(*pair, is_real) for pair in _union(w.roundings for w in written)),
        *(step_function(name, *pair) for name, pair in _union(w.steps for w in written)),
    ]
    main = MAIN.format(
        format=" and ".join(dict.fromkeys(side.format.short for side in sides)),
        **{side.label: _bits_call(side) for side in sides},
    )
    body = "\n\n\n".join([*functions, *definitions, main])
    tools = helpers(body)
    used = imports(f"{tools}\n\n\n{body}")
    head = f"{_docstring(step, witness)}\n\n{used}\n\n{_data(sides, witness)}"
    comment = "# The rest is what these functions are made of."
    sections = [head, *functions, f"{comment}\n\n\n{tools}", *definitions, main]
    return "\n\n\n".join(section.strip("\n") for section in sections) + "\n"


def _side(label: str, text: str, witness: Witness) -> Side:
    program = parse_program(text)
    graph = program.bind({})
    name = witness.output or ""
    if name not in graph.values:
        raise _unusable(f"its program {label!r} has no value {name!r}")
    node = graph.values[name]
    for place in witness.index:
        fits = len(place) == len(node.shape)
        if not fits or not all(0 <= i < n for i, n in zip(place, node.shape, strict=True)):
            shape = list(node.shape)
            raise _unusable(f"{list(place)} is no index into {name!r} with the shape {shape}")
    rounding = native_rounding(node)
    fmt = format_of(witness.format) if rounding is None else rounding.format
    side = Side(label, program, graph, name, fmt)
    for needed in side.inputs:
        leaf, given = graph.values[needed], witness.inputs.get(needed)
        if given is None:
            raise _unusable(f"it has no input {needed!r}")
        assert isinstance(leaf, Input)
        if given.shape != leaf.shape or format_of(given.format) != leaf.format:
            raise _unusable(f"input {needed!r} has another shape or format than the program")
    return side


def _unusable(reason: str) -> InputError:
    return InputError([Problem(f"the witness cannot be used: {reason}")])


def _union(tables: Iterable[dict[str, _T]]) -> list[tuple[str, _T]]:
    return sorted({name: value for table in tables for name, value in table.items()}.items())


def _python_names(names: Iterable[str]) -> dict[str, str]:
    """Return a Python name for each value: its own, with `_` behind it where that is taken."""
    taken = {*keyword.kwlist, *dir(builtins), *all_names(), *OWN_NAMES}
    stems = {*FORMATS, *(name.split("_")[0] for name in MACHINES)}  # of generated functions
    out: dict[str, str] = {}
    for name in dict.fromkeys(names):
        python = unicodedata.normalize("NFKC", name)  # as Python reads identifiers
        if python.split("_")[0] in stems:
            python += "_"
        while python in taken:
            python += "_"
        taken.add(python)
        out[name] = python
    return out


def _function(side: Side, lines: Lines) -> str:
    """Return one side as a function; the lines below each comment compute its value."""
    for name in side.inputs:
        lines.texts[side.graph.values[name].key] = lines.names[name]
    for name in side.needed:
        if name not in side.inputs:
            source = side.program.place(name).source.split("#", 1)[0]
            lines.lines.append(f"# {_printable(' '.join(source.split()))}")
            lines.value(name, side.graph.values[name])
    inputs = ", ".join(lines.names[name] for name in side.inputs)
    when = "before the change" if side.label == "before" else "after the change"
    head = f'def {side.label}({inputs}):\n    """Return `{side.output}` as it is {when}."""\n'
    result = f"return {lines.names[side.output]}"
    return head + textwrap.indent("\n".join([*lines.lines, result]), "    ")


def _bits_call(side: Side) -> str:
    inputs = ", ".join(map(_quoted, side.inputs))
    return f"bits({side.label}, [{inputs}], {side.format.short}_bits)"


def _data(sides: Sequence[Side], witness: Witness) -> str:
    lines = ["INPUTS = {  # shape and values; a comment says the format"]
    for name in dict.fromkeys(name for side in sides for name in side.inputs):
        lines += _literal(name, witness.inputs[name])
    lines += [
        "}",
        f"OUTPUT = {_quoted(witness.output or '')}",
        f"PLACES = {list(witness.index)}",
        f"BEFORE = [{', '.join(map(_quoted, witness.before))}]",
        f"AFTER = [{', '.join(map(_quoted, witness.after))}]",
    ]
    return "\n".join(lines)


def _literal(name: str, given: WitnessInput) -> list[str]:
    """Return an input as lines of a dictionary, a new line for each row that is no short one."""
    words = [hex_of(value) for value in given.values()]
    start = f"    {_quoted(name)}: ({given.shape}, "
    if len(start) + len(" ".join(words)) < WIDTH - 20:
        return [f'{start}"{" ".join(words)}"),  # {given.format}']
    size = given.shape[-1] if given.shape[-1] >= 4 else len(words)
    rows = [" ".join(words[i : i + size]) for i in range(0, len(words), size)]
    texts = [line for row in rows for line in textwrap.wrap(row, WIDTH - 12)]
    quoted = [f'        "{text} "' for text in texts]
    return [f"{start.rstrip()}  # {given.format}", *quoted, "    ),"]


def _docstring(step: Step | Region, witness: Witness) -> str:
    title = f"{step.title.rstrip('.')}. " if step.title.strip() else ""
    entry = next((entry for entry in step.domain if entry.witness is witness), None)
    shown = "" if entry is None else f" on ordinary runs; {entry}"
    paragraphs = [
        f"Two results of one input, as bits: {step.label}.",
        f"{title}Kind of change: {step.change}{shown}.",
        "`before` and `after` compute the two results; above the lines of a value stands its text "
        "in the program. Numbers are exact fractions, and only functions named after a format "
        "round. The script needs numpy and Python 3.10 or later. Its exit code is 0 if the bits "
        "are those of the witness, else 1.",
        f"Written by lastbit {__version__}.",
    ]
    escaped = (_printable(" ".join(p.split())).replace("\\", "\\\\") for p in paragraphs)
    wrapped = [
        textwrap.fill(text.replace('"""', '\\"\\"\\"'), WIDTH, break_long_words=False)
        for text in escaped
    ]
    wrapped[0] = wrapped[0].replace("\n", " ")
    return '"""' + "\n\n".join(wrapped) + '\n"""'


def _quoted(text: str) -> str:
    """Return a Python literal, in double quotes where it holds no quotes."""
    return repr(text) if "'" in text or '"' in text else f'"{repr(text)[1:-1]}"'


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
