"""What may have been done to a program: rules of the catalogue, and forms, at their sites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations, product

from lastbit.change import Change
from lastbit.definitions import Definitions, reads
from lastbit.errors import LastbitError
from lastbit.formats import FORMATS, Format
from lastbit.graph import Input, Reduce, Round, native_rounding, topological
from lastbit.inference import constant_forms, forms, sum_forms
from lastbit.inference.schedules import candidates, chains_of
from lastbit.inference.units import operands_of
from lastbit.levels import Seq, Split, Stored
from lastbit.registry import load_rules
from lastbit.rule import Edits, MismatchError, Parameter, Rewrite, Site, Value
from lastbit.schedule import AnyOrder, Schedule, levels
from lastbit.verify.bench import defaults

COUNTS = (2, 3, 4, 5, 6, 7, 8, 16)  # pieces, devices
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)  # of blocks
TILES = (1, 16, 32, 64, 128)
MOST_CHOICES = 120  # sets of parameters of one rule at one site

# DET601 picks a schedule by the number of rows, QNT325 rounds by chance, and the others add in
# the order of arrival: no one variant reproduces them.
NOT_TRIED = frozenset({"DET601", "DET603", "DET605", "RED204", "QNT325", "QNT334"})
ONE_TREE = frozenset(("change-schedule", "sum-by", "sum-as", "sum-exactly"))
TREES = ONE_TREE | {"all-reduce-order", "scan-chunks", "recompute-by-other-schedule"}
ONE_CONSTANT = frozenset(("drop-constant", "other-constant"))
FORM, CHANGE, FINISH, LAST = 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class Move:
    """A rule or form at a site.

    Attributes:
        rule: the rule.
        at: the names of the site.
        parameters: its parameters.
        rank: when it is applied: forms first, then changes, then what rounds every operation, and
            last exact sums, which that would round.
    """

    rule: Rewrite
    at: tuple[str, ...]
    parameters: Mapping[str, Value] = field(default_factory=dict)
    rank: int = CHANGE

    @cached_property
    def key(self) -> tuple[str, ...]:
        """What tells moves apart."""
        given = (f"{name}={value}" for name, value in sorted(self.parameters.items()))
        return (self.rule.code, self.rule.name, *self.at, *given)

    @property
    def is_tree(self) -> bool:
        """Return whether it changes how a sum is added up."""
        return self.rule.code.startswith("RED") or self.rule.name in TREES

    def overrides(self, other: Move) -> bool:
        """Return whether nothing is left of another move after this one: a sum has one tree."""
        if self.at != other.at:
            return False
        names = {self.rule.name, other.rule.name}
        where = self.parameters.get("where"), other.parameters.get("where")
        same_constant = names <= ONE_CONSTANT and where[0] == where[1]
        return same_constant or (self.rule.name in ONE_TREE and other.is_tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Move) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def label(self) -> str:
        """Return code and name, the site, and the parameters that are no defaults."""
        usual = defaults(self.rule)
        given = ", ".join(
            f"{name}={value}"
            for name, value in self.parameters.items()
            if usual.get(name) != value and name != "where"
        )
        head = f"{self.rule.code} {self.rule.name}".strip()
        at = " at " + ", ".join(f"`{name}`" for name in self.at) if self.at else ""
        return f"{head}{at}" + (f" ({given})" if given else "")

    def edits(self, program: Definitions) -> Edits | None:
        """Return the new definitions; None where the rule does not apply."""
        try:
            return self.rule.apply(Site(program, self.at, self.parameters))
        except (LastbitError, MismatchError, KeyError, AssertionError):
            return None

    def title(self, program: Definitions) -> str:
        """Return what it does there, in one sentence."""
        if self.rule.title is None:
            return self.rule.summary.rstrip(".")
        return self.rule.title(Site(program, self.at, self.parameters))


def moves_of(
    program: Definitions,
    special: bool = False,
    rules: Iterable[Rewrite] | None = None,
    tick: Callable[[], None] = lambda: None,
    machine: str | None = None,
) -> list[Move]:
    """Return every move that applies to a program and may change its results.

    Args:
        program: the program at its true sizes.
        special: whether rules count that change only overflow, NaN, zeros and subnormals.
        rules: the rules; None: those of the catalogue.
        tick: called before each rule.
        machine: the machine whose matrix unit may add products, or None.
    """
    names = _needed(program)
    found: dict[tuple[str, ...], Move] = {}
    for move in _forms(program, names, machine):
        if move.edits(program) is not None:
            found.setdefault(move.key, move)
    for rule in load_rules().values() if rules is None else rules:
        tick()
        if _worth_trying(rule, special):
            for move in _sites(rule, program, names):
                found.setdefault(move.key, move)
    return list(found.values())


def _needed(program: Definitions) -> list[str]:
    """Return the values that the results are computed from, in order."""
    needed = set(program.outputs)
    stack = list(needed)
    while stack:
        for name in reads(program.nodes[stack.pop()]):
            if name not in needed:
                needed.add(name)
                stack.append(name)
    return [name for name in program.nodes if name in needed]


def _worth_trying(rule: Rewrite, special: bool) -> bool:
    if rule.code in NOT_TRIED or rule.placement or rule.finds is not None:
        return False
    return rule.claim != Change.BITWISE or (special and "domain" in rule.loses)


def formats_of(program: Definitions) -> list[Format]:
    """Return the floating-point formats that a program rounds to or reads, and binary32."""
    found = {"f32": FORMATS["f32"]}
    for node in topological(program.nodes.values()):
        fmt = node.format if isinstance(node, Input) else None
        if isinstance(node, Round):
            fmt = node.rounding.format
        if isinstance(node, Reduce) and node.acc is not None:
            fmt = node.acc.format
        if fmt is not None and fmt.kind == "float" and not fmt.is_grid:
            found[fmt.short] = fmt
    return sorted(found.values(), key=lambda fmt: (-fmt.precision, fmt.short))


def _forms(program: Definitions, names: Sequence[str], machine: str | None) -> Iterator[Move]:
    wide = [fmt.short for fmt in formats_of(program)]
    for fmt in wide:
        yield Move(forms.STEP_BY_STEP, (), {"format": fmt}, FINISH)
    for name in names:
        if program.is_input(name):
            continue
        node = program.nodes[name]
        for number in range(len(forms.inner_operations(node))):
            for fmt in wide:
                yield Move(forms.ADD_ROUNDING, (name,), {"where": str(number), "format": fmt})
        for number in range(len(forms.other_forms(program, name))):
            yield Move(forms.OTHER_FORM, (name,), {"where": str(number)}, FORM)
        for form, chosen in constant_forms.choices(program, name):
            yield Move(form, (name,), chosen)
        for form, given in sum_forms.choices(program, name, wide):
            rank = LAST if form is sum_forms.SUM_EXACTLY else CHANGE
            yield Move(form, (name,), given, rank)
        for number, total in enumerate(sum_forms.sums_in(node)):
            for tree in _unit_trees(total, machine):
                by = {"where": str(number), "acc": "f32", "schedule": tree}
                yield Move(sum_forms.SUM_BY, (name,), by)


def _unit_trees(total: Reduce, machine: str | None) -> Iterator[str]:
    """Yield the trees by which a machine's matrix unit may add a product."""
    formats = operands_of(total)
    if formats is None or machine is None:
        return
    left, right = (fmt.short for fmt in formats)
    narrow = [fmt.short for fmt in formats if fmt.container == 16][:1]
    chains = [c for c in chains_of(left, right, "f32", [machine]) if c.machine == machine]
    for candidate in candidates(total.length, chains, narrow):
        if candidate.tier < 2 or _is_plain_split(candidate.schedule):
            yield str(candidate.schedule)


