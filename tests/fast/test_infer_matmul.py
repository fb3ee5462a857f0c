"""`lastbit infer matmul` finds the schedule of a product from its bits.

The products are those of an H200 (`tests/data/h200_matmul.npz`), sums in plain numpy, and predicted
ones. Long products are among the slow tests.
"""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import lastbit
from lastbit.cli import run
from lastbit.errors import InputError, LastbitError
from lastbit.inference.schedules import candidates, chains_of, halves
from lastbit.schedule import parse_schedule, tree_of

H200 = Path(__file__).parents[1] / "data/h200_matmul.npz"
BF16 = ml_dtypes.bfloat16


@pytest.fixture(scope="module")
def h200():
    with np.load(H200) as data:
        return {name: data[name] for name in data.files}


def schedules(result):
    return [one.schedule for one in result.variants]


@pytest.mark.parametrize(
    ("name", "fmt", "schedule"),
    [
        ("bf16_K64_n", "bf16", "fused(16, hopper)"),
        ("fp16_K128_n", "f16", "fused(16, hopper)"),
        ("e4m3_K64_n", "e4m3fn", "fused(32, hopper)"),
        ("e5m2_K64_n", "e5m2", "fused(32, hopper)"),
    ],
)
@pytest.mark.parametrize("machine", ["hopper", None])
def test_a_product_of_an_h200_has_one_schedule(h200, name, fmt, schedule, machine):
    a, b, c = (h200[f"{name}_{part}"] for part in "abc")
    r = lastbit.infer_matmul(a, b, c, fmt, machine=machine)
    assert schedules(r) == [schedule], r
    assert (r.found, r.exit_code, r.variants[0].total) == (True, 0, 4096)


def test_machines_that_add_alike_are_named_together(h200):
    a, b, c = (h200[f"bf16_K64_n_{part}"] for part in "abc")
    r = lastbit.infer_matmul(a, b, c, "bf16")
    assert "note      hopper_mma, blackwell add in the same steps as hopper" in str(r)


def operands(k, seed=0, m=8, n=128):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    return a.astype(np.float32).astype(BF16), b.astype(np.float32).astype(BF16)


