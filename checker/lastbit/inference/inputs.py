"""Inputs on which a kernel is looked at: drawn as declared, and aimed at what tells variants apart.

Besides the declared distribution there are values with few digits, whose sums, products and
quotients lie on midpoints of formats, and values of wider spread. Tiny values beside such of few
digits tell a midpoint from what lies just beside it, and with it one rounding from two. What tells
trees of sums apart are few large values among small ones, one that absorbs others to an amount that
depends on the tree, and large values that cancel; both also at the last digits of binary64. Rows of
the size of a constant that is added or compared show whether it is there. Where asked for, there
are infinities, NaN, zeros of both signs, subnormals and the largest values.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from lastbit.formats import Format
from lastbit.graph import Input
from lastbit.interpret.intervals import Floats
from lastbit.plan_model import DataFile, Distribution
from lastbit.round_array import Codes, encode_array, round_array
from lastbit.rounding import Rounding
from lastbit.verify.draw import STANDARD, declared_range, draw

DRAWN, SHORT, WIDE, SPECIAL = "drawn", "few digits", "spread", "special values"
FAR, CANCELLING, BELOW, ABSORBED = "far apart", "cancelling", "far below", "absorbed"
NEAR, MIDPOINTS, CANCELLING_WIDE = "near constants", "midpoints", "cancelling in f64"
USUAL = (DRAWN, SHORT, WIDE)
TELLING = (BELOW, FAR, CANCELLING, ABSORBED)
DEEP = (MIDPOINTS, CANCELLING_WIDE)  # what sums in binary64 lose

Specs = Mapping[str, Distribution | DataFile]


def drawn(
    inputs: Sequence[Input],
    specs: Specs,
    seed: int,
    kind: str = DRAWN,
    scales: Sequence[float] = (),
) -> dict[str, Codes]:
    """Return codes of inputs of a kind; equal arguments give equal codes.

    Args:
        inputs: the inputs.
        specs: how each is drawn.
        seed: selects the values.
        kind: what they are.
        scales: sizes of the constants, for the kind `NEAR`.
    """
    found = {}
    rows = _rowed(inputs)
    for number, node in enumerate(inputs):
        spec = specs.get(node.name, STANDARD)
        plain = kind == DRAWN or node.format.kind != "float"
        if plain or isinstance(spec, DataFile) or spec.kind in ("constant", "integers"):
            values = draw(node, spec, seed)
        else:
            place = number, len(inputs)
            values = _aimed(node, spec, seed, kind, place, scales if node.name in rows else ())
        found[node.name] = encode_array(values, node.format)
    return found


def _rowed(inputs: Sequence[Input]) -> set[str]:
    """Return the inputs whose rows are those of the program: of the first shape of most axes."""
    first = max(inputs, key=lambda node: len(node.shape), default=None)
    return set() if first is None else {n.name for n in inputs if n.shape == first.shape}


def _aimed(
    node: Input,
    spec: Distribution,
    seed: int,
    kind: str,
    place: tuple[int, int],
    scales: Sequence[float],
) -> Floats:
    """Return values of a kind for an input, given its number and that of all inputs."""
    words = [seed & (2**64 - 1), zlib.crc32(f"{node.name} {kind}".encode())]
    rng = np.random.Generator(np.random.PCG64(words))
    base = draw(node, spec, seed + 1)
    with np.errstate(all="ignore"):
        if kind == SHORT:
            values = _short(base, node.format, rng)
        elif kind == WIDE:
            values = base * 2.0 ** rng.integers(-4, 3, node.shape)
        elif kind == FAR:
            values = _far_apart(base, node.format, seed)
        elif kind == ABSORBED:
            values = _absorbed(base, node.format, seed)
        elif kind == NEAR:
            values = _near(base, node.format, seed, scales)
        elif kind == MIDPOINTS:
            values = _midpoints(base, node.format, seed) if not place[0] else np.ones(node.shape)
        elif kind in (CANCELLING, CANCELLING_WIDE):
            exponent = 24 if kind == CANCELLING else 60
            values = _cancelling(base, node.format, rng, seed, exponent)
        elif kind == BELOW:
            values = _short(base, node.format, rng)
            if place[1] > 1:  # one input of each element, the same choice in all of one shape
                choice = np.random.Generator(np.random.PCG64([seed, *node.shape]))
                tiny = choice.integers(0, place[1], node.shape) == place[0]
                low = max(node.format.emin // 2, -40)
                values = np.where(
                    tiny, values * 2.0 ** rng.integers(low, low // 2, node.shape), values
                )
        else:
            values = _special(base, node.format, rng)
        limits = declared_range(spec)
        if limits is not None:
            values = np.clip(values, float(limits[0]), float(limits[1]))
        elif kind in (SHORT, WIDE) and spec.kind == "normal":
            deviation = abs(float(spec.parameters[1])) * 8 + abs(float(spec.parameters[0]))
            values = np.clip(values, -deviation, deviation)
    rounding = Rounding.of(node.format, overflow="saturate" if kind != SPECIAL else "inf")
    if kind == SPECIAL and not node.format.has_inf:
        rounding = Rounding.of(node.format, overflow="saturate")
    return round_array(np.asarray(values, np.float64), rounding)


def _short(base: Floats, fmt: Format, rng: np.random.Generator) -> Floats:
    """Return values near some, with one to all of the digits of the format."""
    digits = rng.integers(1, min(fmt.precision, 12) + 1, base.shape)
    exponents = np.frexp(np.where(np.isfinite(base), base, 1.0))[1]
    quantum = 2.0 ** (exponents - digits).astype(np.float64)
    return np.asarray(np.rint(base / quantum) * quantum)


def _rows(values: Floats) -> Floats:
    return values.reshape(-1, values.shape[-1]) if values.ndim else values.reshape(1, 1)


def _far_apart(base: Floats, fmt: Format, seed: int) -> Floats:
    """Return values of which a few in each row are large, at the same places in every input."""
    out = base.copy()
    rows = _rows(out)
    most = min(12, fmt.emax // 2)
    rng = np.random.Generator(np.random.PCG64([seed, rows.shape[1]]))
    for row in rows:
        places = rng.integers(rows.shape[1], size=1 + rows.shape[1] // 64)
        row[places] *= 2.0 ** rng.integers(most // 2, most + 1)
    return out


def _absorbed(base: Floats, fmt: Format, seed: int) -> Floats:
    """Return values of one sign, in each row one so large that the others are near half its ulp.

    Half an ulp of binary32, of the value itself or of its square: a sum loses what is added to it,
    and how much that is depends on the tree.
    """
    out = np.abs(base)
    rows = _rows(out)
    rng = np.random.Generator(np.random.PCG64([seed, rows.shape[1], 1]))
    for number, row in enumerate(rows):
        exponent = (12, 24)[number % 2] + int(rng.integers(-2, 2))
        row[rng.integers(rows.shape[1])] = 2.0 ** min(exponent, fmt.emax - 1)
    return out


def _near(base: Floats, fmt: Format, seed: int, scales: Sequence[float]) -> Floats:
    """Return rows each of which is about as large as a constant, or as its root.

    All inputs have rows of the same sizes, at least that of normal values.
    """
    out = base.copy()
    sizes = [root for size in scales for root in (size, size**0.5)]
    if not sizes:
        return out
    rows = _rows(out)
    rng = np.random.Generator(np.random.PCG64([seed, len(rows), 2]))
    for row in rows:
        size = sizes[int(rng.integers(len(sizes)))] * 2.0 ** rng.integers(-4, 3)
        row *= min(max(size, float(fmt.min_normal) * 16), float(fmt.max_finite) / 16)
    return out


def _midpoints(base: Floats, fmt: Format, seed: int) -> Floats:
    """Return rows whose sum, or sum of squares, lies beside a midpoint of binary32.

    One value, half an ulp of it or of its square, and values so small that binary64 loses some of
    them beside the first, or a longer format does.
    """
    out = np.empty_like(base)
    rows = _rows(out)
    rng = np.random.Generator(np.random.PCG64([seed, rows.shape[1], 3]))
    for row in rows:
        power = 1 + int(rng.integers(2))  # what is added: values, or their squares
        low = (-56, -52) if rng.random() < 0.7 else (-90, -58)
        row[...] = 2.0 ** (rng.integers(*low, row.size) // power)
        row[rng.random(row.size) < rng.choice((0.0, 0.9))] = 0.0 if fmt.has_zero else 2.0**fmt.emin
        if row.size > 2:
            first, half, *tiny = rng.choice(row.size, 3, replace=False)
            row[tiny] = 2.0 ** (int(rng.integers(*low)) // power)
            row[first], row[half] = 1.0, 2.0 ** (-24 // power)
        row *= np.where(rng.random(row.size) < 0.5, 1.0, -1.0) if rng.random() < 0.3 else 1.0
    return np.maximum(np.abs(out), 2.0**fmt.emin) * np.sign(out) + 0.0


def _cancelling(
    base: Floats, fmt: Format, rng: np.random.Generator, seed: int, exponent: int
) -> Floats:
    """Return ones and twos, with a large value and its negative in every other row."""
    out = np.where(rng.random(base.shape) < 0.5, 1.0, 2.0)
    rows = _rows(out)
    large = 2.0 ** min(exponent - int(rng.integers(0, 4)), fmt.emax - 1)
    for row in rows[(seed % 2) :: 2] if len(rows) > 1 else rows:
        if rows.shape[1] > 2:
            first, second = rng.choice(rows.shape[1], 2, replace=False)
            row[first], row[second] = large, -large
    return out


def _special(base: Floats, fmt: Format, rng: np.random.Generator) -> Floats:
    """Return values among which, in each row but the first, some are special."""
    least, most = float(fmt.min_subnormal), float(fmt.max_finite)
    normal = float(fmt.min_normal)
    options = [0.0, -0.0, least, -least, normal - least, normal, most, -most, np.inf, -np.inf]
    options = [*options, np.nan] if fmt.has_nan else options
    out = base.copy().reshape(base.shape[0] if base.ndim > 1 else 1, -1)
    for row in range(1, len(out)):
        kind = row % (len(options) + 2)
        if kind == len(options):
            out[row] = 0.0
        elif kind == len(options) + 1:
            out[row] *= least / np.maximum(np.abs(out[row]), 2.0**-20)
        else:
            some = rng.random(out.shape[1]) < 0.02
            some[rng.integers(out.shape[1])] = True
            out[row, some] = options[kind]
    return out.reshape(base.shape)
