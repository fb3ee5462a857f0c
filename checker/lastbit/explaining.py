"""Say what a rule means: for a terminal, and for `docs/rules.md`.

    python -m lastbit.explaining > docs/rules.md

Both are made of the same parts. A transform shows its graph before and what it makes of it; a
hazard the unsafe form beside safe ones, what is found there, and the remedy. The bits of the
witness stand in the rule's file; where they do not, the example is evaluated, for which alone numpy
is needed.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Literal

from lastbit.codes import GENERAL
from lastbit.errors import LastbitError
from lastbit.printing import print_graph
from lastbit.records import PROMISES
from lastbit.registry import find_rule, load_rules
from lastbit.rule import Edits, Example, Parameter, Rewrite, Site
from lastbit.staging import nesting, sizes_of, staged

FAMILIES = {
    "FUS": "Fusion, rounding points and algebra",
    "RED": "Reductions",
    "DET": "Determinism and invariance",
    "QNT": "Quantization",
    "CVT": "Conversions",
    "DOM": "Range and special values",
}
COST = "Cost (COST)"
KEPT = ("domain", *PROMISES)
HEADINGS = ("Why it matters", "Legal", "Error", "How it is counted", "Source", "See also")
CODE = re.compile(r"\b[A-Z]{3,}\d{3}\b")
MOST_SHOWN = 12  # values of an input that an example lists
LARGE = 2**15  # powers of two from here on are written as such
COMMAND = "python -m lastbit.explaining > docs/rules.md"

INTRODUCTION = f"""# Rules

What each transform does to the numbers, when it is legal, and an input that proves it. This file is
made of the files in `rules/`, which `lastbit explain CODE` shows as well; link to a rule as
`rules.md#red201-split-k`. Do not edit it: change the rule, and run

    {COMMAND}

A **transform** claims the loosest kind of change that can come of it on ordinary runs (`bitwise`,
`reassociation`, `rounding`, `grid`, `math`), and names what may be lost besides: the `domain` (what
happens to NaN, infinities, signed zeros, overflow and subnormal results) or a promise
(`deterministic`, `batch-invariant`, `layout-invariant`). All else it keeps. A **hazard** is found
in a graph as it stands; its claim is what the remedy changes. `lastbit rules --check` verifies
every claim, requirement and example.

The graphs are in the text form of plans; an example fills an input with one number, or lists its
values row by row. What cannot be expressed or decided is in [limits.md](limits.md).

