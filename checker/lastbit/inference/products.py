"""Infer by which schedule a matrix product was summed, from its bits.

    r = lastbit.infer_matmul(a, b, observed, "bf16", machine="hopper")

Every schedule of the space (`lastbit.inference.schedules`) is run on a few outputs, what agrees
there on more, and so on to all. Where outputs hold every bit of the accumulators, a plain schedule
that gives all of them ends the search; outputs that are rounded once more hide differences, and
then every schedule is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lastbit.engine.operands import singles_of
from lastbit.errors import InputError, Problem
from lastbit.formats import F32, Format, bits_text, decode, format_of
from lastbit.inference import records
from lastbit.inference.arrays import canonical_codes, codes_of, plain_array
from lastbit.inference.kernel import Arrays
from lastbit.inference.pieces import Pieces
from lastbit.inference.records import MOST_SHOWN, Apart, Explained, Failure, Inferred
from lastbit.inference.schedules import WITHOUT_UNIT, Candidate, candidates, chains_of
from lastbit.inference.search import Progress
from lastbit.machines import machine_of
from lastbit.predicting import MatmulSpec, draw_codes, predict_codes
from lastbit.round_array import Codes, encode_array
from lastbit.schedule import tree_hash

STAGES: Final = ((2, 8), (8, 64), (64, 256))  # rows and columns of outputs; then all
SHARED: Final = 2  # stages in which schedules share their chains
ENOUGH: Final = 64  # outputs in the accumulators' format that tell other trees apart
FEW: Final = 1 << 22  # products that are not worth a second thread
NEAREST: Final = 5
BEST: Final = 24  # of which more outputs are run where none agrees
DRAWS: Final = ("cancelling", "normal", "wide", "bits")
SMALL: Final = (8, 64)  # rows and columns of a product that tells schedules apart


def infer_matmul(
    a: Any,
    b: Any,
    observed: Any,
    formats: str | tuple[str, str],
    *,
    machine: str | Sequence[str] | None = None,
    out: str | None = None,
    acc: str = "f32",
    alpha: float | None = None,
    bias: Any = None,
    units_only: bool = False,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
    name: str = "the observed product",
) -> Inferred:
    """Say which schedules give the bits of a matrix product.

    Args:
        a: the left operand, `[M, K]`: codes of its format, or numbers that it holds.
        b: the right operand, `[K, N]`.
        observed: the product, `[M, N]`.
        formats: the format of both operands, or that of each.
        machine: the machine, or machines, on which it was computed; None: all that are known.
        out: the format of the product; None: that of the accumulators.
        acc: the format of the accumulators.
        alpha: a factor of the accumulators.
        bias: `[N]`, binary32 values that are added.
        units_only: whether schedules without a matrix unit are left out.
        seed: selects the inputs that are offered to tell schedules apart.
        device: a device of torch on which schedules are run, such as `cuda`; None: numpy.
        progress: called with schedules tried, schedules in all, and what is tried.
        name: what is compared, for the report.

    Returns:
        each variant with its `schedule`.

    Raises:
        LastbitError: the operands, the formats and the machine do not fit.
    """
    left, right = (formats, formats) if isinstance(formats, str) else formats
    known = [machine] if isinstance(machine, str) else machine
    for one in known or ():
        machine_of(one)
    fmt_a, fmt_b, fmt_out = format_of(left), format_of(right), format_of(out or acc)
    codes_a, codes_b = _matrix(a, fmt_a, "a"), _matrix(b, fmt_b, "b")
    seen = canonical_codes(_matrix(observed, fmt_out, "observed"), fmt_out)
    (m, k), (k2, n) = codes_a.shape, codes_b.shape
    if k != k2 or seen.shape != (m, n):
        raise _error(
            f"a is {[m, k]}, b is {[k2, n]} and the product {list(seen.shape)}",
            "They are [M, K], [K, N] and [M, N].",
        )
    if not seen.size or not k:
        raise _error("the product has no elements", "M, K and N are 1 and above.")
    bias_codes = None if bias is None else _vector(bias, n)
    chains = chains_of(fmt_a.short, fmt_b.short, format_of(acc).short, known)
    if units_only:
        chains = [chain for chain in chains if chain.machine not in WITHOUT_UNIT]
    if not any(chain.machine not in WITHOUT_UNIT for chain in chains) and known:
        machine_of(known[0]).unit(fmt_a.short)  # says which formats it takes
    spec = MatmulSpec("ieee", fmt_a.short, fmt_b.short, None, acc, alpha, out=fmt_out.short)
    narrow = _narrow(fmt_a, fmt_out)
    work = _Work(spec, codes_a, codes_b, seen, bias_codes, device, progress, seed, name)
    return work.run(candidates(k, chains, narrow))


def _narrow(operand: Format, out: Format) -> list[str]:
    """Return the formats in which partial sums may be stored: those of 16 bits that take part."""
    found = [fmt.short for fmt in (out, operand) if fmt.container == 16 and fmt.kind == "float"]
    return list(dict.fromkeys(found or ["bf16"]))


@dataclass
class _Scored:
    """A candidate and how many outputs it gives.

    Attributes:
        candidate: the candidate.
        equal: outputs with the same bits.
        total: outputs compared.
    """

    candidate: Candidate
    equal: int = 0
    total: int = 0

    @property
    def whole(self) -> bool:
        """Return whether all outputs agree."""
        return self.equal == self.total

    @property
    def rank(self) -> tuple[float, int]:
        """Return a key that sorts the nearest first."""
        return -self.equal / max(self.total, 1), self.candidate.tier


@dataclass
class _Work:
    """One inference.

    Attributes:
        spec: what does not depend on the schedule.
        a: codes of the left operand.
        b: codes of the right one.
        seen: codes of the product.
        bias: codes of a bias, or None.
        device: a device of torch, or None.
        progress: called while schedules are tried.
        seed: selects the inputs that are offered.
        name: what is compared.
    """

    spec: MatmulSpec
    a: Codes
    b: Codes
    seen: Codes
    bias: Codes | None
    device: str | None
    progress: Progress | None
    seed: int
    name: str
    tried: int = 0
    _pieces: dict[tuple[bytes, bytes], Pieces] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def format(self) -> Format:
        """Return the format of the product."""
        return self.spec.output.format

    def run(self, tried: Sequence[Candidate]) -> Inferred:
        """Return what gives the bits."""
        tiers = sorted({candidate.tier for candidate in tried})
        scored: list[_Scored] = []
        found: list[_Scored] = []
        for tier in tiers:
            mine = [_Scored(c) for c in tried if c.tier == tier]
            found += self._narrowed(mine, len(scored), len(tried))
            scored += mine
            if found and self._tells_trees_apart:
                break
        self._show(len(tried), len(tried), "")
        self.tried = len(scored)
        return self._found(found) if found else self._none(scored)

    @property
    def _tells_trees_apart(self) -> bool:
        """Whether another tree would hardly give these bits: no output is rounded once more."""
        return self.format.short == self.spec.acc and self.seen.size >= ENOUGH

    def _narrowed(self, mine: list[_Scored], done: int, total: int) -> list[_Scored]:
        """Return the schedules that give all outputs, tried on more and more of them."""
        left = mine
        for stage, (rows, columns) in enumerate((*STAGES, self.seen.shape)):
            places = _spread(self.seen.shape[0], rows), _spread(self.seen.shape[1], columns)
            now = places[0].size * places[1].size
            shared = self._shared(*places) if stage < SHARED else None
            for number, one in enumerate(left):
                self._show(done + number, total, f"{now:,} outputs each")
                self._score(one, *places, shared)
            left = [one for one in left if one.whole and one.total]
            if not left or now == self.seen.size:
                break
        return left

    def _shared(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Pieces | None:
        """Return the product of some outputs, whose chains all schedules share."""
        if self.spec.acc != "f32" or self.device is not None:
            return None
        key = rows.tobytes(), columns.tobytes()
        if key not in self._pieces:
            a, b = self.a[rows], np.ascontiguousarray(self.b[:, columns])
            self._pieces[key] = Pieces(a, b, self.spec.formats)
        return self._pieces[key]

    def _score(
        self,
        one: _Scored,
        rows: NDArray[np.intp],
        columns: NDArray[np.intp],
        shared: Pieces | None = None,
    ) -> None:
        acc = None if shared is None else shared.product(one.candidate.schedule)
        if acc is None:
            codes = self._codes(one.candidate, self.a[rows], self.b[:, columns], columns)
        else:
            bias = None if self.bias is None else singles_of(self.bias[columns], F32)
            finish = self._spec(one.candidate).epilogue(bias)
            codes = canonical_codes(finish.codes(acc, slice(0, columns.size)), self.format)
        seen = self.seen[np.ix_(rows, columns)]
        one.equal, one.total = int((codes == seen).sum()), seen.size

    def _spec(self, candidate: Candidate) -> MatmulSpec:
        return replace(self.spec, machine=candidate.chain.machine, schedule=candidate.schedule)

    def _codes(
        self, candidate: Candidate, a: Codes, b: Codes, columns: NDArray[np.intp] | None
    ) -> Codes:
        bias = self.bias if self.bias is None or columns is None else self.bias[columns]
        few = a.size * b.shape[1] < FEW
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        codes = predict_codes(self._spec(candidate), a, b, bias, 1 if few else None, self.device)
        return canonical_codes(codes, self.format)

    # What comes of it.

    def _found(self, found: list[_Scored]) -> Inferred:
        groups: dict[tuple[object, ...], list[Candidate]] = {}
        for one in found:
            chain, schedule = one.candidate.chain, one.candidate.schedule
            tree = tree_hash(schedule, self.a.shape[1], self.spec.acc)
            groups.setdefault((chain.unit.name, tree), []).append(one.candidate)
        firsts = [group[0] for group in groups.values()]
        apart, inputs = self._apart(firsts)
        for candidate in firsts:
            if candidate.chain.also:
                also = ", ".join(candidate.chain.also)
                note = f"{also} add in the same steps as {candidate.chain.machine}"
                self.notes.append(note)
        size = self.seen.size
        texts = [[str(candidate.schedule) for candidate in group] for group in groups.values()]
        variants = tuple(
            Explained((), size, size, schedule=first, alike=tuple(rest)) for first, *rest in texts
        )
        status = records.FOUND if len(firsts) == 1 else records.AMBIGUOUS
        return self._result(status, variants, (), apart, inputs)

    def _none(self, scored: list[_Scored]) -> Inferred:
        best = sorted(scored, key=lambda one: one.rank)[:BEST]
        rows, columns = _spread(self.seen.shape[0], 32), _spread(self.seen.shape[1], 64)
        for number, one in enumerate(best):
            self._show(number, len(best), "the nearest")
            self._score(one, rows, columns)
        best = sorted(best, key=lambda one: one.rank)[:NEAREST]
        near = []
        for number, one in enumerate(best):
            self._show(number, len(best), "the nearest")
            codes = self._codes(one.candidate, self.a, self.b, None)
            one.equal, one.total = int((codes == self.seen).sum()), self.seen.size
            failure = None if one.whole else self._failure(codes)
            near.append((one, failure))
        self._show(1, 1, "")
        near.sort(key=lambda pair: pair[0].rank)
        explained = tuple(
            Explained(
                (), one.equal, one.total, failure=failure, schedule=str(one.candidate.schedule)
            )
            for one, failure in near
        )
        return self._result(records.NONE, (), explained, (), {})

    def _failure(self, codes: Codes) -> Failure:
        index = tuple(int(i) for i in np.argwhere(codes != self.seen)[0])
        pair = int(self.seen[index]), int(codes[index])
        fmt = self.format
        values = tuple(float(decode(code, fmt)) for code in pair)
        texts = [self._text(code) for code in pair]
        return Failure(
            "given", "c", index, fmt.short, texts[0], texts[1], (values[0], values[1]), {}
        )

    def _text(self, code: int) -> str:
        return bits_text(decode(code, self.format), self.format)

    def _apart(self, firsts: Sequence[Candidate]) -> tuple[tuple[Apart, ...], Arrays]:
        """Return drawn operands on which schedules differ, the first with each other one."""
        found: list[Apart] = []
        inputs: Arrays = {}
        fmt_a, fmt_b = (format_of(name) for name in (self.spec.left, self.spec.right))
        alike: list[str] = []
        for number, other in enumerate(firsts[1:MOST_SHOWN], 2):
            for draw in DRAWS:
                rng = np.random.Generator(np.random.PCG64([self.seed, DRAWS.index(draw)]))
                a = _drawn((SMALL[0], self.a.shape[1]), fmt_a, draw, rng)
                b = _drawn(
                    (self.b.shape[0], SMALL[1]), fmt_b, "normal" if draw == DRAWS[0] else draw, rng
                )
                none = np.zeros(SMALL[1], np.intp)
                codes = [self._codes(c, a, b, none) for c in (firsts[0], other)]
                places = np.argwhere(codes[0] != codes[1])
                if len(places):
                    index = tuple(int(i) for i in places[0])
                    bits = [self._text(int(c[index])) for c in codes]
                    found.append(Apart(1, number, draw, "c", index, (bits[0], bits[1])))
                    inputs = inputs or {"a": a, "b": b}
                    break
            else:
                alike.append(str(number))
        if alike:
            self.notes.append(
                f"no operands were found on which 1 differs from {', '.join(alike)}, and they are "
                "not proven equal"
            )
        return tuple(found), inputs

    def _result(
        self,
        status: str,
        variants: tuple[Explained, ...],
        near: tuple[Explained, ...],
        apart: tuple[Apart, ...],
        inputs: Arrays,
    ) -> Inferred:
        (m, k), n = self.a.shape, self.b.shape[1]
        pair = dict.fromkeys((self.spec.left, self.spec.right))
        operands = " by ".join(pair)
        return Inferred(
            status=status,
            reference=f"a product [{m}, {k}] x [{k}, {n}] of {operands} into {self.format.short}",
            kernel=self.name,
            variants=variants,
            near=near,
            data={"given": self.seen.size},
            seed=self.seed,
            tried=self.tried,
            notes=tuple(dict.fromkeys(self.notes)),
            apart=apart,
            inputs=inputs,
            formats={"a": self.spec.formats[0], "b": self.spec.formats[1]},
            noun="schedule",
        )

    def _show(self, done: int, total: int, text: str) -> None:
        if self.progress is not None:
            self.progress(done, total, text)


def _drawn(shape: tuple[int, int], fmt: Format, draw: str, rng: np.random.Generator) -> Codes:
    """Return drawn codes; `cancelling`: ones, with a large number and its negative in each row."""
    if draw != DRAWS[0]:
        return draw_codes(shape, fmt, draw, rng)
    values = np.ones(shape)
    for row in values if shape[1] > 2 else ():
        first, second = rng.choice(shape[1], 2, replace=False)
        row[first] = 2.0 ** min(20, fmt.emax - 1)
        row[second] = -row[first]
    return encode_array(values, fmt)


def _spread(size: int, count: int) -> NDArray[np.intp]:
    """Return so many places, spread evenly, or all."""
    if count >= size:
        return np.arange(size)
    return np.unique(np.linspace(0, size - 1, count).round().astype(np.intp))


def _matrix(value: Any, fmt: Format, name: str) -> Codes:
    codes = _taken(value, fmt, name)
    if codes.ndim != 2:
        raise _error(f"`{name}` has the shape {list(codes.shape)}", "A matrix has two sizes.")
    return codes


def _vector(value: Any, n: int) -> Codes:
    codes = _taken(value, format_of("f32"), "bias")
    if codes.shape != (n,):
        raise _error(f"the bias has the shape {list(codes.shape)}", f"It holds {n} values.")
    return codes


def _taken(value: Any, fmt: Format, name: str) -> Codes:
    found = plain_array(value)
    if found is None:
        kind = type(value).__name__
        raise _error(f"`{name}` is a {kind}", "Give an array of numpy or torch.")
    codes = codes_of(*found, fmt)
    if isinstance(codes, str):
        raise _error(f"`{name}` holds {codes}", f"Give values or codes of {fmt.short}.")
    return codes


def _error(message: str, remedy: str = "") -> InputError:
    return InputError([Problem(message, remedy)])
