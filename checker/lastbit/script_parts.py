"""The functions of a script that are no lines of a program: copied helpers and generated ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import resources

from lastbit.formats import Exact, Format, bits_text
from lastbit.machines import Unit
from lastbit.rounding import Mode, Rounding, overflow_value

WIDTH = 92

MODES = {
    Mode.NEAREST_EVEN: ("to nearest, ties to even", "round"),
    Mode.NEAREST_AWAY: ("to nearest, ties away from zero", "half_away"),
    Mode.TOWARD_ZERO: ("toward zero", "math.trunc"),
    Mode.UP: ("up", "math.ceil"),
    Mode.DOWN: ("down", "math.floor"),
    Mode.TO_ODD: ("to odd", "to_odd"),
}
OVERFLOWS = {"inf": "infinity", "nan": "NaN", "saturate": "the largest number"}
SPECIAL = {"inf": "math.inf", "-inf": "-math.inf", "nan": "math.nan"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A definition of the helpers, or one name of an import.

    Attributes:
        name: what it defines.
        source: its text.
        uses: names that it reads and does not bind.
        module: for an import, the module; empty for an import of the module itself.
    """

    name: str
    source: str
    uses: frozenset[str]
    module: str | None = None


def all_names() -> frozenset[str]:
    """Return the names of all helpers and imports."""
    return frozenset(piece.name for piece in _pieces())


def helpers(code: str) -> str:
    """Return the helpers that some code needs, and those that these need."""
    wanted = _free_names(ast.parse(code))
    chosen = {piece.name for piece in _pieces() if piece.name in wanted}
    while True:
        uses = {name for piece in _pieces() if piece.name in chosen for name in piece.uses}
        more = {piece.name for piece in _pieces() if piece.name in uses} - chosen
        if not more:
            break
        chosen |= more
    lines: list[str] = []
    for piece in _pieces():
        if piece.name in chosen and piece.module is None:
            constants = bool(lines) and "\n" not in lines[-1] + piece.source
            lines += [piece.source] if constants or not lines else ["", "", piece.source]
    return "\n".join(lines)


def imports(code: str) -> str:
    """Return the imports that some code needs."""
    wanted = _free_names(ast.parse(code))
    used = [piece for piece in _pieces() if piece.module is not None and piece.name in wanted]
    lines: dict[str, list[str]] = {}
    for piece in used:
        lines.setdefault(piece.module or piece.source, []).append(piece.name)
    text = [
        key if key.startswith("import ") else f"from {key} import {', '.join(names)}"
        for key, names in lines.items()
    ]
    return "\n".join(line if "numpy" not in line else f"\n{line}" for line in text)


@cache
def _pieces() -> tuple[Piece, ...]:
    source = resources.files("lastbit").joinpath("script_helpers.py").read_text(encoding="utf-8")
    return tuple(_read(source))


def _read(source: str) -> Iterator[Piece]:
    lines = source.splitlines()
    for node in ast.parse(source).body:
        match node:
            case ast.Import(names=[alias]):
                name = alias.asname or alias.name
                yield Piece(name, ast.unparse(node), frozenset(), "")
            case ast.ImportFrom(names=names):
                for alias in names:
                    yield Piece(alias.name, "", frozenset(), node.module)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                text = "\n".join(lines[first - 1 : node.end_lineno])
                yield Piece(name, text, _free_names(node) - {name})
            case ast.Assign(targets=[ast.Name(id=name)]):
                text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                yield Piece(name, text, _free_names(node))


def _free_names(tree: ast.AST) -> frozenset[str]:
    """Return the names that code reads, without those that it binds anywhere."""
    read: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
    return frozenset(read - bound)


# Generated functions.


def rounding_function(name: str, rounding: Rounding, is_real: bool) -> str:
    """Return the function that does a rounding."""
    fmt = rounding.format
    how, to_integer = MODES[rounding.mode]
    doc = f"Round to {fmt.name}, {how}; overflow gives {OVERFLOWS[rounding.overflow]}"
    doc += ", and what is below the normal numbers 0." if rounding.subnormals == "flush" else "."
    args = {"emin": str(fmt.emin), "largest": _number(fmt.max_finite)}
    ends = {
        "above": _number(overflow_value(False, rounding)),
        "below": _number(overflow_value(True, rounding)),
    }
    if fmt.kind == "scale":
        args |= ends
    else:
        precision = fmt.precision
        # Of an integer, all values have the spacing of the smallest ones.
        emin = precision - 1 if fmt.kind == "integer" else fmt.emin
        args = {"precision": str(precision), **args, "emin": str(emin)}
        if fmt.min_finite != -fmt.max_finite:
            args["lowest"] = _number(fmt.min_finite)
        if ends != {"above": "math.inf", "below": "-math.inf"}:
            args |= ends
        if not fmt.has_nan:
            args["nan"] = _number(fmt.nan)
        if not fmt.has_inf or rounding.overflow == "saturate":
            args["keeps_inf"] = "False"
        if not fmt.has_negative_zero:
            args["negative_zero"] = "False"
        if rounding.subnormals == "flush" and fmt.kind == "float":
            args["flush"] = "True"
    if to_integer != "round":
        args["to_integer"] = to_integer
    x = _settled(args.get("precision", "1"), args["emin"]) if is_real else "x"
    helper = "rounded_scale" if fmt.kind == "scale" else "rounded"
    return f'@elementwise\ndef {name}(x):\n    """{doc}"""\n{_call(helper, x, args)}'


