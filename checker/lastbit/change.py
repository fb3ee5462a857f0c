"""The kinds of change, from none to another function."""

from __future__ import annotations

from enum import StrEnum

from lastbit.errors import LastbitError, did_you_mean

_ORDER = ("bitwise", "reassociation", "rounding", "grid", "math", "unknown")


class UnknownChangeError(LastbitError, ValueError):
    """A word that is no kind of change.

    Attributes:
        word: the word.
    """

    def __init__(self, word: object) -> None:
        self.word = word
        super().__init__(f"unknown kind of change {word!r}. {did_you_mean(str(word), _ORDER)}")


class Change(StrEnum):
    """What a transform does to the numbers, on ordinary runs; ordered, `unknown` last.

    `bitwise`: the same bits. `reassociation`: the same rounded operations on the same
    operands, but a sum's tree differs. `rounding`: a rounding point of a floating-point format
    appeared, disappeared or moved. `grid`: a quantization changed. `math`: not the same
    function of real numbers.
    """

    BITWISE = "bitwise"
    REASSOCIATION = "reassociation"
    ROUNDING = "rounding"
    GRID = "grid"
    MATH = "math"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> Change:
        raise UnknownChangeError(value)

    @property
    def rank(self) -> int:
        """Return 0 for `bitwise` to 5 for `unknown`."""
        return _ORDER.index(self.value)

    def __lt__(self, other: str) -> bool:
        return self.rank < Change(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= Change(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > Change(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= Change(other).rank
