"""Many schedules of one small product: the parts that they share are computed once.

Many chains of few outputs run side by side, one step of each at a time; else they run one after the
other, each by the engine. What combines them (`lastbit.inference.trees`) is
computed for all schedules at once, level by level. So a schedule costs little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lastbit.engine import wide
from lastbit.engine.operands import Block, Exponents, Floats
from lastbit.engine.product import Operand, matrix_product
from lastbit.engine.tape import Tape, record
from lastbit.engine.wide import Array, added, carrier, rounded
from lastbit.formats import F32, Format, format_of
from lastbit.inference.trees import ApartError, Chain, Node, Rounded, Sum, Terms, Trees
from lastbit.levels import Fused, Schedule
from lastbit.machines import Unit, check_step, unit_of
from lastbit.round_array import Codes
from lastbit.rounding import Rounding
from lastbit.sum_array import sum_error

KEPT: Final = 1 << 26  # elements of chains that are kept
STEP, PRODUCT = 6e-5, 1e-8  # seconds, about, of chains side by side: of a step, of a product
CHAIN, OWN_PRODUCT = 1e-3, 2.5e-9  # of chains by the engine: of each one, of a product
AT_ONCE: Final = 1 << 18  # products of one step of several chains
VALUES: Final = 1 << 24  # elements of values that are computed at once


class Pieces:
    """A product of few outputs, by many schedules.

    Args:
        a: codes, `[M, K]`.
        b: codes, `[K, N]`.
        formats: their formats.
        acc: the short name of the format of the accumulators.
        trees: numbers of the values of schedules; new ones if None.
    """

    def __init__(
        self,
        a: Codes,
        b: Codes,
        formats: tuple[Format, Format],
        acc: str = F32.short,
        trees: Trees | None = None,
    ) -> None:
        self.a, self.b, self.formats, self.acc = a, b, formats, acc
        self.shape = a.shape[0], b.shape[1]
        self.size = self.shape[0] * self.shape[1]
        self.trees = Trees(a.shape[1], acc, exact=False) if trees is None else trees
        self.chains: dict[Chain, Array] = {}
        self.kind = carrier(format_of(acc))

    def product(self, schedule: Schedule) -> Array | None:
        """Return the product; None where the schedule has a form that is not taken apart here."""
        try:
            number = self.trees.of(schedule)
        except ApartError:
            return None
        product: Array = next(self.products([number]))[0]
        return product

    def products(self, numbers: Sequence[int]) -> Iterator[Array]:
        """Yield the products of some of the values, in order and some at a time, `[some, M, N]`."""
        some = max(1, VALUES // max(self.size, 1) // 16)
        for i in range(0, len(numbers), some):
            values, row = self._values(numbers[i : i + some])
            yield values[[row[n] for n in numbers[i : i + some]]].reshape(-1, *self.shape)

    def add_exactly(self, numbers: Sequence[int]) -> bool:
        """Return whether no sum of parts is rounded, in any of the values and any output."""
        values, row = self._values(numbers)
        with np.errstate(all="ignore"):
            for number in row:
                node = self.trees.nodes[number]
                if isinstance(node, Sum):
                    a, b, total = (values[row[n]] for n in (node.a, node.b, number))
                    if not (sum_error(a, b, total) == 0).all():
                        return False
        return True

    def _values(self, numbers: Sequence[int]) -> tuple[Array, Mapping[int, int]]:
        """Return all values from which some are computed, and the row of each number."""
        nodes = self.trees.nodes
        needed = _needed(nodes, numbers)
        row = {number: i for i, number in enumerate(needed)}
        out: Array = np.zeros((len(needed), self.size), self.kind)
        self._prepare([c for n in needed if isinstance(c := nodes[n], Chain)])
        depth = dict.fromkeys(needed, 0)

        def below(number: int) -> tuple[int, ...]:
            return _below(nodes[number])

        levels: dict[tuple[int, str, bool], list[int]] = {}
        for number in needed:
            node = nodes[number]
            if isinstance(node, Chain):
                out[row[number]] = self._chain(node)
            elif node is not None:
                depth[number] = 1 + max(depth[n] for n in below(number))
                level = depth[number], node.format, isinstance(node, Sum)
                levels.setdefault(level, []).append(number)
        with np.errstate(all="ignore"):
            for (_, fmt, _), found in sorted(levels.items()):
                a, *b = (out[[row[n] for n in ns]] for ns in zip(*map(below, found), strict=True))
                rounding = _rounding(fmt)
                out[[row[n] for n in found]] = (
                    added(a, b[0], rounding) if b else rounded(a, rounding)
                )
        return out, row

    def _chain(self, chain: Chain) -> Array:
        if chain not in self.chains:
            index = _index(chain.terms)
            left = Operand(np.ascontiguousarray(self.a[:, index]), self.formats[0])
            right = Operand(np.ascontiguousarray(self.b[index]), self.formats[1])
            out = np.empty(self.shape, self.kind)
            tape = _tape(chain.level, len(chain.terms), self.acc)
            matrix_product(left, right, tape, lambda part, _: part, out, 1)
            self.chains[chain] = out.ravel()
        return self.chains[chain]

    def _prepare(self, chains: Sequence[Chain]) -> None:
        """Run chains side by side where that is quicker."""
        if len(self.chains) * self.size > KEPT:
            self.chains.clear()
        units: dict[Fused, list[Chain]] = {}
        for chain in chains:
            if chain not in self.chains:
                units.setdefault(chain.level, []).append(chain)
        for level, found in units.items():
            lengths = [len(chain.terms) for chain in found]
            products, steps = sum(lengths) * self.size, max(lengths) / unit_of(level.unit).width
            alone = len(found) * CHAIN + products * OWN_PRODUCT
            if steps * STEP + products * PRODUCT > alone:
                continue
            with np.errstate(all="ignore"):
                values = self._together(unit_of(level.unit), [chain.terms for chain in found])
            self.chains.update(zip(found, values, strict=True))

    @cached_property
    def _blocks(self) -> tuple[Block, Block]:
        left = Block(np.ascontiguousarray(self.a.T), self.formats[0], 0)
        return left, Block(np.ascontiguousarray(self.b), self.formats[1], 1)

    @cached_property
    def _exponents(self) -> Exponents:
        """Sums of the exponents of both factors, `[K, outputs]`."""
        left, right = (block.exponents for block in self._blocks)
        return (left[:, :, None] + right[:, None, :]).reshape(len(left), -1)

    def _products(self, unit: Unit) -> Floats:
        """Return all products, `[K, outputs]`."""
        flushed = unit.method == "flushed"
        left, right = (b.flushed if flushed else b.values for b in self._blocks)
        products = (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)
        if unit.method == "rounded":
            products = rounded(products, _rounding(self.acc)).astype(np.float64)
        return products

    def _together(self, unit: Unit, chains: Sequence[Terms]) -> Array:
        """Return the results of chains of one unit, `[chains, outputs]`."""
        width = unit.width
        check_step(unit, width, self.acc)
        lengths = np.array([len(terms) for terms in chains])
        places = np.concatenate([_array(terms) for terms in chains])
        starts = np.cumsum(lengths) - lengths
        order = np.argsort(-lengths, kind="stable")
        products = self._products(unit)
        out = np.zeros((len(chains), self.size), self.kind)
        most = max(1, AT_ONCE // (width * self.size))
        for done in range(0, int(lengths.max()), width):
            left = lengths[order] - done
            whole, begun = np.searchsorted(-left, [-width, -1], "right")
            spans = [(0, int(whole), width)]
            for size in np.unique(left[whole:begun]):
                first, last = np.searchsorted(-left, [-size, -size + 1])
                spans.append((int(first), int(last), int(size)))
            for first, last, size in spans:
                for i in range(first, last, most):
                    mine = order[i : min(i + most, last)]
                    index = places[starts[mine] + done + np.arange(size)[:, None]]
                    out[mine] = self._step(unit, out[mine], products[index], index)
        return out

    def _step(self, unit: Unit, acc: Array, products: Floats, index: NDArray[np.intp]) -> Array:
        if unit.method == "rounded":
            return added(acc, products[0].astype(acc.dtype), _rounding(self.acc))
        return wide.step(unit, acc, products, self._exponents[index], self.acc)


def _below(node: Node) -> tuple[int, ...]:
    """Return the numbers from which a value is computed."""
    match node:
        case Sum(a=a, b=b):
            return a, b
        case Rounded(a=a):
            return (a,)
    return ()


def _needed(nodes: Sequence[Node], numbers: Iterable[int]) -> list[int]:
    """Return the numbers of all values from which some are computed, themselves included."""
    found, todo = set[int](), list(numbers)
    while todo:
        number = todo.pop()
        if number not in found:
            found.add(number)
            todo += _below(nodes[number])
    return sorted(found)


def _array(terms: Terms) -> NDArray[np.intp]:
    if isinstance(terms, range):
        return np.arange(terms.start, terms.stop, terms.step)
    return np.array(terms, np.intp)


def _index(terms: Terms) -> slice | NDArray[np.intp]:
    if isinstance(terms, range):
        return slice(terms.start, terms.stop, terms.step)
    return _array(terms)


@lru_cache(maxsize=4096)
def _tape(level: Fused, k: int, acc: str) -> Tape:
    return record(level, k, acc)


@lru_cache(maxsize=64)
def _rounding(fmt: str) -> Rounding:
    return Rounding.of(fmt)
