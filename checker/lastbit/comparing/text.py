"""A comparison as text: a block for each pair that differs, and the totals on the last line."""

from __future__ import annotations

from collections.abc import Iterator

from lastbit.comparing.records import Compared, Comparison, Places
from lastbit.report.words import count, number, percent, plural

_COLORS = {"bitwise": "32", "within": "32", "equal": "33"}
_MOST_NAMES = 8
_WIDTH = 88


def render(found: Comparison, *, color: bool = False) -> str:
    """Return the report; equal comparisons give equal bytes."""
    blocks = [_block(one, color) for one in found.tensors if one.relation != "bitwise"]
    same = [one for one in found.tensors if one.relation == "bitwise"]
    if same:
        names = ", ".join(f"`{one.name}`" for one in same[:_MOST_NAMES] if one.name)
        more = f" and {len(same) - _MOST_NAMES} more" if len(same) > _MOST_NAMES else ""
        elements = sum(one.elements for one in same)
        text = f"the same bits in {plural(len(same), 'tensor')} ({count(elements)} elements)"
        blocks.append(f"{text}: {names}{more}" if names else text)
    return "\n\n".join([*blocks, last_line(found)]) + "\n"


def last_line(found: Comparison) -> str:
    """Return the totals."""
    relations: dict[str, int] = {}
    for one in found.tensors:
        relations[one.relation] = relations.get(one.relation, 0) + 1
    kinds = ", ".join(f"{n} {relation}" for relation, n in sorted(relations.items()))
    elements = sum(one.elements for one in found.tensors)
    other = sum(one.other_bits for one in found.tensors)
    text = f"compared {plural(len(found.tensors), 'tensor')}, {count(elements)} elements: {kinds}"
    return f"{text}; {plural(other, 'element')} with other bits"


def _block(one: Compared, color: bool) -> str:
    shape = next(shape for shape in one.shapes if shape is not None)
    kind = f"{one.format}{list(shape)}" if one.format and one.relation != "other-shape" else ""
    head = f"`{one.name}` {kind}".strip() if one.name else kind
    code = _COLORS.get(one.relation, "31")
    verdict = f"\x1b[{code}m{one.relation}\x1b[0m" if color else one.relation
    lines = [f"{head:<{_WIDTH}}  {verdict}"]
    lines += [f"    {line}" for line in ([one.message] if one.message else _rows(one))]
    return "\n".join(lines)


def _rows(one: Compared) -> Iterator[str]:
    share = percent(one.other_bits / one.elements)
    yield f"bits      {share} of {count(one.elements)} elements differ ({number(one.other_bits)})"
    if one.max_ulp is not None and one.apart:
        ranks = f"p50 {one.p50:,}, p99 {one.p99:,}, p99.9 {one.p999:,}"
        yield f"ulp       up to {one.max_ulp:,} ulp of {one.format}; {ranks}"
        yield f"spread    {_histogram(one.histogram)}"
    if one.at_scale:
        at = one.at_scale
        ranks = f"p50 {number(at.p50)}, p99 {number(at.p99)}, p99.9 {number(at.p999)}"
        of = f"ulp of {one.format} at the largest of the {at.scale}"
        yield f"at scale  up to {number(at.max)} {of}; {ranks}"
    yield from _specials(one)
    for worst in one.worst:
        values = " -> ".join(repr(value) for value in worst.values)
        bits = f"{worst.a} -> {worst.b}"
        yield f"worst     {list(worst.index)}: {bits} ({values}), {worst.ulps:,} ulp"
    if one.first is not None:
        yield f"first     {list(one.first)}"
    if one.rows:
        yield f"rows      {_places(one.rows)}"
    if one.columns:
        yield f"columns   {_places(one.columns)}"


def _specials(one: Compared) -> Iterator[str]:
    if one.signed_zeros:
        yield f"zeros     {plural(one.signed_zeros, 'zero')} of other sign"
    if one.nan_payloads:
        yield f"nan       {number(one.nan_payloads)} NaN with other bits on both sides"
    if any(one.nan_only):
        before, after = one.nan_only
        yield f"nan       {number(before)} only on the first side, {number(after)} on the second"
    if one.infinite:
        yield f"inf       {number(one.infinite)} infinite on one side only, or of other sign"


def _histogram(counts: tuple[int, ...]) -> str:
    parts = []
    for digits, many in enumerate(counts):
        if many:
            low, high = (1 << digits) >> 1, (1 << digits) - 1
            parts.append(f"{low:,}{f'-{high:,}' if high > low else ''}: {number(many)}")
    return ", ".join(parts)


def _places(places: Places) -> str:
    most = ", ".join(f"{at} ({number(many)} of {number(places.size)})" for at, many in places.most)
    return f"{number(places.touched)} of {number(places.of)} have any; most in {most}"
