"""Check a rule: what it claims, what it says it keeps, what it requires, and its examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lastbit.catalogue.hazards import hazard_failures
from lastbit.catalogue.records import Checked, Failure, Shown
from lastbit.catalogue.requirements import needs_of
from lastbit.catalogue.steady import unsteadiness
from lastbit.catalogue.trials import Trial, settings_of, too_large, trials_of
from lastbit.catalogue.workshop import LABELS, Workshop, lost, named
from lastbit.change import Change
from lastbit.errors import LastbitError
from lastbit.examples import check_example, named_examples, shows_loss
from lastbit.rule import Rewrite
from lastbit.verify.decide import Judged

JUDGED = 32  # trials that are judged
WEIGHT = 8_000  # nodes of the trials that are judged
FULL = 5  # times the nodes of a trial that is judged in full
FEW = 6  # trials that are judged however many nodes they have
SEARCHED = 8  # of these, trials for which a witness is sought while the claim is not seen
DOUBTED = 4  # trials that are judged in full because the field alone does not show the claim


def check_rule(rule: Rewrite, seed: int = 0) -> Checked:
    """Return what the check of a rule finds; equal arguments give equal results.

    Args:
        rule: a transform or a hazard.
        seed: selects trials and draws.
    """
    try:
        settings = settings_of(rule)
    except LastbitError as error:
        first = str(error).split("\n")[0].rstrip(".")
        return _hopeless(rule, f"its graph cannot be read: {first}")
    if not settings:
        return _hopeless(rule, "its graph does not bind at the sizes that the rule states")
    if reason := too_large(settings):
        return _hopeless(rule, reason)
    workshops = [Workshop(rule, s, trials_of(rule, s, seed), seed) for s in settings]
    if reason := unsteadiness(rule, workshops):
        return _hopeless(rule, reason)
    examples, shown, lossy = _examples(rule)
    if not rule.prose.strip():
        examples.append(Failure("has no prose: what happens, why it matters, error and source"))
    if rule.finds is not None:
        examples += hazard_failures(rule)
    claims = _Claims(rule)
    claims.run(workshops)
    if lossy:
        claims.lost.add("domain")
        if "domain" not in rule.loses and "domain" not in claims.harm:
            examples.append(Failure(f"{lossy}: loses the domain, which the rule claims to keep"))
    needs = needs_of(rule, workshops, claims.harm) if claims.admitted else []
    seen = [change for change in (claims.verified, shown) if change is not None]
    failures = [*examples, *claims.failures()]
    verified = max(seen, default=None, key=_rank)
    failures += _claim_failures(rule, claims, verified)
    failures += [Failure(f"requirement `{n.text}` {n.why}") for n in needs if not n.needed]
    return Checked(
        rule.code,
        rule.name,
        "transform" if rule.finds is None else "hazard",
        rule.claim,
        verified,
        rule.loses,
        tuple(kind for kind in LABELS if kind in claims.lost),
        claims.judged,
        claims.unknown,
        tuple(claims.sizes),
        claims.shown,
        tuple(needs),
        len(rule.examples),
        tuple(_hints(rule, claims, verified)),
        tuple(failures),
    )


def _rank(change: Change) -> int:
    return change.rank


def _hopeless(rule: Rewrite, message: str) -> Checked:
    kind = "transform" if rule.finds is None else "hazard"
    failures = (Failure(message),)
    return Checked(rule.code, rule.name, kind, rule.claim, None, rule.loses, failures=failures)


@dataclass
class _Claims:
    """What judging the trials of a rule brings to light.

    Attributes:
        rule: the rule.
        verified: the loosest change that was decided; None: none was.
        shown: an input that shows it.
        judged: trials judged.
        unknown: of these, those that could not be decided.
        tried: trials that were formed.
        admitted: trials to which the rule applies.
        refused: why trials were not admitted, and how many.
        idle: admitted trials that leave everything as it was.
        lost: what did not survive.
        sizes: at which trials were judged.
        harm: what trials do beyond what the rule says, by kind.
    """

    rule: Rewrite
    verified: Change | None = None
    shown: Shown | None = None
    judged: int = 0
    unknown: int = 0
    tried: int = 0
    admitted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    idle: int = 0
    lost: set[str] = field(default_factory=set)
    sizes: list[dict[str, int]] = field(default_factory=list)
    harm: dict[str, list[Failure]] = field(default_factory=dict)
    _weight: int = 0
    _crashes: list[Failure] = field(default_factory=list)
    _searched: int = 0
    _doubted: int = 0

    def run(self, workshops: Iterable[Workshop]) -> None:
        """Judge trials, in turn from each setting and site."""
        queues: dict[tuple[object, ...], list[tuple[Workshop, int]]] = {}
        further: dict[tuple[str, ...], list[tuple[Workshop, int]]] = {}
        seen: set[tuple[bytes, ...]] = set()
        for shop in workshops:
            for number, trial in enumerate(shop.trials):
                if trial.further:
                    further.setdefault(trial.at, []).append((shop, number))
                    continue
                self.tried += 1
                formed = shop.formed(number)
                if formed.crash is not None and not formed.failed:
                    self._crash(formed.crash, trial)
                if not formed.admitted:
                    self.refused.update(formed.reasons)
                    continue
                self.admitted += 1
                if shop.idle(number):
                    self.idle += 1
                elif (key := shop.key(number)) not in seen:
                    seen.add(key)
                    queues.setdefault((id(shop), trial.at), []).append((shop, number))
        self._draw(list(queues.values()))
        for trials in further.values():
            self._look(trials, seen)

    def _draw(self, left: Sequence[list[tuple[Workshop, int]]]) -> None:
        """Judge the most telling trials of each queue in turn, until enough is tried."""
        covered: Counter[tuple[str, str]] = Counter()
        while any(left):
            for queue in filter(None, left):
                shop, number = max(queue, key=lambda item: _novelty(item, covered))
                queue.remove((shop, number))
                weight = shop.weight(number)
                if self.judged == JUDGED or (self.judged >= FEW and self._weight > WEIGHT):
                    return
                covered.update(shop.trials[number].facts)
                try:
                    self._judge(shop, number, weight)
                except Exception as error:  # the rule is somebody's code, and it is on trial
                    self._crash(error, shop.trials[number])

    def _look(self, trials: Sequence[tuple[Workshop, int]], seen: set[tuple[bytes, ...]]) -> None:
        """Judge one trial at a site that the rule names nowhere, if it accepts the site."""
        for shop, number in trials:
            trial = shop.trials[number]
            formed = shop.formed(number)
            if formed.crash is not None and not formed.failed:
                self._crash(formed.crash, trial)
                return
            if not formed.admitted or shop.idle(number) or shop.key(number) in seen:
                continue
            seen.add(shop.key(number))
            try:
                judged = shop.at_most(number, self.rule.claim) or shop.judged(number)
            except Exception as error:  # the rule is somebody's code, and it is on trial
                self._crash(error, trial)
                return
            self.judged += 1
            self.unknown += judged.change == Change.UNKNOWN
            self._lose(shop, number, judged)
            for kind, failure in shop.harm(number, judged):
                self.harm.setdefault(kind, []).append(failure)
            return

    def _crash(self, error: Exception, trial: Trial) -> None:
        self._crashes.append(Failure(f"raises {named(error)}, {trial}; a rule refuses instead"))

    def _judge(self, shop: Workshop, number: int, weight: int) -> None:
        claim = self.rule.claim
        seek = (self.verified or Change.BITWISE) < claim and self._searched < SEARCHED
        judged = None if seek else shop.at_most(number, claim)
        if judged is None:
            if not seek and self._doubted >= DOUBTED:
                return
            weight *= FULL
            self._searched += seek
            self._doubted += not seek
            judged = shop.judged(number)
            self._note(shop, number, judged)
        elif claim == Change.BITWISE and self.verified is None:
            self.verified = claim
        self._weight += weight
        self.judged += 1
        self.sizes += [sizes for sizes in shop.sizes if sizes not in self.sizes]
        self._lose(shop, number, judged)
        for kind, failure in shop.harm(number, judged):
            self.harm.setdefault(kind, []).append(failure)

    def _lose(self, shop: Workshop, number: int, judged: Judged) -> None:
        """Keep what did not survive; an input of another domain shows it where no bit changes."""
        for kind, (_, entry) in lost(judged).items():
            self.lost.add(kind)
            if self.shown is None and entry is not None and self.rule.claim == Change.BITWISE:
                self.shown = shop.shown(number, entry.witness)

    def _note(self, shop: Workshop, number: int, judged: Judged) -> None:
        """Keep the loosest change that was decided, and an input that shows it."""
        if judged.change == Change.UNKNOWN:
            self.unknown += 1
        elif self.verified is None or judged.change > self.verified:
            self.verified = judged.change
            self.shown = shop.shown(number, judged.witness) or self.shown

    def failures(self) -> Iterator[Failure]:
        """Yield one failure of each kind, with the number of trials that show it."""
        for found in [*self.harm.values(), self._crashes]:
            if found:
                more = f" (and in {len(found) - 1} more)" if len(found) > 1 else ""
                yield Failure(found[0].message + more, found[0].shown)


def _novelty(item: tuple[Workshop, int], seen: Counter[tuple[str, str]]) -> float:
    """Return how little of a trial's parameters was seen; the same for all that have none."""
    shop, number = item
    return sum(1 / (1 + seen[fact]) for fact in shop.trials[number].facts)


