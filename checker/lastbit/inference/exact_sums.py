"""Sums that are rounded once, computed before a graph is evaluated in the array domain.

`math.fsum` rounds an exact sum of binary64 values to binary64, and the sign of what is left of the
sum turns that into the sum rounded to odd, from which a rounding to at most 51 digits is right
(Boldo and Melquiond, IEEE Trans. Comput. 57(4), 2008).
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping

import numpy as np

from lastbit.errors import LastbitError
from lastbit.formats import F64
from lastbit.graph import Node, Reduce, Round, topological
from lastbit.interpret.array import ArrayDomain, Tensor
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.intervals import Floats
from lastbit.interpret.policy import Policy
from lastbit.interpret.tensors import Held
from lastbit.round_array import round_array
from lastbit.rounding import Mode, Rounding

MOST_DIGITS = 51  # of a format to which a value rounded to odd is rounded right


def add_up_exactly(root: Node, domain: ArrayDomain, known: MutableMapping[bytes, Tensor]) -> None:
    """Compute the exact sums of a graph that a rounding follows; keep the roundings in `known`.

    Sums of terms that binary64 does not hold are left to the domain.
    """
    for node in topological([root]):
        if isinstance(node, Round) and node.key not in known and _is_exact(node.x):
            assert isinstance(node.x, Reduce)
            try:
                found = _rounded(node.x, node.rounding, domain, known)
            except (LastbitError, OverflowError):
                continue
            if found is not None:
                known[node.key] = found


def _is_exact(node: Node) -> bool:
    return isinstance(node, Reduce) and node.op == "sum" and node.acc is None


def _rounded(
    total: Reduce, rounding: Rounding, domain: ArrayDomain, known: MutableMapping[bytes, Tensor]
) -> Held | None:
    wide = rounding == Rounding.of(F64)
    if not wide and (rounding.format.precision > MOST_DIGITS or rounding.mode is Mode.STOCHASTIC):
        return None
    (terms,) = evaluate([total.x], domain, Policy.BITS, known)
    whole = terms.whole()
    if not whole.exact:
        return None
    array = np.broadcast_to(whole.lo, total.x.shape)
    if not np.isfinite(array).all():
        return None
    moved = np.moveaxis(array, total.axis, -1)
    rows = moved.reshape(-1, total.length).tolist()
    sums = np.array([math.fsum(row) for row in rows])
    if not wide:
        rest = np.array([math.fsum([*row, -s]) for row, s in zip(rows, sums.tolist(), strict=True)])
        sums = round_array(_to_odd(sums, rest), rounding)
    out = np.expand_dims(sums.reshape(moved.shape[:-1]), total.axis)
    return Held(out, rounding.format)


def _to_odd(sums: Floats, rest: Floats) -> Floats:
    """Return exact sums rounded to odd, from those rounded to nearest and what is left of them."""
    inexact = rest != 0
    inward = inexact & ((rest < 0) != (sums < 0))
    words = (sums.view(np.int64) - inward) | inexact
    return np.asarray(words.view(np.float64))