def split_in_numpy(a, b, pieces, partials=np.float32):
    """Sum each piece left to right in binary32, then the pieces left to right."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for piece in pieces:
        part = np.zeros_like(total)
        for i in piece:
            part = part + a[:, i : i + 1] * b[i : i + 1]
        total = total + part.astype(partials).astype(np.float32)
    return total


@pytest.mark.parametrize(
    ("pieces", "partials", "schedule"),
    [
        ([range(320)], np.float32, "fused(1, ieee)"),
        (
            [range(0, 128), range(128, 256), range(256, 320)],
            np.float32,
            "split(3, tile=64, inner=fused(1, ieee), outer=seq)",
        ),
        (
            [range(0, 192), range(192, 320)],
            BF16,
            "split(2, tile=64, inner=fused(1, ieee), outer=seq, partials=bf16)",
        ),
        (
            [
                [*range(0, 64), *range(128, 192), *range(256, 320)],
                [*range(64, 128), *range(192, 256)],
            ],
            np.float32,
            "split(2, tile=64, deal=interleaved, inner=fused(1, ieee), outer=seq)",
        ),
    ],
)
def test_sums_in_plain_numpy_are_found(pieces, partials, schedule):
    a, b = operands(320, m=32)
    r = lastbit.infer_matmul(a, b, split_in_numpy(a, b, pieces, partials), "bf16", machine="ada")
    assert schedule in schedules(r), r
    if partials is np.float32:
        assert r.found, r
    else:  # the narrow format of the parts hides how they were summed
        assert all("partials=bf16" in text for text in schedules(r)), r


@pytest.mark.parametrize(
    "schedule",
    [
        "split(3, tile=64, inner=fused(16, hopper), outer=tree(((2, 1), 0)))",
        "split(4, tile=64, inner=fused(16, hopper), outer=pairwise(1))",
        "split(2, tile=128, inner=fused(16, hopper), outer=stored(bf16))",
        "promote(128, f32, inner=fused(16, hopper))",
    ],
)
def test_a_predicted_schedule_is_found_again(schedule):
    k = 192 if "split(3" in schedule else 256
    a, b = operands(k, m=32)
    c = lastbit.predict_matmul(a, b, "hopper", "bf16", schedule)
    r = lastbit.infer_matmul(a, b, c, "bf16", machine="hopper")
    trees = [tree_text(found, k) for found in schedules(r)]
    assert tree_text(schedule, k) in trees, r
    if "stored" not in schedule:
        assert len(trees) == 1, r


def tree_text(schedule, k):
    return str(tree_of(parse_schedule(schedule), k))


def test_every_schedule_that_gives_rounded_outputs_is_listed():
    a, b = operands(256, m=16)
    c = lastbit.predict_matmul(
        a, b, "hopper", "bf16", "split(2, tile=64, inner=fused(16, hopper), outer=seq)", out="bf16"
    )
    r = lastbit.infer_matmul(a, b, c, "bf16", machine="hopper", out="bf16")
    split = "split(2, tile=64, inner=fused(16, hopper), outer=seq)"
    assert any(split in (one.schedule, *one.alike) for one in r.variants), r
    assert r.ambiguous  # 16 x 128 outputs in bf16 hide how the accumulators differ
    assert 0 < len(r.apart) <= 7


def test_data_that_does_not_tell_schedules_apart_is_ambiguous_and_operands_are_offered():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((8, 64), (64, 8)))
    c = (a @ b).astype(np.float32)  # small integers: exact in any order
    r = lastbit.infer_matmul(a, b, c, "bf16", machine=["hopper", "ampere"])
    assert r.ambiguous, r
    assert {"fused(16, hopper)", "fused(8, ampere)"} <= set(schedules(r))
    first, other = (parse_schedule(r.variants[i].schedule) for i in (0, 1))
    machines = [str(s).split(", ")[1].rstrip(")") for s in (first, other)]
    products = [
        lastbit.predict_matmul(r.inputs["a"], r.inputs["b"], machine, "bf16")
        for machine in machines
    ]
    apart = r.apart[0]
    assert products[0][apart.index] != products[1][apart.index]
    assert apart.bits[0] == f"0x{products[0][apart.index]:08x}"


def test_one_wrong_output_makes_it_none_with_the_nearest_and_the_place(h200):
    a, b, c = (h200[f"bf16_K64_n_{part}"] for part in "abc")
    c = c.copy()
    c[3, 5] ^= 1
    r = lastbit.infer_matmul(a[:8], b, c[:8], "bf16", machine="hopper")
    assert r.status == "none"
    assert r.nearest.schedule == "fused(16, hopper)"
    assert (r.nearest.equal, r.nearest.total) == (511, 512)
    assert r.nearest.failure.index == (3, 5)
    assert int(r.nearest.failure.kernel, 16) == c[3, 5]
    assert "no schedule gives all bits" in str(r)


def test_the_space_holds_no_schedule_twice():
    chains = chains_of("bf16", "bf16", "f32", ["hopper"])
    assert [chain.machine for chain in chains] == ["hopper", "ieee"]
    texts = [str(c.schedule) for c in candidates(512, chains, ["bf16"])]
    assert len(texts) == len(set(texts)) > 300
    assert texts[0] == "fused(16, hopper)"


def test_lanes_are_combined_in_halves():
    def leaf(i):
        return ((), i)

    assert tree_of(halves(2), 2) == (leaf(0), 1)
    # 0 and 2, 1 and 3; then both sums
    assert tree_of(halves(4), 4) == (((), ((((), 0)), 2)), ((((), 1)), 3))


ZEROS = {"a": np.zeros((8, 64)), "b": np.zeros((64, 40))}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"machine": "hoper"}, "machine 'hoper': it is not known. Did you mean 'hopper'"),
        ({"formats": "e3m2", "machine": "hopper", **ZEROS}, "no matrix unit takes e3m2"),
        ({"observed": np.zeros((3, 3), np.float32)}, r"the product \[3, 3\]. They are \[M, K\]"),
        ({"a": np.zeros(3, np.float32)}, r"`a` has the shape \[3\]. A matrix has two sizes"),
        ({"a": np.full((8, 64), 0.1)}, "`a` holds f64 with 0.1 at .*, which is no bf16"),
        ({"a": "text"}, "`a` is a str. Give an array of numpy or torch"),
        ({"bias": np.zeros(3, np.float32)}, r"the bias has the shape \[3\]. It holds 40 values"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    a, b = operands(64, n=40)
    given = {"a": a, "b": b, "observed": np.zeros((8, 40), np.float32), "formats": "bf16"}
    with pytest.raises((InputError, LastbitError), match=message):
        lastbit.infer_matmul(**{**given, **change})


def test_a_product_without_elements_is_refused():
    empty = np.zeros((0, 4), np.float32)
    with pytest.raises(InputError, match="the product has no elements"):
        lastbit.infer_matmul(empty, np.zeros((4, 4), np.float32), empty, "bf16")


# The command line.


def test_the_command_reads_files_and_prints_the_schedule(capsys, tmp_path, h200):
    columns = tmp_path / "columns.npy"
    np.save(columns, np.ascontiguousarray(h200["e4m3_K64_n_b"].T))
    arguments = ["infer", "matmul", "--machine", "hopper", "--as", "e4m3fn"]
    arguments += ["--shape", "64,64,64", "--a", f"{H200}:e4m3_K64_n_a", "--transposed-b"]
    arguments += ["--b", str(columns), "--observed", f"{H200}:e4m3_K64_n_c"]
    assert run(arguments) == 0
    text = capsys.readouterr().out
    assert "found     `fused(32, hopper)`: all 2^12 elements" in text
    assert run([*arguments, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "lastbit.infer/1"
    assert document["variants"][0]["schedule"] == "fused(32, hopper)"
    assert run([*arguments, "--machine", "no"]) == 2
    assert "machine 'no': it is not known" in capsys.readouterr().err


def test_raw_files_will_do(tmp_path, capsys, h200):
    for part in ("a", "b", "c"):
        h200[f"bf16_K64_n_{part}"].tofile(tmp_path / f"{part}.raw")
    arguments = ["infer", "matmul", "--as", "bf16", "--shape", "64,64,64", "-q"]
    for option, part in (("--a", "a"), ("--b", "b"), ("--observed", "c")):
        arguments += [option, str(tmp_path / f"{part}.raw")]
    assert run([*arguments, "--write-inputs", str(tmp_path / "in.npz")]) == 0
    assert capsys.readouterr().out.endswith("seed 0; there are no inputs to write\n")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("in.txt", "in.txt: is no .npz file. Write --write-inputs inputs.npz."),
        ("missing/in.npz", "missing/in.npz: cannot be written: No such file or directory."),
    ],
)
def test_where_inputs_cannot_be_written_is_said_before_the_search(capsys, path, message):
    arguments = ["infer", "matmul", "--as", "bf16", "--shape", "64,64,64", "--write-inputs", path]
    for option, part in (("--a", "a"), ("--b", "b"), ("--observed", "c")):
        arguments += [option, f"{H200}:bf16_K64_n_{part}"]
    assert run(arguments) == 2
    assert capsys.readouterr().err == f"{message}\n"


def test_that_there_is_nothing_to_write_is_said_beside_json(capsys, tmp_path):
    arguments = ["infer", "matmul", "--machine", "hopper", "--as", "bf16", "--shape", "64,64,64"]
    for option, part in (("--a", "a"), ("--b", "b"), ("--observed", "c")):
        arguments += [option, f"{H200}:bf16_K64_n_{part}"]
    path = tmp_path / "in.npz"
    assert run([*arguments, "--write-inputs", str(path), "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["status"] == "found"
    assert (err, path.exists()) == (f"{path}: there are no inputs to write\n", False)
