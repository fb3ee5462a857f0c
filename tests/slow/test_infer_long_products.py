"""`lastbit infer matmul` finds the schedule of long products, whose space has thousands of them.

The products are those of an H200 with K = 1024 (`tests/data/h200_matmul.npz`: `cublas` by torch.mm,
`smm` by torch._scaled_mm with and without fast accumulation), and predicted ones with K = 512.
"""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from matmuls import CHAIN, CHAIN_FP8, PROMOTED

import lastbit
from lastbit.cli import run
from lastbit.schedule import parse_schedule, tree_of

H200 = Path(__file__).parents[1] / "data/h200_matmul.npz"
BF16 = ml_dtypes.bfloat16
PAIRS = "split(size=128, inner=fused(32, hopper), outer=pairwise(1))"


def schedules(result):
    return [one.schedule for one in result.variants]


@pytest.mark.parametrize(
    ("name", "fmt", "schedule"),
    [
        ("cublas_bf16_K1024", "bf16", CHAIN),
        ("smm_K1024_1", "e4m3fn", CHAIN_FP8),
        ("smm_K1024_0", "e4m3fn", PROMOTED),
    ],
)
@pytest.mark.parametrize("machine", ["hopper", None])
def test_a_long_product_of_an_h200_has_one_schedule(name, fmt, schedule, machine):
    with np.load(H200) as data:
        c = data[f"{name}_c32" if name.startswith("cublas") else f"{name}_c"]
        b = data[f"{name}_bT"].T if name.startswith("smm") else data[f"{name}_b"]
        r = lastbit.infer_matmul(data[f"{name}_a"], b, c, fmt, machine=machine)
    assert schedules(r) == [schedule], r
    assert (r.found, r.exit_code, r.variants[0].total) == (True, 0, 4096)
    if name.startswith("cublas") and machine is None:
        assert "note      hopper_mma, blackwell add in the same steps as hopper" in str(r)


def test_one_wrong_output_of_a_long_product_makes_it_none():
    with np.load(H200) as data:
        a, b, c = (data[f"cublas_bf16_K1024_{part}"] for part in ("a", "b", "c32"))
    c[3, 5] ^= 1
    r = lastbit.infer_matmul(a[:8], b, c[:8], "bf16", machine="hopper")
    assert (r.status, r.nearest.schedule) == ("none", CHAIN)
    assert (r.nearest.equal, r.nearest.total, r.nearest.failure.index) == (511, 512, (3, 5))


@pytest.mark.parametrize(
    "schedule",
    [
        "split(3, tile=64, inner=fused(16, hopper), outer=seq)",
        "split(3, tile=64, inner=fused(16, hopper), outer=tree(((2, 1), 0)))",
        "split(4, tile=128, inner=fused(16, hopper), outer=pairwise(1))",
        "split(3, tile=64, inner=fused(16, hopper), outer=stored(bf16))",
        "split(3, tile=64, inner=promote(128, f32, inner=fused(16, hopper)), outer=seq)",
        "promote(256, f32, inner=fused(16, hopper))",
    ],
)
def test_a_predicted_schedule_is_found_again(schedule):
    rng = np.random.default_rng(0)
    shapes = (32, 512), (512, 128)
    a, b = (rng.standard_normal(shape).astype(np.float32).astype(BF16) for shape in shapes)
    c = lastbit.predict_matmul(a, b, "hopper", "bf16", schedule)
    r = lastbit.infer_matmul(a, b, c, "bf16", machine="hopper")
    trees = [tree_text(found, 512) for found in schedules(r)]
    assert tree_text(schedule, 512) in trees, r
    if "stored" not in schedule:
        assert len(trees) == 1, r


def tree_text(schedule, k):
    return str(tree_of(parse_schedule(schedule), k))


def test_the_order_of_parts_whose_sums_are_exact_is_said_not_to_be_told():
    """Chains of e4m3 on an H200 keep 13 digits below the largest term; 8 of them add exactly."""
    with np.load(H200) as data:
        a, b, c = (data[f"smm_K1024_0_{part}"] for part in ("a", "bT", "c"))
    r = lastbit.infer_matmul(a, b.T, c, "e4m3fn", machine="hopper")
    assert [one.schedule for one in r.variants] == [PROMOTED]
    assert "the order in which the 8 parts are added is not told" in str(r)
    again = lastbit.predict_matmul(a, b.T, "hopper", "e4m3fn", PAIRS)
    assert again.tobytes() == c.tobytes()  # so it is: pairs of parts give all bits too
    offered = r.inputs["a"], r.inputs["b"]
    c = lastbit.predict_matmul(*offered, "hopper", "e4m3fn", PAIRS)
    r = lastbit.infer_matmul(*offered, c, "e4m3fn", machine="hopper")
    assert (r.found, tree_text(r.variants[0].schedule, 1024)) == (True, tree_text(PAIRS, 1024))
    assert "is not told" not in str(r)


def test_the_command_finds_partial_sums_of_a_long_product(capsys):
    arguments = ["infer", "matmul", "--machine", "hopper", "--as", "e4m3fn"]
    arguments += ["--shape", "64,1024,64", "--a", f"{H200}:smm_K1024_0_a", "--transposed-b"]
    arguments += ["--b", f"{H200}:smm_K1024_0_bT", "--observed", f"{H200}:smm_K1024_0_c"]
    assert run(arguments) == 0
    text = capsys.readouterr().out
    assert f"found     `{PROMOTED}`: all 2^12 elements" in text
    assert run([*arguments, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "lastbit.infer/1"
    assert document["variants"][0]["schedule"] == PROMOTED
