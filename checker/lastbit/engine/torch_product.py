"""Whole matrix products with torch, on any device: the bits of `lastbit.engine.product`.

A chain of a matrix unit runs in one kernel on an NVIDIA GPU (`cuda_chain`). Elsewhere, and where
that kernel cannot be compiled, it runs in binary64 with torch's operators, step by step as
`lastbit.engine.wide` does. Sums in binary32 of partial results are torch's own; roundings to other
formats are done by numpy.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lastbit.engine.cuda_chain import CompilerError, cuda_chain, is_narrow
from lastbit.engine.device_block import DeviceBlock
from lastbit.engine.narrow import fits
from lastbit.engine.operands import NO_EXPONENT
from lastbit.engine.product import Operand, OperandError
from lastbit.engine.tape import Add, Chain, Convert, Leaf, Register, Tape, Value, Zero
from lastbit.engine.tiles import hold_products
from lastbit.engine.wide import Array, added, carrier, rounded
from lastbit.formats import F32, format_of
from lastbit.machines import Unit
from lastbit.rounding import Rounding

Tensor: TypeAlias = Any  # of torch, which is imported when it is needed

MOST_PRODUCTS: Final = 1 << 22  # of a step that exist at once, with torch's operators
LARGEST: Final = 256  # above every exponent that counts
SLOW: Final = "the kernel for NVIDIA GPUs cannot be used, so torch's operators compute, slowly: {}"


def torch_product(left: Operand, right: Operand, tape: Tape, device: str) -> NDArray[Any]:
    """Return every output of a matrix product, as values of the tape's format.

    Args:
        left: the left operand, `[M, K]`.
        right: the right operand, `[K, N]`.
        tape: the instructions over K products.
        device: of torch, such as `cpu` or `cuda`.

    Raises:
        OperandError: the sizes of K differ, torch is missing or has no such device, or it does not
            do the steps of a matrix unit of the schedule.
    """
    (m, k), (other, n) = left.codes.shape, right.codes.shape
    if k != other:
        what = f"a is [{m}, {k}] and b is [{other}, {n}]"
        raise OperandError(what, "The second size of a is the first of b.")
    for chain in tape.chains():
        if chain.unit.method != "aligned" or chain.format != "f32":
            what = f"torch does no steps of `{chain.unit}` with an accumulator of {chain.format}"
            raise OperandError(what, "Leave out the device: numpy does.")
    with np.errstate(all="ignore"):
        return _Product(left, right, tape, device).run()


class _Product:
    def __init__(self, left: Operand, right: Operand, tape: Tape, device: str) -> None:
        self.torch = _torch()
        try:
            self.device = self.torch.zeros(1, device=device).device
        except (RuntimeError, AssertionError, ValueError) as error:
            what = f"torch has no device {device!r} here ({str(error).splitlines()[0]})"
            raise OperandError(what, "Name another, or leave it out.") from None
        self.by_kernel = self.device.type == "cuda"
        self.tape = tape
        self.left = DeviceBlock.of(left.codes, left.format, self.device, transposed=True)
        self.right = DeviceBlock.of(right.codes, right.format, self.device, transposed=False)
        self.is_light = hold_products(self.left, self.right)
        self.registers: dict[int, Tensor] = {}
        self.held: dict[str, Tensor] = {}

    def run(self) -> NDArray[Any]:
        """Return the outputs."""
        for instruction in self.tape.instructions:
            match instruction:
                case Add(out=out, a=a, b=b, format=fmt):
                    value = self._sum(self._read(a), self._read(b), fmt)
                case Convert(out=out, a=a, format=fmt):
                    value = self._rounded(self._read(a), fmt)
                case Chain(out=out):
                    value = self._chain(instruction)
            self.registers[out] = value
        shape = (self.left.codes.shape[1], self.right.codes.shape[1])
        result = self._read(self.tape.result).broadcast_to(shape).cpu().numpy()
        return np.asarray(result, carrier(format_of(self.tape.format)))

    def _read(self, value: Value) -> Tensor:
        match value:
            case Zero():
                return self.torch.zeros((), device=self.device)
            case Register(number=number):
                return self.registers.pop(number)
            case Leaf(place=place):
                kind = "singles" if self.is_light else "values"
                a, b = (self._tensor(side, kind) for side in ("left", "right"))
                return a[place, :, None] * b[place, None, :]

    def _tensor(self, side: str, kind: str) -> Tensor:
        """Return an operand as numbers of a kind, made once."""
        name = f"{side} {kind}"
        if name not in self.held:
            self.held[name] = getattr(getattr(self, side), kind)
        return self.held[name]

    def _sum(self, a: Tensor, b: Tensor, fmt: str) -> Tensor:
        single = self.torch.float32
        if fmt == F32.short and a.dtype == b.dtype == single:
            return a + b
        return self._by_numpy(added, fmt, a, b)

    def _rounded(self, a: Tensor, fmt: str) -> Tensor:
        if fmt == F32.short:
            return a.to(self.torch.float32)
        return self._by_numpy(rounded, fmt, a)

    def _by_numpy(self, function: Any, fmt: str, *xs: Tensor) -> Tensor:
        arrays: list[Array] = [x.cpu().numpy() for x in xs]
        with np.errstate(all="ignore"):
            out = function(*arrays, Rounding.of(fmt))
        return self.torch.from_numpy(np.array(out)).to(self.device)

    def _chain(self, chain: Chain) -> Tensor:
        """Return the accumulators after a chain; its pieces lie one after the other, padded."""
        places = self._places(chain)
        if self.by_kernel:
            try:
                return self._chain_by_kernel(chain, places)
            except CompilerError as error:
                self.by_kernel = False
                warnings.warn(SLOW.format(error), RuntimeWarning, stacklevel=2)
        operands = [
            self._picked(side, kind, places)
            for side in ("left", "right")
            for kind in ("values", "exponents")
        ]
        return _by_steps(self.torch, chain.unit, *operands)

    def _chain_by_kernel(self, chain: Chain, places: NDArray[np.intp]) -> Tensor:
        operands = self.left, self.right
        narrow = is_narrow(chain.unit) and fits(chain, *operands)
        kind = "scaled" if narrow else "singles"
        a, b = (self._picked(side, kind, places) for side in ("left", "right"))
        acc = cuda_chain(chain.unit, a, b, operands, narrow)
        return acc * 2.0 ** sum(x.extent.most for x in operands) if narrow else acc

    def _places(self, chain: Chain) -> NDArray[np.intp]:
        """Return the places along K that each step takes, and K where it takes nothing."""
        width, k = chain.unit.width, self.tape.k
        places = np.full((len(chain.pieces), width), k, np.intp)
        every = np.arange(k)
        for row, piece in zip(places, chain.pieces, strict=True):
            taken = every[piece]
            row[: len(taken)] = taken
        return places.ravel()

    def _picked(self, side: str, kind: str, places: NDArray[np.intp]) -> Tensor:
        """Return an operand at some places along K; past its end there are zeros."""
        tensor = self._tensor(side, kind)
        if np.array_equal(places, np.arange(len(tensor))):
            return tensor
        empty = NO_EXPONENT if kind == "exponents" else 0
        end = self.torch.full_like(tensor[:1], empty)
        index = self.torch.from_numpy(places.astype(np.int64)).to(self.device)
        return self.torch.cat([tensor, end]).index_select(0, index)


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        what = "torch is not installed"
        raise OperandError(what, "Install `lastbit[torch]`, or leave out the device.") from None


def _by_steps(torch: Any, unit: Unit, a: Tensor, ea: Tensor, b: Tensor, eb: Tensor) -> Tensor:
    """Return the accumulators after a chain, in binary64 as `lastbit.engine.wide` computes them."""
    rows, columns = a.shape[1], b.shape[1]
    height = max(1, MOST_PRODUCTS // max(1, unit.width * columns))
    parts = [
        _rows_by_steps(torch, unit, a[:, i : i + height], ea[:, i : i + height], b, eb)
        for i in range(0, rows, height)
    ]
    return torch.cat(parts) if parts else a.new_zeros((0, columns), dtype=torch.float32)


def _rows_by_steps(torch: Any, unit: Unit, a: Tensor, ea: Tensor, b: Tensor, eb: Tensor) -> Tensor:
    acc = a.new_zeros((a.shape[1], b.shape[1]))
    for k in range(0, len(a), unit.width):
        step = slice(k, k + unit.width)
        products = a[step][:, :, None] * b[step][:, None, :]
        largest = (ea[step][:, :, None] + eb[step][:, None, :]).amax(0)
        acc = _step(torch, unit, acc, products, largest)
    return acc.to(torch.float32)


def _step(torch: Any, unit: Unit, acc: Tensor, products: Tensor, largest: Tensor) -> Tensor:
    """Return the accumulators after one step; all are in binary64."""
    fields = (acc.view(torch.int64) >> 52) & 0x7FF
    own = torch.where(acc == 0, NO_EXPONENT, (fields - 1023).clamp(min=F32.emin))
    e = torch.maximum(largest.to(torch.int64), own)
    e = e.clamp(unit.least_exponent("f32"), LARGEST)
    up, down = (_power(torch, s * (unit.fraction_bits - e)) for s in (1, -1))
    total = (torch.trunc(products * up).sum(0) + torch.trunc(acc * up)) * down
    cut = (total.view(torch.int64) & -(1 << (52 - unit.result_bits))).view(torch.float64)
    quantum = 2.0 ** (F32.emin - unit.result_bits)
    low = torch.trunc(total / quantum) * quantum
    cut = torch.where(total.abs() < float(F32.min_normal), low, cut) + 0.0
    return cut.to(torch.float32).to(torch.float64)


def _power(torch: Any, exponents: Tensor) -> Tensor:
    return ((exponents + 1023) << 52).view(torch.float64)