def _is_plain_split(schedule: Schedule) -> bool:
    if not isinstance(schedule, Split) or schedule.deal != "contiguous" or schedule.tile != 64:
        return False
    return isinstance(schedule.outer, Seq | Stored)


def _sites(rule: Rewrite, program: Definitions, names: Sequence[str]) -> Iterator[Move]:
    for at in permutations(names, len(rule.at)):
        for parameters in _choices(rule, program, at):
            site = Site(program, at, parameters)
            try:
                failed = next((r for r in rule.requires if not r.test(site)), None)
                if failed is not None:
                    continue
                edits = rule.rewrite(site)
            except MismatchError:
                break  # another form: no parameter helps
            except Exception:  # the rule is somebody's code, and this site may be beyond it
                continue
            if _sound(program, edits):
                yield Move(rule, at, parameters)


def _sound(program: Definitions, edits: Edits) -> bool:
    """Return whether something changes, the results stay what they were, and have one set."""
    changed = [n for n in edits if n not in program.nodes or edits[n].key != program.nodes[n].key]
    for name in program.outputs:
        if name in edits:
            old, new = program.nodes[name], edits[name]
            formats = [native_rounding(node) for node in (old, new)]
            if formats[1] is None or formats[0] is None or old.shape != new.shape:
                return False
            if formats[0].format != formats[1].format:
                return False
    nodes = topological(edits.values())
    schedules = [n.schedule for n in nodes if isinstance(n, Reduce) and n.schedule is not None]
    if any(isinstance(level, AnyOrder) for schedule in schedules for level in levels(schedule)):
        return False
    return bool(changed)


def _choices(
    rule: Rewrite, program: Definitions, at: tuple[str, ...]
) -> Iterator[Mapping[str, Value]]:
    usual = defaults(rule)
    options = [_options(p, rule, program, at, usual) for p in rule.parameters]
    names = [p.name for p in rule.parameters]
    for number, values in enumerate(product(*options)):
        if number == MOST_CHOICES:
            return
        yield dict(zip(names, values, strict=True))


def _options(
    parameter: Parameter,
    rule: Rewrite,
    program: Definitions,
    at: tuple[str, ...],
    usual: Mapping[str, Value],
) -> Sequence[Value]:
    """Return the values of a parameter that are tried."""
    given = parameter.default
    match parameter.kind:
        case "choice":
            return parameter.choices or ([] if given is None else [given])
        case "format":
            return [fmt.short for fmt in formats_of(program)] + ["f16"] * (given == "f16")
        case "count":
            return COUNTS if given is None else [given]
        case "length" if parameter.name == "tile":
            return TILES
        case "length":
            length = _axis(parameter, program, at, usual)
            found = [n for n in LENGTHS if n < length]
            found += [-(-length // n) for n in (2, 3, 4, 8) if length // n > 1]
            return list(dict.fromkeys(found))
        case "schedule" if rule.name == "change-schedule":
            return sum_forms.SUMS
        case "schedule":
            return [""] if given == "" and parameter.name == "inner" else ["", "pairwise(1)"]


def _axis(
    parameter: Parameter, program: Definitions, at: tuple[str, ...], usual: Mapping[str, Value]
) -> int:
    if parameter.axis is None:
        return max((n for node in program.nodes.values() for n in node.shape), default=1)
    try:
        return parameter.axis(Site(program, at, usual))
    except Exception:  # no such axis here: the rule itself says so when it is applied
        return 2
