"""Rules: what a transform does to a graph, when it is legal, and examples that show it.

A rule is a frozen value in a file of its own. It claims the strongest kind of change that can
come of it; lastbit applies it at a site and then verifies the claim there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, get_args

from lastbit.change import Change
from lastbit.cost.placement import Placement
from lastbit.definitions import Definitions
from lastbit.errors import LastbitError
from lastbit.graph import Node, Round
from lastbit.rounding import Rounding

Value = int | str | bool
Kind = Literal["count", "length", "format", "choice", "schedule"]
LOSSES = ("domain", "deterministic", "batch_invariant", "layout_invariant")
COUNTED = ("", "devices", "rows")
EXAMPLES = ("holds", "breaks", "rejects")


class RejectedError(LastbitError):
    """A rule cannot be applied at a site.

    Attributes:
        code: the rule's code.
        name: the rule's name.
        at: the site.
        requirement: the requirement that fails, as the rule states it.
        facts: why it fails here (`K=1000, n=3`), or an empty text.
    """

    def __init__(self, code: str, name: str, at: str, requirement: str, facts: str = "") -> None:
        self.code, self.name, self.at = code, name, at
        self.requirement, self.facts = requirement, facts
        reason = f" for {facts}" if facts else ""
        super().__init__(f"{code} {name} at `{at}`: requirement `{requirement}` fails{reason}.")


class RuleError(LastbitError):
    """A rule says something that no rule can say."""

    def __init__(self, rule: str, what: str, said: object, allowed: Iterable[str]) -> None:
        words = ", ".join(map(repr, allowed))
        super().__init__(f"the rule {rule} has the {what} {said!r}. Allowed: {words}.")


class MismatchError(Exception):
    """The site does not have the form that the rule rewrites; the text says what is needed."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a rule.

    Attributes:
        name: the name in a plan.
        kind: `count` (a number of pieces), `length` (a number of elements along an axis; small
            evaluations scale it with the axis), `format`, `schedule` or `choice`.
        meaning: one line.
        default: the value where a plan gives none; None makes it required.
        choices: the values allowed, for `choice`.
        axis: for `length`, the length of the axis that it divides, from the site.
        counts: for `count`, what a promise says of it: `devices`, whose number changes the result,
            or `rows`, a number of rows from which on the result is computed in another way.
    """

    name: str
    kind: Kind
    meaning: str
    default: Value | None = None
    choices: tuple[str, ...] = ()
    axis: Callable[[Site], int] | None = None
    counts: Literal["", "devices", "rows"] = ""


@dataclass(frozen=True, slots=True)
class Require:
    """A requirement of a rule.

    Attributes:
        text: what must hold, as shown when it fails (`K % n == 0`).
        test: whether it holds at a site.
        facts: the numbers behind the test (`K=1000, n=3`), from the site.
    """

    text: str
    test: Callable[[Site], bool]
    facts: Callable[[Site], str] = lambda site: ""


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a rule, on the rule's own graph.

    Attributes:
        kind: `holds` (both sides have the same bits), `breaks` (they have not) or `rejects`.
        inputs: values of the inputs of the graph, row by row, as numbers or hex floats;
            one number alone fills the input.
        parameters: the rule's parameters.
        requirement: for `rejects`, the requirement that fails.
        at: the names of the site; empty for those of the rule.
        shows: for `breaks`, the first result that differs, with its bits before and after
            (`y: 0x4b800000 -> 0x4b800002`); empty where the file does not say.
    """

    kind: Literal["holds", "breaks", "rejects"]
    inputs: Mapping[str, object]
    parameters: Mapping[str, Value]
    requirement: str = ""
    at: tuple[str, ...] = ()
    shows: str = ""


def holds(
    parameters: Mapping[str, Value] | None = None, *, at: tuple[str, ...] = (), **inputs: object
) -> Example:
    """Return an example on which both sides have the same bits."""
    return Example("holds", inputs, parameters or {}, at=at)


def breaks(
    parameters: Mapping[str, Value] | None = None,
    *,
    at: tuple[str, ...] = (),
    shows: str = "",
    **inputs: object,
) -> Example:
    """Return an example on which the two sides have other bits."""
    return Example("breaks", inputs, parameters or {}, at=at, shows=shows)


def rejects(
    requirement: str,
    parameters: Mapping[str, Value] | None = None,
    *,
    at: tuple[str, ...] = (),
    **inputs: object,
) -> Example:
    """Return an example that a requirement refuses."""
    return Example("rejects", inputs, parameters or {}, requirement, at)


