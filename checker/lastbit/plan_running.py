"""Read how a program runs: on which device, in which kernels, and in which tiles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from lastbit.cost.devices import DEVICES, Device
from lastbit.cost.kernels import CycleError, kernels_of
from lastbit.cost.placement import ALL, Placement, Tile
from lastbit.definitions import Definitions, reference
from lastbit.errors import did_you_mean
from lastbit.plan_graph import Graphs
from lastbit.plan_model import Launch
from lastbit.plan_section import Section, is_number, shown
from lastbit.statement import MAX_SIZE

KERNEL = ("values", "rows", "columns", "depth", "buffers", "threads", "registers", "loads")
NUMBERS = tuple(
    field.name for field in dataclasses.fields(Device) if field.name not in ("name", "source")
)
PRODUCT = {"sms", "bandwidth"}  # of one product; the peak of another says nothing beside them
OPTIONAL = ("peak", "warp", "block_threads", "thread_registers", "register_unit")
ACCUMULATORS = ("shared", "registers")
SPLIT = ("loop", "blocks")
MOST = 10**18  # of any number of a device


def read_device(
    root: Section, target: Section | None, found: Mapping[str, Device]
) -> Device | None:
    """Return the device of [target].

    Args:
        root: the plan.
        target: its table.
        found: the devices that are known, and those that the plan adds.
    """
    if target is None:
        return None
    given = target.text("device")
    if given is None or given in found:
        return None if given is None else found[given]
    if given not in (root.section("device") or root).values:  # else it is reported there
        longer = [name for name in found if name.startswith(given)]
        remedy = did_you_mean(given, longer or found)
        target.report("device", f"unknown device {shown(given)}", remedy)
    return None


def read_latency(target: Section | None) -> int | None:
    """Return how long a load takes on the target."""
    return None if target is None else _number(target, "latency_ns")


def read_devices(root: Section) -> dict[str, Device]:
    """Return the devices by name: those that are known, and those that the plan adds."""
    table = root.section("device")
    found = dict(DEVICES)
    for name in table.values if table else ():
        assert table is not None
        if name in DEVICES:
            table.report(name, f"the device {shown(name)} is known already", "Take another name.")
            continue
        section = table.section(name, f"[device.{name}]")
        device = _device(name, section) if section else None
        if device is not None:
            found[name] = device
    return found


def _device(name: str, section: Section) -> Device | None:
    section.only("like", "source", *NUMBERS)
    like = section.choice("like", DEVICES, "device")
    source = section.text("source")
    section.missing("source", "Say where the numbers come from.")
    numbers = {key: value for key in NUMBERS if (value := _number(section, key)) is not None}
    if like is not None:
        first = DEVICES[like]
        peak = first.peak if PRODUCT.isdisjoint(numbers) else None
        first = dataclasses.replace(first, name=name, source=source or "", peak=peak)
        return dataclasses.replace(first, **numbers)  # type: ignore[arg-type]
    if "like" in section:
        return None
    needed = [key for key in NUMBERS if key not in OPTIONAL]
    missing = [key for key in needed if key not in section and key not in section.misspelt]
    if missing:
        listed = ", ".join(f"`{key}`" for key in missing)
        remedy = 'Give them, or a device to start from: like = "h100-sxm".'
        section.report(None, f"{section.what} has no {listed}", remedy)
    if source is None or any(key not in numbers for key in needed):
        return None
    return Device(name=name, source=source, **{"peak": None, **numbers})  # type: ignore[arg-type]


def _number(section: Section, name: str, most: int = MOST) -> int | None:
    """Return a whole number of at least 1."""
    if name not in section:
        return None
    value = section.values[name]
    if is_number(value) and Fraction(value).denominator == 1 and 1 <= value <= most:
        return int(value)
    section.refuse(name, f"a whole number from 1 to {most}")
    return None


def read_launches(root: Section, graphs: Graphs) -> tuple[Launch, ...]:
    """Return the kernels that the plan describes; each value is computed in one of them."""
    found = tuple(_launches(root, graphs))
    if found and not root.source.problems:
        _check_order(root, graphs, found)
    return found


def _check_order(root: Section, graphs: Graphs, launches: Sequence[Launch]) -> None:
    """Report a kernel that would have to wait for itself."""
    sizes = {name: span.typical for name, span in graphs.symbols.items() if span}
    nodes = graphs.program.nodes(sizes, reference)
    program = Definitions(nodes, graphs.program.outputs)
    sections = list(root.sections("kernel"))
    for number in range(len(launches)):
        together = tuple(frozenset(other.values) for other in launches[: number + 1])
        try:
            kernels_of(program, Placement(together=together))
        except CycleError as error:
            message, remedy = str(error).split(". ", 1)
            sections[number].report("values", message, remedy)
            return


def _launches(root: Section, graphs: Graphs) -> Iterator[Launch]:
    taken: dict[str, int] = {}
    inputs = {s.name for s in graphs.program.statements if s.expr is None}
    for section in root.sections("kernel"):
        section.only(*KERNEL, "accumulators", "split")
        values = section.texts("values")
        if section.values.get("values") == []:
            section.refuse("values", "at least one name of a value")
        section.missing("values", 'Name the values that it computes: values = ["t", "z"].')
        for name, path in values.items():
            if not graphs.knows(section, path, name):
                continue
            if name in inputs:
                message = f"`{name}` is an input, which no kernel computes"
                section.source.report(path, message, "Name values that the graph defines.")
            elif name in taken:
                message = f"`{name}` is in two kernels"
                section.source.report(path, message, f"Line {taken[name]} names it already.")
            taken.setdefault(name, section.place().line)
        split = section.choice("split", SPLIT, "way to run a split sum") == "blocks"
        yield Launch(tuple(values), _tile(section), section.place(), split)


def _tile(section: Section) -> Tile:
    accumulators = section.choice("accumulators", ACCUMULATORS, "place of the running sums")
    return Tile(
        rows=_size(section, "rows"),
        columns=_size(section, "columns"),
        depth=_size(section, "depth"),
        buffers=_number(section, "buffers", 64) or 1,
        threads=_number(section, "threads", 1 << 16),
        registers=_number(section, "registers", 1 << 16),
        loads=_number(section, "loads", 1 << 16),
        in_registers=accumulators == "registers",
    )


def _size(section: Section, name: str) -> int | None:
    if section.values.get(name) == "all":
        return ALL
    value = section.values.get(name)
    if type(value) is int and 1 <= value <= MAX_SIZE:
        return value
    if name in section:
        section.refuse(name, f'1 to {MAX_SIZE}, or "all"')
    return None
