"""Turn what a search found into records: changes in words, and where a variant fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lastbit.change import Change as Claim
from lastbit.formats import Format, bits_text, decode
from lastbit.inference import records
from lastbit.inference.agreement import Agreement
from lastbit.inference.kernel import Arrays
from lastbit.inference.moves import FINISH
from lastbit.inference.records import Change, Explained, Failure
from lastbit.inference.reference import Reference
from lastbit.inference.running import Runner
from lastbit.inference.separate import Apart, Group
from lastbit.inference.tried import GENERAL
from lastbit.inference.variants import Variant
from lastbit.round_array import decode_array

CLAIMS = tuple(Claim)


def plainness(variant: Variant) -> tuple[int, ...]:
    """Return a key that sorts what a reader understands at once first."""
    rules = [move.rule for move in variant.moves]
    wrong = sum(rule.claim == Claim.MATH for rule in rules)
    general = sum(rule.code in GENERAL for rule in rules)
    loosest = max((CLAIMS.index(rule.claim) for rule in rules), default=0)
    finished = sum(move.rank == FINISH for move in variant.moves)
    return len(rules), wrong, general, loosest, sum(not rule.code for rule in rules), finished


@dataclass(frozen=True)
class Explainer:
    """Makes records of variants of one reference.

    Attributes:
        reference: the reference.
        runner: runs variants, and holds the data.
    """

    reference: Reference
    runner: Runner

    def data(self) -> dict[str, int]:
        """Return how many elements were compared on each kind of inputs."""
        out: dict[str, int] = {}
        for data in self.runner.data:
            size = sum(codes.size for codes in data.outputs.values())
            out[data.name] = out.get(data.name, 0) + size
        for name, size in self.runner.seen.items():
            out[name] = out.get(name, 0) + size
        return out

    def _changes(self, variant: Variant) -> tuple[Change, ...]:
        program, found = variant.base, []
        for move in variant.moves:
            found.append(
                Change(
                    move.rule.code,
                    move.rule.name,
                    move.at,
                    dict(move.parameters),
                    move.label,
                    move.title(program),
                )
            )
            program = program.edited(move.edits(program) or {})
        return tuple(found)

    def explained(self, group: Group) -> Explained:
        """Return the record of variants that give all bits."""
        total = sum(self.data().values())
        within = 0
        if self.runner.allowance is not None:
            whole = self.runner.whole(group.first)
            within = 0 if whole is None else whole.within
        same = tuple(self._changes(variant) for variant in group.others)
        return Explained(self._changes(group.first), total, total, same, within)

    def near(self, variant: Variant, agreement: Agreement) -> Explained:
        """Return the record of a variant that does not."""
        failure = None
        if agreement.failure is not None:
            failure = self._failure(variant, *agreement.failure)
        return Explained(
            self._changes(variant),
            agreement.equal,
            agreement.total,
            within=agreement.within,
            failure=failure,
        )

    def _failure(self, variant: Variant, number: int, name: str, flat: int) -> Failure | None:
        data = self.runner.data[number]
        theirs = data.outputs[name]
        index = tuple(int(i) for i in np.unravel_index(flat, theirs.shape))
        bounds = tuple((i, i + 1) for i in index)
        mine = self.runner.codes(variant, self.runner.values[number], (name, bounds))
        if mine is None:
            return None
        fmt = next(r.format for r in self.reference.results if r.name == name)
        codes = int(theirs[index]), int(mine.ravel()[0])
        values = tuple(float(decode(code, fmt)) for code in codes)
        return Failure(
            data.name,
            name,
            index,
            fmt.short,
            _hex(codes[0], fmt),
            _hex(codes[1], fmt),
            (values[0], values[1]),
            self._elements(data.inputs, index, theirs.shape),
        )

    def _elements(
        self, inputs: Arrays, index: tuple[int, ...], shape: tuple[int, ...]
    ) -> dict[str, str]:
        """Return the elements of the inputs that broadcast to a result."""
        found = {}
        for node in self.reference.inputs:
            sizes = node.shape
            if len(sizes) <= len(shape) and all(
                n in (1, whole)
                for n, whole in zip(sizes, shape[len(shape) - len(sizes) :], strict=True)
            ):
                last = index[len(index) - len(sizes) :]
                at = tuple(i if n > 1 else 0 for i, n in zip(last, sizes, strict=True))
                value = decode_array(inputs[node.name][at].reshape(1), node.format)[0]
                found[node.name] = float(value).hex()
        return found

    def apart(self, first: int, second: int, apart: Apart) -> records.Apart:
        """Return the record of inputs that tell two variants apart, given their numbers."""
        fmt = next(r.format for r in self.reference.results if r.name == apart.result)
        bits = _hex(apart.codes[0], fmt), _hex(apart.codes[1], fmt)
        return records.Apart(first, second, apart.kind, apart.result, apart.index, bits)


def best_inputs(
    apart: Sequence[tuple[int, int, Apart]],
    groups: Sequence[Group],
    runner: Runner,
) -> Arrays:
    """Return the inputs that tell the most groups apart."""

    def kinds_of_results(one: Apart) -> int:
        bounds = tuple((i, i + 1) for i in one.index)
        values = runner.decoded(one.inputs)
        codes = [runner.codes(g.first, values, (one.result, bounds)) for g in groups]
        return len({None if c is None else c.tobytes() for c in codes})

    return max((one for _, _, one in apart), key=kinds_of_results).inputs


def _hex(code: int, fmt: Format) -> str:
    return bits_text(decode(code, fmt), fmt)
