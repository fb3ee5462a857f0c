"""Machine models: how matrix units add, as data, and their step in exact rationals."""

from __future__ import annotations

from dataclasses import dataclass

from lastbit.errors import LastbitError, did_you_mean
from lastbit.formats import Format, encode, format_of
from lastbit.machines.step import (
    Product,
    StepError,
    check_operands,
    check_step,
    product,
    result_code,
    step,
)
from lastbit.machines.table import UNITS, Measurement, Unit

__all__ = [
    "MACHINES",
    "UNITS",
    "Machine",
    "MachineError",
    "Measurement",
    "Product",
    "StepError",
    "Unit",
    "check_operands",
    "check_step",
    "machine_of",
    "product",
    "result_code",
    "step",
    "unit_of",
]


class MachineError(LastbitError):
    """A machine, or a unit of it, that is not known.

    Attributes:
        name: what was asked for.
        reason: what is wrong with it.
        remedy: what is known.
    """

    def __init__(self, name: str, reason: str, remedy: str) -> None:
        self.name, self.reason, self.remedy = name, reason, remedy
        super().__init__(f"machine {name!r}: {reason}. {remedy}")


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine and its matrix units."""

    name: str
    units: tuple[Unit, ...]

    def unit(self, inputs: str) -> Unit:
        """Return the unit for operands of a format.

        Raises:
            MachineError: no unit of this machine takes the format.
            UnknownFormatError: there is no such format.
        """
        short = format_of(inputs).short
        for unit in self.units:
            if short in unit.inputs:
                return unit
        known = ", ".join(name for unit in self.units for name in unit.inputs)
        raise MachineError(self.name, f"no matrix unit takes {short}", f"Known: {known}.")

    def nan_code(self, fmt: Format) -> int:
        """Return the code that the machine writes for NaN in a format that has one."""
        if self.units[0].nan == "ones" and fmt.has_inf:
            return ((1 << (fmt.bits - 1)) - 1) << fmt.padding
        return encode(fmt.nan, fmt)

    def unit_of_width(self, width: int) -> Unit:
        """Return the unit whose step takes `width` products.

        Raises:
            MachineError: no unit of this machine has the width.
        """
        for unit in self.units:
            if unit.width == width:
                return unit
        known = ", ".join(f"{unit.width} ({', '.join(unit.inputs)})" for unit in self.units)
        raise MachineError(self.name, f"no step takes {width} products", f"Known: {known}.")


MACHINES: dict[str, Machine] = {
    name: Machine(name, tuple(unit for unit in UNITS if unit.machine == name))
    for name in dict.fromkeys(unit.machine for unit in UNITS)
}


def machine_of(name: str) -> Machine:
    """Return a machine by its name, such as `hopper`.

    Raises:
        MachineError: the name is not known; the message lists those that are.
    """
    if name in MACHINES:
        return MACHINES[name]
    near = did_you_mean(name, MACHINES)
    known = f"Known: {', '.join(sorted(MACHINES))}."
    remedy = f"{near} {known}" if near.startswith("Did") else known
    raise MachineError(name, "it is not known", remedy)


def unit_of(name: str) -> Unit:
    """Return the matrix unit that a level of a schedule names, such as `hopper/16`.

    Raises:
        MachineError: the machine is not known, or has no such unit.
    """
    machine, _, width = name.partition("/")
    if not width.isdecimal():
        raise MachineError(name, "it names no unit", "Write machine/width, such as hopper/16.")
    return machine_of(machine).unit_of_width(int(width))
