"""The best alternatives are those that costing every whole program in every tile finds."""

from __future__ import annotations

from functools import cache
from itertools import combinations, product
from math import comb

import pytest
from costed import ATTENTION, KIB, MIB, QUANTIZED, program

from lastbit.cost import ALL, Placement, Tile, cost_of_program
from lastbit.cost.kernels import CycleError, kernels_of
from lastbit.cost.search import Explored, TooManyError, explore, seams_of
from lastbit.cost.tiles import tiles_for
from lastbit.definitions import Definitions, reads
from lastbit.registry import load_rules
from lastbit.rule import Site

SHORT = """
x: bf16[M, K]
w: bf16[K, N]
c: bf16 = matmul(x, w) acc f32 seq
t: bf16 = silu(c)
s: f32 = amax(t, axis=-1) / 448
q: e4m3fn = t / s saturate
"""
SIZES = {"M": 32, "K": 64, "N": 32}
FFN = """
x: bf16[M, H]
w_gate: bf16[H, F]
w_up: bf16[H, F]
w_down: e4m3fn[F, H]
g: bf16 = matmul(x, w_gate) acc f32 seq
u: bf16 = matmul(x, w_up) acc f32 seq
t: bf16 = silu(g)
z: bf16 = t * u
s: f32 = amax(z, axis=-1) / 448
q: e4m3fn = z / s saturate
y: bf16 = matmul(q, w_down) * s acc f32 seq
"""


def chain(length: int) -> Definitions:
    lines = [f"v{i}: bf16 = v{i - 1} * {i}" for i in range(1, length + 1)]
    return program("\n".join(["v0: bf16[M, N]", *lines]), M=64, N=64)


@cache
def everything() -> list[tuple[int, int]]:
    """Return traffic and storage of a program, for every partition and combination of tiles.

    Groups are found among all sets of values; each whole program is costed anew.
    """
    whole = program(SHORT, **SIZES)
    once = cost_of_program(whole).flops
    names = [name for name in whole.nodes if not whole.is_input(name)]
    out = []
    for groups in partitions(names):
        if not all(connected(whole, group) for group in groups):
            continue
        inside = frozenset(
            (read, name)
            for group in groups
            for name in group
            for read in reads(whole.nodes[name])
            if read in group
        )
        try:
            kernels = kernels_of(whole, Placement({}, inside, tuple(map(frozenset, groups))))
        except CycleError:
            continue
        tiles = [list(tiles_for(kernel, list(kernel.needs))) for kernel in kernels]
        for chosen in product(*tiles):
            by_value = {
                kernel.values[0]: tile for kernel, tile in zip(kernels, chosen, strict=True)
            }
            found = cost_of_program(
                whole, Placement(by_value, inside, tuple(map(frozenset, groups)))
            )
            if found.flops < once + 2 * 32 * 64 * 32 // 2:  # half of the product: it is summed once
                out.append((found.bytes, found.local_bytes or 0))
    return out


def partitions(names: list[str]) -> list[list[set[str]]]:
    """Return all ways to put some names into groups."""
    if not names:
        return [[]]
    first, *rest = names
    out = []
    for size in range(len(rest) + 1):
        for others in combinations(rest, size):
            left = [name for name in rest if name not in others]
            out += [[{first, *others}, *more] for more in partitions(left)]
    return out


def connected(whole: Definitions, group: set[str]) -> bool:
    reached, stack = set(), [min(group)]
    while stack:
        name = stack.pop()
        if name not in reached:
            reached.add(name)
            near = {*reads(whole.nodes[name]), *whole.consumers(name)} & group
            stack += sorted(near)
    return reached == group


def points(found: Explored) -> list[tuple[int, int]]:
    return [(alternative.bytes, alternative.local_bytes) for alternative in found.front]


@pytest.mark.parametrize("capacity", [None, 64 * KIB, 8 * KIB])
def test_the_front_is_that_of_every_program_in_every_tile(capacity: int | None) -> None:
    whole = program(SHORT, **SIZES)
    every = sorted({(a, b) for a, b in everything() if capacity is None or b <= capacity})
    best = [
        (traffic, local)
        for traffic, local in every
        if not any(a <= traffic and b <= local and (a, b) != (traffic, local) for a, b in every)
    ]
    assert len(best) > 1  # there is something to choose
    assert points(explore(whole, capacity)) == best


