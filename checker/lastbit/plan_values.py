"""Read single values of a plan: sizes, distributions, data files and the parameters of rules."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import TypeGuard

from lastbit.errors import InputError, LastbitError, Problem, did_you_mean
from lastbit.expression import Expression, parse_expression
from lastbit.formats import format_of
from lastbit.machines import machine_of, unit_of
from lastbit.plan_model import DataFile, Distribution, Span, Value
from lastbit.plan_section import Section, is_number, shown
from lastbit.rule import Parameter
from lastbit.schedule import Fused, Schedule, Table, levels, parse_schedule
from lastbit.statement import MAX_SIZE

DISTRIBUTIONS = {
    "normal": ("normal(0, 1)", 2),
    "uniform": ("uniform(-1, 1)", 2),
    "constant": ("constant(1)", 1),
    "integers": ("integers(-8, 8)", 2),
}
DATA_SUFFIXES = (".safetensors", ".npy")

_CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")
_FORMS = ", ".join(form for form, _ in DISTRIBUTIONS.values())
_SPAN = "a size, [smallest, largest], or { range = [1, 8192], typical = 1024 }"
_TABLE = '{ by = "M", table = [[1, 16], [64, 4]] }'


def read_span(section: Section, name: str) -> Span | None:
    """Return the sizes of a symbol: a number, a range, or a range with a typical size."""
    value = section.values[name]
    typical: object = None
    if isinstance(value, dict):
        table = Section(section.source, (*section.path, name), f"the symbol `{name}`", value)
        table.only("range", "typical")
        if table.missing("range", f"Allowed: {_SPAN}."):
            return None
        value, typical = value["range"], value.get("typical")
    bounds = [value, value] if _is_size(value) else value
    match bounds:
        case [low, high] if _is_size(low) and _is_size(high) and low <= high:
            middle = high if typical is None else typical
            if _is_size(middle) and low <= middle <= high:
                return Span(low, high, middle)
            message = f"the typical size of `{name}` is {shown(typical)}"
            remedy = f"Allowed: a size from {low} to {high}."
        case _:
            message = f"the sizes of `{name}` are {shown(value)}"
            remedy = f"Allowed: {_SPAN}; sizes are from 1 to {MAX_SIZE}."
    section.report(name, message, remedy)
    return None


def _is_size(value: object) -> TypeGuard[int]:
    return type(value) is int and 1 <= value <= MAX_SIZE


def read_input(section: Section, folder: pathlib.Path) -> Distribution | DataFile | None:
    """Return what a plan says of the values of an input."""
    section.only("distribution", "range", "data")
    if ("distribution" in section) == ("data" in section):
        remedy = 'Write { distribution = "normal(0, 1)" } or { data = "x.safetensors" }.'
        section.report(None, f"{section.what} needs one of `distribution` and `data`", remedy)
        return None
    if "data" in section:
        if "range" in section:
            section.report("range", "`range` limits a distribution, not data", "Leave it out.")
        return _data_file(section, folder)
    limits = section.numbers("range")
    text = section.text("distribution")
    if text is None:
        return None
    found = read_distribution(text)
    if isinstance(found, Problem):
        section.report("distribution", found.message, found.remedy)
        return None
    return Distribution(*found, limits)


def read_distribution(text: str) -> tuple[str, tuple[Fraction, ...]] | Problem:
    """Return the kind and the parameters of a distribution such as `normal(0, 1)`."""
    match = _CALL.fullmatch(text)
    if not match:
        return Problem(f"{shown(text)} is no distribution", f"Allowed: {_FORMS}.")
    kind, listed = match.groups()
    if kind not in DISTRIBUTIONS:
        return Problem(f"unknown distribution {shown(kind)}", did_you_mean(kind, DISTRIBUTIONS))
    form, count = DISTRIBUTIONS[kind]
    try:
        values = tuple(_decimal(part) for part in listed.split(","))
    except ValueError:
        return Problem(f"{shown(text)} holds what is no number", f"Write {form}.")
    if len(values) != count:
        return Problem(f"{kind} takes {count} numbers, given {len(values)}", f"Write {form}.")
    if kind == "normal" and values[1] < 0:
        return Problem(f"the standard deviation of {shown(text)} is negative", f"Write {form}.")
    if kind in ("uniform", "integers") and values[0] > values[1]:
        return Problem(f"the bounds of {shown(text)} do not rise", f"Write {form}.")
    if kind == "integers" and any(value.denominator != 1 for value in values):
        return Problem(f"the bounds of {shown(text)} are no integers", f"Write {form}.")
    return kind, values


def _decimal(text: str) -> Fraction:
    number = float(text)
    if not abs(number) < 1e300 or (number == 0) != (not re.search("[1-9]", text.split("e")[0])):
        raise ValueError(text)
    return Fraction(text.strip())


def _data_file(section: Section, folder: pathlib.Path) -> DataFile | None:
    text = section.text("data")
    if text is None:
        return None
    path = (folder / text).resolve()
    if path.suffix not in DATA_SUFFIXES:
        allowed = " or ".join(DATA_SUFFIXES)
        section.report("data", f"{shown(text)} is no data file", f"Allowed: {allowed}.")
    elif not path.is_relative_to(folder.resolve()):
        message = f"{shown(text)} lies outside of the plan's folder"
        section.report("data", message, "Put the file beside the plan.")
    elif not path.is_file():
        section.report("data", f"there is no file {shown(text)}", "Name one in the plan's folder.")
    else:
        return DataFile(path, text)
    return None


def read_parameter(
    section: Section, parameter: Parameter, symbols: Mapping[str, Span | None]
) -> Value | None:
    """Return the value of a rule's parameter; a default where the plan gives none.

    Args:
        section: the transform.
        parameter: what the rule takes.
        symbols: the sizes of each symbol; None where they are not known.
    """
    name = parameter.name
    given = section.values.get(name)
    if given is None and parameter.default is not None:
        return parameter.default
    if given is None:
        section.missing(name, f"It is {parameter.meaning.rstrip('.')}.")
        return None
    try:
        value = _READERS[parameter.kind](parameter, given)
        if isinstance(value, Expression | Table):
            _check_symbols(value, symbols)
        if parameter.kind in ("count", "length"):
            _check_values(name, value, symbols)
        return value
    except InputError as error:
        for problem in error.problems:
            section.report(name, problem.message, problem.remedy)
    except LastbitError as error:
        section.report(name, str(error))
    return None


def _refused(parameter: Parameter, given: object, allowed: str) -> InputError:
    message = f"`{parameter.name}` is {shown(given)}"
    return InputError([Problem(message, f"Allowed: {allowed}.")])


def _number(parameter: Parameter, given: object) -> Value:
    if type(given) is int:
        return given
    if isinstance(given, str):
        expression = parse_expression(given)
        return expression if expression.symbols else expression.evaluate({})
    if isinstance(given, dict):
        return _table(parameter, given)
    raise _refused(parameter, given, f"an integer, an expression of symbols, or {_TABLE}")


def _table(parameter: Parameter, given: Mapping[str, object]) -> Table:
    by, rows = given.get("by"), given.get("table")
    if set(given) == {"by", "table"} and isinstance(by, str) and isinstance(rows, list):
        pairs = [tuple(row) for row in rows if isinstance(row, list)]
        whole = all(len(pair) == 2 and all(type(n) is int for n in pair) for pair in pairs)
        if whole and len(pairs) == len(rows):
            return Table(by, tuple((bound, value) for bound, value in pairs))
    raise _refused(parameter, given, _TABLE)


def _check_symbols(value: Expression | Table, symbols: Mapping[str, Span | None]) -> None:
    for symbol in sorted(value.symbols - symbols.keys()):
        remedy = did_you_mean(symbol, symbols) if symbols else "Declare it in `graph.symbols`."
        raise InputError([Problem(f"the size symbol {shown(symbol)} is not declared", remedy)])


def _check_values(name: str, value: Value, symbols: Mapping[str, Span | None]) -> None:
    """Refuse a number that is below 1, or has no value, at the ends of the ranges."""
    for sizes in _ends(value, symbols):
        number = value.evaluate(sizes) if isinstance(value, Expression | Table) else value
        if isinstance(number, int) and not 1 <= number <= MAX_SIZE:
            at = ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items())
            message = f"`{name}` is {shown(number)}{' at ' if at else ''}{at}"
            raise InputError([Problem(message, f"Allowed: 1 to {MAX_SIZE}.")])


def _ends(value: Value, symbols: Mapping[str, Span | None]) -> Iterator[dict[str, int]]:
    used = sorted(value.symbols) if isinstance(value, Expression | Table) else []
    spans = {name: span for name in used if (span := symbols.get(name)) is not None}
    if len(spans) == len(used):
        yield {name: span.low for name, span in spans.items()}
        yield {name: span.high for name, span in spans.items()}


def _format(parameter: Parameter, given: object) -> Value:
    if not isinstance(given, str):
        raise _refused(parameter, given, "the name of a format, such as bf16")
    return format_of(given[:80]).short


def _schedule(parameter: Parameter, given: object) -> Value:
    if not isinstance(given, str):
        raise _refused(parameter, given, "a schedule, such as split(4)")
    schedule = parse_schedule(given)
    check_machines(schedule)
    return str(schedule)


def _choice(parameter: Parameter, given: object) -> Value:
    if isinstance(given, str) and given in parameter.choices:
        return given
    raise _refused(parameter, given, ", ".join(parameter.choices))


_READERS: dict[str, Callable[[Parameter, object], Value]] = {
    "count": _number,
    "length": _number,
    "format": _format,
    "schedule": _schedule,
    "choice": _choice,
}


def check_machines(schedule: Schedule) -> None:
    """Refuse a schedule with a machine or a unit that does not exist.

    Raises:
        MachineError: the first of them.
    """
    for level in levels(schedule):
        if isinstance(level, Fused):
            machine_of(level.machine.split("/")[0])
            if isinstance(level.k, int) or "/" in level.machine:
                unit_of(level.unit)


def as_budget_ulp(section: Section) -> dict[str, Fraction]:
    """Return `max_ulp`: a number of ulp by the short name of a format."""
    table = section.section("max_ulp", f"`max_ulp` of {section.what}")
    found: dict[str, Fraction] = {}
    if table is None:
        return found
    for name, value in table.values.items():
        try:
            short = format_of(name[:80]).short
        except LastbitError as error:
            table.report(name, str(error), key=True)
            continue
        if not is_number(value) or value < 0:
            table.refuse(name, "a number of ulp, at least 0")
        elif short in found:
            table.report(name, f"`{short}` is given twice", "Give each format once.", key=True)
        else:
            found[short] = Fraction(value)
    return found