def _examples(rule: Rewrite) -> tuple[list[Failure], Change | None, str]:
    """Return what examples fail to show, the loosest change, and one that loses the domain."""
    failures, loosest, lossy = [], None, ""
    for name, example in named_examples(rule):
        try:
            outcome = check_example(rule, example)
        except Exception as error:  # the rule is somebody's code, and it is on trial
            text = str(error).rstrip(".") if isinstance(error, LastbitError) else named(error)
            failures.append(Failure(f"{name}: {text}"))
            continue
        if not outcome.passed:
            failures.append(Failure(f"{name}: {outcome.message.rstrip('.')}"))
        elif outcome.change is not None and outcome.ordinary:
            loosest = max(loosest or Change.BITWISE, outcome.change, key=_rank)
        elif example.kind == "breaks" and shows_loss(rule, example):
            lossy = lossy or name
    return failures, loosest, lossy


def _claim_failures(rule: Rewrite, claims: _Claims, verified: Change | None) -> Iterator[Failure]:
    """Yield what the claim says and no trial shows."""
    if not claims.admitted:
        text, count = claims.refused.most_common(1)[0]
        yield Failure(f"applies to none of {claims.tried} instances: in {count} of them {text}")
        return
    if claims.idle == claims.admitted:
        yield Failure(
            f"leaves every definition as it was in each of {claims.admitted} instances: vacuous"
        )
        return
    if claims.judged and claims.unknown == claims.judged:
        yield Failure(f"the claim is never verified: {claims.judged} instances are unknown")
    if rule.claim == Change.BITWISE:
        return
    if not any(example.kind == "breaks" for example in rule.examples):
        yield Failure(f"claims `{rule.claim}`, and no example breaks")
    if verified in (None, Change.BITWISE):
        yield Failure(
            f"claims `{rule.claim}`, and none of {claims.judged} instances changes a bit "
            "on an ordinary run"
        )


def _hints(rule: Rewrite, claims: _Claims, verified: Change | None) -> Iterator[str]:
    if verified is not None and Change.BITWISE < verified < rule.claim:
        yield f"claims `{rule.claim}`; no instance is worse than `{verified}`"
    for kind in rule.loses:
        if kind not in claims.lost:
            yield f"says that it may lose {LABELS.get(kind, repr(kind))}; no instance does"
    if 0 < claims.unknown < claims.judged:
        yield f"{claims.unknown} of {claims.judged} instances are unknown"
    for require in rule.requires:
        if require.text not in {example.requirement for example in rule.examples}:
            yield f"no example is rejected by the requirement `{require.text}`"
