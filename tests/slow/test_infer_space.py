"""The space of schedules, and what schedules share, by oracles that do not know of sharing."""

import ml_dtypes
import numpy as np
import pytest

import lastbit
from lastbit.formats import BF16, F32
from lastbit.inference.arrays import canonical_codes
from lastbit.inference.pieces import Pieces
from lastbit.inference.schedules import Chain, candidates, chains_of
from lastbit.inference.trees import ApartError, Trees
from lastbit.levels import Lanes, Pairwise, Seq, Split
from lastbit.machines import unit_of
from lastbit.predicting import draw_codes
from lastbit.schedule import parse_schedule, tree_hash, tree_of

K = 384


def operands(m=16, n=32, k=K, seed=5):
    rng = np.random.default_rng(seed)
    shapes = (m, k), (k, n)
    return [rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes]


def found(schedule, **given):
    a, b = operands()
    c = lastbit.predict_matmul(a, b, "hopper", "bf16", schedule, threads=1, **given)
    given.pop("contract", None)
    return lastbit.infer_matmul(a, b, c, "bf16", machine="hopper", **given)


@pytest.mark.parametrize(
    "schedule",
    [
        "split(3, inner=fused(16, hopper), outer=seq, partials=f16)",
        "split(5, tile=48, inner=fused(16, hopper), outer=seq)",
        "split(5, inner=fused(16, hopper), outer=seq)",
        "split(3, tile=64, deal=interleaved, inner=fused(16, hopper), outer=tree(((2, 0), 1)))",
        "split(4, tile=32, inner=fused(16, hopper), outer=tree((((1, 0), 3), 2)))",
        "pairwise(8)",
        "lanes(4, inner=lanes(2), outer=seq)",
        "promote(192, f32, inner=fused(16, hopper))",
        "split(4, inner=fused(16, hopper), outer=tree((0, (1, (2, 3)))))",
    ],
)
def test_a_planted_schedule_is_found(schedule):
    r = found(schedule)
    assert r.found, r
    mine = {str(_unordered(tree_of(parse_schedule(text), K))) for text in _texts(r.variants[0])}
    assert str(_unordered(tree_of(parse_schedule(schedule), K))) in mine


def _texts(one):
    return one.schedule, *one.alike


def _unordered(tree):
    """Return a tree in which the parts of every sum are sorted, and zeros are left out."""
    if not isinstance(tree, tuple) or not tree:
        return tree
    if tree[0] == "hopper/16":
        return (tree[0], _unordered(tree[1]), *sorted(tree[2:]))
    if tree[0] in ("ieee/1", "ieee_fma/1"):  # products of bf16 are exact
        tree = tree[1:]
    name = tree[:1] if isinstance(tree[0], str) else ()
    parts = [_unordered(part) for part in tree[len(name) :]]
    parts = sorted((part for part in parts if part != ()), key=str)
    return parts[0] if len(parts) == 1 and not name else (*name, *parts)


def test_partial_sums_that_are_added_in_16_bits_are_listed():
    planted = "split(3, tile=64, inner=fused(16, hopper), outer=seq(acc=bf16), partials=bf16)"
    r = found(planted)
    assert planted in {text for one in r.variants for text in _texts(one)}, r
    for one in r.variants:  # what adds up each part cannot be told from 8 digits
        assert "outer=seq(acc=bf16), partials=bf16" in one.schedule
    assert len(r.apart) == len(r.variants) - 1  # but operands are found that tell
    c = lastbit.predict_matmul(r.inputs["a"], r.inputs["b"], "hopper", "bf16", planted)
    again = lastbit.infer_matmul(r.inputs["a"], r.inputs["b"], c, "bf16", machine="hopper")
    assert (again.found, again.variants[0].schedule) == (True, planted)


def test_every_way_to_write_what_was_found_is_listed():
    r = found("split(3, tile=64, inner=fused(16, hopper), outer=seq)")
    assert {"promote(128, f32, inner=fused(16, hopper))"} <= set(_texts(r.variants[0]))
    assert "the same: `split(3, tile=64, inner=fused(16, hopper), outer=seq)`" in str(r)


@pytest.mark.parametrize("contract", [False, True])
def test_a_contracted_bias_is_told_from_one_that_is_added(contract):
    bias = np.random.default_rng(1).standard_normal(32).astype(np.float32)
    r = found(None, alpha=float(np.float32(0.3)), bias=bias, contract=contract)
    assert (r.found, r.variants[0].schedule) == (True, "fused(16, hopper)")
    assert [change.code for change in r.variants[0].changes] == ["FUS107"] * contract
    assert ("alpha and the bias are applied with one rounding" in str(r)) == contract


def test_a_factor_that_is_a_power_of_two_needs_no_contraction():
    bias = np.random.default_rng(1).standard_normal(32).astype(np.float32)
    r = found(None, alpha=0.25, bias=bias, contract=True)  # the product is exact: one bit pattern
    assert (r.found, r.variants[0].changes) == (True, ())


