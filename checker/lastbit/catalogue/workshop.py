"""A rule at work in one setting: its trials are formed, sorted and judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from lastbit.catalogue.records import Failure, Shown
from lastbit.catalogue.trials import Setting, Trial
from lastbit.change import Change
from lastbit.errors import LastbitError
from lastbit.graph import native_rounding, topological
from lastbit.plan_model import Plan, Span, Transform
from lastbit.records import PROMISES, DomainEntry, Witness
from lastbit.rule import Edits, MismatchError, Rewrite, Site
from lastbit.verify.bench import Bench
from lastbit.verify.canonicalise import canonical
from lastbit.verify.decide import Decider, Judged, Task
from lastbit.verify.region import Region, region_of

ROWS = "M"  # the size symbol that counts rows, where a rule's graph has it


@dataclass(frozen=True, slots=True)
class Formed:
    """What became of a trial when the rule was applied.

    Attributes:
        failed: the requirements that fail; a requirement that cannot be asked is passed over.
        edits: the new definitions; None where the rewrite finds another form.
        crash: the error that the rule raised instead of refusing, or None.
    """

    failed: tuple[str, ...] = ()
    edits: Edits | None = None
    crash: Exception | None = None

    @property
    def admitted(self) -> bool:
        """Return whether the rule applies."""
        return not self.failed and self.edits is not None

    @property
    def reasons(self) -> list[str]:
        """Return why the rule does not apply."""
        if self.crash is not None:
            return ["an error is raised"]
        return [f"`{text}` fails" for text in self.failed] or ["the site has another form"]


class Workshop:
    """A rule's trials in one setting.

    Args:
        rule: the rule.
        setting: its graph and the sizes.
        trials: sites and parameters.
        seed: selects every draw.
    """

    def __init__(
        self, rule: Rewrite, setting: Setting, trials: Sequence[Trial], seed: int = 0
    ) -> None:
        self.rule, self.setting, self.trials, self.seed = rule, setting, tuple(trials), seed
        self._formed: dict[int, Formed] = {}

    @cached_property
    def bench(self) -> Bench:
        """The program at any sizes; each trial is a branch of one plan."""
        sizes = {name: self.setting.sizes[name] for name in sorted(self.setting.program.symbols)}
        steps = tuple(
            Transform(str(i), self.rule, trial.at, trial.parameters, branch=True)
            for i, trial in enumerate(self.trials)
        )
        return Bench(
            Plan(
                file="",
                name=self.rule.code,
                program=self.setting.program,
                symbols={name: self._span(name, size) for name, size in sizes.items()},
                batch=batch_symbol(self.setting),
                transforms=steps,
            )
        )

    def _span(self, name: str, size: int) -> Span:
        """Return the range of a size: one size, unless the rule counts rows and these are they."""
        rows = any(parameter.counts == "rows" for parameter in self.rule.parameters)
        ranged = rows and name == batch_symbol(self.setting)
        return Span(1, 2 * size, size) if ranged else Span(size, size, size)

    def site(self, number: int) -> Site:
        """Return the site of a trial."""
        bench = self.bench
        program = bench.before(number, bench.true)
        return bench.site(bench.plan.transforms[number], bench.true, program)

    def formed(self, number: int) -> Formed:
        """Return what becomes of a trial when the rule is applied."""
        if number not in self._formed:
            self._formed[number] = self._form(number)
        return self._formed[number]

    def _form(self, number: int) -> Formed:
        site = self.site(number)
        failed = []
        for require in self.rule.requires:
            try:
                if not require.test(site):
                    failed.append(require.text)
            except MismatchError:
                return Formed(tuple(failed))
            except Exception as error:  # the rule is somebody's code, and it is on trial
                return Formed(tuple(failed), crash=error)
        if failed:
            return Formed(tuple(failed))
        try:
            edits = self.rule.rewrite(site)
            if self.rule.title is not None:
                self.rule.title(site)
            region_of(site.program, site.program.edited(edits), edits)
            return Formed((), edits)
        except MismatchError:
            return Formed()
        except Exception as error:
            return Formed(crash=error)

    def region(self, number: int) -> Region | None:
        """Return the region that an admitted trial changes; None where nothing depends on it."""
        edits = self.formed(number).edits
        assert edits is not None
        program = self.site(number).program
        return region_of(program, program.edited(edits), edits)

    def idle(self, number: int) -> bool:
        """Return whether an admitted trial leaves every definition as it was."""
        edits, old = self.formed(number).edits, self.site(number).program.nodes
        assert edits is not None
        same = all(name in old and old[name].key == node.key for name, node in edits.items())
        return same or self.region(number) is None

    def same(self, number: int) -> bool:
        """Return whether both sides of an admitted trial are one computation, however written."""
        region = None if self.idle(number) else self.region(number)
        if region is None or region.before.key() == region.after.key():
            return True
        return canonical(region.before).key() == canonical(region.after).key()

    def weight(self, number: int) -> int:
        """Return the number of nodes on both sides of an admitted trial: what judging it costs."""
        region = self.region(number)
        assert region is not None
        return sum(1 for _ in topological([*region.before.results, *region.after.results]))

    def key(self, number: int) -> tuple[bytes, ...]:
        """Return a key that two admitted trials share if they make the same change."""
        region = self.region(number)
        assert region is not None
        return (*region.before.key(), b"", *region.after.key())

    def judged(self, number: int) -> Judged:
        """Return the verdict on an admitted trial: kind of change, domain, promises, witness."""
        return self._decider.decide(self._task(number))

    def at_most(self, number: int, change: Change) -> Judged | None:
        """Return domain and promises where the field shows that the change is `change` at most."""
        try:
            return self._decider.at_most(self._task(number), change)
        except LastbitError:
            return None

    def unchanged(self, number: int) -> bool:
        """Return whether the field shows that an admitted trial changes no bit."""
        try:
            return self._decider.within(self._task(number), Change.BITWISE) is not None
        except LastbitError:
            return False

    @cached_property
    def _decider(self) -> Decider:
        return Decider(self.bench, self.seed, drift=False)

    @property
    def sizes(self) -> Iterator[dict[str, int]]:
        """Yield the sizes at which the last trial was judged."""
        for instance in self._decider.small:
            yield dict(instance.sizes)

    def _task(self, number: int) -> Task:
        bench, site = self.bench, self.site(number)
        edits, region = self.formed(number).edits, self.region(number)
        assert edits is not None
        assert region is not None
        transform = bench.plan.transforms[number]
        axes = bench.axes_of(transform, site, edits)
        given = [dict(transform.bound(bench.true.sizes))]
        varying = tuple(bench.variants(transform)[1])
        return Task(number, transform, "", region, axes, given, ((), varying))

    def reformatted(self, number: int) -> str:
        """Return which result of the program changes its format or shape; empty if none does."""
        edits, site = self.formed(number).edits, self.site(number)
        assert edits is not None
        for name in site.program.outputs:
            old, new = site.program.nodes[name], edits.get(name, site.program.nodes[name])
            formats = [native_rounding(node) for node in (old, new)]
            texts = ["real" if f is None else f.format.short for f in formats]
            shapes = [f"{text}{list(n.shape)}" for text, n in zip(texts, (old, new), strict=True)]
            if shapes[0] != shapes[1]:
                return f"turns the result `{name}` from {shapes[0]} into {shapes[1]}"
        return ""

    def shown(self, number: int, witness: Witness | None) -> Shown | None:
        """Return a witness together with the trial that it belongs to."""
        trial = self.trials[number]
        return None if witness is None else Shown(witness, trial.at, trial.parameters)

    def harm(self, number: int, judged: Judged) -> Iterator[tuple[str, Failure]]:
        """Yield what an admitted trial does beyond what the rule says, each with its kind.

        The kinds are `change`, `result`, `domain` and the promises.
        """
        rule, trial = self.rule, self.trials[number]
        if rule.claim < judged.change < Change.UNKNOWN:
            message = f"claims `{rule.claim}`, but {trial} it is a change of `{judged.change}`"
            yield "change", Failure(message, self.shown(number, judged.witness))
        if reformatted := self.reformatted(number):
            yield "result", Failure(f"{reformatted} {trial}")
        for kind, (cause, entry) in lost(judged).items():
            if kind not in rule.loses:
                message = f"claims to keep {LABELS[kind]}, but {trial} {cause}"
                witness = None if entry is None else entry.witness
                yield kind, Failure(message, self.shown(number, witness))


LABELS = {
    "domain": "the domain",
    "deterministic": "determinism",
    "batch_invariant": "batch invariance",
    "layout_invariant": "layout invariance",
}


def lost(judged: Judged) -> dict[str, tuple[str, DomainEntry | None]]:
    """Return what did not survive a transform, each with its cause."""
    out: dict[str, tuple[str, DomainEntry | None]] = {}
    if judged.domain:
        entry = judged.domain[0]
        sides = ("before it and not after", "after it and not before")
        side = sides[entry.side == "after"]
        out["domain"] = f"there is {entry.kind} {side}, on {entry.inputs}", entry
    for name in PROMISES:
        promise = judged.promises.get(name)
        if promise is not None and promise.before is True and promise.after is not True:
            out[name] = promise.cause or "it is not known to hold", None
    return out


def batch_symbol(setting: Setting) -> str | None:
    """Return the symbol that counts rows: `M`, else the first axis of an input with several."""
    if ROWS in setting.program.symbols:
        return ROWS
    for statement in setting.program.statements:
        if statement.expr is None and len(statement.dims or ()) > 1:
            first = str((statement.dims or ())[0])
            return first if first in setting.program.symbols else None
    return None


def named(error: Exception) -> str:
    """Return an error as text, with its type."""
    return f"{type(error).__name__}: {str(error).rstrip('.')}"
