"""Parts of a tensor that are quantized by one scale: when the smallest is lost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lastbit.definitions import Definitions, reference
from lastbit.graph import (
    Input,
    Node,
    Round,
    ShapeError,
    View,
    broadcast,
    concat,
    native_rounding,
    substitute,
)
from lastbit.patterns import past_views, same_format
from lastbit.patterns.quantized import Quantized
from lastbit.rule import Edits, MismatchError, Site, Standing
from lastbit.unsafe import behind, quantization_at
from lastbit.unsafe.ranges import ranges_of

NO_SHARED = "the value quantizes several parts by one scale"
NO_PARTS = "every reader multiplies by the scale along the axis of the parts"


@dataclass(frozen=True, slots=True)
class Shared:
    """A quantization by one scale over a concatenation of parts.

    Attributes:
        whole: the quantization.
        parts: what is concatenated.
        axis: along which axis.
    """

    whole: Quantized
    parts: tuple[Node, ...]
    axis: int


def shared(program: Definitions, whole: Quantized) -> Shared | None:
    """Return the parts that share the scale of a quantization, or None."""
    joined = behind(program, whole.numerator)
    joined = behind(program, joined.x) if isinstance(joined, Round) else joined
    if not (isinstance(joined, View) and joined.shape == whole.numerator.shape):
        return None
    axis, scale = int(str(joined.params[0])), whole.scale.shape
    aligned = len(scale) == len(joined.shape) and scale[axis] == 1
    if aligned or all(size == 1 for size in scale):
        return Shared(whole, joined.xs, axis)
    return None


@dataclass(frozen=True, slots=True)
class Lost:
    """A part that a shared scale leaves below the smallest normal number.

    Attributes:
        part: the part.
        rms: the root mean square of its elements.
        scale: the scale.
        said: the declared ranges behind it, for a message.
    """

    part: Node
    rms: float
    scale: float
    said: str


def lost_part(standing: Standing, found: Shared) -> Lost | None:
    """Return the smallest part if a shared scale leaves it below the smallest normal number.

    The scale is that of the largest part. A part whose elements have the root mean square r is
    lost where r / scale lies below the smallest normal number of the grid: then most quotients
    are subnormal, and their error is no longer relative to them.
    """
    fmt = found.whole.node.rounding.format
    sizes = [_size(standing, part) for part in found.parts]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    scale = max(size.largest for size in known) / float(fmt.max_finite)
    part, size = min(zip(found.parts, known, strict=True), key=lambda pair: pair[1].rms)
    if not 0 < size.rms < scale * float(fmt.min_normal):
        return None
    ranges = ranges_of(standing)
    return Lost(part, size.rms, scale, ranges.said(ranges.of(found.whole.numerator)))


def own_scales(site: Site) -> Edits:
    """Return the definitions with a scale for each part.

    Raises:
        MismatchError: no parts share a scale at the site, or a reader cannot multiply by several.
    """
    whole = quantization_at(site)
    found = None if whole is None else shared(site.program, whole)
    if whole is None or found is None:
        raise MismatchError(NO_SHARED)
    name = whole.scale.name if isinstance(whole.scale, Input) else ""
    if not name:
        raise MismatchError("the scale is a named value")
    scales = []
    for part in found.parts:
        shape = list(whole.scale.shape)
        shape[found.axis] = part.shape[found.axis]
        source = past_views(whole.numerator)
        built = substitute([whole.formula], {source.key: same_format(source, part)})
        scales.append(broadcast(built[whole.formula.key], tuple(shape)))
    new = same_format(site.definition(name), concat(scales, found.axis))
    edits = {name: new}
    for reader in dict.fromkeys((whole.name, *site.program.consumers(name))):
        old = site.definition(reader)
        try:
            built = substitute([old], {whole.scale.key: reference(name, new)})
        except ShapeError:
            raise MismatchError(NO_PARTS) from None
        if built[old.key].shape != old.shape:
            raise MismatchError(NO_PARTS)
        edits[reader] = built[old.key]
    return edits


@dataclass(frozen=True, slots=True)
class _Size:
    """How large the elements of a value are.

    Attributes:
        largest: the largest magnitude.
        rms: the root mean square; where only limits are known, of numbers spread evenly.
    """

    largest: float
    rms: float


def _size(standing: Standing, node: Node) -> _Size | None:
    """Return how large the elements of a value are, if its distribution or limits are known."""
    leaf, bounds = past_views(node), ranges_of(standing).of(node)
    rounding = native_rounding(node)
    top = math.inf if rounding is None else float(rounding.format.max_finite)
    limited = bounds.size < top
    if isinstance(leaf, Input) and leaf.name in standing.rms:
        rms = standing.rms[leaf.name]
        # The largest of n normal draws is below this, on the average (Cramer, 1946, sec. 28.6).
        largest = rms * math.sqrt(2 * math.log(2 * max(math.prod(leaf.shape), 1)))
        return _Size(bounds.size if limited else largest, rms)
    return _Size(bounds.size, bounds.size / math.sqrt(3)) if limited else None
