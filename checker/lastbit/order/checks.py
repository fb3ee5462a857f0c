"""What a tree must stand up to once it is found, and what a function does that has none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lastbit.formats import FORMATS, Format
from lastbit.interpret.intervals import Floats
from lastbit.order.findings import (
    COMPENSATED,
    DATA,
    EXACT,
    NO_TREE,
    RANDOM,
    MisfitError,
    NoTreeError,
)
from lastbit.order.probe import Prober
from lastbit.order.tree import Ints, OrderTree
from lastbit.order.units import Units
from lastbit.round_array import Codes, decode_array, encode_array, round_array
from lastbit.rounding import Rounding

VECTORS = 16  # random vectors that a tree is run on, where a call takes several
DEEPEST, SOME_DEPTHS = 64, 3  # digits below the largest term of a step that are tried
DEEP: Final = 1024  # steps above each other from which fewer probes are compared
REPEATS: Final = 20  # runs of a function that fits no tree
ACCUMULATORS: Final = ("f32", "f64", "bf16", "f16")
STORED: Final = ("e4m3fn", "e5m2", "bf16", "f16", "f32", "f64")  # the narrowest first


def deterministic(prober: Prober, repeats: int) -> tuple[Codes, Floats]:
    """Return random vectors and their sums, after making sure that equal calls give equal bits.

    Where few go into a call, they are the vectors that were summed first, and one is repeated.

    Raises:
        NoTreeError: they do not.
    """
    several = prober.batched or (prober.rows or 0) >= VECTORS // 2
    vectors = prober.vectors(VECTORS) if several else prober.canaries
    first = prober.values(vectors) if several else prober.alone
    repeated = VECTORS if several else 1
    for run in range(1, repeats):
        again = prober.values(vectors[:repeated])
        if (first[:repeated].view(np.uint64) != again.view(np.uint64)).any():
            reason = f"run {run + 1} of the same call gave other bits than the first"
            raise NoTreeError(prober.target.label, RANDOM, reason)
    return vectors, first


def stands_up(prober: Prober, units: Units, tree: OrderTree) -> None:
    """Compare random probes with what the tree gives for them.

    Raises:
        MisfitError: a probe gives something else.
    """
    n, count = tree.leaves, 16 if prober.batched and tree.depth < DEEP else 4
    if n < 3:
        return
    random, parents = prober.random, tree.parents.tolist()
    pairs = [random.choice(n, 2, replace=False).tolist() for _ in range(count)]
    most = min(n - 2, (1 << units.room) - 1)
    masks = random.random((count, n)) < random.uniform(0, most / n, (count, 1))
    over = np.cumsum(masks, 1) > most
    for mask, pair, late in zip(masks, pairs, over, strict=True):
        mask[late] = False
        mask[pair] = False

    def fill(block: Codes, start: int, stop: int) -> None:
        block[masks[start:stop]] = units.code(units.low)
        for row, i in enumerate(range(start, stop)):
            block[row, pairs[i][0]] = units.code(units.top, negative=i % 2 == 1)
            block[row, pairs[i][1]] = units.code(units.top, negative=i % 2 == 0)

    found = units.counts(prober.run(count, fill))
    inside = tree.under(np.array([_meeting(parents, a, b) for a, b in pairs]))
    for i, ((a, b), value) in enumerate(zip(pairs, found.tolist(), strict=True)):
        wanted = int((masks[i] & ~inside[i, :n]).sum())
        if value != wanted:
            reason = f"with M at {a} and -M at {b} it counts {value} units, and its tree {wanted}"
            raise MisfitError(reason)


def _meeting(parents: list[int], a: int, b: int) -> int:
    """Return the step where two elements meet; a step stands after all below it."""
    while a != b:
        a, b = min(a, b), max(a, b)
        a = parents[a]
    return a


def accumulator(
    tree: OrderTree, values: Floats, fmt: Format, found: Floats
) -> tuple[str | None, str | None]:
    """Return the format of accumulator and result with which a tree gives a function's bits.

    Args:
        tree: the tree.
        values: some vectors.
        fmt: their format.
        found: what the function gave for them.

    Returns:
        two formats; None for what no format explains, and for steps of several terms.
    """
    stored = _stored(found, fmt)
    if stored is None or not tree.binary:
        return None, None
    for name in dict.fromkeys((*ACCUMULATORS, fmt.short)):
        total = run_tree(tree, values, FORMATS[name])
        if (round_array(total, Rounding.of(stored)) == found).all():
            return name, stored.short
    return None, stored.short


def _stored(results: Floats, fmt: Format) -> Format | None:
    """Return the narrowest format that holds all results; that of the elements before others."""
    names = dict.fromkeys((fmt.short, *STORED))
    for name in sorted(names, key=lambda name: FORMATS[name].container):
        if (round_array(results, Rounding.of(name)) == results).all():
            return FORMATS[name]
    return None


def run_tree(tree: OrderTree, values: Floats, fmt: Format) -> Floats:
    """Return the sums of the rows by a tree of binary steps, each rounded to a format.

    Elements are exact; their sums are rounded to nearest even.
    """
    n, depth = tree.leaves, tree.depth
    native = {"f32": np.float32, "f64": np.float64}.get(fmt.short)
    sums = np.empty((n + len(tree), len(values)), native or np.float64)
    sums[:n] = values.T
    exact = native is not None and bool((sums[:n] == values.T).all())
    kids = tree.kids.reshape(-1, 2)
    with np.errstate(all="ignore"):
        leaf, before = kids.min(1), kids.max(1)
        if exact and (before[1:] == np.arange(n, n + len(tree) - 1)).all() and n > 2:
            row = np.concatenate((kids[0], leaf[1:]))
            return np.asarray(np.add.accumulate(sums[row], axis=0)[-1], np.float64)
        if exact and depth > len(tree) // 4:
            rows = list(sums)
            for total, (i, j) in zip(rows[n:], kids.tolist(), strict=True):
                np.add(rows[i], rows[j], out=total)
            return np.asarray(sums[-1], np.float64)
        heights = np.array(tree.heights[n:])
        order = np.argsort(heights, kind="stable")
        ends = np.searchsorted(heights[order], np.arange(1, depth + 2))
        for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            steps = order[start:end]
            a, b = sums[kids[steps, 0]], sums[kids[steps, 1]]
            if exact:
                sums[n + steps] = a + b
            else:
                total = a.astype(np.float64) + b.astype(np.float64)
                sums[n + steps] = round_array(total, Rounding.of(fmt))
    return np.asarray(sums[-1], np.float64)


def step_digits(prober: Prober, units: Units, tree: OrderTree) -> int | None:
    """Return how many digits below its largest term a step of several terms keeps.

    None where there is no such step.

    Raises:
        NoTreeError: the terms of the step do not come together at once.
    """
    if tree.binary:
        return None
    widest = max(tree.widths)
    step = sorted(next(kids for kids in tree.steps if len(kids) == widest))
    stand = [tree.elements(kid)[0] for kid in step[:5]]
    terms = [stand[2:3], stand[2:5]]
    most = min(units.ratio, DEEPEST)

    def kept(ks: Ints, terms: Sequence[list[int]]) -> NDArray[np.bool_]:
        """Say for each k whether terms 2^-k M are kept; a row for each of some terms."""
        asked = [(k, chosen) for chosen in terms for k in ks.tolist()]

        def fill(block: Codes, start: int, stop: int) -> None:
            for row, (k, chosen) in enumerate(asked[start:stop]):
                block[row, stand[0]] = units.code(units.top)
                block[row, stand[1]] = units.code(units.top, negative=True)
                block[row, chosen] = units.code(units.top - k)

        found = prober.run(len(asked), fill).reshape(len(terms), -1)
        whole = np.array([[len(chosen)] for chosen in terms]) * 2.0 ** (units.top - ks)
        if ((found != whole) & (found != 0)).any():
            raise _follows_data(prober, stand)
        held: NDArray[np.bool_] = found == whole
        return held

    ks = np.arange(1, most + 1)
    if not prober.batched:
        # The first that is lost, and some more on both sides of it.
        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            one = kept(np.array([middle]), terms[:1])[0, 0]
            low, high = (middle, high) if one else (low, middle)
        drawn = prober.random.integers(1, most + 1, SOME_DEPTHS)
        ks = np.unique(np.clip(np.append(drawn, (low, low + 1)), 1, most))
    held = kept(ks, terms)
    digits = np.where(held, ks, 0).max(1)
    steps = bool((held == (ks <= digits[:, None])).all())
    if steps and digits[0] == digits[1] and digits[0] < most:
        steps = _loses_alike(prober, units, stand, int(digits[0]) + 1)
    if not steps or digits[0] != digits[1]:
        raise _follows_data(prober, stand)
    return int(digits[0])


def _follows_data(prober: Prober, stand: list[int]) -> NoTreeError:
    return NoTreeError(
        prober.target.label,
        DATA,
        f"elements {stand[0]}, {stand[1]} and {stand[2]} meet in one step, yet what is lost "
        "there depends on how many terms it has: the order follows the data",
    )


def _loses_alike(prober: Prober, units: Units, stand: list[int], below: int) -> bool:
    """Say whether terms that one step loses are lost beside M and beside -M alike."""

    def fill(block: Codes, start: int, stop: int) -> None:
        for row, i in enumerate(range(start, stop)):
            block[row, stand[0]] = units.code(units.top, negative=i == 1)
            block[row, stand[2:5]] = units.code(units.top - below)

    found: list[float] = prober.run(2, fill).tolist()
    return found == [2.0**units.top, -(2.0**units.top)]


def without_tree(prober: Prober, reason: str) -> NoTreeError:
    """Return why a function has no tree, as far as calls can tell.

    Args:
        prober: hands vectors to the function.
        reason: what fits no tree.
    """
    label = prober.target.label
    try:
        deterministic(prober, REPEATS)
    except NoTreeError as error:
        return error
    for kind, seen in seen_in_vectors(prober):
        return NoTreeError(label, kind, seen)
    return NoTreeError(label, NO_TREE, reason)


def seen_in_vectors(prober: Prober) -> Iterator[tuple[str, str]]:
    """Yield what random vectors show of a function without a tree: a kind, and what was seen."""
    codes = prober.vectors(VECTORS)
    values = decode_array(codes, prober.format)
    found = prober.values(codes)
    stored = _stored(found, prober.format)
    if stored is None:
        return
    rounding = Rounding.of(stored)
    if (found == round_array(_exact(values), rounding)).all():
        yield EXACT, f"{VECTORS} of {VECTORS} random vectors have their exact sum, rounded once"
    order = prober.random.permutation(prober.n)
    if prober.n > 4 and (prober.values(codes[:, order]) == found).all():
        yield DATA, "its bits do not change when the elements change places, yet it rounds"
    turned = encode_array(-values, prober.format)
    if (prober.values(turned) != -found).any():
        yield DATA, "the sum of the negated elements has other bits than the sum, negated"
    positive = np.abs(values)
    sums = prober.values(encode_array(positive, prober.format))
    right = int((sums == round_array(_exact(positive), rounding)).sum())
    if prober.n >= 32 and right >= VECTORS - 1:
        seen = f"{right} of {VECTORS} random vectors of positive numbers have their exact sum"
        yield COMPENSATED, f"{seen}, rounded once, which no tree of {prober.n} elements gives"


def _exact(values: Floats) -> Floats:
    return np.array([math.fsum(row) for row in values.tolist()])
