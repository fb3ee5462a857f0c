"""What a budget lets a program do: the orders of a sum, and what is rounded on the way.

An operation is written as a program in text form, so that its roundings are counted, and its legal
results computed, by the same code as those of any other program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lastbit.errors import InputError, Problem
from lastbit.formats import format_of
from lastbit.graph import Graph
from lastbit.machines import machine_of
from lastbit.text import parse_program
from lastbit.tolerance.operations import EPSILON
from lastbit.tolerance.records import Subject

ANY_ORDER: Final = "any_order"
SUMS: Final = ("sum", "mean", "norm", "matmul")


@dataclass(frozen=True, slots=True)
class Contract:
    """What is rounded between the inputs and the result.

    Attributes:
        step: the format to which each step is rounded, or `real`.
        stored: that to which a finished sum is rounded.
        last: that to which the result is rounded before its own format, or `real`.
    """

    step: str
    stored: str
    last: str

    def __str__(self) -> str:
        if self.step == "real":
            return "no step rounded"
        return f"steps rounded to {self.step}"


def contracts(subject: Subject) -> tuple[Contract, ...]:
    """Return the contracts between which the budget lets a program choose."""
    acc, fmt = subject.acc, subject.format
    last = "real" if acc == fmt else acc
    wide, narrow = Contract(acc, acc, last), Contract(fmt, fmt, last)
    if subject.budget == "rounding":
        return tuple(dict.fromkeys((Contract("real", acc, "real"), wide, narrow)))
    return (wide,)


def pairs(subject: Subject) -> tuple[tuple[Contract, Contract], ...]:
    """Return the pairs of contracts whose results may stand beside each other.

    One contract gives other bits only where a sum may be added up in another order.
    """
    if subject.budget == "bitwise":
        return ()
    found = contracts(subject)
    same = subject.op in SUMS
    return tuple((a, b) for i, a in enumerate(found) for b in found[i if same else i + 1 :])


def matrix_unit(subject: Subject) -> str:
    """Return the schedule of the machine's matrix unit; empty where it has none.

    A chain of its steps is the worst of its orders: a sum that is split has fewer on a term's way,
    and adds the pieces with one rounding each, which is less than what a step cuts.

    Raises:
        InputError: the operation is no matmul.
        MachineError: there is no such machine, or no unit of it takes the format.
    """
    if not subject.machine:
        return ""
    if subject.op != "matmul":
        message = f"machine is {subject.machine!r}, and a matrix unit computes no {subject.op}"
        raise InputError([Problem(message, "Leave it out, or write --op matmul.")])
    width = machine_of(subject.machine).unit(subject.format).width
    if width == 1:  # it adds one product at a time, which is an order of additions
        return ""
    return f"fused({width}, {subject.machine})"


def graph_of(
    subject: Subject,
    contract: Contract,
    schedule: str,
    out: str,
    sizes: tuple[int, int, int] | None = None,
) -> Graph:
    """Return an operation as a graph.

    Args:
        subject: the operation.
        contract: what it rounds.
        schedule: how it adds up.
        out: the format of the result, or `real`.
        sizes: rows, terms of each sum and columns of the result; if null, one row, and of a matmul
            one column, written out as products and their sum.
    """
    rows, terms, columns = sizes or (1, terms_of(subject), 1)
    text = program_text(subject, contract, schedule, out, terms, apart=sizes is None)
    program = parse_program(text)
    given = {"M": rows, "N": terms, "C": columns}
    return program.bind({name: size for name, size in given.items() if name in program.symbols})


def terms_of(subject: Subject) -> int:
    """Return the size of the last axis of the input."""
    return subject.shape[-1]


def program_text(
    subject: Subject, contract: Contract, schedule: str, out: str, terms: int, *, apart: bool
) -> str:
    """Return an operation in text form; `apart` writes a product and its sum as two steps."""
    fmt, acc = subject.format, subject.acc
    step, stored, last = contract.step, contract.stored, contract.last
    by = f"acc {acc} {schedule}"
    lines = [f"x: {fmt}[M, N]"]
    match subject.op:
        case "elementwise":
            lines += [f"w: {fmt}[M, N]", f"t: {step} = silu(x)", f"z: {last} = t * w"]
        case "sum":
            lines += [f"z: {stored} = sum(x, axis=1) {by}"]
        case "mean":
            lines += [f"s: {stored} = sum(x, axis=1) {by}", f"z: {last} = s / {terms}"]
        case "matmul" if apart:
            product = product_format(subject)
            lines += [f"w: {fmt}[M, N]", f"p: {product} = x * w"]
            lines += [f"z: {stored} = sum(p, axis=1) {by}"]
        case "matmul":
            lines += [f"w: {fmt}[N, C]", f"z: {stored} = matmul(x, w) {by}"]
        case _:
            square = product_format(subject) if step == acc else step
            lines += [f"w: {fmt}[N]", f"q: {square} = x * x", f"s: {stored} = sum(q, axis=1) {by}"]
            lines += [f"m: {step} = s / {terms}", f"v: {step} = m + {EPSILON!r}"]
            lines += [f"r: {step} = rsqrt(v)", f"n: {step} = x * r", f"z: {last} = n * w"]
    return "\n".join([*lines, f"y: {out} = z"])


def product_format(subject: Subject) -> str:
    """Return what a product of two inputs is rounded to: to nothing where it is held exactly."""
    exact = format_of(subject.acc).precision >= 2 * format_of(subject.format).precision
    return "real" if exact else subject.acc