@dataclass(frozen=True, slots=True)
class Site:
    """Where a rule is applied: a program cut at its named values, and names in it.

    Attributes:
        program: the definitions at fixed sizes; a rule reads what it needs and changes nothing.
        at: the names that the plan gives.
        parameters: the rule's parameters; lengths are scaled to the sizes of the program.
        other: the plan's second graph at the same sizes, where it compares two.
    """

    program: Definitions
    at: tuple[str, ...]
    parameters: Mapping[str, Value] = field(default_factory=dict)
    other: Definitions | None = None

    @property
    def name(self) -> str:
        """Return the first name."""
        return self.at[0]

    @property
    def node(self) -> Node:
        """Return the definition of the first name."""
        return self.program.nodes[self.name]

    def definition(self, name: str) -> Node:
        """Return the definition of a name."""
        return self.program.nodes[name]

    def ref(self, name: str) -> Node:
        """Return the node by which definitions read a name."""
        return self.program.ref(name)

    def integer(self, parameter: str) -> int:
        """Return a parameter that is a number."""
        value = self.parameters[parameter]
        assert isinstance(value, int)
        return value

    def text(self, parameter: str) -> str:
        """Return a parameter that is a word."""
        return str(self.parameters[parameter])

    def rounded(self) -> tuple[Node, Rounding]:
        """Return what the first name rounds, and how.

        Raises:
            MismatchError: the definition does not end in a rounding.
        """
        if not isinstance(self.node, Round):
            raise MismatchError("the value is rounded")
        return self.node.x, self.node.rounding


Edits = Mapping[str, Node]


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """A program as it stands, and what its plan says of it; what a hazard reads.

    Attributes:
        program: the definitions at fixed sizes.
        ranges: by input, the least and the greatest value that the plan declares.
        stated: the values whose statement names an overflow policy.
        rms: by input, the root mean square of the distribution that the plan declares.
        before: the plan's first graph, where this is the second.
    """

    program: Definitions
    ranges: Mapping[str, tuple[Fraction, Fraction]] = field(default_factory=dict)
    stated: frozenset[str] = frozenset()
    rms: Mapping[str, float] = field(default_factory=dict)
    before: Definitions | None = None


@dataclass(frozen=True, slots=True)
class Danger:
    """A place where a program is unsafe as it stands.

    Attributes:
        at: the names of the site, to which the rule's rewrite applies its remedy.
        message: what can happen there, and on which inputs, in one sentence without full stop.
    """

    at: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A transform; or a hazard, which finds its own sites and rewrites them to what is safe.

    Attributes:
        code: the code of its family and number, such as `RED201`.
        name: what a plan calls it.
        claim: the loosest kind of change that can come of it.
        prose: the file's docstring: a first line that says what happens, then why it matters,
            the error, and the source.
        graph: the text of a graph on which it can be applied, with symbols for sizes.
        at: the names of the site in that graph.
        rewrite: new definitions for some names, from a site.
        sizes: sizes for the graph's symbols, for examples.
        parameters: what a plan may give.
        requires: what must hold at a site.
        examples: inputs on which it holds, breaks, or is rejected.
        title: one sentence for a report, from the site; names in backticks.
        loses: what may not survive it, of `domain`, `deterministic`, `batch_invariant` and
            `layout_invariant`; it keeps the others.
        finds: for a hazard, the unsafe places of a program. Its `graph` is then the unsafe form
            beside safe ones, `at` every value that it finds there, each a site of its own, and
            `rewrite` the remedy.
        placement: whether it only says where and when values are computed. It is judged like any
            other, and later transforms read the program as it was written.
        places: where its values are computed, from the site: what the cost of a placement follows
            from. Without it a transform costs what its new definitions cost.
    """

    code: str
    name: str
    claim: Change
    prose: str
    graph: str
    at: tuple[str, ...]
    rewrite: Callable[[Site], Edits]
    sizes: Mapping[str, int] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    requires: tuple[Require, ...] = ()
    examples: tuple[Example, ...] = ()
    title: Callable[[Site], str] | None = None
    loses: tuple[str, ...] = ()
    finds: Callable[[Standing], Iterable[Danger]] | None = None
    placement: bool = False
    places: Callable[[Site], Placement] | None = None

    def __post_init__(self) -> None:
        """Check the words that a rule is written in.

        Raises:
            RuleError: one of them is none that a rule can say.
        """
        if isinstance(self.loses, str):
            raise RuleError(self.code, "loses, which is no tuple,", self.loses, LOSSES)
        said: list[tuple[str, str, tuple[str, ...]]]
        said = [("loses", word, LOSSES) for word in self.loses]
        said += [("kind of parameter", p.kind, get_args(Kind)) for p in self.parameters]
        said += [("counts of a parameter", p.counts, COUNTED) for p in self.parameters]
        said += [("kind of example", example.kind, EXAMPLES) for example in self.examples]
        for what, word, allowed in said:
            if word not in allowed:
                raise RuleError(self.code, what, word, allowed)

    @property
    def summary(self) -> str:
        """Return the first line of the prose, without code and name."""
        first = self.prose.strip().splitlines()[0]
        return first.split(":", 1)[-1].strip()

    def apply(self, site: Site) -> Edits:
        """Return the new definitions.

        Raises:
            RejectedError: a requirement fails, or the site has another form.
            RuleFileError: a rule of somebody else raises another error.
        """
        at = ", ".join(site.at)
        try:
            for require in self.requires:
                if not require.test(site):
                    facts = require.facts(site)
                    raise RejectedError(self.code, self.name, at, require.text, facts)
            return self.rewrite(site)
        except MismatchError as error:
            raise RejectedError(self.code, self.name, at, str(error)) from None
        except LastbitError:
            raise
        except Exception as error:  # whatever a rule of somebody else raises
            from lastbit.registry import blame

            blame(self, error, f"is applied at `{at}`")
            raise
