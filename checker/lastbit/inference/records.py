"""What was inferred, for people and for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from lastbit import __version__
from lastbit.codec import to_plain
from lastbit.errors import LastbitError
from lastbit.formats import Format
from lastbit.inference.kernel import Arrays
from lastbit.report.words import count, plural

SCHEMA = "lastbit.infer/1"
WIDTH = 100  # of the text
MOST_SHOWN = 8  # variants in the text
MOST_ALIKE = 4  # other ways to write one

FOUND, NONE, AMBIGUOUS = "found", "none", "ambiguous"


class NoTruthError(LastbitError, TypeError):
    """A result was used as a condition."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change to the reference.

    Attributes:
        code: of the rule; empty for a form that is no rule.
        name: of the rule or form.
        at: the names of the site.
        parameters: every parameter.
        label: code, name, site and parameters in one line.
        title: what it does there, in one sentence.
    """

    code: str
    name: str
    at: tuple[str, ...]
    parameters: Mapping[str, int | str | bool]
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class Failure:
    """An element that differs.

    Attributes:
        data: the inputs on which it does.
        result: the name of the result.
        index: the element.
        format: of the result.
        kernel: its bits by the kernel.
        variant: its bits by the variant.
        values: both as numbers.
        inputs: the elements of inputs that belong to it where shapes say so, as hex floats.
    """

    data: str
    result: str
    index: tuple[int, ...]
    format: str
    kernel: str
    variant: str
    values: tuple[float, float]
    inputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Explained:
    """A variant of the reference, or a schedule, and how many elements it gives.

    Attributes:
        changes: what makes it from the reference; none is the reference itself.
        equal: elements with the kernel's bits.
        total: elements compared.
        same: other ways to write it, proven to have the same bits on ordinary runs.
        within: elements that count as equal by the allowance of `--ulp` alone.
        failure: the first element that differs, or None.
        schedule: of a sum or product, or None.
        alike: other ways to write the schedule.
    """

    changes: tuple[Change, ...]
    equal: int
    total: int
    same: tuple[tuple[Change, ...], ...] = ()
    within: int = 0
    failure: Failure | None = None
    schedule: str | None = None
    alike: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Return the share of elements that are equal."""
        return self.equal / self.total if self.total else 0.0

    @property
    def label(self) -> str:
        """Return the changes, or the schedule, in one line."""
        if self.schedule is not None:
            return f"`{self.schedule}`"
        return _labels(self.changes)


def _labels(changes: Sequence[Change]) -> str:
    return " + ".join(change.label for change in changes) or "the reference as it is written"


@dataclass(frozen=True, slots=True)
class Apart:
    """Inputs on which two variants differ that the data did not tell apart.

    Attributes:
        first: the number of a variant, counted from 1.
        second: of another.
        data: what the inputs are.
        result: the result that differs.
        index: where it differs first.
        bits: of both variants there.
    """

    first: int
    second: int
    data: str
    result: str
    index: tuple[int, ...]
    bits: tuple[str, str]


