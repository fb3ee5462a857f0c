"""Infer by which schedule a product summed some of its outputs, in a batch of a given size.

First from the program's own numbers; where several schedules give these, the operator is called
with operands on which they differ.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from lastbit.audit.calling import Call
from lastbit.audit.case import Case
from lastbit.audit.contraction import Contraction
from lastbit.audit.probing import blank, own
from lastbit.audit.row_results import Places
from lastbit.audit.taking import Rows
from lastbit.audit.tensor_values import (
    as_integers,
    codes_of_tensor,
    format_of_tensor,
    indexed,
    values_of_tensor,
)
from lastbit.errors import LastbitError
from lastbit.formats import F32
from lastbit.inference.arrays import native
from lastbit.inference.products import infer_matmul
from lastbit.inference.records import Explained, Inferred
from lastbit.inference.search import Progress
from lastbit.levels import Split
from lastbit.round_array import Codes, encode_array, round_array
from lastbit.rounding import Rounding

Tensor: TypeAlias = Any  # of torch, which is imported when it is needed

COLUMNS: Final = 128  # of the output that are looked at
ROWS: Final = 4
CAPABILITIES: Final = {7: "volta", 8: "ampere", 9: "hopper", 10: "blackwell"}


@dataclass(frozen=True, slots=True)
class Schedules:
    """The schedules that give the bits of some outputs.

    Attributes:
        first: the plainest of them, or the nearest where there is none.
        count: how many others give them too.
        equal: how many outputs `first` gives.
        total: how many there are.
    """

    first: str
    count: int
    equal: int
    total: int

    @property
    def found(self) -> bool:
        """Return whether one schedule, or several, give all bits."""
        return self.equal == self.total

    @property
    def text(self) -> str:
        """Return the schedule, with what else gives the same bits."""
        more = f" or one of {self.count} others with the same bits" if self.count else ""
        return f"{self.first}{more}"


def machine_of_device(device: str) -> str | None:
    """Return the machine whose matrix unit a device has; None where none is known."""
    import torch

    if not device.startswith("cuda") or torch.version.hip is not None:
        return None
    major, minor = torch.cuda.get_device_capability(device)
    return "ada" if (major, minor) == (8, 9) else CAPABILITIES.get(major)


def inferred(
    case: Case,
    form: Contraction,
    rows: Rows | None,
    flat: Places,
    machine: str,
    seconds: float,
    number: int = 0,
) -> Schedules | str:
    """Return the schedules that give some outputs, or why none is known.

    Args:
        case: the operator, a product.
        form: what it adds up for these rows.
        rows: of the batch, as in `Case.arguments`.
        flat: places in the result, counted along its axes, the first of which are looked at.
        machine: on which it runs.
        seconds: after which the search ends.
        number: of the result among those of the operator.
    """
    if form.right is None:
        return "only schedules of products are inferred"
    call = Call.of(case, rows)
    given = call.named
    left, right = (format_of_tensor(given[one.name]) for one in (form.left, form.right))
    if left is None or right is None or form.alpha != 1 or form.beta != 1:
        return "only plain products of floating-point numbers are inferred"
    z, ms, ns = _block(form, flat)
    result = call.run()[number]
    a = codes_of_tensor(indexed(form.left.read(given[form.left.name])[z], ms))
    b = codes_of_tensor(indexed(form.right.read(given[form.right.name])[z], (slice(None), ns)))
    seen = indexed(indexed(form.output(result)[z], ms), (slice(None), ns))
    out = format_of_tensor(seen)
    if out is None:
        return "only products of floating-point numbers are inferred"
    formats = left.short, right.short
    options: dict[str, Any] = {
        "machine": machine,
        "out": out.short,
        "units_only": True,
        "progress": _until(time.monotonic() + seconds),
    }
    try:
        epilogue = _epilogue(form, given, ms, ns)
        first = infer_matmul(a, b, codes_of_tensor(seen), formats, **options, **epilogue)
        if not first.ambiguous or not first.inputs:
            return _schedules(first)
        told = _told(form, call, (z, ms, ns), first.inputs, number)
        codes = codes_of_tensor(told.observed)
        second = infer_matmul(told.left, told.right, codes, formats, **options)
    except _LateError:
        return f"the schedule was not inferred within {seconds:.3g} s"
    except LastbitError as error:
        return str(error)
    return _both(first, second)


class _LateError(Exception):
    """The time is over."""


def _until(end: float) -> Progress:
    """Return what ends a search by an error when the time is over."""

    def progress(done: int, total: int, text: str) -> None:
        if time.monotonic() > end:
            raise _LateError

    return progress


def _block(form: Contraction, flat: Places) -> tuple[int, list[int], list[int]]:
    """Return a matrix of outputs at the first of some places: one z, a few rows and columns."""
    places = [form.place(int(one)) for one in flat]
    z = places[0][0]
    rows = list(dict.fromkeys(m for other, m, _ in places if other == z))[:ROWS]
    columns = list(dict.fromkeys(n for other, _, n in places if other == z))
    return z, rows, sorted(columns[:COLUMNS])


def _epilogue(
    form: Contraction, given: Mapping[str, Any], rows: list[int], columns: list[int]
) -> dict[str, Any]:
    """Return what is done with the sums, as arguments of `infer_matmul`."""
    found: dict[str, Any] = {}
    if form.scales:
        alpha = np.prod([np.float32(given[name].item()) for name in form.scales], dtype=np.float32)
        found["alpha"] = float(alpha)
    addend = form.addend_of(given)
    if addend is not None:
        values = values_of_tensor(addend[0][rows][:, columns])
        if len(np.unique(values, axis=0)) > 1:
            raise LastbitError("what is added is a matrix, and only a bias of columns is inferred")
        found["bias"] = encode_array(round_array(values[0], Rounding.of(F32)), F32)
    return found


@dataclass(frozen=True, slots=True)
class _Told:
    left: Codes
    right: Codes
    observed: Tensor


def _told(
    form: Contraction,
    call: Call,
    block: tuple[int, list[int], list[int]],
    offered: Mapping[str, Codes],
    number: int,
) -> _Told:
    """Call the operator with operands that tell schedules apart, one row at a time."""
    import torch

    assert form.right is not None
    z, rows, columns = block
    given = call.named
    left, right = own(given[form.left.name]), own(given[form.right.name])
    a, b = offered["a"], offered["b"][:, : len(columns)]
    columns = columns[: b.shape[1]]
    formats = [format_of_tensor(one) for one in (left, right)]
    assert formats[0] is not None
    assert formats[1] is not None
    device = str(left.device)
    factor = as_integers(native(b, formats[1], "torch", device))
    matrix = torch.zeros(form.right.shape, dtype=factor.dtype, device=device)
    matrix[z][:, columns] = factor
    form.right.write(as_integers(right), matrix)
    new: dict[str, Any] = {form.left.name: left, form.right.name: right}
    call = call.with_arguments(new | blank(form, given))
    seen = []
    vectors = as_integers(native(a, formats[0], "torch", device))
    for vector in vectors:
        matrix = torch.zeros(form.left.shape, dtype=vector.dtype, device=device)
        matrix[z, rows[0]] = vector
        form.left.write(as_integers(left), matrix)
        seen.append(indexed(form.output(call.run()[number])[z, rows[0]], columns))
    return _Told(a, b, torch.stack(seen))


def _schedules(found: Inferred) -> Schedules | str:
    nearest = found.nearest
    if nearest is None:
        return "no schedule could be run"
    alike = max(0, len(found.variants) - 1)
    return Schedules(_named(nearest, found), alike, nearest.equal, nearest.total)


def _named(one: Explained, found: Inferred) -> str:
    """Return a schedule, as pieces where it can be written so: their number may follow the batch.

    Products of 8 bits are promoted by libraries, and are left as they are.
    """
    texts = [one.schedule or "", *one.alike]
    if found.formats["a"].bits <= 8:
        return texts[0]
    return next((text for text in texts if text.startswith(f"{Split.word}(")), texts[0])


def _both(first: Inferred, second: Inferred) -> Schedules | str:
    """Return what gives the program's own numbers and those that tell schedules apart."""
    known = {one.schedule for one in first.variants}
    both = [one for one in second.variants if one.schedule in known]
    if not both:
        return "no schedule gives both the program's own numbers and those that tell them apart"
    totals = first.variants[0].total + both[0].total
    return Schedules(_named(both[0], second), len(both) - 1, totals, totals)
