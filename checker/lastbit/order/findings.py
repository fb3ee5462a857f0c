"""What keeps a function from having one summation tree."""

from __future__ import annotations

from typing import Final

from lastbit.errors import LastbitError

RANDOM: Final = "not deterministic"
EXACT: Final = "exact"
COMPENSATED: Final = "compensated"
DATA: Final = "depends on the data"
NO_TREE: Final = "no tree"


class NoTreeError(LastbitError):
    """A function that adds up, but not by one fixed tree of rounded steps.

    Attributes:
        label: the function's name.
        kind: `not deterministic`, `exact`, `compensated`, `depends on the data` or `no tree`.
        reason: what was seen.
    """

    def __init__(self, label: str, kind: str, reason: str) -> None:
        self.label, self.kind, self.reason = label, kind, reason
        super().__init__(f"`{label}` has no fixed tree: {reason}.")


class MisfitError(Exception):
    """Sizes that fit no tree; the search says what that means.

    Attributes:
        reason: what was seen.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