def test_a_chain_is_cut_at_every_subset_of_its_seams() -> None:
    for length in (1, 2, 5, 10):
        found = explore(chain(length))
        assert found.partitions == len(found.cheapest) == 2 ** (length - 1)
        launches = sorted(alternative.launches for alternative in found.cheapest)
        assert launches == [
            cuts + 1 for cuts in range(length) for _ in range(comb(length - 1, cuts))
        ]


def test_the_cheapest_chain_is_one_kernel_and_each_cut_stores_a_value() -> None:
    found = explore(chain(4))
    value = 2 * 64 * 64
    assert [alternative.bytes for alternative in found.cheapest] == [
        2 * value,
        *[4 * value] * 3,
        *[6 * value] * 3,
        8 * value,
    ]
    assert len(found.front) == 1


def test_values_that_wait_for_each_other_are_not_apart() -> None:
    text = """
    x: f32[M]
    a: f32 = x * 2
    b: f32 = a + 1
    c: f32 = b * a
    """
    found = explore(program(text, M=8))
    groups = {
        tuple(tuple(sorted((*choice.inside, *choice.values))) for choice in alternative.choices)
        for alternative in found.cheapest
    }
    assert found.partitions == len(groups) == 4  # not {a, c} with b between them


def test_two_products_of_one_operand_may_share_a_kernel() -> None:
    whole = program(FFN, M=1024, H=4096, F=12288)
    seams = seams_of({k.values[0]: k for k in kernels_of(whole, Placement())})
    assert ("g", "u") in seams
    assert ("s", "q") in seams
    best = explore(whole, 227 * KIB).cheapest[0]
    assert [(choice.inside, choice.values) for choice in best.choices] == [
        (("g", "u", "t"), ("z",)),
        ((), ("s", "q")),
        ((), ("y",)),
    ]
    assert best.local_bytes <= 227 * KIB


def test_quantizing_in_the_product_is_ranked_behind() -> None:
    whole = program(QUANTIZED, M=4096, K=4096, N=1536)
    found = explore(whole, 99 * KIB)
    fused = next(a for a in found.cheapest if any("q" in c.inside for c in a.choices))
    apart = found.cheapest[0]
    assert apart.bytes < fused.bytes
    assert any("q" in choice.values for choice in apart.choices)


def test_a_value_without_a_format_is_no_place_to_cut() -> None:
    text = """
    x: f32[64]
    a: f32 = x * 2
    r: real = a + 1
    b: f32 = r * 2
    dead: f32 = a * 7
    return b
    """
    found = explore(program(text))
    assert found.partitions == 2
    assert [alternative.bytes for alternative in found.cheapest] == [2 * 256, 4 * 256]


def test_only_the_values_named_share_kernels() -> None:
    found = explore(chain(10), free=("v2", "v3", "v4"))
    assert found.partitions == 4
    assert {alternative.launches for alternative in found.cheapest} == {8, 9, 10}


def test_nothing_fits_into_nothing() -> None:
    found = explore(program(SHORT, M=32, K=64, N=32), 16)
    assert (found.cheapest, found.front) == ((), ())


def test_tiles_are_no_larger_than_what_they_cut() -> None:
    (kernel,) = kernels_of(
        program("a: f32[20, 8]\nw: f32[8, 3]\nc: f32 = matmul(a, w) acc f32 seq"), Placement()
    )
    sizes = {(tile.rows, tile.columns) for tile in tiles_for(kernel, list(kernel.needs))}
    assert sizes == {(16, 16), (32, 16)}
    (stream,) = kernels_of(program("a: f32[20, 8]\nc: f32 = a * 2"), Placement())
    assert list(tiles_for(stream, list(stream.needs))) == [Tile()]


def test_too_many_ways_are_refused() -> None:
    with pytest.raises(TooManyError) as caught:
        explore(chain(18))
    assert str(caught.value) == (
        "the program can be cut at 17 places, which makes 2^17 partitions; at most 2^16 are "
        "enumerated. Name the values that may share kernels."
    )


ROWS = """
x: bf16[M, N]
g: f32[1, N]
r: f32 = sum(x * x) acc f32 seq
y: bf16 = x * rsqrt(r / 1000) * g
"""
PAIR = """
a: f32[M, K]
w: f32[K, N]
c: f32 = matmul(a, w) acc f32 seq
y: f32 = relu(c)
"""


