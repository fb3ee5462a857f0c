"""Is each requirement of a rule needed?

A requirement is needed if some instance that it alone refuses would do harm: the change exceeds
the claim, a promise or the domain is lost, a result takes another format, an error is raised
where the rewrite is formed, or nothing is changed at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from lastbit.catalogue.records import Need
from lastbit.catalogue.trials import Trial
from lastbit.catalogue.workshop import Workshop, named
from lastbit.change import Change
from lastbit.report.words import plural
from lastbit.rule import Require, Rewrite

LIFTED = 12  # instances in which a requirement is lifted
FEW = 4  # instances that are judged however many nodes they have
WEIGHT = 6_000  # nodes of the others
QUIET = 12  # admitted instances that are compared with one that changes no bit
SEARCHED = 6  # of these, those that are judged in full


def needs_of(
    rule: Rewrite, workshops: Sequence[Workshop], known: Collection[str] = ()
) -> list[Need]:
    """Return for each requirement whether it is needed, and why.

    Args:
        rule: the rule.
        workshops: its trials.
        known: the kinds of harm that the rule does with all its requirements.
    """
    return [_need(rule, require, workshops, known) for require in rule.requires]


def _need(
    rule: Rewrite, require: Require, workshops: Sequence[Workshop], known: Collection[str]
) -> Need:
    tried = sum(not trial.further for shop in workshops for trial in shop.trials)
    refused = [
        (shop, trial)
        for shop in workshops
        for number, trial in enumerate(shop.trials)
        if not trial.further and require.text in shop.formed(number).failed
    ]
    if not refused:
        return Need(require.text, False, f"is never false in {tried} instances")
    others = tuple(other for other in rule.requires if other is not require)
    lifted = replace(rule, requires=others)
    search = _Search(known, _changes(workshops))
    for shop, trial in _spread(refused):
        one = Workshop(lifted, shop.setting, (trial,), shop.seed)
        try:
            harm = search.harm(one, shop)
        except Exception as error:  # the rule is somebody's code, and it is on trial
            harm = f"the rewrite {trial} raises {named(error)}"
        if harm:
            return Need(require.text, True, f"without it, {harm}")
        if search.over:
            break
    if search.judged:
        why = f"without it, {plural(search.judged, 'instance')} did no harm"
    else:
        why = f"the {plural(len(refused), 'instance')} that it refuses are refused without it too"
    return Need(require.text, False, f"is superfluous: {why}")


@dataclass
class _Search:
    """A search for harm that a rule does without one of its requirements.

    Attributes:
        known: the kinds of harm that the rule does with all of them.
        changes: whether the rule, where it applies, makes another computation of the graph.
        judged: instances judged.
    """

    known: Collection[str]
    changes: bool
    judged: int = 0
    _full: int = 0
    _weight: int = 0

    @property
    def over(self) -> bool:
        """Return whether enough was tried."""
        return self.judged >= LIFTED or (self.judged >= FEW and self._weight > WEIGHT)

    def harm(self, one: Workshop, shop: Workshop) -> str:
        """Return what harm the rule does in an instance; nothing where it does none.

        Args:
            one: the rule without the requirement, with the instance as its only trial.
            shop: the rule with the requirement, in the same setting.
        """
        formed, trial = one.formed(0), one.trials[0]
        if formed.crash is not None and not formed.failed:
            raise formed.crash
        if not formed.admitted:
            return ""
        if one.idle(0) or (self.changes and one.same(0)):
            return f"nothing is changed {trial}"
        self.judged += 1
        self._weight += one.weight(0)
        if one.rule.claim > Change.BITWISE and one.unchanged(0) and not _quiet(shop):
            return f"no bit is changed {trial}"
        judged = one.at_most(0, one.rule.claim)
        if judged is None and self._full < SEARCHED:
            self._full += 1
            judged = one.judged(0)
        if judged is not None:
            for kind, failure in one.harm(0, judged):
                if kind not in self.known:
                    return failure.message.split(", but ", 1)[-1]
        return ""


def _changes(workshops: Sequence[Workshop]) -> bool:
    """Return whether the rule, where it applies, makes another computation of the graph."""
    admitted = [
        (shop, number)
        for shop in workshops
        for number, trial in enumerate(shop.trials)
        if not trial.further and shop.formed(number).admitted
    ]
    return any(not shop.same(number) for shop, number in admitted[:FEW])


def _quiet(shop: Workshop) -> bool:
    """Return whether some instance that the rule admits in a setting changes no bit."""
    own = [n for n, trial in enumerate(shop.trials) if not trial.further]
    admitted = [n for n in own if shop.formed(n).admitted]
    return any(shop.same(n) or shop.unchanged(n) for n in admitted[:QUIET])


def _spread(refused: Sequence[tuple[Workshop, Trial]]) -> Iterator[tuple[Workshop, Trial]]:
    """Yield the trials that examples state first, then the others from all settings in turn."""
    stated = [pair for pair in refused if pair[1].stated]
    yield from stated
    queues: dict[tuple[object, ...], list[tuple[Workshop, Trial]]] = {}
    for shop, trial in refused:
        if not trial.stated:
            queues.setdefault((id(shop), trial.at), []).append((shop, trial))
    longest = max((len(queue) for queue in queues.values()), default=0)
    for i in range(longest):
        for queue in queues.values():
            if i < len(queue):
                yield queue[i]
