"""Plan files: a graph, the transforms to judge, the inputs, the target and the budget.

A plan is TOML, or JSON with the same fields. Loading finds everything that is wrong with a file
in one pass: each problem has its line and column, the line itself, and what to write instead.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Mapping
from datetime import date

from lastbit.change import Change
from lastbit.codes import GENERAL, heads
from lastbit.errors import Place, did_you_mean
from lastbit.machines import MACHINES
from lastbit.plan_graph import read_graphs
from lastbit.plan_model import (
    Allow,
    Budget,
    DataFile,
    Distribution,
    Plan,
    Span,
    Transform,
    Value,
)
from lastbit.plan_running import read_device, read_devices, read_latency, read_launches
from lastbit.plan_section import Section, shown
from lastbit.plan_source import read_source
from lastbit.plan_values import as_budget_ulp, read_input, read_parameter
from lastbit.records import PROMISES
from lastbit.registry import load_rules
from lastbit.rule import Rewrite

__all__ = [
    "Allow",
    "Budget",
    "DataFile",
    "Distribution",
    "Plan",
    "Span",
    "Transform",
    "load_plan",
]

SCHEMA = 1
FAMILIES = ("FUS", "RED", "DET", "QNT", "CVT", "DOM", "COST")
TABLES = (
    "schema",
    "graph",
    "after",
    "inputs",
    "kernel",
    "transform",
    "device",
    "target",
    "budget",
    "allow",
)
FIELDS = ("rule", "at", "branch", "id")  # of every transform; the rule's own follow
SEVERITIES = ("error", "warning")  # what a hazard, or a finding about cost, may be
MAX_TRANSFORMS = 100_000


def load_plan(
    path: str | os.PathLike[str], today: date, rules: Mapping[str, Rewrite] | None = None
) -> Plan:
    """Read a plan.

    Args:
        path: the file; `.json` is read as JSON, all else as TOML.
        today: the day that the ends of `[[allow]]` are compared with.
        rules: the rules by code; None: those that are installed.

    Returns:
        The plan; every name in it exists and every value is allowed.

    Raises:
        InputError: everything that is wrong with the file, in the order of its lines.
        NoRulesError: there are no rules.
    """
    rules = load_rules() if rules is None else rules
    source, values = read_source(pathlib.Path(path), os.fspath(path))
    plan = _Loader(Section(source, (), "the plan", values), today, rules).plan()
    if source.problems:
        source.stop()
    return plan


class _Loader:
    """Reads the tables of one plan; what they share is found once."""

    def __init__(self, root: Section, today: date, rules: Mapping[str, Rewrite]) -> None:
        self.root, self.source, self.today = root, root.source, today
        self.rules = {word: rule for rule in rules.values() for word in (rule.name, rule.code)}
        self.codes = {*FAMILIES, *GENERAL, *(rule.code for rule in rules.values())}
        self.heads = heads(rule.code for rule in rules.values())
        self.parameters = dict.fromkeys(p.name for rule in rules.values() for p in rule.parameters)
        root.only(*TABLES)
        self.graphs = read_graphs(root)

    def plan(self) -> Plan:
        root, graphs = self.root, self.graphs
        if not root.missing("schema", f"Write `schema = {SCHEMA}`."):
            version = root.values.get("schema", SCHEMA)
            if type(version) is not int or version != SCHEMA:
                root.refuse("schema", str(SCHEMA))
        budget, target = root.section("budget"), root.section("target")
        devices = read_devices(root)
        return Plan(
            file=self.source.file,
            name=graphs.name,
            program=graphs.program,
            after=graphs.after,
            symbols={symbol: span for symbol, span in graphs.symbols.items() if span},
            batch=graphs.batch,
            inputs=dict(self._inputs()),
            transforms=self._transforms(),
            machine=self._machine(target),
            budget=self._budget(budget, "node") if budget else None,
            node_budgets=dict(self._node_budgets(budget)) if budget else {},
            allows=tuple(filter(None, map(self._allow, root.sections("allow")))),
            device=read_device(root, target, devices),
            devices=devices,
            latency_ns=read_latency(target),
            launches=read_launches(root, graphs),
            imports=tuple(graphs.imports),
        )

    def _named(self, name: str, what: str, parent: Section) -> Iterator[tuple[str, Section]]:
        """Yield the tables of a table whose keys are values of the graph."""
        section = parent.section(name, what)
        for key in section.values if section else ():
            assert section is not None
            self.graphs.knows(section, (*section.path, key), key, key=True)
            inner = section.section(key, f"{what[:-1]}.{key}]")
            if inner:
                yield key, inner

    def _inputs(self) -> Iterator[tuple[str, Distribution | DataFile]]:
        for model in self.graphs.imports:
            yield from model.inputs.items()
        folder = pathlib.Path(self.source.file).parent
        for name, section in self._named("inputs", "[inputs]", self.root):
            found = read_input(section, folder)
            if found is not None:
                yield name, found

    def _machine(self, target: Section | None) -> str | None:
        if target is None:
            return None
        target.only("machine", "device", "latency_ns")
        return target.choice("machine", MACHINES, "machine")

    def _budget(self, section: Section, *more: str) -> Budget:
        section.only("change", "max_ulp", "elementwise", "promises", "hazards", "cost", *more)
        changes = [change.value for change in Change if change != Change.UNKNOWN]
        change = section.choice("change", changes, "kind of change")
        promises = section.texts("promises")
        for name, path in promises.items():
            if name not in PROMISES:
                message = f"unknown promise {shown(name)}"
                self.source.report(path, message, did_you_mean(name, PROMISES))
        return Budget(
            change=Change(change) if change else None,
            max_ulp=as_budget_ulp(section),
            elementwise=section.flag("elementwise"),
            promises=tuple(promises),
            hazards=section.choice("hazards", SEVERITIES, "severity"),
            cost=section.choice("cost", SEVERITIES, "severity"),
            place=section.place(),
        )

    def _node_budgets(self, budget: Section) -> Iterator[tuple[str, Budget]]:
        for name, section in self._named("node", "[budget.node]", budget):
            yield name, self._budget(section)

    def _allow(self, section: Section) -> Allow | None:
        section.only("code", "at", "reason", "until")
        code, at = section.text("code"), section.text("at")
        reason = section.text("reason", lines=True)
        section.missing("code", "Write a code such as RED201, or a family: RED.")
        section.missing("reason", "Say why it is accepted.")
        if code is not None and code not in self.heads:
            rule = self.rules.get(code)
            remedy = did_you_mean(code, self.codes) if rule is None else f"Write {rule.code!r}."
            section.report("code", f"unknown code {shown(code)}", remedy)
        if at is not None and at not in self.opaque:
            self.graphs.knows(section, (*section.path, "at"), at)
        until = self._day(section)
        if code is None or reason is None:
            return None
        expired = until is not None and until < self.today
        return Allow(code, at, reason, until, expired, section.place())

    @property
    def opaque(self) -> set[str]:
        """The operators of imported models that are known by their names only, and their values."""
        operators = [one for model in self.graphs.imports for one in model.opaque]
        return {name for one in operators for name in (one.operator, *one.gives)}

    def _day(self, section: Section) -> date | None:
        value = section.values.get("until")
        if type(value) is date or "until" not in section:
            return value if isinstance(value, date) else None
        remedy = "Write a day without quotes: until = 2027-06-30."
        if self.source.is_json:
            remedy = 'Write a day: "until": "2027-06-30".'
            try:
                return date.fromisoformat(str(value))
            except ValueError:
                pass
        section.report("until", f"bad date {shown(value)}", remedy)
        return None

    def _transforms(self) -> tuple[Transform, ...]:
        listed = self.root.values.get("transform")
        if isinstance(listed, list) and len(listed) > MAX_TRANSFORMS:
            message = f"the plan has {len(listed)} transforms"
            self.root.report("transform", message, f"At most {MAX_TRANSFORMS} are read.")
            return ()
        sections = list(self.root.sections("transform"))
        ids = _Ids()
        for section in sections:
            given = section.text("id")
            if given is not None and not ids.take(given, section.place("id")):
                remedy = f"Line {ids.taken[given].line} gives it already."
                section.report("id", f"the id {shown(given)} is given twice", remedy)
        return tuple(t for section in sections if (t := self._transform(section, ids)))

    def _transform(self, section: Section, ids: _Ids) -> Transform | None:
        rule = self._rule(section)
        at = section.texts("at")
        if section.values.get("at") == []:
            section.refuse("at", "at least one name of a value")
        section.missing("at", 'Name the values it is applied at: at = ["y"].')
        for name, path in at.items():
            self.graphs.knows(section, path, name)
        branch = section.flag("branch")
        if rule is None:
            return None
        parameters: dict[str, Value] = {}
        for parameter in rule.parameters:
            value = read_parameter(section, parameter, self.graphs.symbols)
            if value is not None:
                parameters[parameter.name] = value
        given = section.values.get("id")
        made = given if isinstance(given, str) else ids.fresh(f"{'+'.join(at)}.{rule.name}")
        return Transform(made, rule, tuple(at), parameters, branch, section.place())

    def _rule(self, section: Section) -> Rewrite | None:
        given = section.text("rule") or ""
        rule = self.rules.get(given) or self.rules.get(given.upper())
        if rule is None:
            section.only(*FIELDS, *self.parameters)
            if not section.missing("rule", "Name the rule to apply.") and given:
                remedy = did_you_mean(given, self.rules)
                section.report("rule", f"unknown rule {shown(given)}", remedy)
            return None
        section.what = f"{section.what} {rule.name}"
        section.only(*FIELDS, *(parameter.name for parameter in rule.parameters))
        return rule


class _Ids:
    """The ids of a plan's transforms: given ones first, then made ones that avoid them."""

    def __init__(self) -> None:
        self.taken: dict[str, Place] = {}
        self.counts: dict[str, int] = {}

    def take(self, given: str, place: Place) -> bool:
        return self.taken.setdefault(given, place) is place

    def fresh(self, base: str) -> str:
        while True:
            count = self.counts[base] = self.counts.get(base, 0) + 1
            made = base if count == 1 else f"{base}-{count}"
            if self.take(made, Place()):
                return made