def together(tile: Tile, *names: str) -> Placement:
    return Placement(dict.fromkeys(names, tile), together=(frozenset(names),))


def test_a_tile_of_several_rows_is_tried() -> None:
    # Four rows of 1000: x and y once, and the weights for each of 128 tiles.
    found = points(explore(program(ROWS, M=512, N=1000), 227 * KIB))
    assert (2 * 2 * 512_000 + 128 * 4000, 4 * (2000 + 4)) in found


def test_products_are_tried_with_fewer_terms_at_a_time() -> None:
    found = explore(program(PAIR, M=512, K=4096, N=512), 227 * KIB)
    assert (65 * MIB, 80 * KIB) in points(found)  # 128 x 128, 16 terms: 16 + 64 KiB
    depths = {choice.tile.depth for a in found.front for choice in a.choices}
    assert depths == {16}  # more of them hold more, and move no less


@pytest.mark.parametrize("tile", [Tile(96, 80, 8), Tile(40, 512, 24, buffers=2), Tile(512, ALL)])
def test_no_kernel_of_the_plan_beats_the_front(tile: Tile) -> None:
    whole = program(PAIR, M=512, K=4096, N=512)
    own = together(tile, "c", "y")
    start = cost_of_program(whole, own)
    least = start.kernels[0].least_bytes
    found = explore(whole, None, own=[own])
    if tile.depth is None:  # the shallowest that is tried has 16 terms
        least += 15 * 4 * (512 + 512)
    assert any(traffic <= start.bytes and local <= least for traffic, local in points(found))
    assert found.partitions == 2


def test_a_tile_of_the_plan_is_on_the_front_where_no_other_beats_it() -> None:
    whole = program(PAIR, M=512, K=4096, N=512)
    own = together(Tile(96, 80, 8), "c", "y")
    found = points(explore(whole, own=[own]))
    # 6 rows and 7 columns of tiles read A and W, of 8 MiB each; 8 terms, and the running sums.
    assert ((7 * 8 + 6 * 8 + 1) * MIB, 4 * (96 * 8 + 8 * 80 + 96 * 80)) in found


def test_a_plan_may_put_together_what_shares_nothing() -> None:
    text = "a: f32[64]\nb: f32[64]\nx: f32 = a * 2\ny: f32 = b * 2\nreturn x, y"
    whole = program(text)
    assert explore(whole).partitions == 1
    found = explore(whole, own=[Placement(together=(frozenset("xy"),))])
    assert found.partitions == 2
    assert sorted(a.launches for a in found.cheapest) == [1, 2]


def test_a_tile_of_the_plan_is_tried_in_other_kernels_too() -> None:
    whole = program(PAIR, M=512, K=4096, N=512)
    found = explore(whole, own=[together(Tile(96, 80, 8), "c")])
    tiles = {a.choices[0].tile: a.launches for a in found.front}
    assert tiles[Tile(96, 80, 8)] == 1  # with the activation, and not as in the plan


def test_attention_in_one_kernel_is_tried() -> None:
    whole = program(ATTENTION, L=8192, S=8192, D=128)
    own = [together(Tile(82, 128), *"smpluo")]
    best = {a.bytes: a for a in explore(whole, own=own).front}[404 * MIB]
    assert (best.launches, best.choices[0].tile.rows) == (1, 82)
    assert best.local_bytes > 4 * 82 * 8192  # all scores of its rows
    assert explore(whole, 99 * KIB, own=own).front[0].bytes > 1024 * MIB


def test_attention_block_by_block_fits() -> None:
    whole = program(ATTENTION, L=1024, S=1024, D=128)
    edits = load_rules()["RED251"].apply(Site(whole, ("o",), {"block": 64}))
    own = [together(Tile(82, 128), *"smpluo")]
    best = explore(whole.edited(edits), 99 * KIB, own=own).front[0]
    assert (best.bytes, best.local_bytes) == (13 * 512 * KIB + 512 * KIB, 101336)


def test_a_scale_of_all_is_not_computed_by_the_tiles_that_read_it() -> None:
    text = "x: f32[M, K]\ns: f32 = amax(amax(x, axis=-1), axis=0) / 448\nq: e4m3fn = x / s saturate"
    assert {a.launches for a in explore(program(text, M=1024, K=64)).cheapest} == {2}
    one = {a.launches for a in explore(program(text, M=1, K=64)).cheapest}
    assert one == {1, 2}  # one row is one block
