"""Compare what differs of two programs on every value of an input of at most 16 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lastbit.definitions import Definitions
from lastbit.errors import LastbitError
from lastbit.graph import (
    Const,
    Input,
    Map,
    Node,
    Round,
    native_rounding,
    substitute,
    topological,
)
from lastbit.inference.resized import changed
from lastbit.interpret.array import ArrayDomain, Tensor, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.policy import Policy
from lastbit.round_array import Codes, code_type, decode_array
from lastbit.verify.region import region_of

TRIED = (2.0**-30, 2.0**10)  # magnitudes of which every value is tried


class EveryValue:
    """Tries every value of an input; what two pairs of programs share is computed once.

    Args:
        inputs: the names of the inputs of the whole program.
        seed: chooses among equal elements.
    """

    def __init__(self, inputs: frozenset[str], seed: int = 0) -> None:
        self.inputs, self.seed = inputs, seed
        self._known: dict[str, dict[bytes, Tensor]] = {}
        self._tried: dict[tuple[bytes, ...], tuple[str, Codes] | None] = {}

    def differing(self, a: Definitions, b: Definitions) -> tuple[str, Codes] | None:
        """Return the codes of an input on which the part that differs has other bits.

        None where that part is not computed element by element from one input of at most 16 bits.
        Else every value of magnitude 2^-30 to 2^10 is tried; results that are infinite, NaN, zero
        or subnormal do not count.
        """
        names = changed(a, b)
        key = tuple((p.nodes[n].key if n in p.nodes else b"") for p in (a, b) for n in names)
        if key not in self._tried:
            self._tried[key] = self._try_values(a, b, names)
        return self._tried[key]

    def _try_values(
        self, a: Definitions, b: Definitions, names: Sequence[str]
    ) -> tuple[str, Codes] | None:
        region = region_of(a, b, names)
        if region is None or len(region.inputs) != 1:
            return None
        (node,) = region.inputs
        roots = [*region.before.results, *region.after.results]
        plain = (Input, Const, Map, Round)
        if node.format.container > 16 or node.name not in self.inputs:
            return None
        if not all(isinstance(one, plain) for one in topological(roots)):
            return None
        codes = np.arange(1 << node.format.bits, dtype=code_type(node.format))
        values = decode_array(codes, node.format)
        held = (np.abs(values) >= TRIED[0]) & (np.abs(values) <= TRIED[1])
        flat: dict[bytes, Node] = {
            node.key: Input(node.name, node.format, shape=(int(held.sum()),))
        }
        built = substitute(roots, flat)
        domain = ArrayDomain({node.name: values[held]}, self.seed)
        try:
            known = self._known.setdefault(node.name, {})
            found = evaluate([built[root.key] for root in roots], domain, Policy.BITS, known)
        except LastbitError:
            return None
        arrays = [np.broadcast_to(values_of(one), (int(held.sum()),)) for one in found]
        apart = np.zeros(int(held.sum()), np.bool_)
        half = len(arrays) // 2
        for name, x, y in zip(region.outputs, arrays[:half], arrays[half:], strict=True):
            rounding = native_rounding(region.before.values[name])
            if rounding is None:
                return None
            least = float(rounding.format.min_normal)
            plain_x, plain_y = (np.isfinite(z) & (np.abs(z) >= least) for z in (x, y))
            apart |= (x != y) & plain_x & plain_y
        return node.name, codes[held][apart]
