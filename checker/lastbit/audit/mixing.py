"""Which operators compute from all rows what later goes into the rows of another result.

A sum over the batch has no rows of its own. Alone it may be a loss, which breaks no promise; where
it is added to rows, divides them, or is written into them, each row follows all others. So results
without rows are followed, by the memory that they lie in, to the first result that has rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from lastbit.audit.recording import short_name

OVERWRITES = {"zero_", "fill_", "copy_"}  # what their first argument held is gone

Pair = tuple[Any, ...]


class Mixed:
    """Follows results that are computed from all rows and have none.

    Attributes:
        into_rows: calls whose results go into results that have rows, as in `Call.pair`.
    """

    def __init__(self) -> None:
        self.into_rows: set[Pair] = set()
        # By memory: what keeps its name from being used again, and the calls it was computed by.
        self.held: dict[int, tuple[Any, frozenset[Pair]]] = {}

    def follow(
        self,
        name: str,
        pair: Pair,
        mixing: bool,
        arguments: Sequence[Any],
        written: Iterable[int],
        results: Sequence[Any],
        with_rows: Sequence[bool],
    ) -> None:
        """Follow one call.

        Args:
            name: of the operator.
            pair: the call.
            mixing: whether arguments have rows and no result has.
            arguments: its leaves.
            written: the leaves that it writes.
            results: its tensors.
            with_rows: for each of them whether its shape follows the batch.
        """
        overwritten = set(written) if short_name(name) in OVERWRITES else set()
        read = [leaf for number, leaf in enumerate(arguments) if number not in overwritten]
        sources = frozenset(source for leaf in read for source in self._of(leaf))
        if mixing:
            sources |= {pair}
        elif any(with_rows):
            self.into_rows |= sources
        for result, of_rows in zip(results, with_rows, strict=False):
            key = self._memory(result)
            if key is None:
                continue
            whole = prod(result.shape) * result.element_size() >= key.size
            if overwritten and whole:
                self.held.pop(key.name, None)
            if sources and not of_rows:
                known = self.held[key.name][1] if key.name in self.held else frozenset[Pair]()
                self.held[key.name] = (key.weak, known | sources)

    def _of(self, leaf: Any) -> frozenset[Pair]:
        key = self._memory(leaf)
        return self.held[key.name][1] if key and key.name in self.held else frozenset()

    @staticmethod
    def _memory(leaf: Any) -> _Memory | None:
        import torch

        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
            return None
        return _Memory(leaf.untyped_storage())


class _Memory:
    """The memory of a tensor; its name is not given to other memory while `weak` is held."""

    def __init__(self, storage: Any) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        self.weak = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        self.name = int(self.weak.cdata)
        self.size = int(storage.nbytes())
