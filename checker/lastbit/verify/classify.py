"""Decide what kind of change a transform is.

The first policy under which both sides agree names the change, from the strictest: BITS means
`bitwise`, ROUND `reassociation`, GRID `rounding`, REAL `grid`, none `math`. Agreement is decided
in the field; a disagreement must be confirmed by a witness under the policy that disagrees.
Where the field's hashes know too few laws and no witness is found, agreement under a looser
policy is `sampled`; `bitwise` is never sampled, so the answer is then `unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lastbit.change import Change
from lastbit.graph import Graph
from lastbit.interpret.policy import Policy
from lastbit.verify.agree import Agreement, agree
from lastbit.verify.canonicalise import canonical
from lastbit.verify.exhaust import exhausted
from lastbit.verify.folding import folded
from lastbit.verify.orders import in_order
from lastbit.verify.region import Region
from lastbit.verify.witness import EFFORT, Found, Kept, Search

ORDER = (Policy.BITS, Policy.ROUND, Policy.GRID, Policy.REAL)
CHANGE_OF = {
    Policy.BITS: Change.BITWISE,
    Policy.ROUND: Change.REASSOCIATION,
    Policy.GRID: Change.ROUNDING,
    Policy.REAL: Change.GRID,
}
LONGER = 8  # times the effort of a search where the field is certain that there is a witness
NO_ORDINARY = "no ordinary run of both sides was found, so that there is nothing to compare"
ASSUMES = ("finite", "no overflow", "no subnormal results", "no negative zero")


@dataclass(frozen=True, slots=True)
class Case:
    """A region at one set of sizes.

    Attributes:
        sizes: the sizes.
        region: the two graphs.
        true: whether a reduced axis has its true size; decides BITS only.
    """

    sizes: Mapping[str, int]
    region: Region
    true: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The kind of a change, and what decided it.

    Attributes:
        change: the kind.
        by: `field`, `law`, `exhaustion`, `sampled` or `witness`.
        sizes: the sizes at which it was judged.
        draws: draws of the field, or inputs tried.
        witness: an input that shows the kind; None for `bitwise` and `unknown`.
        detail: a sentence, or None.
    """

    change: Change
    by: str
    sizes: tuple[Mapping[str, int], ...]
    draws: int
    witness: Found | None = None
    detail: str | None = None


@dataclass(slots=True)
class _Field:
    """What the field says of all cases, policy by policy."""

    cases: Sequence[Case]
    seed: int
    tick: Callable[[], None] | None
    draws: int = 0
    found: dict[Policy, Agreement] = field(default_factory=dict)
    canonical: dict[tuple[int, bool], tuple[Graph, Graph]] = field(default_factory=dict)

    def agrees(self, policy: Policy) -> Agreement:
        """Return whether both sides agree in every case; the first disagreement otherwise."""
        if policy not in self.found:
            self.found[policy] = self._decide(policy)
        return self.found[policy]

    def _decide(self, policy: Policy) -> Agreement:
        last = Agreement(True, False, 0, 0)
        for number, case in enumerate(self.cases):
            if case.true and policy != Policy.BITS:
                continue
            last = self._agree(case.region.before, case.region.after, policy, case.true)
            if not last.equal:
                forms = self._canonical(number, policy == Policy.BITS)
                last = self._agree(*forms, policy, case.true)
            if not last.equal:
                return last
        return last

    def _agree(self, before: Graph, after: Graph, policy: Policy, true: bool) -> Agreement:
        found = agree(before, after, policy, 1 if true else 2, self.seed, self.tick, true)
        self.draws += found.draws
        return found

    def _canonical(self, number: int, bits: bool) -> tuple[Graph, Graph]:
        """Return the canonical forms of a case; with constants computed where bits are meant."""
        key = number, bits
        if key not in self.canonical:
            region = self.cases[number].region
            sides = region.before, region.after
            before, after = map(folded, sides) if bits else sides
            self.canonical[key] = canonical(before), canonical(after)
        return self.canonical[key]


def within(cases: Sequence[Case], policy: Policy, seed: int = 0) -> bool:
    """Return whether the field alone shows that both sides agree under a policy in every case."""
    return bool(cases) and _Field(cases, seed, None).agrees(policy).equal


def classify(
    cases: Sequence[Case],
    witnesses: Iterable[Case],
    seed: int = 0,
    effort: int = EFFORT,
    tick: Callable[[], None] | None = None,
) -> Verdict:
    """Return what kind of change turns the first graphs of regions into the second.

    Args:
        cases: the region at several small sizes, and at the true size of each reduced axis.
        witnesses: the region at sizes for witnesses, from the smallest upwards; made as needed.
        seed: selects draws and candidates.
        effort: elements evaluated in each search for a witness.
        tick: called while evaluating; may raise to stop.
    """
    sizes = tuple(case.sizes for case in cases)
    field_ = _Field(cases, seed, tick)
    agreed: Policy | None = None
    for policy in ORDER:
        if field_.agrees(policy).equal:
            agreed = policy
            break
    if agreed == Policy.BITS:
        same = all(case.region.before.key() == case.region.after.key() for case in cases)
        return Verdict(Change.BITWISE, "law" if same else "field", sizes, field_.draws)
    proven = agreed
    regions = Kept((case.sizes, in_order(case.region)) for case in witnesses)
    tried = 0
    sampled = False
    while True:
        # The sides disagree under `doubtful`, the next stricter policy, if a witness says so.
        # Under ROUND the field tells multisets of terms apart whose exact sums are equal.
        doubtful = Policy.REAL if agreed is None else Policy(agreed + 1)
        search = Search(doubtful, effort, seed, effort)
        found = search.run(regions, rounds=2 if doubtful == Policy.REAL else 3)
        tried += search.ordinary
        certain = not field_.agrees(doubtful).hint
        if found is None and certain:
            longer = Search(doubtful, LONGER * effort, seed + 1, effort)
            found = longer.run(regions, rounds=10 * LONGER)
            tried += longer.ordinary
        if found is not None:
            agreed, found = _missed(found, agreed, proven)
            sampled = sampled and agreed != proven
            change = Change.MATH if agreed is None else CHANGE_OF[agreed]
            by = "sampled" if sampled else "field"
            detail = f"no difference found on {tried - found.tried} inputs" if sampled else None
            return Verdict(change, by, sizes, field_.draws, found, detail)
        if doubtful == Policy.BITS:
            break
        if (certain and doubtful != Policy.ROUND) or not tried:
            break
        agreed, sampled = doubtful, True
    if proof := exhausted([case.region for case in cases]):
        return Verdict(Change.BITWISE, "exhaustion", sizes, proof)
    detail = f"no difference found on {tried} inputs" if tried else NO_ORDINARY
    return Verdict(Change.UNKNOWN, "sampled", sizes, tried, None, detail)


def _missed(
    found: Found, agreed: Policy | None, proven: Policy | None
) -> tuple[Policy | None, Found]:
    """Return the strictest policy under which a witness shows no difference, and the witness.

    Between the policy that the field proves and the one of the witness, sampling saw none; the
    witness is one more sample.
    """
    while agreed is not None and agreed != proven:
        again = Search(agreed).judge(found.region, found.sizes, found.inputs)
        if again is None:
            break
        agreed, found = Policy(agreed - 1) if agreed else None, again
    return agreed, found
