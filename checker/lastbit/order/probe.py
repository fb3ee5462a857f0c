"""Calls of the function: many probes at once where that changes no bits, else one by one.

A library may take another way for another number of rows. So before a batch of some size is used,
vectors that order matters to go through it at every row and must give the bits they give alone.
They also fill the rows that a call does not need, and are compared again there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lastbit.errors import InputError, Problem
from lastbit.formats import Format
from lastbit.interpret.intervals import Floats
from lastbit.order.adapters import NoNumberError, Target, numbers
from lastbit.order.findings import RANDOM, NoTreeError
from lastbit.round_array import Codes, code_type, encode_array, round_array
from lastbit.rounding import Rounding

Fill = Callable[[Codes, int, int], None]
"""Writes probes i to j into zeroed rows of codes."""

BYTES = 1 << 21  # of the vectors in one call, which should stay in the cache
FEW, SOME, MOST = 8, 64, 1024  # rows of a call
CANARIES = 4
SCALES = np.concatenate((2.0 ** np.arange(-3, 5), -(2.0 ** np.arange(-3, 5))))
SPAN = 60  # binary digits from the largest to the smallest pair of a canary


class Prober:
    """Hands probes to a function and counts the calls.

    Args:
        target: the function.
        n: the elements of a vector.
        fmt: their format.
        rows: the rows of every call; without it a vector alone is meant, and batches are used
            where they give the same bits.
        seed: of the vectors that batches are compared on.
        one_by_one: whether no batch is to be tried.

    Attributes:
        calls: how often the function was called.
        probes: how many vectors it was given that answer a question.
        notes: what a reader must know.
    """

    def __init__(
        self, target: Target, n: int, fmt: Format, rows: int | None, seed: int, one_by_one: bool
    ) -> None:
        self.target, self.n, self.format, self.rows = target, n, fmt, rows
        self.calls = self.probes = 0
        self.notes: list[str] = []
        self.code_type = code_type(fmt)
        self.random = np.random.Generator(np.random.PCG64([seed, n]))
        half = CANARIES // 2
        self.canaries = np.concatenate((self._cancelling(half), self.vectors(CANARIES - half)))
        self._alone: Floats | None = None
        self._trusted: set[int] = set()
        self._used: list[int] | None = None  # the rows of a call that are used, or all
        self.batched = target.batched and not one_by_one and rows is None
        self._takes_rows = False
        self._block = np.zeros((0, n), self.code_type)

    def start(self) -> None:
        """Make the first calls, which show whether the function can be called at all.

        Raises:
            InputError: it raises, or gives something else than a finite number for a vector.
        """
        if self.rows is not None:
            self._trust_rows(self.rows)
        elif self.batched:
            # First of all, since a function of single vectors needs no comparing.
            self.batched = self._trust(FEW)
        self.alone  # noqa: B018 - computed once, and checked

    def vectors(self, count: int) -> Codes:
        """Return random vectors with full digits, whose sums cancel in part."""
        size = (count, self.n)
        x = 1 + self.random.random(size)
        x *= SCALES[self.random.integers(0, len(SCALES), size, np.uint8)]
        return encode_array(round_array(x, Rounding.of(self.format)), self.format)

    def _cancelling(self, count: int) -> Codes:
        """Return random vectors of pairs that cancel, small pairs beside large ones.

        Sums in two orders lose different small ones, so they seldom agree.
        """
        fmt, size = self.format, (count, self.n)
        half = SPAN // 2
        # Where the format is narrow, no sum of some of them should overflow.
        low = max(fmt.emin + 1, -half)
        high = max(low + 1, min(fmt.emax - 2 - self.n.bit_length() // 2, half))
        x = self.random.uniform(1, 2, size) * 2.0 ** self.random.integers(low, high, size)
        pairs = self.n // 2
        x[:, pairs : 2 * pairs] = -x[:, :pairs]
        x[:, 2 * pairs :] *= 2.0 ** (low - high)
        x = self.random.permuted(x, axis=1)
        return encode_array(round_array(x, Rounding.of(fmt)), fmt)

    def run(self, count: int, fill: Fill) -> Floats:
        """Return the results of so many probes; NaN where the function gave that.

        Raises:
            InputError: the function cannot be called so, or gives no number for a vector.
            NoTreeError: the same call gave other bits.
        """
        self.probes += count
        out = np.empty(count)
        done = 0
        while done < count:
            rows = self._rows_for(count - done)
            used = min(len(self._used) if self._used else rows, count - done)
            if rows == 1 and self.rows is None:
                used = min(SOME, count - done)
                block = self._filled(used, fill, done)
                for i in range(used):
                    out[done + i] = self._one(block[i])
            else:
                out[done : done + used] = self._batch(rows, used, fill, done)
            done += used
        return out

    def values(self, codes: Codes) -> Floats:
        """Return the results for given vectors."""

        def fill(block: Codes, start: int, stop: int) -> None:
            block[:] = codes[start:stop]

        return self.run(len(codes), fill)

    def _filled(self, used: int, fill: Fill, done: int) -> Codes:
        if len(self._block) < used:
            self._block = np.zeros((used, self.n), self.code_type)
        block = self._block[:used]
        block.fill(0)
        fill(block, done, done + used)
        return block

    def _rows_for(self, count: int) -> int:
        """Return the rows of the next call, after making sure that such a call can be trusted."""
        if self.rows is not None:
            self._trust_rows(self.rows)
            return self.rows
        if not self.batched:
            return 1
        most = max(FEW, min(MOST, BYTES // (self.n * self.code_type.itemsize)))
        size = FEW if count <= FEW else min(SOME if count <= 4 * SOME else MOST, most)
        self.batched = size in self._trusted or self._trust(size)
        return size if self.batched else 1

    def _batch(self, rows: int, used: int, fill: Fill, done: int) -> Floats:
        """Return the results of some probes in one call, whose other rows hold a canary."""
        if len(self._block) < rows:
            self._block = np.zeros((rows, self.n), self.code_type)
        block = self._block[:rows]
        places = np.array(self._used or range(rows))
        if self._used is None:
            block[:used] = 0
            fill(block[:used], done, done + used)
            block[used:] = self.canaries[0]
        else:
            part = np.zeros((used, self.n), self.code_type)
            fill(part, done, done + used)
            block[:] = self.canaries[0]
            block[places[:used]] = part
        found = self._call(block)
        spare = found[places[used:]]
        if not _same(spare, np.full(len(spare), self.alone[0])):
            reason = "a vector that had the same bits before has others in a later call"
            raise NoTreeError(self.target.label, RANDOM, reason)
        asked: Floats = found[places[:used]]
        return asked

    @property
    def alone(self) -> Floats:
        """The results of the vectors that batches are compared on, each alone, or in row 0.

        Raises:
            InputError: one of them is not finite.
        """
        if self._alone is None:
            first = self._each(self.canaries)
            if not np.isfinite(first).all():
                value = first[~np.isfinite(first)][0]
                problem = f"`{self.target.label}` gave {value} for finite numbers"
                raise InputError([Problem(problem, "A sum of them is finite.")])
            self._alone = first
        return self._alone

    def _each(self, vectors: Codes) -> Floats:
        if self.rows is None:
            return np.array([self._one(vector.copy()) for vector in vectors])
        whole = (np.repeat(vector[None], self.rows, 0) for vector in vectors)
        return np.array([self._call(block)[0] for block in whole])

    def _trust(self, rows: int) -> bool:
        """Say whether a batch of so many rows gives every row the bits that it has alone."""
        order = np.arange(rows) % CANARIES
        self.calls += 1
        try:
            found = numbers(self.target.many(self.canaries[order], self.format)).squeeze()
        except NoNumberError as error:
            raise self._no_number(error) from None
        except Exception as error:
            self.notes.append(
                f"one by one: for {rows} vectors at once it raised {type(error).__name__}"
            )
            return False
        if found.shape != (rows,):
            self.notes.append(
                f"one by one: for {rows} vectors at once it gave shape {found.shape}, not ({rows},)"
            )
            return False
        self._takes_rows = True
        expected = self.alone
        if not _same(found, expected[order]):
            if not _same(self._each(self.canaries), expected):
                reason = "the same vector gave other bits in a second call"
                raise NoTreeError(self.target.label, RANDOM, reason)
            wrong = int((found.view(np.uint64) != expected[order].view(np.uint64)).sum())
            self.notes.append(
                f"one by one: {wrong} of {rows} vectors have other bits in a batch of {rows} than "
                "alone, so the library takes another way for a batch; name its rows to see that one"
            )
            return False
        self._trusted.add(rows)
        return True

    def _trust_rows(self, rows: int) -> None:
        """Find the rows of a call of fixed shape that add up alike."""
        if rows in self._trusted:
            return
        self._trusted.add(rows)
        alike = np.ones(rows, bool)
        for i in range(CANARIES):
            found = self._call(np.repeat(self.canaries[i][None], rows, 0))
            alike &= found.view(np.uint64) == self.alone[i].view(np.uint64)
        if not alike.all():
            self._used = [int(row) for row in np.flatnonzero(alike)]
            self.notes.append(
                f"{rows - int(alike.sum())} of {rows} rows have other bits than row 0 for the same "
                "vector; the tree is that of row 0"
            )

    def _one(self, vector: Codes) -> float:
        self.calls += 1
        try:
            result = self.target.one(vector, self.format)
            found = numbers(result)
        except NoNumberError as error:
            raise self._no_number(error) from None
        except Exception as error:
            raise self._raised(error, f"a vector {self.format}[{self.n}]") from error
        if found.size != 1:
            raise self._shape(found.shape, f"a vector {self.format}[{self.n}]", "one number")
        return float(found.reshape(()))

    def _call(self, block: Codes) -> Floats:
        self.calls += 1
        rows, shape = len(block), f"{self.format}[{len(block)}, {self.n}]"
        try:
            found = numbers(self.target.many(block, self.format))
        except NoNumberError as error:
            raise self._no_number(error) from None
        except Exception as error:
            raise self._raised(error, f"an array {shape}") from error
        if found.size != rows or found.squeeze().shape not in {(rows,), ()}:
            raise self._shape(found.shape, f"an array {shape}", f"shape ({rows},)")
        return found.reshape(rows)

    def _raised(self, error: Exception, what: str) -> InputError:
        said = str(error).strip().partition("\n")[0]
        raised = f"raised {type(error).__name__} for {what}"
        problem = f"`{self.target.label}` {raised}{': ' if said else ''}{said}"
        remedy = "It is to take one and to return its sum."
        if self._takes_rows:
            remedy = f"It took {FEW} vectors at once; where it takes no other, name its rows."
        return InputError([Problem(problem, remedy)])

    def _no_number(self, error: NoNumberError) -> InputError:
        problem = f"`{self.target.label}` gave {error}"
        return InputError([Problem(problem, "It is to return a real number for each vector.")])

    def _shape(self, shape: tuple[int, ...], what: str, wanted: str) -> InputError:
        problem = f"`{self.target.label}` gave shape {shape} for {what}, not {wanted}"
        return InputError([Problem(problem, "It is to add over one axis.")])


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Say whether two arrays have the same bits."""
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
