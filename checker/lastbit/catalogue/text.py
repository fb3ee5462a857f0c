"""The report on some rules for a terminal: a line for each, and below it what fails.

RED201  split-k      transform  reassociation  reassociation  24 instances  ok
RED207  merge-order  transform  reassociation  rounding       24 instances  FAIL
    claims `reassociation`, but at `y` with outer=split(2, partials=bf16) it is a change of ...
        x = [0x1.0p+0, 0x1.0p-9]: 0x3f804000 -> 0x3f800000 (f32 `y`)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lastbit.catalogue.records import Checked, Shown
from lastbit.records import WitnessInput
from lastbit.report.words import plural

MOST_VALUES = 8  # of the inputs of a witness that are written out


def render(checked: Sequence[Checked]) -> str:
    """Return the report: claims, what was verified, failures and hints, and the totals."""
    rows = [_columns(one) for one in checked]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for one, row in zip(checked, rows, strict=True):
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(padded).rstrip())
        lines += _below(one)
    return "\n".join([*lines, totals(checked)]) + "\n"


def totals(checked: Sequence[Checked]) -> str:
    """Return the last line."""
    failed = sum(bool(one.failures) for one in checked)
    parts = [
        f"checked {plural(len(checked), 'rule')}",
        plural(sum(one.instances for one in checked), "instance"),
        f"{sum(one.unknown for one in checked)} unknown",
        plural(sum(one.examples for one in checked), "example"),
        plural(sum(len(one.hints) for one in checked), "hint"),
        f"{plural(failed, 'rule')} failed",
    ]
    return "; ".join(parts)


def _columns(one: Checked) -> tuple[str, ...]:
    return (
        one.code,
        one.name,
        one.kind,
        str(one.claim),
        "none" if one.verified is None else str(one.verified),
        plural(one.instances, "instance"),
        "FAIL" if one.failures else "ok",
    )


def _below(one: Checked) -> Iterator[str]:
    for failure in one.failures:
        yield f"    {failure.message}"
        if failure.shown is not None:
            yield f"        {_shown(failure.shown)}"
    for hint in one.hints:
        yield f"    hint: {hint}"


def _shown(shown: Shown) -> str:
    witness = shown.witness
    few = sum(len(value.hex) for value in witness.inputs.values()) <= MOST_VALUES
    inputs = ", ".join(_input(name, value, few) for name, value in witness.inputs.items())
    before, after = ", ".join(witness.before), ", ".join(witness.after)
    return f"{inputs}: {before} -> {after} ({witness.format} `{witness.output}`)"


def _input(name: str, value: WitnessInput, few: bool) -> str:
    shape = f"[{', '.join(str(size) for size in value.shape)}]"
    if not few:
        return f"{name}: {value.format}{shape}"
    if len(value.hex) == 1:
        return f"{name} = {value.hex[0]}"
    shape = shape if len(value.shape) > 1 else ""
    return f"{name}{shape} = [{', '.join(value.hex)}]"
