"""Predict the bits of a matrix product: on a machine, by a schedule, with an epilogue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lastbit.engine.epilogue import Epilogue
from lastbit.engine.operands import singles_of
from lastbit.engine.product import Operand, Progress, matrix_product
from lastbit.engine.tape import Tape, record
from lastbit.errors import InputError, Problem
from lastbit.formats import F32, F64, Format, format_of
from lastbit.inference.arrays import codes_of, plain_array
from lastbit.levels import Fused, Schedule, bind, levels
from lastbit.machines import Machine, check_operands, machine_of
from lastbit.round_array import Codes, code_type, encode_array, round_array
from lastbit.rounding import Rounding
from lastbit.schedule import parse_schedule

ANYWHERE: Final = ("ieee", "ieee_fma")  # processors without matrix units are part of every machine
Draw: TypeAlias = Literal["normal", "wide", "finite", "bits"]
DRAWS: Final = ("normal", "wide", "finite", "bits")


@dataclass(frozen=True)
class MatmulSpec:
    """How a matrix product is computed.

    Attributes:
        machine: its name, such as `hopper`.
        left: the format of the left operand.
        right: the format of the right operand.
        schedule: the schedule, or its text; the machine's chain in the order of K if None.
        acc: the format of the accumulators.
        alpha: a factor of the accumulators, a value of their format.
        contract: whether alpha and a bias are applied with one rounding.
        out: the format of the output; that of the accumulators if None.
        saturate: whether an output beyond the range of its format becomes its largest number.
    """

    machine: str
    left: str
    right: str
    schedule: Schedule | str | None = None
    acc: str = "f32"
    alpha: float | None = None
    contract: bool = False
    out: str | None = None
    saturate: bool = False

    @cached_property
    def model(self) -> Machine:
        """The machine."""
        return machine_of(self.machine)

    @cached_property
    def formats(self) -> tuple[Format, Format]:
        """The formats of the operands."""
        return format_of(self.left), format_of(self.right)

    @cached_property
    def output(self) -> Rounding:
        """How the output is rounded.

        Raises:
            InputError: its format is of integers, or of powers of two.
        """
        fmt = format_of(self.out or self.acc)
        if fmt.kind != "float":
            remedy = "Outputs may be floating-point numbers, such as f32, bf16 or e4m3fn."
            raise _refused(f"no output is rounded to {fmt.short} here", remedy)
        return Rounding.of(fmt, overflow="saturate" if self.saturate else None)

    def bound(self, m: int, k: int, n: int) -> Schedule:
        """Return the schedule at the sizes of a product.

        Raises:
            LastbitError: it is no schedule, or it does not fit the machine.
        """
        schedule = self.schedule
        if schedule is None:
            unit = self.model.unit(self.left)
            return Fused(unit.width, unit.name)
        if isinstance(schedule, str):
            schedule = parse_schedule(schedule)
        for level in levels(schedule):
            own = level.unit.partition("/")[0] if isinstance(level, Fused) else self.machine
            if own not in (self.machine, *ANYWHERE):
                raise _refused(
                    f"the schedule `{schedule}` has steps of {own}, and the machine is "
                    f"{self.machine}",
                    f"Name {self.machine} in both, or {own}.",
                )
        return bind(schedule, {"M": m, "K": k, "N": n})

    def tape(self, m: int, k: int, n: int) -> Tape:
        """Return the instructions at the sizes of a product.

        Raises:
            LastbitError: the schedule, the machine and the formats do not fit one another.
        """
        tape = record(self.bound(m, k, n), k, format_of(self.acc).short)
        left, right = (fmt.short for fmt in self.formats)
        for chain in tape.chains():
            check_operands(chain.unit, left, right, chain.format)
        return tape

    def epilogue(self, bias: NDArray[np.float32] | None) -> Epilogue:
        """Return what is done with the accumulators.

        Raises:
            InputError: alpha is no value of their format.
        """
        acc = format_of(self.acc)
        alpha = self.alpha
        if alpha is not None:
            if not math.isfinite(alpha):
                raise _refused(f"alpha is {alpha!r}", "It is a finite number, such as 0.125.")
            nearest = float(round_array(np.array([alpha]), Rounding.of(acc))[0])
            if nearest != alpha:
                remedy = f"The nearest value is {nearest.hex()}."
                raise _refused(f"alpha is {alpha!r}, which is no value of {acc.short}", remedy)
        if self.contract and acc == F64:
            remedy = "Leave out contract, or accumulate in f32."
            raise _refused("no fused multiply-add of f64 is computed here", remedy)
        return Epilogue(self.model, acc, self.output, alpha, bias, self.contract)


def predict_matmul(
    a: Any,
    b: Any,
    machine: str,
    formats: str | tuple[str, str],
    schedule: Schedule | str | None = None,
    *,
    acc: str = "f32",
    alpha: float | None = None,
    bias: Any = None,
    contract: bool = False,
    out: str | None = None,
    saturate: bool = False,
    threads: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> Codes:
    """Return the bits of a matrix product as a machine computes them.

    Args:
        a: the left operand, `[M, K]`: codes of its format as integers of its width, or numbers that
            the format holds; of numpy, ml_dtypes or torch.
        b: the right operand, `[K, N]`, likewise.
        machine: the machine, such as `hopper`.
        formats: the format of both operands, or that of each.
        schedule: how each output is summed, or its text, in which M, K and N may stand; by default
            the machine's chain in the order of K.
        acc: the format of the accumulators.
        alpha: a factor of the accumulators, a value of their format; the product is rounded to it.
        bias: `[N]`, float32 values or numbers that it holds, added after alpha and rounded.
        contract: whether alpha and bias are applied with one rounding, as a fused multiply-add.
        out: the format of the output; that of the accumulators by default.
        saturate: whether an output beyond the range becomes the largest number.
        threads: how many work at once; as many as there are cores by default.
        device: a device of torch, such as `cuda`; numpy computes by default.
        progress: called now and then with the outputs done and their number.

    Returns:
        The codes of the outputs, `[M, N]`, as unsigned integers.

    Raises:
        LastbitError: the machine, the formats, the schedule and the operands do not fit.
    """
    left, right = (formats, formats) if isinstance(formats, str) else formats
    spec = MatmulSpec(
        machine, left, right, schedule, acc, alpha, contract, out=out, saturate=saturate
    )
    codes_a = _operand(a, spec.formats[0], "a")
    codes_b = _operand(b, spec.formats[1], "b")
    codes_bias = None if bias is None else _operand(bias, F32, "bias")
    return predict_codes(spec, codes_a, codes_b, codes_bias, threads, device, progress)


def predict_codes(
    spec: MatmulSpec,
    a: Codes,
    b: Codes,
    bias: Codes | None = None,
    threads: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> Codes:
    """Return the codes of the outputs, given codes of the operands and of a binary32 bias.

    Raises:
        LastbitError: the machine, the formats, the schedule and the operands do not fit.
    """
    left, right = Operand(a, spec.formats[0]), Operand(b, spec.formats[1])
    (m, k), n = a.shape, b.shape[1]
    tape = spec.tape(m, k, n)
    if bias is not None and bias.shape != (n,):
        raise _refused(f"the bias has the shape {list(bias.shape)}", f"It holds {n} values.")
    epilogue = spec.epilogue(None if bias is None else singles_of(bias, F32))
    out = np.empty((m, n), code_type(spec.output.format))
    if device is None:
        matrix_product(left, right, tape, epilogue.codes, out, threads, progress)
        return out
    from lastbit.engine.torch_product import torch_product

    acc = torch_product(left, right, tape, device)
    if out.size:
        out[...] = epilogue.codes(acc, slice(0, n))
    return out


def _operand(value: Any, fmt: Format, name: str) -> Codes:
    found = plain_array(value)
    if found is None:
        kind = type(value).__name__
        raise _refused(f"`{name}` is a {kind}", "Give an array of numpy or torch.")
    codes = codes_of(*found, fmt)
    if isinstance(codes, str):
        raise _refused(f"`{name}` holds {codes}", f"Give values or codes of {fmt.short}.")
    return codes


def draw_codes(shape: Sequence[int], fmt: Format, draw: str, rng: np.random.Generator) -> Codes:
    """Return drawn codes.

    Args:
        shape: their shape.
        fmt: their format.
        draw: `normal`, the normal distribution, rounded; `wide`, that times powers of two from half
            the exponent range of the format; `bits`, random bits, NaN and infinities included;
            `finite`, random bits but for the highest of the exponent, which is 0: subnormal numbers
            and those below 2, so that no sum of products overflows.
        rng: the source of the draws.
    """
    if draw in ("bits", "finite"):
        codes = rng.integers(0, 1 << fmt.bits, tuple(shape), np.uint64)
        if draw == "finite":
            codes &= np.uint64(~(1 << (fmt.bits - 1 - fmt.signed)) & ((1 << fmt.bits) - 1))
            if not fmt.has_negative_zero:  # its code may be that of NaN
                codes[codes == 1 << (fmt.bits - 1)] = 0
        return (codes << np.uint64(fmt.padding)).astype(code_type(fmt))
    values = rng.standard_normal(tuple(shape))
    if draw == "wide":
        values *= 2.0 ** rng.integers(fmt.emin // 2, fmt.emax // 2 + 1, values.shape)
    return encode_array(round_array(values, Rounding.of(fmt, overflow="saturate")), fmt)


def _refused(message: str, remedy: str) -> InputError:
    return InputError([Problem(message, remedy)])
