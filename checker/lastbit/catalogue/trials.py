"""The instances on which a rule is tried: graphs, sizes, sites and parameters.

A rule is tried on its own graph at the sizes of its examples, at larger sizes that blocks divide,
at odd ones that they do not, and with the floating-point formats of the graph exchanged; at its
own site and those of its examples; with the parameters of its examples, with each parameter
changed alone, and with random ones. Equal arguments give equal trials.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from lastbit.definitions import Definitions, reference
from lastbit.errors import InputError
from lastbit.graph import Reduce, topological
from lastbit.rule import Parameter, Rewrite, Site, Value
from lastbit.staging import example_site, sizes_of
from lastbit.text import Program, parse_program
from lastbit.verify.bench import defaults

Given = Mapping[str, Value]

COUNTS = (1, 2, 3, 4, 5, 6)
FORMATS = ("f16", "bf16", "f32", "tf32", "e4m3fn", "e5m2")
SCHEDULES = (
    "seq",
    "pairwise",
    "pairwise(4)",
    "lanes(4)",
    "split(3)",
    "split(size=8, inner=pairwise, outer=seq)",
    "split(2, partials=bf16)",
    "promote(4, f32)",
    "any_order",
)
EXCHANGED = (
    {"bf16": "f16", "f16": "bf16"},
    {"f32": "bf16", "bf16": "f32"},
    {"f32": "f16", "f16": "f32"},
    {"seq": "pairwise"},
    {"seq": "split(3, partials=bf16)"},
)
LARGE = ((24, 36, 30, 48, 20, 28), (12, 10, 14, 9, 15, 18))  # of reduced axes, and of others
ODD = ((25, 35, 21, 49, 27, 33), (7, 5, 11, 3, 13, 9))
PRIMES = (7, 11, 13, 17, 19, 23)
MOST = 100_000  # elements of a value in a setting
RANDOM = 8  # random sets of parameters in a setting


@dataclass(frozen=True)
class Setting:
    """A rule's graph at some sizes.

    Attributes:
        program: the graph, in some formats.
        sizes: a size for each symbol.
        purpose: `example` (the sizes of an example), `large`, `odd` or `formats`.
    """

    program: Program
    sizes: Mapping[str, int]
    purpose: str

    def definitions(self) -> Definitions:
        """Return the graph cut at its values.

        Raises:
            InputError: it does not bind at these sizes.
        """
        return Definitions(self.program.nodes(self.sizes, reference), self.program.outputs)


@dataclass(frozen=True, slots=True)
class Trial:
    """A site in a setting, and parameters.

    Attributes:
        at: the names of the site.
        parameters: every parameter that the rule has.
        stated: whether an example of the rule states it.
        further: whether the rule names the site nowhere.
    """

    at: tuple[str, ...]
    parameters: Mapping[str, Value]
    stated: bool = False
    further: bool = False

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Return each parameter with its value."""
        return [(name, str(value)) for name, value in self.parameters.items()]

    def __str__(self) -> str:
        at = ", ".join(f"`{name}`" for name in self.at)
        given = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"at {at} with {given}" if given else f"at {at}"


def settings_of(rule: Rewrite) -> list[Setting]:
    """Return the settings in which a rule is tried, the most telling first."""
    program = parse_program(rule.graph)
    small = [dict(rule.sizes), *(sizes_of(rule, example) for example in rule.examples)]
    large = _fitted(rule, program, LARGE, multiple=True)
    found = [Setting(program, large, "large")]
    found += [Setting(program, sizes, "example") for sizes in small]
    found += [Setting(program, _fitted(rule, program, ODD, multiple=False), "odd")]
    for exchange in EXCHANGED:
        text = _exchanged(rule.graph, exchange)
        if text == rule.graph:
            continue
        try:
            other = parse_program(text)
        except InputError:
            continue
        found += [Setting(other, sizes, "formats") for sizes in (large, dict(rule.sizes))]
    unique: list[Setting] = []
    for setting in found:
        known = any(
            other.program is setting.program and dict(other.sizes) == dict(setting.sizes)
            for other in unique
        )
        if not known and setting.sizes.keys() >= program.symbols and _binds(setting):
            unique.append(setting)
    return unique


