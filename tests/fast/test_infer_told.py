"""`found` says that the data excludes every other schedule of the space, or that it is the same.

Operands on which sums are exact, or whose terms are mostly zeros, cannot tell schedules apart: then
all of them are listed, and operands are offered that can. Products are predicted ones, which tests
of the engine compare with exact rationals.
"""

import ml_dtypes
import numpy as np
import pytest

import lastbit
from lastbit.formats import F32
from lastbit.inference.schedules import candidates, chains_of
from lastbit.levels import Schedule
from lastbit.schedule import parse_schedule, tree_hash

BF16 = ml_dtypes.bfloat16
SPLIT = "split(2, tile=64, inner=fused(16, hopper), outer=seq)"


def operands(k, seed=5, m=16, n=16):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, k)).astype(BF16), rng.standard_normal((k, n)).astype(BF16)


def tree(schedule, k):
    bound = schedule if isinstance(schedule, Schedule) else parse_schedule(schedule)
    return tree_hash(bound, k, F32.short)


def listed(result):
    return {text for one in result.variants for text in (one.schedule, *one.alike)}


def padded():
    a, b = operands(128)
    a[:, 64:] = 0  # as a kernel pads K
    return a, b


def integers():
    rng = np.random.default_rng(5)
    return rng.integers(-3, 4, (16, 128)).astype(BF16), rng.integers(-3, 4, (128, 16)).astype(BF16)


def selected():
    a = np.zeros((16, 128), BF16)
    a[np.arange(16), np.arange(16) * 37 % 128] = 1  # each row of the product is a row of b
    return a, operands(128)[1]


@pytest.mark.parametrize("given", [padded, integers, selected])
def test_data_that_cannot_tell_a_split_from_a_chain_is_ambiguous(given):
    a, b = given()
    c = lastbit.predict_matmul(a, b, "hopper", "bf16", SPLIT)
    r = lastbit.infer_matmul(a, b, c, "bf16", machine="hopper")
    assert r.ambiguous, r
    assert {"fused(16, hopper)", SPLIT} <= listed(r)
    for one in r.variants[
        :: max(1, len(r.variants) // 8)
    ]:  # each that is listed does give the bits
        machine = "hopper" if "hopper" in one.schedule else "ieee"
        again = lastbit.predict_matmul(a, b, machine, "bf16", one.schedule)
        assert again.tobytes() == c.tobytes(), one.schedule


def test_the_operands_that_are_offered_tell_which_it_is():
    a, b = padded()
    c = lastbit.predict_matmul(a, b, "hopper", "bf16", SPLIT)
    offered = lastbit.infer_matmul(a, b, c, "bf16", machine="hopper").inputs
    again = lastbit.predict_matmul(offered["a"], offered["b"], "hopper", "bf16", SPLIT)
    r = lastbit.infer_matmul(offered["a"], offered["b"], again, "bf16", machine="hopper")
    assert r.found, r
    assert tree(r.variants[0].schedule, 128) == tree(SPLIT, 128)


def test_every_other_schedule_of_the_space_differs_where_one_is_found():
    a, b = operands(96, m=4, n=32)
    c = lastbit.predict_matmul(a, b, "hopper", "bf16")
    r = lastbit.infer_matmul(a, b, c, "bf16", machine="hopper", units_only=True)
    assert (r.found, listed(r)) == (True, {"fused(16, hopper)"})
    chains = [x for x in chains_of("bf16", "bf16", "f32", ["hopper"]) if x.machine == "hopper"]
    space = candidates(96, chains, ["bf16", "f16"])
    assert r.tried == len(space) > 250
    for candidate in space[1:]:
        other = lastbit.predict_matmul(a, b, "hopper", "bf16", candidate.schedule, threads=1)
        assert (other != c).any(), candidate.schedule


def test_schedules_that_were_not_run_on_all_outputs_are_counted(monkeypatch):
    monkeypatch.setattr("lastbit.inference.product_search.MOST_WORK", 1)
    monkeypatch.setattr("lastbit.inference.product_search.MOST_SHARED", 16)
    rng = np.random.default_rng(5)
    a, b = rng.integers(-3, 4, (64, 64)).astype(BF16), rng.integers(-3, 4, (64, 384)).astype(BF16)
    c = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    r = lastbit.infer_matmul(a, b, c, "bf16", machine="hopper")
    assert (r.ambiguous, len(r.variants)) == (True, 8)
    assert "more schedules gave the 2^12 elements on which all were compared, and were not" in (
        " ".join(str(r).split())
    )
