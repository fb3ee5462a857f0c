"""What a kernel is said to read is what its tiles read when they are run one after the other.

Two simulators share nothing with the counting but the graph. One gives each element of each value
the set of input elements that it depends on, by numpy's own views, and adds up the sizes of these
sets over the tiles. The other runs the blocked loops of a matrix product and notes each load.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbit.cost.counting import place, total
from lastbit.cost.placement import ALL, Tile
from lastbit.cost.reading import needs_of
from lastbit.formats import F32
from lastbit.graph import (
    Const,
    Input,
    Map,
    Node,
    Reduce,
    Round,
    View,
    apply,
    concat,
    matmul,
    reshape,
    take,
    transpose,
)
from lastbit.rounding import Rounding
from lastbit.schedule import Seq

ACC = Rounding.of("f32")
Elements = frozenset[tuple[str, int]]


def sources(root: Node) -> np.ndarray:
    """Return for each element of a node the elements of inputs that it depends on."""
    known: dict[bytes, np.ndarray] = {}

    def of(node: Node) -> np.ndarray:
        if node.key not in known:
            known[node.key] = found(node)
        return known[node.key]

    def found(node: Node) -> np.ndarray:
        out = np.empty(node.shape, object)
        match node:
            case Input(name=name):
                for number, spot in enumerate(np.ndindex(*node.shape)):
                    out[spot] = frozenset([(name, number)])
            case Const():
                out[...] = [frozenset()]
            case Round(x=x):
                return of(x)
            case Map(xs=xs):
                parts = [np.broadcast_to(of(x), node.shape) for x in xs]
                for spot in np.ndindex(*node.shape):
                    out[spot] = frozenset().union(*(part[spot] for part in parts))
            case Reduce(x=x, axis=axis):
                terms = np.moveaxis(of(x), axis, -1)
                for spot in np.ndindex(*node.shape):
                    line = terms[(*spot[:axis], *spot[axis + 1 :])]
                    out[spot] = frozenset().union(*line)
            case View(kind="reshape", xs=(x,)):
                return of(x).reshape(node.shape)
            case View(kind="broadcast", xs=(x,)):
                return np.broadcast_to(of(x), node.shape)
            case View(kind="transpose", xs=(x,), params=order):
                return of(x).transpose(order)
            case View(kind="slice", xs=(x,)):
                return of(x)[np.ix_(*(range(*bounds) for bounds in node.bounds))]
            case View(kind="concat", xs=xs, params=(axis,)):
                return np.concatenate([of(x) for x in xs], axis)
        return out

    return of(root)


def tiles(shape: tuple[int, ...], tile: Tile) -> list[tuple[slice, ...]]:
    """Return the parts of a shape that the blocks of a grid compute."""
    cuts = []
    for axis, size in enumerate(shape, -len(shape)):
        step = {-1: tile.columns, -2: tile.rows}.get(axis, None if tile == Tile() else 1) or size
        cuts.append([slice(i, i + step) for i in range(0, size, max(step, 1))])
    return list(product(*cuts))


def simulated(root: Node, tile: Tile) -> tuple[Counter[str], Counter[str]]:
    """Return by input the elements loaded by all tiles, and the most that one of them loads."""
    elements = sources(root)
    loads: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for part in tiles(root.shape, tile):
        own: Elements = frozenset().union(*elements[part].ravel())
        here = Counter(name for name, _ in own)
        loads += here
        most |= here
    return loads, most


def counted(root: Node, tile: Tile) -> tuple[Counter[str], dict[str, int]]:
    """Return by input the elements that lastbit counts, and the ways in which it is needed."""
    needs: dict[str, list] = {}
    for need in needs_of(root):
        if isinstance(need.node, Input):
            needs.setdefault(need.node.name, []).append(place(need, tile))
    loads = Counter({name: total(places) for name, places in needs.items()})
    return +loads, {name: len({p.key for p in places}) for name, places in needs.items()}


def x(*shape: int, name: str = "x") -> Input:
    return Input(name, F32, shape=shape)


def mm(a: Node, b: Node) -> Node:
    return matmul(a, b, Seq(), ACC)


def summed(node: Node, axis: int) -> Node:
    return Reduce("sum", node, axis, Seq(), ACC)


TILES = (Tile(), Tile(2, 3), Tile(1, ALL), Tile(None, 2), Tile(3, 1))
W = x(5, 7, name="w")
EXACT = {
    "a product": mm(x(6, 5), W),
    "a product of one operand with itself, which two tiles need in two ways": mm(
        x(4, 6), transpose(x(4, 6), (1, 0))
    ),
    "a row added to a matrix": apply("add", x(6, 5), x(5, name="v")),
    "a column added to a matrix": apply("add", x(6, 5), x(6, 1, name="v")),
    "a transposed value": apply("add", transpose(x(5, 6), (1, 0)), x(6, 5, name="v")),
    "halves that change places": concat([take(x(6, 8), 1, 4, 8), take(x(6, 8), 1, 0, 4)], 1),
    "every second column": apply("mul", take(x(6, 8), 1, 0, 8, 2), x(6, 1, name="v")),
    "columns backwards": apply("mul", take(x(6, 8), 1, 7, -1, -1), x(1, 8, name="v")),
    "heads split off and joined again": reshape(
        apply("mul", reshape(x(6, 8), (6, 2, 4)), x(6, 1, 4, name="v")), (6, 8)
    ),
    "rows of a flat vector": apply("add", reshape(x(24), (6, 4)), x(6, 1, name="v")),
    "a flat product, whose rows several tiles need": reshape(mm(x(6, 5), x(5, 4, name="w")), (24,)),
    "a batch of products with one right operand": apply(
        "mul", reshape(mm(x(6, 5), x(5, 4, name="w")), (2, 3, 4)), x(2, 1, 1, name="v")
    ),
    "two products with one left operand, side by side": concat(
        [mm(x(6, 5), x(5, 4, name="a")), mm(x(6, 5), x(5, 2, name="b"))], 1
    ),
    "a sum of sums over chunks": apply(
        "add", summed(take(x(4, 6), 1, 0, 3), 1), summed(take(x(4, 6), 1, 3, 6), 1)
    ),
    "a row divided by its sum": apply("div", x(4, 6), summed(x(4, 6), 1)),
    "a product inside of a product": mm(mm(x(4, 3), x(3, 5, name="a")), x(5, 4, name="b")),
    "nothing at all": apply("add", x(0, 4), x(1, 4, name="v")),
    "a sum of no terms": apply("add", summed(x(4, 0), 1), x(4, 1, name="v")),
}


@pytest.mark.parametrize("root", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_the_loads_counted_are_those_of_the_tiles(root: Node, tile: Tile) -> None:
    loads, _ = simulated(root, tile)
    found, ways = counted(root, tile)
    for name in loads:
        if ways[name] == 1:
            assert found[name] == loads[name], name
        else:  # needed in two passes: at most once in each
            assert loads[name] <= found[name] <= ways[name] * loads[name], name
    assert found.keys() == loads.keys()


def test_a_value_needed_by_its_rows_and_by_its_columns_is_loaded_for_both() -> None:
    square = mm(x(4, 6), transpose(x(4, 6), (1, 0)))
    found, ways = counted(square, Tile(2, 2, ALL))
    assert (found["x"], ways["x"]) == (2 * (4 * 6 * 2), 2)  # equal blocks, other elements


def test_chunks_of_one_operand_add_up() -> None:
    # Had equal blocks counted once, four chunks of 2 would be 8 elements instead of 32.
    parts = [summed(take(x(4, 8), 1, i, i + 2), 1) for i in range(0, 8, 2)]
    found, _ = counted(apply("add", apply("add", *parts[:2]), apply("add", *parts[2:])), Tile())
    assert found["x"] == 32


def test_windows_that_overlap_count_what_they_share_once() -> None:
    sum_ = apply("add", take(x(10), 0, 0, 8), take(x(10), 0, 2, 10))
    assert counted(sum_, Tile())[0]["x"] == 10


def blocked_product(m: int, k: int, n: int, tile: Tile) -> tuple[Counter[str], Counter[str]]:
    """Run the loops of a blocked product; return the loads, and the most that a step holds."""
    assert tile.rows
    assert tile.columns
    loads: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for i in range(0, m, tile.rows):
        for j in range(0, n, tile.columns):
            rows, columns = min(tile.rows, m - i), min(tile.columns, n - j)
            for step in range(0, k, tile.depth or k):
                depth = min(tile.depth or k, k - step)
                block = Counter({"a": rows * depth, "w": depth * columns, "acc": rows * columns})
                loads += Counter({name: block[name] for name in "aw"})
                most |= block
    return loads, most


@pytest.mark.parametrize(("m", "k", "n"), [(8, 8, 8), (7, 5, 9), (1, 6, 4), (5, 1, 5), (3, 4, 1)])
@pytest.mark.parametrize("tile", [Tile(2, 3, 2), Tile(4, 4, 4), Tile(3, 2, ALL), Tile(9, 9, 1)])
def test_a_blocked_product_loads_and_holds_what_its_loops_do(
    m: int, k: int, n: int, tile: Tile
) -> None:
    root = mm(x(m, k, name="a"), x(k, n, name="w"))
    loads, most = blocked_product(m, k, n, tile)
    assert counted(root, tile)[0] == loads
    blocks = {
        need.node.name: place(need, tile).block
        for need in needs_of(root)
        if isinstance(need.node, Input)
    }
    assert blocks == {name: most[name] for name in "aw"}


@st.composite
def programs(draw: st.DrawFn) -> Node:
    """Draw a small graph in which each input is read once, so that one way is all there is."""
    names = iter(f"x{i}" for i in range(20))

    def fresh(shape: tuple[int, ...]) -> Input:
        return x(*shape, name=next(names))

    node: Node = fresh(tuple(draw(st.lists(st.sampled_from([1, 2, 4, 6]), min_size=1, max_size=3))))
    for _ in range(draw(st.integers(0, 6))):
        rank = len(node.shape)
        axis = draw(st.integers(0, rank - 1))
        size = node.shape[axis]
        match draw(st.sampled_from(["map", "add", "sum", "turn", "slice", "split", "join", "mm"])):
            case "map":
                node = apply("silu", node)
            case "add":
                shape = tuple(draw(st.sampled_from([1, length])) for length in node.shape)
                node = apply("add", node, fresh(shape))
            case "sum":
                node = summed(node, axis)
            case "turn":
                node = transpose(node, tuple(draw(st.permutations(range(rank)))))
            case "slice" if size > 1:
                start = draw(st.integers(0, size - 1))
                node = take(node, axis, start, draw(st.integers(start + 1, size)))
            case "split" if size % 2 == 0:
                node = reshape(node, (*node.shape[:axis], 2, size // 2, *node.shape[axis + 1 :]))
            case "join" if rank > 1 and axis + 1 < rank:
                joined = size * node.shape[axis + 1]
                node = reshape(node, (*node.shape[:axis], joined, *node.shape[axis + 2 :]))
            case "mm" if rank == 2:
                node = mm(node, fresh((node.shape[1], draw(st.sampled_from([1, 2, 3])))))
    return node


@given(programs(), st.integers(1, 4), st.integers(1, 4))
def test_random_programs_load_what_their_tiles_load(root: Node, rows: int, columns: int) -> None:
    if prod(root.shape) > 200:
        return
    for tile in (Tile(), Tile(rows, columns), Tile(rows), Tile(None, columns)):
        loads, _ = simulated(root, tile)
        found, _ = counted(root, tile)
        assert all(found[name] >= count for name, count in loads.items())  # never too few
        assert found.keys() == loads.keys()
        if tile == Tile():
            continue
        ragged = any(isinstance(need.node, Input) and _loose(need) for need in needs_of(root))
        assert ragged or found == loads


def _loose(need: object) -> bool:
    return any(index.loose for index in need.indices)  # type: ignore[attr-defined]
