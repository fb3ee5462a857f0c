"""Tell variants apart that agree on the data: prove them equal, or find inputs where they differ.

More inputs are drawn first. Variants that remain are compared in the field; what that does not
prove equal is searched for an input: on drawn and aimed inputs at the sizes that are run, then on
the smallest sizes, from which a witness is repeated to fill the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lastbit.definitions import Definitions
from lastbit.errors import LastbitError
from lastbit.formats import NEGATIVE_ZERO
from lastbit.graph import Graph, Input, Map, native_rounding, topological
from lastbit.inference import inputs as kinds
from lastbit.inference.allowance import OFF
from lastbit.inference.every import EveryValue
from lastbit.inference.kernel import Arrays
from lastbit.inference.reference import Reference
from lastbit.inference.resized import MOST_AT_ONCE, Resized, changed
from lastbit.inference.running import FIRST, Runner, blocks
from lastbit.inference.variants import Variant
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import Objects
from lastbit.interpret.policy import Policy
from lastbit.round_array import Codes, encode_array
from lastbit.verify.canonicalise import canonical
from lastbit.verify.classify import Case, within
from lastbit.verify.region import region_of
from lastbit.verify.sizing import Instance
from lastbit.verify.witness import EFFORT, Search, cost_of

KINDS = (*kinds.TELLING, *kinds.DEEP)
ROUNDS = 1  # draws of each kind in which an input is sought
MOST_PROOFS = 60  # pairs of variants that are compared in the field
PARTS = 2  # parts of the results that are looked at


@dataclass
class Group:
    """Variants that are one computation, as far as ordinary runs go.

    Attributes:
        first: the one with the fewest moves.
        others: the others, each proven equal to it.
    """

    first: Variant
    others: list[Variant] = field(default_factory=list)

    @property
    def all(self) -> list[Variant]:
        """Return all of them."""
        return [self.first, *self.others]


@dataclass(frozen=True)
class Apart:
    """Inputs on which two variants differ.

    Attributes:
        kind: what the inputs are.
        inputs: their codes.
        result: the result that differs.
        index: where it differs first.
        codes: of both variants there.
    """

    kind: str
    inputs: Arrays
    result: str
    index: tuple[int, ...]
    codes: tuple[int, int]


class Separator:
    """Compares variants of one reference.

    Args:
        reference: the reference.
        runner: runs variants.
        seed: selects every draw.
    """

    def __init__(self, reference: Reference, runner: Runner, seed: int = 0) -> None:
        self.reference, self.runner, self.seed = reference, runner, seed
        self.proofs = 0
        self.resized = Resized(reference)
        self.every = EveryValue(frozenset(node.name for node in reference.inputs), seed)
        self._canonical: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}
        self._seen: dict[tuple[bytes, ...], Mapping[str, bytes]] = {}

    def grouped(self, variants: Sequence[Variant]) -> list[Group]:
        """Return variants in groups of which each is one computation."""
        groups: list[Group] = []
        for variant in variants:
            self.runner.tick()
            group = next((g for g in groups if self.same(g.first, variant)), None)
            if group is None:
                groups.append(Group(variant))
            else:
                group.others.append(variant)
        return groups

    def same(self, a: Variant, b: Variant) -> bool:
        """Return whether two variants are shown to have the same bits on ordinary runs."""
        if a.key == b.key:
            return True
        if a.skeleton == b.skeleton:
            return False  # other trees
        if self._form(a) == self._form(b):
            return True
        differing = self.every.differing(a.program, b.program)
        if differing is not None:
            return not differing[1].size
        if self._differs_on_the_way(a, b) or self.proofs >= MOST_PROOFS:
            return False
        self.proofs += 1
        try:
            if within(list(self.resized.cases(a, b)), Policy.BITS, self.seed):
                return True
            programs = self.resized.programs(a, b, self.resized.few_rows(a, b))
            return programs is not None and self._same_in_parts(*programs)
        except LastbitError:
            return False

    def _differs_on_the_way(self, a: Variant, b: Variant) -> bool:
        """Return whether the part that differs has other results on drawn inputs, in few rows."""
        few = self.resized.few_rows(a, b)
        region = self.resized.region(a, b, few)
        if region is None:
            return False
        for name in region.outputs:
            found = [self._values(variant, few).get(name) for variant in (a, b)]
            if None not in found and found[0] != found[1]:
                return True
        return False

    def _values(self, variant: Variant, instance: Instance) -> Mapping[str, bytes]:
        """Return the bits of the values of a variant on drawn inputs."""
        key = (*variant.key, repr(sorted(instance.sizes.items())).encode())
        if key not in self._seen:
            program = self.resized.bench(variant)[0].before(len(variant.moves), instance)
            names = [n for n, node in program.nodes.items() if native_rounding(node) is not None]
            inputs = [n for n in names if program.is_input(n)]
            graph = program.closed(names, inputs)
            given = [node for node in graph.values.values() if isinstance(node, Input)]
            codes = self.reference.drawn(self.seed, inputs=given)
            domain = ArrayDomain(self.runner.decoded(codes), self.seed)
            try:
                found = evaluate([graph.values[name] for name in names], domain, Policy.BITS)
                bits = {n: values_of(x).tobytes() for n, x in zip(names, found, strict=True)}
            except LastbitError:
                bits = {}
            self._seen[key] = bits
        return self._seen[key]

    def _same_in_parts(self, a: Definitions, b: Definitions) -> bool:
        """Return whether one program becomes the other definition by definition, none of them new.

        Each definition is compared as a function of the values that it reads.
        """
        names = changed(a, b)
        if len(names) < 2 or any(name not in a.nodes or name not in b.nodes for name in names):
            return False
        for name in names:
            step = a.edited({name: b.nodes[name]})
            differing = self.every.differing(a, step)
            if differing is not None:
                if differing[1].size:
                    return False
            else:
                region = region_of(a, step, [name])
                if region is not None:
                    if cost_of(region) > MOST_AT_ONCE:
                        return False
                    if not within([Case({}, region)], Policy.BITS, self.seed):
                        return False
            a = step
        return True

    def _form(self, variant: Variant) -> tuple[bytes, ...]:
        if variant.key not in self._canonical:
            graph = Graph(variant.nodes, tuple(variant.nodes))
            self._canonical[variant.key] = canonical(graph).key()
        return self._canonical[variant.key]

    def apart(self, a: Variant, b: Variant, skip: int = 0) -> Apart | None:
        """Return inputs on which two variants differ, or None.

        Args:
            a: a variant.
            b: another.
            skip: draws that were looked at before.
        """
        differing = self.every.differing(a.program, b.program)
        if differing is not None and differing[1].size:
            found = self._at_values(a, b, *differing)
            if found is not None:
                return found
        for kind, seed in self._draws(skip):
            self.runner.tick()
            inputs = self.reference.drawn(seed, kind)
            found = self._difference(a, b, kind, inputs)
            if found is not None:
                return found
        if a.skeleton == b.skeleton:
            return None  # drawn inputs show what trees lose at least as well as small ones
        return self._witness(a, b)

    def _draws(self, skip: int) -> Iterator[tuple[str, int]]:
        for turn in range(ROUNDS):
            for kind in (*self.reference.usual, *KINDS):
                yield kind, self.seed + 1000 + skip + turn

    def _difference(self, a: Variant, b: Variant, kind: str, inputs: Arrays) -> Apart | None:
        values = self.runner.decoded(inputs)
        for name, node in a.nodes.items():
            for number, bounds in enumerate(blocks(node, FIRST)):
                if number == PARTS:
                    break
                codes = [self.runner.codes(v, values, (name, bounds)) for v in (a, b)]
                if codes[0] is None or codes[1] is None:
                    return None
                places = np.argwhere(codes[0] != codes[1])
                if len(places):
                    place = tuple(int(i) for i in places[0])
                    starts = [start for start, _ in bounds]
                    index = tuple(i + s for i, s in zip(place, starts, strict=True))
                    pair = int(codes[0][place]), int(codes[1][place])
                    return Apart(kind, inputs, name, index, pair)
        return None

    def _at_values(self, a: Variant, b: Variant, name: str, codes: Codes) -> Apart | None:
        """Return inputs of which one takes values on which the part that differs does."""
        for kind in (kinds.DRAWN, kinds.SHORT):
            inputs = self.reference.drawn(self.seed + 1000, kind)
            shape = inputs[name].shape
            inputs[name] = np.resize(codes, shape)
            found = self._difference(a, b, "values of one input", inputs)
            if found is not None:
                return found
        return None

    def _witness(self, a: Variant, b: Variant) -> Apart | None:
        nodes = topological([*a.nodes.values(), *b.nodes.values()])
        if any(isinstance(node, Map) and node.fn in OFF for node in nodes):
            return None  # exp of the large values that are tried has millions of digits
        try:
            regions = self.resized.for_witnesses(a, b)
            found = Search(Policy.BITS, EFFORT, self.seed).run(regions)
        except LastbitError:
            return None
        if found is None:
            return None
        for repeated in (True, False):
            inputs = self._filled(found.inputs, repeated)
            kind = "a witness, repeated" if repeated else "a witness"
            apart = self._difference(a, b, kind, inputs)
            if apart is not None:
                return apart
        return None

    def _filled(self, small: Mapping[str, Objects], repeated: bool) -> dict[str, Codes]:
        """Return inputs of the sizes that are run which begin with those of a witness."""
        out = {}
        for node in self.reference.inputs:
            held = small.get(node.name)
            values = np.zeros(node.shape)
            if held is not None:
                floats = np.array([_float(v) for v in held.flat]).reshape(held.shape)
                sizes = list(zip(node.shape, held.shape, strict=True))
                if repeated:
                    values = floats[np.ix_(*(np.arange(n) % s for n, s in sizes))]
                else:
                    part = tuple(slice(0, min(n, s)) for n, s in sizes)
                    values[part] = floats[part]
            elif not node.format.has_zero:
                values[...] = 1.0
            out[node.name] = encode_array(np.ascontiguousarray(values), node.format)
        return out


def _float(value: object) -> float:
    return NEGATIVE_ZERO if value is NEGATIVE_ZERO else float(value)  # type: ignore[arg-type]
