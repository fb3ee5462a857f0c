"""Operands on which schedules of a product differ that the observed one did not tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from lastbit.formats import Format, bits_text, decode
from lastbit.inference.product import Product, Way, outputs
from lastbit.inference.records import MOST_SHOWN, Apart
from lastbit.predicting import draw_codes
from lastbit.round_array import Codes, encode_array, round_array
from lastbit.rounding import Rounding

Told: TypeAlias = tuple[tuple[Apart, ...], Mapping[str, Codes], tuple[str, ...]]

DRAWS: Final = ("cancelling", "normal", "blocks", "wide", "bits")
SMALL: Final = (8, 64)  # rows and columns of the product
BLOCKS: Final = (128, 32, 64, 256, 512)  # terms
BINADES: Final = 20  # up and down from one


def told_apart(product: Product, ways: Sequence[Way], seed: int) -> Told:
    """Find drawn operands on which the first ways differ.

    Args:
        product: what was observed.
        ways: two or more that give all of it.
        seed: selects the draws.

    Returns:
        for each way but the first an element in which both differ, where one was found; the
        operands that tell the most of them apart; and notes.
    """
    shown = ways[:MOST_SHOWN]
    apart: dict[int, Apart] = {}
    best: tuple[int, str, Mapping[str, Codes]] = 1, "", {}
    for draw in DRAWS:
        operands = _operands(product, draw, seed)
        columns = np.zeros(SMALL[1], np.intp)
        codes = [outputs(product, way, operands["a"], operands["b"], columns) for way in shown]
        different = len({one.tobytes() for one in codes})
        here = {
            i: _apart(product.format, i, draw, codes[0], other)
            for i, other in enumerate(codes[1:], 2)
            if (other != codes[0]).any()
        }
        if different > best[0]:
            best = different, draw, operands
            apart |= here  # these operands are offered
        apart = here | apart
        if different == len(shown):
            break
    order = sorted(apart, key=lambda number: (apart[number].data != best[1], number))
    missing = [str(i) for i in range(2, len(shown) + 1) if i not in apart]
    notes = []
    if missing:
        notes.append(
            f"no operands were found on which 1 differs from {', '.join(missing)}, and they are "
            "not proven equal"
        )
    if len(ways) > len(shown) and apart:
        notes.append("the operands that are offered may tell more of them apart than are shown")
    return tuple(apart[number] for number in order), best[2], tuple(notes)


def _apart(fmt: Format, number: int, draw: str, first: Codes, other: Codes) -> Apart:
    index = tuple(int(i) for i in np.argwhere(first != other)[0])
    bits = [bits_text(decode(int(codes[index]), fmt), fmt) for codes in (first, other)]
    return Apart(1, number, draw, "c", index, (bits[0], bits[1]))


def _operands(product: Product, draw: str, seed: int) -> Mapping[str, Codes]:
    rng = np.random.Generator(np.random.PCG64([seed, DRAWS.index(draw)]))
    left, right = product.spec.formats
    k = product.a.shape[1]
    if draw == "blocks":
        return {"a": _blocks((SMALL[0], k), left, rng), "b": _blocks((SMALL[1], k), right, rng).T}
    if draw == "cancelling":
        return _cancelling(k, left, right, rng)
    a = draw_codes((SMALL[0], k), left, draw, rng)
    return {"a": a, "b": draw_codes((k, SMALL[1]), right, draw, rng)}


def _blocks(shape: tuple[int, int], fmt: Format, rng: np.random.Generator) -> Codes:
    """Return normal numbers; in each row blocks of some terms have a power of two in common."""
    values = rng.standard_normal(shape)
    least, most = max(fmt.emin, -BINADES), min(fmt.emax - 2, BINADES)
    for i, row in enumerate(values):
        length = BLOCKS[i % len(BLOCKS)]
        powers = rng.integers(least, most + 1, -(-shape[1] // length))
        row *= np.exp2(np.repeat(powers, length)[: shape[1]])
    return encode_array(round_array(values, Rounding.of(fmt, overflow="saturate")), fmt)


def _cancelling(
    k: int, left: Format, right: Format, rng: np.random.Generator
) -> Mapping[str, Codes]:
    """Return rows of ones with a large number and its negative, whose products cancel exactly.

    So what terms and parts lost to the large one is left, and shows in outputs of few digits. Each
    row has its pair in another stretch of K, and every second row its negative half of K away.
    """
    values = np.ones((SMALL[0], k))
    b = draw_codes((k, SMALL[1]), right, "normal", rng)
    stretch = k // SMALL[0]
    for i, row in enumerate(values if stretch > 2 else ()):
        first = i * stretch
        second = first + int(rng.integers(2, stretch))
        if i % 2:
            second = (i + SMALL[0] // 2) % SMALL[0] * stretch + 1
        row[first] = 2.0 ** min(BINADES, left.emax - 1)
        row[second] = -row[first]
        b[second] = b[first]
    return {"a": encode_array(values, left), "b": b}