def bits_function(fmt: Format, is_real: bool) -> str:
    """Return the function that gives the bits of a value of a format."""
    precision, emin = str(fmt.precision), str(fmt.emin)
    args: dict[str, str] = {}
    if fmt.kind == "float":
        args = {"precision": precision, "emin": emin, "width": str(fmt.bits)}
        args |= {"padding": str(fmt.padding)} if fmt.padding else {}
        special = [f'"{text}": "{code}"' for text, code in _special_bits(fmt).items()]
        broken = "".join(f"\n            {pair}," for pair in special) + "\n        "
        args["special"] = f"{{{broken if fmt.bits > 16 else ', '.join(special)}}}"
        helper = "float_bits"
    elif fmt.kind == "integer":
        precision, emin = "1", "0"
        args = {"width": str(fmt.bits)}
        helper = "integer_bits"
    else:
        args = {"emin": emin}
        helper = "scale_bits"
    x = _settled(precision, emin) if is_real else "x"
    doc = f'"""Return the bits of a value of {fmt.name}."""'
    return f"def {fmt.short}_bits(x):\n    {doc}\n{_call(helper, x, args)}"


def step_function(name: str, unit: Unit, fmt: Format) -> str:
    """Return the function that does one step of a matrix unit."""
    args = {"emin": str(fmt.emin)}
    if unit.cuts:
        args["zero"] = str(unit.least_exponent(fmt.short))
    args |= {"fraction_bits": str(unit.fraction_bits), "finish": fmt.short}
    inner = ""
    if fmt.short != "f16" and unit.cuts:
        args["finish"] = "finish"
        given = {"precision": str(unit.result_bits + 1), "emin": args["emin"]}
        given |= {"largest": _number(fmt.max_finite), "to_integer": "math.trunc"}
        call = _call("rounded", "x", given, 8)
        inner = f"    def finish(x):\n{call}\n\n"
    call = _call("aligned_sum" if unit.cuts else "late_sum", "total, terms", args, 8)
    return (
        f'def {name}(total, terms):\n    """Do one step of the matrix unit `{unit}` with an '
        f'accumulator of {fmt.name}."""\n\n{inner}    def step(total, terms):\n{call}\n\n'
        "    return matrix_step(total, terms, step)"
    )


def _settled(precision: str, emin: str) -> str:
    return f"settled(x, {precision}, {emin})"


def _special_bits(fmt: Format) -> dict[str, str]:
    values = {"inf": fmt.has_inf, "-inf": fmt.has_inf, "nan": fmt.has_nan}
    values["-0.0"] = fmt.has_negative_zero
    return {text: bits_text(float(text), fmt) for text, held in values.items() if held}


def _number(value: Exact) -> str:
    if isinstance(value, float):
        return SPECIAL[str(value)]
    return fraction_text(Fraction(value))


def _call(helper: str, x: str, args: dict[str, str], indent: int = 4) -> str:
    """Return a line that returns a call, broken where it is long."""
    pad = " " * indent
    words = [x, *(f"{key}={value}" for key, value in args.items())]
    line = f"{pad}return {helper}({', '.join(words)})"
    if len(line) <= WIDTH:
        return line
    return "\n".join(
        [f"{pad}return {helper}(", *(f"{pad}    {word}," for word in words), f"{pad})"]
    )


def fraction_text(value: Fraction) -> str:
    """Return a fraction as Python writes it."""
    n, d = value.numerator, value.denominator
    return f"Fraction({integer_text(n)})" if d == 1 else f"Fraction({n}, {integer_text(d)})"


def integer_text(n: int) -> str:
    """Return an integer, a large one as a multiple of a power of two."""
    if abs(n) < 10**6:
        return str(n)
    shift = (n & -n).bit_length() - 1
    odd = n >> shift
    if n > 0 and odd > 1 and odd & (odd + 1) == 0:
        text = f"(2**{odd.bit_length()} - 1)"
    elif odd == 1:
        return f"2**{shift}"
    else:
        text = str(odd)
    return f"{text} * 2**{shift}" if shift else text