## By family
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of what is said of a rule.

    Attributes:
        title: its heading.
        lines: its text; one line where it is a fact.
        kind: how it is set.
    """

    title: str
    lines: tuple[str, ...]
    kind: Literal["fact", "list", "code"] = "fact"


def explain(name: str) -> str:
    """Return what a rule means, for a terminal.

    Raises:
        InputError: there is no rule of that code or name.
    """
    if name.upper() in GENERAL:
        return f"{name.upper()}: {GENERAL[name.upper()]}\n"
    rule = find_rule(name)
    lines = [rule.prose.strip(), ""]
    for part in parts(rule):
        if part.kind == "fact":
            lines.append(f"{part.title}: {part.lines[0]}")
            continue
        if lines[-1]:
            lines.append("")
        lines += [f"{part.title}:", *(f"  {line}".rstrip() for line in part.lines), ""]
    return "\n".join(lines).rstrip() + "\n"


def parts(rule: Rewrite) -> Iterator[Part]:
    """Yield what is said of a rule besides its prose."""
    lost = [_word(name) for name in KEPT if name in rule.loses]
    kept = [_word(name) for name in KEPT if name not in rule.loses]
    what = "Claim" if rule.finds is None else "The remedy changes"
    yield Part(what, (f"{rule.claim}" + (" on ordinary runs" if "domain" in rule.loses else ""),))
    if lost:
        yield Part("May lose", (", ".join(lost),))
    if kept:
        yield Part("Keeps", (", ".join(kept),))
    if rule.parameters:
        yield Part("Parameters", tuple(map(_parameter, rule.parameters)), "list")
    if rule.requires:
        yield Part("Requires", tuple(require.text for require in rule.requires), "list")
    graph = tuple(textwrap.dedent(rule.graph).strip().splitlines())
    at = ", ".join(rule.at)
    if rule.finds is None:
        yield Part(f"Before, at {at}", graph, "code")
    else:
        yield Part(f"Unsafe at {at}", graph, "code")
        yield Part("Found", tuple(_found(rule)), "list")
    yield _after(rule)
    if rule.examples:
        yield Part("Examples", tuple(map(_example, rule.examples)), "code")
    witness = next((e for e in rule.examples if e.kind == "breaks"), None)
    if witness is not None:
        given = ", ".join(filter(None, (_parameters(witness), _inputs(witness))))
        yield Part("Witness", (given, _shown(rule, witness)), "code")


def _word(promise: str) -> str:
    return promise.replace("_", "-")


def _parameter(parameter: Parameter) -> str:
    default = parameter.default
    given = " (optional)" if default == "" else f" (default {default})"
    if default is None:
        given = " (required)"
    named = all(choice in parameter.meaning for choice in parameter.choices)
    choices = "" if named else f": {', '.join(parameter.choices)}"
    return f"{parameter.name}: {parameter.meaning}{choices}{given}"


def _found(rule: Rewrite) -> Iterator[str]:
    from lastbit.hazards import standing_of

    assert rule.finds is not None
    for danger in rule.finds(standing_of(rule)):
        yield f"{', '.join(danger.at)}: {danger.message}"


def _after(rule: Rewrite) -> Part:
    """Return what a rule makes of its graph: the definitions that it changes, as text."""
    shown = [e for e in rule.examples if e.kind == "breaks"]
    shown += [e for e in rule.examples if e.kind == "holds"]
    required = {parameter.name for parameter in rule.parameters if parameter.default is None}
    for example in (*shown, Example("holds", {}, {})):
        if required - example.parameters.keys():
            continue
        try:
            site = staged(rule, example)
            edits = rule.apply(site)
        except LastbitError:
            continue
        lines = _definitions(site, edits)
        facts = [*_facts(example.parameters), *_facts(sizes_of(rule, example))]
        where = f"{'After' if rule.finds is None else 'Remedy'}, at {', '.join(site.at)}"
        return Part(where + (f", with {', '.join(facts)}" if facts else ""), lines, "code")
    return Part("After", ("no example applies the rule",), "list")


def _facts(given: Mapping[str, object]) -> list[str]:
    return [f"{name} = {value}" for name, value in given.items()]


def _definitions(site: Site, edits: Edits) -> tuple[str, ...]:
    """Return the definitions that edits change, each a line, with the parts that stand alone."""
    old, new = site.program.nodes, site.program.edited(edits)
    changed = [n for n in new.nodes if n not in old or new.nodes[n].key != old[n].key]
    others = new.nodes.keys() - set(changed)
    text = print_graph(new.closed(changed, others))
    lines = (line for line in text.splitlines() if not line.startswith("return "))
    return tuple(line for line in lines if line.split(":", 1)[0] not in others)


def _example(example: Example) -> str:
    given = [f"at {', '.join(example.at)}"] if example.at else []
    given += [text for text in (_parameters(example), _inputs(example)) if text]
    what = f"rejects `{example.requirement}`" if example.kind == "rejects" else example.kind
    shows = f"; {example.shows}" if example.shows else ""
    return f"{what}: {', '.join(given)}{shows}" if given else f"{what}{shows}"


def _parameters(example: Example) -> str:
    return ", ".join(_facts(example.parameters))


def _inputs(example: Example) -> str:
    return ", ".join(f"{name} = {_values(value)}" for name, value in example.inputs.items())


def _values(value: object) -> str:
    """Write a number, or rows of numbers; many values are cut short."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return _number(value)
    flat = list(_flat(value))
    shape = nesting(value)
    if len(flat) > 1 and len(set(map(_number, flat))) == 1:
        return f"{' x '.join(map(str, shape))} values of {_number(flat[0])}"
    if len(flat) > MOST_SHOWN:
        first = ", ".join(map(_number, flat[: MOST_SHOWN // 2]))
        return f"[{first}, ...] ({' x '.join(map(str, shape))} values)"
    return f"[{', '.join(map(_values, value))}]"


def _flat(value: object) -> Iterator[object]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _number(value: object) -> str:
    """Write a number as the example has it, but a large power of two as such."""
    if not isinstance(value, int | float | Fraction) or not isfinite(value):
        return str(value)
    exact = Fraction(value)
    size = abs(exact)
    if size.denominator == 1 and size >= LARGE and size.numerator.bit_count() == 1:
        return f"{'-' if exact < 0 else ''}2^{size.numerator.bit_length() - 1}"
    return str(value)


def _shown(rule: Rewrite, example: Example) -> str:
    if example.shows:
        return example.shows
    from lastbit.examples import check_example

    try:
        return check_example(rule, example).difference or "no bit differs: the example is wrong"
    except LastbitError as error:
        return f"cannot be evaluated: {str(error).rstrip('.')}"


def document(rules: Mapping[str, Rewrite]) -> str:
    """Return `docs/rules.md`."""
    lines = [INTRODUCTION]
    for family, title in FAMILIES.items():
        own = [rule for code, rule in rules.items() if code.startswith(family)]
        lines += [
            f"**{title} ({family})**",
            "",
            "| rule | claim | may lose | what happens |",
            "| --- | --- | --- | --- |",
            *(_row(rule) for rule in own),
            "",
        ]
    lines += [f"**{COST}**", "", "Not rules: what `lint` says of the cost of a step, below.", ""]
    lines += ["## One by one", ""]
    for rule in rules.values():
        lines += _section(rule, rules)
    lines += ["## Cost", ""]
    for code, text in GENERAL.items():
        if code.startswith("COST"):
            title, *rest = text.splitlines()
            lines += [f"**{code}:** {_escaped(title)}", *_paragraphs(rest), ""]
    return "\n".join(lines).rstrip() + "\n"


def anchor(rule: Rewrite) -> str:
    """Return the anchor of a rule's section, as GitHub makes it of the heading."""
    return f"{rule.code}-{rule.name}".lower()


def _row(rule: Rewrite) -> str:
    lost = ", ".join(_word(name) for name in KEPT if name in rule.loses)
    link = f"[{rule.code} {rule.name}](#{anchor(rule)})"
    hazard = "" if rule.finds is None else " (hazard)"
    cells = (link, f"{rule.claim}{hazard}", lost, _escaped(rule.summary.rstrip(".")))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _section(rule: Rewrite, rules: Mapping[str, Rewrite]) -> Iterator[str]:
    yield f"### {rule.code} {rule.name}"
    yield ""
    yield from (_linked(line, rules) for line in _prose(rule))
    facts = [f"{part.title}: {part.lines[0]}" for part in parts(rule) if part.kind == "fact"]
    yield f"{'. '.join(facts)}."
    yield ""
    for part in parts(rule):
        if part.kind == "fact":
            continue
        yield f"**{part.title}**"
        yield ""
        if part.kind == "code":
            yield from ("```text", *part.lines, "```", "")
        else:
            yield from (*(f"- {_escaped(line)}" for line in part.lines), "")


def _prose(rule: Rewrite) -> Iterator[str]:
    """Yield the prose of a rule, each of its paragraphs as one."""
    first, *rest = rule.prose.strip().splitlines()
    yield _escaped(_sentence(first.split(":", 1)[-1].strip()))
    yield from _paragraphs(rest)
    yield ""


def _paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines as paragraphs, each of which begins with what it is about."""
    for line in lines:
        label, colon, text = line.partition(":")
        if colon and label in HEADINGS:
            yield ""
            yield f"**{label}:** {_escaped(text.strip())}"
        elif line.strip():
            yield _escaped(line)


def _linked(line: str, rules: Mapping[str, Rewrite]) -> str:
    """Return a line in which the codes of other rules are links to them."""

    def link(match: re.Match[str]) -> str:
        rule = rules.get(match[0])
        return match[0] if rule is None else f"[{rule.code}](#{anchor(rule)})"

    return CODE.sub(link, line)


def _sentence(text: str) -> str:
    """Return a sentence with a capital at its start, unless it starts with a formula."""
    word = text.split(" ", 1)[0]
    return text[0].upper() + text[1:] if word.isalpha() and (len(word) > 1 or word == "a") else text


def _escaped(text: str) -> str:
    """Return a line in which Markdown sees no emphasis and no markup outside of backticks."""
    pieces = text.split("`")
    for i in range(0, len(pieces), 2):
        for character in "*_<[":
            pieces[i] = pieces[i].replace(character, f"\\{character}")
    return "`".join(pieces)


def main() -> None:
    """Print `docs/rules.md`."""
    sys.stdout.write(document(load_rules()))


if __name__ == "__main__":
    main()