def too_large(settings: Iterable[Setting]) -> str:
    """Return why a rule cannot be tried in a setting of many elements; nothing where it can."""
    for setting in settings:
        for name, node in setting.definitions().nodes.items():
            most = max(math.prod(inner.shape) for inner in topological([node]))
            if most > MOST:
                sizes = ", ".join(f"{symbol}={size}" for symbol, size in setting.sizes.items())
                at = f" at {sizes}" if sizes else ""
                return (
                    f"`{name}` has {most:,} elements{at}, and {MOST:,} are the most that are "
                    "tried: state smaller sizes"
                )
    return ""


def sites_of(rule: Rewrite, *, rejected: bool = False) -> list[tuple[str, ...]]:
    """Return the sites at which a rule is tried.

    Args:
        rule: the rule; each value that a hazard finds is a site of its own.
        rejected: whether the sites that it must reject are wanted as well.
    """
    own = [(name,) for name in rule.at] if rule.finds is not None else [rule.at]
    stated = [ex.at for ex in rule.examples if ex.at and (rejected or ex.kind != "rejects")]
    return list(dict.fromkeys([*own, *stated]))


def further_sites(rule: Rewrite, program: Definitions) -> list[tuple[str, ...]]:
    """Return the sites of a rule's graph that it names nowhere: one name of its own is another.

    A rule may accept them all the same, and then what it claims must hold there too.
    """
    sites = sites_of(rule, rejected=True)
    found: dict[tuple[str, ...], None] = {}
    for at in sites_of(rule):
        for i, name in enumerate(at):
            inputs = name in program.nodes and program.is_input(name)
            for other in program.nodes:
                if other not in at and (inputs or not program.is_input(other)):
                    found[(*at[:i], other, *at[i + 1 :])] = None
    return [at for at in found if at not in sites]


def trials_of(rule: Rewrite, setting: Setting, seed: int = 0) -> list[Trial]:
    """Return the trials in a setting: those that examples state first; then each parameter alone.

    Trials may well be such that a requirement refuses them. Those at further sites come last.
    """
    program = setting.definitions()
    rng = random.Random(f"{rule.code} {sorted(setting.sizes.items())} {seed}")
    found: dict[tuple[object, ...], Trial] = {}

    def add(at: tuple[str, ...], given: Given, stated: bool = False) -> None:
        if all(parameter.name in given for parameter in rule.parameters):
            found.setdefault((at, *_texts(given)), Trial(at, dict(given), stated))

    usual = defaults(rule)
    for example in rule.examples:
        own = setting.purpose != "example" or sizes_of(rule, example) == dict(setting.sizes)
        at = example_site(rule, example)
        if own and (setting.purpose == "example" or example.kind != "rejects"):
            add(at, {**usual, **example.parameters}, setting.purpose == "example")
    sites = sites_of(rule, rejected=True)
    starts = _starts(rule, usual)
    for at in sites:
        options = {p.name: _options(p, program, at, starts) for p in rule.parameters}
        for start in starts:
            add(at, start)
            for name, values in options.items():
                for value in values:
                    add(at, {**start, name: value})
        if len(options) > 1 or not starts:
            for _ in range(RANDOM):
                add(at, {name: rng.choice(values) for name, values in options.items()})
    if setting.purpose != "example":
        for at in further_sites(rule, program):
            options = {p.name: _options(p, program, at, starts) for p in rule.parameters}
            drawn = {name: values[0] for name, values in options.items()}
            for start in [*starts, *([] if starts else [drawn])]:
                found.setdefault((at, *_texts(start)), Trial(at, start, further=True))
    return list(found.values())


