"""Whole matrix products: tiles of outputs, several threads, bounded memory.

numpy's loops run without Python's lock, so threads share the processor's cores. A task is a block
of rows times a block of columns; its tiles have so many columns that numpy's inner loops are long,
and so many rows that a step's products stay near the processor. The result does not depend on the
number of threads, nor on the tiles.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lastbit.engine.narrow import Scratch
from lastbit.engine.operands import Block, Codes
from lastbit.engine.tape import Tape
from lastbit.engine.tiles import Tile, Ways
from lastbit.engine.wide import Array
from lastbit.errors import LastbitError
from lastbit.formats import F32, Format

Progress: TypeAlias = Callable[[int, int], None]  # outputs done, and in all
Finish: TypeAlias = Callable[[Array, slice], NDArray[Any]]

STEP_PRODUCTS: Final = 1 << 18  # of a tile
MOST_COLUMNS: Final = 4096  # of a tile
FEWEST_COLUMNS: Final = 1024  # where fewer tasks than threads would do
BLOCK: Final = 1 << 23  # elements of a block of columns
ROWS: Final = 32  # of a block
SHORT_LOOPS: Final = 1024  # numpy copies operands that are shorter to join its inner loops


class OperandError(LastbitError):
    """Operands that the engine does not take.

    Attributes:
        what: what is wrong with them.
        remedy: what to do.
    """

    def __init__(self, what: str, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        super().__init__(f"{what}. {remedy}")


class Interrupted(Exception):  # noqa: N818  a signal among threads, not an error
    """Another thread failed, or the user stopped the work."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a matrix product.

    Attributes:
        codes: `[M, K]` or `[K, N]`.
        format: their format.
    """

    codes: Codes
    format: Format

    def __post_init__(self) -> None:
        if self.codes.ndim != 2:
            shape = list(self.codes.shape)
            raise OperandError(f"an operand has the shape {shape}", "A matrix has two sizes.")
        if self.format.kind != "float" or self.format.precision > F32.precision:
            what = f"the engine takes no operands of {self.format.short}"
            raise OperandError(what, "Allowed: floating-point formats of at most 24 digits.")


def matrix_product(
    a: Operand,
    b: Operand,
    tape: Tape,
    finish: Finish,
    out: NDArray[Any],
    threads: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Compute every output of a matrix product by the instructions of a tape.

    Args:
        a: the left operand, `[M, K]`.
        b: the right operand, `[K, N]`.
        tape: the instructions over K products.
        finish: what makes results of some rows and columns, given the slice of the columns.
        out: `[M, N]`, where they go.
        threads: how many work at once; as many as there are cores if not given.
        progress: called now and then with the outputs done and their number.

    Raises:
        OperandError: the sizes of K differ.
    """
    (m, k), (other, n) = a.codes.shape, b.codes.shape
    if k != other:
        what = f"a is [{m}, {k}] and b is [{other}, {n}]"
        raise OperandError(what, "The second size of a is the first of b.")
    assert tape.k == k, "the tape is for another K"
    if not out.size:
        return
    left, right, target = (a.codes.T, a.format), b, out
    transposed = n < m  # long rows of the result make long loops; products commute
    if transposed:
        left, right, target = (b.codes, b.format), Operand(a.codes.T, a.format), out.T
    work = _Work(tape, left, right, target, finish, transposed, threads or cores(), progress)
    work.run()


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass
class _Columns:
    """A block of columns, made by the first thread that needs it and dropped by the last."""

    span: slice
    tasks: int
    block: Block | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Work:
    def __init__(
        self,
        tape: Tape,
        left: tuple[Codes, Format],
        right: Operand,
        out: NDArray[Any],
        finish: Finish,
        transposed: bool,
        threads: int,
        progress: Progress | None,
    ) -> None:
        self.tape, self.right, self.out, self.finish = tape, right, out, finish
        self.left_codes, self.left_format = left
        self.transposed, self.progress = transposed, progress
        self.lock, self.stop, self.done = threading.Lock(), threading.Event(), 0
        self.failure: BaseException | None = None
        rows, columns = out.shape
        wide = max(1, min(MOST_COLUMNS, columns, BLOCK // max(tape.k, 1)))
        most = max((chain.unit.width for chain in tape.chains()), default=1)
        self.height = max(1, min(rows, STEP_PRODUCTS // (wide * max(most, 16))))
        per_block = max(self.height, min(ROWS, -(-rows // threads)))
        tasks = -(-rows // per_block) * -(-columns // wide)
        if tasks < threads and wide > FEWEST_COLUMNS:
            wide = max(FEWEST_COLUMNS, -(-columns * tasks // threads))
        self.threads = threads
        row_spans = list(_spans(rows, per_block))
        self.blocks = [_Columns(span, len(row_spans)) for span in _spans(columns, wide)]
        self.tasks = ((block, span) for block in self.blocks for span in row_spans)

    def run(self) -> None:
        """Do all tasks; raise what a thread raised."""
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.1)
        except BaseException:
            self.stop.set()
            for thread in threads:
                thread.join()
            raise
        if self.failure is not None:
            raise self.failure

    def _work(self) -> None:
        scratch = Scratch()
        try:
            with _short_buffers(), np.errstate(all="ignore"):
                while not self.stop.is_set():
                    with self.lock:
                        task = next(self.tasks, None)
                    if task is None:
                        return
                    self._task(*task, scratch)
        except Interrupted:
            return
        except BaseException as error:
            self.failure = self.failure or error
            self.stop.set()

    def _task(self, columns: _Columns, rows: slice, scratch: Scratch) -> None:
        left = Block(np.ascontiguousarray(self.left_codes[:, rows]), self.left_format, 0)
        right = self._columns(columns)
        ways = Ways.over(self.tape, left, right)
        for part in _spans(rows.stop - rows.start, self.height):
            if self.stop.is_set():
                raise Interrupted
            values = Tile(self.tape, ways, left, right, part, scratch).run()
            place = slice(rows.start + part.start, rows.start + part.stop)
            self._put(values, place, columns.span)
        with columns.lock:
            columns.tasks -= 1
            if not columns.tasks:
                columns.block = None

    def _columns(self, columns: _Columns) -> Block:
        with columns.lock:
            if columns.block is None:
                codes = np.ascontiguousarray(self.right.codes[:, columns.span])
                columns.block = Block(codes, self.right.format, 1)
                _ = columns.block.extent
            return columns.block

    def _put(self, values: Array, rows: slice, columns: slice) -> None:
        if self.transposed:
            self.out[rows, columns] = self.finish(values.T, rows).T
        else:
            self.out[rows, columns] = self.finish(values, columns)
        with self.lock:
            self.done += values.size
            if self.progress is not None:
                self.progress(self.done, self.out.size)


def _spans(size: int, step: int) -> Iterator[slice]:
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


@contextmanager
def _short_buffers() -> Iterator[None]:
    """Keep numpy from copying broadcast operands into its buffers, which halves the speed."""
    before = np.getbufsize()
    np.setbufsize(SHORT_LOOPS)
    try:
        yield
    finally:
        np.setbufsize(before)