@pytest.mark.parametrize(
    ("untold", "out", "hint"),
    [
        ({"alpha": 3.0}, "f32", "all outputs are about 3 times the product: is alpha untold?"),
        ({"alpha": 0.25}, "bf16", "all outputs are about 0.25 times the product: is alpha"),
        (
            {"bias": np.arange(1, 17, dtype=np.float32)},
            "f32",
            "each column are off by about one number (1, 2, 3 ...): is a bias untold?",
        ),
        ({"bias": np.arange(1, 17, dtype=np.float32)}, "bf16", "...): is a bias untold?"),
        ({}, "f32", None),
    ],
)
def test_what_was_not_told_is_hinted_at(untold, out, hint):
    a, b = operands(8, 16, 64)
    c = lastbit.predict_matmul(a, b, "hopper", "bf16", out=out, **untold)
    c[3, 5] ^= 1  # rounding may be that
    r = lastbit.infer_matmul(a, b, c, "bf16", machine="hopper", out=out, units_only=True)
    assert r.status == "none"
    assert hint in r.notes[0] if hint else not r.notes


def test_another_product_is_said_to_be_one():
    a, b = operands(8, 16, 64)
    c = lastbit.predict_matmul(a, b[::-1].copy(), "hopper", "bf16")
    (note,) = lastbit.infer_matmul(a, b, c, "bf16", machine="hopper", units_only=True).notes
    assert "are farther from the product of these operands than rounding can bring" in note


def test_machines_without_a_unit_leave_nothing_to_units_only():
    a, b = operands(4, 4)
    with pytest.raises(lastbit.errors.LastbitError) as error:
        lastbit.infer_matmul(
            a, b, np.zeros((4, 4), np.float32), "bf16", machine="ieee", units_only=True
        )
    assert str(error.value) == (
        "no matrix unit of ieee multiplies bf16 by bf16 into f32. Leave out units_only "
        "(--units-only), or name a machine with a unit."
    )


# What schedules share.


def space(k, machines=("hopper", "cdna2", "cdna3")):
    chains = chains_of("bf16", "bf16", "f32", machines)
    return candidates(k, chains, ["bf16", "f16"])


@pytest.mark.parametrize("draw", ["normal", "wide", "bits"])
def test_shared_parts_give_the_bits_of_the_engine(draw):
    k, rng = 40, np.random.Generator(np.random.PCG64(3))
    a, b = (draw_codes(shape, BF16, draw, rng) for shape in ((2, k), (k, 3)))
    tried = space(k)
    trees = Trees(k, "f32", exact=draw == "normal")
    pieces = Pieces(a, b, (BF16, BF16), trees=trees)
    numbers = [trees.of(candidate.schedule) for candidate in tried]
    values = np.concatenate(list(pieces.products(numbers)))
    assert len(tried) > 500
    for candidate, value in list(zip(tried, values, strict=True))[::3]:
        want = lastbit.predict_matmul(
            a, b, candidate.chain.machine, "bf16", candidate.schedule, threads=1
        )
        got = canonical_codes(np.ascontiguousarray(value).view(np.uint32), F32)
        assert got.tobytes() == canonical_codes(want, F32).tobytes(), candidate.schedule


def test_equal_numbers_are_equal_trees():
    k = 40
    trees = Trees(k, "f32", exact=False)
    hashes = {}
    for candidate in space(k):
        number = trees.of(candidate.schedule)
        hashes.setdefault(number, set()).add(tree_hash(candidate.schedule, k, "f32"))
    assert len(hashes) > 400
    several = [number for number, found in hashes.items() if len(found) > 1]
    # only a chain of single products that goes on is another tree, and the same bits
    assert all("ieee" in str(trees.nodes[number]) for number in several)


def test_one_more_product_goes_on_with_a_chain_of_single_ones():
    trees = Trees(5, "f32", exact=True)
    plain = parse_schedule("fused(1, ieee)")
    assert trees.of(plain) == trees.of(Split(size=4, inner=plain))  # (0 1 2 3) + 4
    assert trees.of(plain) != trees.of(Split(size=3, inner=plain))  # (0 1 2) + (3 4)
    assert trees.of(plain) != trees.of(parse_schedule("fused(1, ieee_fma)")) or trees.exact
    unit = parse_schedule("fused(4, cdna2)")  # a step is no rounded sum
    assert trees.of(unit) != trees.of(Split(size=4, inner=unit))


@pytest.mark.parametrize(
    "schedule", ["seq", "split(2, inner=seq, outer=seq)", "any_order", "pairwise(2, acc=bf16)"]
)
def test_a_schedule_of_another_form_is_not_taken_apart(schedule):
    with pytest.raises(ApartError):
        Trees(8, "f32", exact=True).of(parse_schedule(schedule))
    a, b = (np.zeros(shape, np.uint16) for shape in ((1, 8), (8, 1)))
    assert Pieces(a, b, (BF16, BF16)).product(parse_schedule(schedule)) is None


def test_products_that_round_are_not_halved_as_if_they_did_not():
    unit = unit_of("ieee/1")
    plain = [c.schedule for c in candidates(64, [Chain("ieee", unit, exact=False)], [])]
    exact = [c.schedule for c in candidates(64, [Chain("ieee", unit, exact=True)], [])]
    assert not [s for s in plain if isinstance(s, Pairwise)]
    assert Pairwise(8) in exact
    assert Lanes(4, Lanes(2, parse_schedule("fused(1, ieee)"), Seq()), Seq()) in exact
