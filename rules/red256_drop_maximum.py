"""RED256 drop-maximum: a softmax no longer subtracts the maximum of its row.

Why it matters: over the reals the factor exp(-max) cancels. In binary32 exp(89) overflows, and inf
/ inf is NaN; where all scores are below -104 every weight is 0 and 0 / 0 is NaN.
Legal: as a change of rounding, with a bound on the scores.
Error: a rounding in a few weights on ordinary runs; the domain shrinks to scores below 88.7.
Source: Blanchard, D. J. Higham and N. J. Higham, "Accurately computing the log-sum-exp and softmax
functions" (IMA J. Numer. Anal. 41(4), 2021).
"""

from lastbit.change import Change
from lastbit.patterns import replace
from lastbit.patterns.attention import NEED, WHOLE_ROW, attention_at
from lastbit.rule import Edits, MismatchError, Rewrite, Site, breaks, holds, rejects


def rewrite(site: Site) -> Edits:
    """Take the exponentials of the scores themselves."""
    found = attention_at(site)
    if found.shifted is None:
        raise MismatchError("the softmax reads a whole row")
    return {
        name: replace(site.definition(name), found.shifted, found.scores) for name in found.places
    }


RULE = Rewrite(
    code="RED256",
    name="drop-maximum",
    claim=Change.ROUNDING,
    prose=__doc__,
    graph=WHOLE_ROW,
    at=("o",),
    sizes={"M": 1, "K": 2, "N": 1},
    rewrite=rewrite,
    examples=(
        breaks(s=[[0, 1]], v=[[3], [1]], shows="o: 0x3fc4d959 -> 0x3fc4d958"),
        breaks(s=[[0, 89]], v=[[1], [3]]),  # NaN in place of 3
        holds(s=[[0, -1]], v=[[1], [3]]),  # the maximum is 0
        rejects(NEED, at=("u",), s=[[0, 1]], v=[[1], [3]]),
    ),
    loses=("domain",),
    title=lambda site: f"`{site.name}` no longer subtracts the maximum of each row of scores",
)