@dataclass(frozen=True)
class Inferred:
    """What gives the observed bits.

    Attributes:
        status: `found`, `none` or `ambiguous`.
        reference: the name of the reference.
        kernel: the name of the kernel, or of the file.
        variants: what gives all bits; several where the data cannot tell them apart.
        near: where there is none, the nearest, best first.
        data: what the inputs were, each with the number of elements compared.
        seed: of the draws.
        tried: variants tried.
        notes: what a reader must know.
        apart: inputs that tell variants apart.
        inputs: codes of those inputs, or of those on which the nearest fails.
        formats: the format of each input.
        noun: what was tried: `variant` or `schedule`.
        uncounted: kinds of inputs that were left out, since even the nearest differs there beside
            special values.
    """

    status: str
    reference: str
    kernel: str
    variants: tuple[Explained, ...]
    near: tuple[Explained, ...]
    data: Mapping[str, int]
    seed: int
    tried: int
    notes: tuple[str, ...] = ()
    apart: tuple[Apart, ...] = ()
    inputs: Arrays = field(default_factory=dict, repr=False)
    formats: Mapping[str, Format] = field(default_factory=dict, repr=False)
    noun: str = "variant"
    uncounted: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Return whether exactly one variant, or several equal ones, give all bits."""
        return self.status == FOUND

    @property
    def ambiguous(self) -> bool:
        """Return whether several variants give all bits and are not the same."""
        return self.status == AMBIGUOUS

    @property
    def nearest(self) -> Explained | None:
        """Return what gives the most elements; None where nothing could be run."""
        return next(iter([*self.variants, *self.near]), None)

    @property
    def exit_code(self) -> int:
        """Return the exit code of the command line."""
        return 0 if self.found else 1

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "schema": SCHEMA,
            "lastbit": __version__,
            "status": self.status,
            "reference": self.reference,
            "kernel": self.kernel,
            "data": dict(self.data),
            "seed": self.seed,
            "tried": self.tried,
            "variants": [_plain(one) for one in self.variants],
            "nearest": [_plain(one) for one in self.near],
            "apart": [to_plain(one) for one in self.apart],
            "uncounted": list(self.uncounted),
            "notes": list(self.notes),
        }

    def render(self, name: str = "text") -> str:
        """Return the report as `text` or `json`."""
        if name == "json":
            return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        return "\n".join(_lines(self)) + "\n"

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def __bool__(self) -> NoReturn:
        raise NoTruthError("a result is neither true nor false. Write assert r.found, r.")


def _plain(one: Explained) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(one)
    return {"label": one.label, "share": one.share, **plain}


def share_text(equal: int, total: int) -> str:
    """Return counts and a percentage that never reads 100 where something differs."""
    if equal == total:
        return f"all {count(total)} elements"
    percent = f"{100 * equal / total:.4g}" if total else "0"
    digits = 4
    while float(percent) >= 100 and digits < 12:
        digits += 1
        percent = f"{100 * equal / total:.{digits}g}"
    return f"{equal:,} of {total:,} elements ({percent} %)"


def _row(name: str, text: str) -> str:
    """Return a line, continued below its text where it is long."""
    deeper = " " * (10 + len(text) - len(text.lstrip()))
    return textwrap.fill(
        f"{name:<10}{text}",
        WIDTH,
        subsequent_indent=deeper,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _lines(result: Inferred) -> list[str]:
    total = sum(result.data.values())
    kinds = ", ".join(result.data)
    elements = f"{count(total)} elements"
    lines = [f"{result.kernel} against {result.reference}: {elements} on inputs {kinds}"]
    common = _common(result.variants)
    if result.status == AMBIGUOUS:
        noun = plural(len(result.variants), result.noun)
        gives = "gives" if len(result.variants) == 1 else "give"
        others = "it from others that do" if len(result.variants) == 1 else "them apart"
        text = f"{noun} {gives} all bits, and the data does not tell {others}"
        lines.append(_row("ambiguous", text))
        if common:
            lines.append(_row("certain", _labels(common)))
            lines += [_row("", change.title) for change in common]
    for number, one in enumerate(result.variants[:MOST_SHOWN], 1):
        head = "found" if result.found else f"{number}"
        lines += _variant(head, one, common if result.ambiguous else ())
    if len(result.variants) > MOST_SHOWN:
        lines.append(_row("", f"and {len(result.variants) - MOST_SHOWN} more"))
    if result.status == NONE:
        lines.append(_row("none", f"no {result.noun} gives all bits"))
    for number, one in enumerate(result.near):
        lines += _variant("nearest" if not number else "next", one, ())
        if not number:
            lines += _failure(one.failure)
    for apart in result.apart[:MOST_SHOWN]:
        place = f"`{apart.result}`{list(apart.index)}"
        text = f"{apart.first} and {apart.second} differ on inputs {apart.data!r}: {place} is "
        lines.append(_row("apart", f"{text}{apart.bits[0]} and {apart.bits[1]}"))
    lines += [_row("note", note) for note in result.notes]
    return [*lines, _last(result)]


def _last(result: Inferred) -> str:
    tried = f"{plural(result.tried, result.noun)} tried, seed {result.seed}"
    words = {
        FOUND: "found",
        NONE: "none gives all bits",
        AMBIGUOUS: "ambiguous",
    }
    where = " on ordinary values only" if result.found and result.uncounted else ""
    return f"{words[result.status]}{where}; {tried}"


def _common(variants: Sequence[Explained]) -> tuple[Change, ...]:
    """Return the changes that every variant has."""
    if len(variants) < 2:
        return ()
    rest = [{change.label for change in one.changes} for one in variants[1:]]
    return tuple(c for c in variants[0].changes if all(c.label in labels for labels in rest))


def _variant(head: str, one: Explained, common: Sequence[Change]) -> list[str]:
    own = [change for change in one.changes if change not in common]
    label = one.label if one.schedule is not None or not common else _labels(own)
    if common and not own:
        label = "nothing else"
    lines = [_row(head, f"{label}: {share_text(one.equal, one.total)}")]
    lines += [_row("", f"  {change.title}") for change in own]
    if one.within:
        lines.append(_row("", f"  {plural(one.within, 'element')} by the allowance alone"))
    rest = [[change for change in changes if change not in common] for changes in one.same]
    plain = not one.changes and one.schedule is None  # what else changes nothing is no news
    same = [] if plain else [changes for changes in rest if changes or not common]
    labels = list(dict.fromkeys(_labels(changes) for changes in same))
    labels = [text for text in labels if text != _labels(own)]
    labels += [f"`{schedule}`" for schedule in one.alike]
    for label in labels[:MOST_ALIKE]:
        lines.append(_row("", f"  the same: {label}"))
    if len(labels) > MOST_ALIKE:
        lines.append(_row("", f"  the same: {len(labels) - MOST_ALIKE} more"))
    return lines


def _failure(failure: Failure | None) -> list[str]:
    if failure is None:
        return []
    kernel, variant = (f"{value:.9g}" for value in failure.values)
    place = f"`{failure.result}`{list(failure.index)}"
    text = f"  fails at {place} on {failure.data!r}: the kernel has {failure.kernel} ({kernel}), "
    lines = [_row("", f"{text}it has {failure.variant} ({variant})")]
    if failure.inputs:
        shown = ", ".join(f"{name} = {value}" for name, value in failure.inputs.items())
        lines.append(_row("", f"  with {shown}"))
    return lines
