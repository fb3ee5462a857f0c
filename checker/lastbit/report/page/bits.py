"""The bits of a witness: both results, field by field, with the bits that differ marked."""

from __future__ import annotations

from collections.abc import Iterator

from lastbit.formats import CodeError, Format, FormatError, decode, format_of
from lastbit.report.page.escape import escaped
from lastbit.report.page.numbers import exact_text
from lastbit.report.words import plural
from lastbit.result import Witness
from lastbit.ulps import ulp_distance

MOST_SHOWN = 4  # elements of a witness
MOST_BITS = 128


def bits_table(witness: Witness) -> str:
    """Return the differing elements as a table; empty where there is none."""
    if not witness.before:
        return ""
    try:
        fmt = format_of(witness.format)
    except FormatError:
        fmt = None
    rows = "".join(_rows(witness, fmt))
    more = len(witness.before) - MOST_SHOWN
    note = f"; {plural(more, 'element')} more" if more > 0 else ""
    head = f"Both results as {escaped(witness.format)}{_fields(fmt)}{note}"
    return f"<table class=bits><caption>{head}</caption>{rows}</table>"


def _fields(fmt: Format | None) -> str:
    if fmt is None or fmt.kind != "float":
        return ""
    sizes = _sizes(fmt)
    names = ("sign", "exponent", "fraction")[-len(sizes) :]
    parts = [f"{size} {name}" for size, name in zip(sizes, names, strict=True) if size]
    return f": bits of {', '.join(parts)}"


def _sizes(fmt: Format) -> list[int]:
    """Return the bits of sign, exponent and fraction."""
    fraction = fmt.precision - 1
    sizes = [fmt.bits - fraction - fmt.signed, fraction]
    return [1, *sizes] if fmt.signed else sizes


def _rows(witness: Witness, fmt: Format | None) -> Iterator[str]:
    pairs = zip(witness.before, witness.after, strict=True)
    for i, (before, after) in enumerate(list(pairs)[:MOST_SHOWN]):
        index = witness.index[i] if i < len(witness.index) else ()
        place = f"[{', '.join(map(str, index))}]" if index else ""
        name = escaped((witness.output or "") + place)
        apart = _apart(before, after, fmt)
        for side, own, other in (("before", before, after), ("after", after, before)):
            is_first = side == "before"
            cells = [f"<td rowspan=2><code>{name}</code>"] if is_first else []
            cells.append(f"<th scope=row>{side}")
            cells.append(f"<td class=m>{_bits(own, other, fmt)}")
            cells.append(f"<td class=m>{escaped(own)}")
            cells.append(f"<td class=n>{_value(own, fmt)}")
            cells += [f"<td rowspan=2 class=n>{apart}"] if is_first else []
            yield f"<tr>{''.join(cells)}"


def _code(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None


def _bits(own: str, other: str, fmt: Format | None) -> str:
    code, against = _code(own), _code(other)
    if code is None or against is None or code < 0 or against < 0:
        return ""
    bits = fmt.container if fmt else 4 * max(len(own) - 2, len(other) - 2)
    if max(code, against) >> bits or bits > MOST_BITS:
        return ""
    text, compared = f"{code:0{bits}b}", f"{against:0{bits}b}"
    cuts = _sizes(fmt) if fmt and fmt.kind == "float" else []
    edges = {sum(cuts[: i + 1]) for i in range(len(cuts))} - {bits}
    out, marked = [], False
    for i, (bit, there) in enumerate(zip(text, compared, strict=True)):
        differs = bit != there
        if marked and (not differs or i in edges):
            out.append("</b>")
            marked = False
        out.append(" " if i in edges else "")
        if differs and not marked:
            out.append("<b>")
            marked = True
        out.append(bit)
    return "".join(out) + ("</b>" if marked else "")


def _value(text: str, fmt: Format | None) -> str:
    code = _code(text)
    if code is None or fmt is None:
        return ""
    try:
        return exact_text(decode(code, fmt))
    except CodeError:
        return "no code"


def _apart(before: str, after: str, fmt: Format | None) -> str:
    codes = _code(before), _code(after)
    if fmt is None or codes[0] is None or codes[1] is None:
        return ""
    try:
        distance = ulp_distance(decode(codes[0], fmt), decode(codes[1], fmt), fmt)
    except FormatError:
        return ""
    return f"{distance.ulps:,} ulp apart" if distance.ulps else ""
