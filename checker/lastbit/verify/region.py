"""The part of a program that a transform changes, closed into two graphs.

A region is made of the values whose definition changed, and of those that read a value which
is no longer a value of the same format. Its results are what the rest of the program reads;
its inputs are the values it reads, so chosen that none of them depends on another: a scale
that was taken from a row is written out again from that row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from lastbit.definitions import Definitions, reads
from lastbit.graph import Graph, Input, Map, native_rounding, topological
from lastbit.reals import FUNCTIONS
from lastbit.rounding import Rounding

MOST_ANCESTORS = 60  # values looked at to find how one input depends on another


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Two graphs over the same inputs, with the same results.

    Attributes:
        before: the program's part before the transform.
        after: the same part afterwards.
    """

    before: Graph
    after: Graph

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the names of the results."""
        return self.before.outputs

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Return the inputs of either side."""
        return _inputs(self)


@lru_cache(maxsize=1024)
def _inputs(region: Region) -> tuple[Input, ...]:
    found = {
        node.name: node
        for graph in (region.before, region.after)
        for node in topological(graph.results)
        if isinstance(node, Input)
    }
    return tuple(found.values())


def region_of(
    old: Definitions, new: Definitions, changed: Iterable[str], extend: int = 0
) -> Region | None:
    """Return the region that a change of definitions makes.

    Args:
        old: the program before.
        new: the program after.
        changed: the names whose definitions changed.
        extend: how many steps to follow the results further into the program.

    Returns:
        None where no result of the program depends on what changed, or where there is nothing
        further to follow.
    """
    inside = {name for name in changed if name in old.nodes or name in new.nodes}
    if not inside:
        return None
    outputs = _close(old, new, inside)
    for _ in range(extend):
        further = {user for name in outputs for user in _users(old, new, name)} - inside
        if not further:
            return None
        inside |= further
        outputs = _close(old, new, inside)
    if not outputs:
        return None
    cut = _independent(old, new, inside)
    return Region(old.closed(outputs, cut), new.closed(outputs, cut))


def inside_of(old: Definitions, new: Definitions, changed: Iterable[str]) -> frozenset[str]:
    """Return the values of the region that a change of definitions makes, without its inputs."""
    inside = {name for name in changed if name in old.nodes or name in new.nodes}
    _close(old, new, inside)
    return frozenset(inside)


def _users(old: Definitions, new: Definitions, name: str) -> set[str]:
    return {*old.consumers(name), *new.consumers(name)}


def _format(program: Definitions, name: str) -> Rounding | None:
    return native_rounding(program.nodes[name])


def _close(old: Definitions, new: Definitions, inside: set[str]) -> list[str]:
    """Extend `inside` until its results are values of one format on both sides; return them."""
    while True:
        outputs, more = [], set()
        for name in sorted(inside & old.nodes.keys() & new.nodes.keys()):
            outer = {user for user in _users(old, new, name) if user not in inside}
            if not outer and name not in old.outputs:
                continue
            before, after = _format(old, name), _format(new, name)
            kept = before is not None and after is not None and before.format == after.format
            if kept and old.nodes[name].shape == new.nodes[name].shape:
                outputs.append(name)
            else:
                more |= outer
                if name in old.outputs:
                    outputs.append(name)
        if not more:
            return outputs
        inside |= more


def _independent(old: Definitions, new: Definitions, inside: set[str]) -> set[str]:
    """Return the values that the region reads, none of which depends on another.

    A value that an earlier transform left unrounded has no format to be given in: it is written
    out from what it reads. So is one that depends on no input: it has one value, not any.
    """
    cut: set[str] = set()
    for program in (old, new):
        for name in inside & program.nodes.keys():
            cut |= {read for read in reads(program.nodes[name]) if read not in inside}
    while True:
        for name in sorted(cut):
            if old.is_input(name):
                continue
            if (
                _format(old, name) is None
                or _ancestors(old, name) & (cut - {name})
                or _is_constant(old, name)
            ):
                cut.remove(name)
                cut |= {read for read in reads(old.nodes[name]) if read not in inside}
                break
        else:
            break
    return cut


def _ancestors(program: Definitions, name: str) -> set[str]:
    seen = {name}
    queue = deque([name])
    while queue and len(seen) < MOST_ANCESTORS:
        for read in reads(program.nodes[queue.popleft()]):
            if read not in seen:
                seen.add(read)
                queue.append(read)
    return seen - {name}


def _is_constant(program: Definitions, name: str) -> bool:
    """Return whether a value is computed from constants alone, by functions with a meaning."""
    ancestors = _ancestors(program, name)
    if len(ancestors) + 1 >= MOST_ANCESTORS or any(map(program.is_input, ancestors)):
        return False
    return all(
        node.fn in FUNCTIONS
        for node in topological(program.nodes[each] for each in (name, *ancestors))
        if isinstance(node, Map)
    )


def why_no_region(program: Definitions, edits: Iterable[str]) -> str:
    """Say why edits change no bits: no result needs them, or results are computed as before.

    Args:
        program: before the edits.
        edits: the names that they define; one that is new was written out before.
    """
    seen, stack = set(program.outputs), list(program.outputs)
    while stack:
        name = stack.pop()
        more = set(reads(program.nodes[name])) - seen if name in program.nodes else set()
        seen |= more
        stack += more
    if all(name in program.nodes and name not in seen for name in edits):
        return "nothing that the program returns depends on it"
    return "what the program returns is computed as before; only values on the way to it differ"