def _texts(given: Given) -> list[tuple[str, str]]:
    return sorted((name, str(value)) for name, value in given.items())


def _starts(rule: Rewrite, usual: Given) -> list[dict[str, Value]]:
    """Return the sets of parameters of examples that hold or break, and the defaults."""
    given = [usual] + [{**usual, **ex.parameters} for ex in rule.examples if ex.kind != "rejects"]
    out: list[dict[str, Value]] = []
    for parameters in given:
        whole = all(parameter.name in parameters for parameter in rule.parameters)
        if whole and parameters not in out:
            out.append(dict(parameters))
    return out


def _options(
    parameter: Parameter,
    program: Definitions,
    at: tuple[str, ...],
    starts: Iterable[Mapping[str, Value]],
) -> list[Value]:
    """Return values of a parameter that are worth a trial at a site."""
    match parameter.kind:
        case "count":
            return list(COUNTS)
        case "length":
            return list(_lengths(_axis(parameter, program, at, starts)))
        case "format":
            return list(FORMATS)
        case "choice":
            return list(parameter.choices)
        case "schedule":
            return [*SCHEDULES, *([""] if parameter.default == "" else [])]


def _axis(
    parameter: Parameter,
    program: Definitions,
    at: tuple[str, ...],
    starts: Iterable[Mapping[str, Value]],
) -> int:
    """Return the length of the axis that a parameter divides, or one that is as good as any."""
    for start in [*starts, {}]:
        if parameter.axis is not None and all(name in program.nodes for name in at):
            try:
                return parameter.axis(Site(program, at, start))
            except Exception:  # a form that is not there, or a rule's own mistake: seen elsewhere
                continue
    return 12


def _lengths(axis: int) -> Iterator[int]:
    """Yield lengths of blocks: some that divide the axis, some that do not, and its own."""
    wanted = (2, 3, axis // 4, axis // 2, 1, 5, axis // 3, axis, axis + 1)
    yield from dict.fromkeys(n for n in wanted if n >= 1)


def _exchanged(text: str, exchange: Mapping[str, str]) -> str:
    words = re.compile(rf"\b({'|'.join(exchange)})\b")
    return words.sub(lambda match: exchange[match[1]], text)


def _binds(setting: Setting) -> bool:
    try:
        setting.definitions()
    except InputError:
        return False
    return True


def _fitted(
    rule: Rewrite,
    program: Program,
    wanted: tuple[tuple[int, ...], tuple[int, ...]],
    *,
    multiple: bool,
) -> dict[str, int]:
    """Return a different size for each symbol, larger where a reduction runs along it.

    Args:
        rule: the rule.
        program: its graph.
        wanted: sizes of reduced axes, and of others.
        multiple: whether the sizes are multiples of the rule's own.
    """
    reduced = _reduced(rule, program)
    literal = {d.evaluate({}) for st in program.statements for d in st.dims or () if not d.symbols}
    out: dict[str, int] = {}
    for name in sorted(program.symbols):
        own = rule.sizes.get(name, 1) if multiple else 1
        sizes = (-(-size // own) * own for size in wanted[name not in reduced])
        taken = literal | set(out.values())
        out[name] = next((size for size in sizes if size not in taken), own)
    return out


def _reduced(rule: Rewrite, program: Program) -> frozenset[str]:
    """Return the symbols along which a sum or maximum runs; all where that cannot be told."""
    symbols = sorted(program.symbols)
    probes: list[Callable[[int], int]] = [lambda own: own, lambda own: 1]
    for own in probes:
        sizes = {
            name: PRIMES[i % len(PRIMES)] * own(rule.sizes.get(name, 1))
            for i, name in enumerate(symbols)
        }
        setting = Setting(program, sizes, "probe")
        if _binds(setting):
            nodes = topological(setting.definitions().nodes.values())
            lengths = {node.length for node in nodes if isinstance(node, Reduce)}
            return frozenset(name for name in symbols if sizes[name] in lengths)
    return frozenset(symbols)
