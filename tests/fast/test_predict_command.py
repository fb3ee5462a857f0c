"""`lastbit predict matmul` writes the bits, compares them, and says what is wrong with input."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matmuls import H200, PROMOTED, recorded

import lastbit
from lastbit import cli
from lastbit.machines import MACHINES
from lastbit.predicting import DRAWS

A = np.array([[0x3F80, 0x4000], [0xBF80, 0x3F00]], "<u2")  # 1, 2; -1, 0.5
B = np.array([[0x3F80, 0x4040], [0x3E80, 0x0000]], "<u2")  # 1, 3; 0.25, 0
C = np.array([[0x3FC00000, 0x40400000], [0xBF600000, 0xC0400000]], "<u4")  # 1.5, 3; -0.875, -3
COMMON = ("--machine", "hopper", "--as", "bf16", "--shape", "2,2,2")
Predict = Callable[..., tuple[int, str, str]]


@pytest.fixture
def predict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Predict:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    A.tofile("a.raw")
    B.tofile("b.raw")
    C.tofile("seen.raw")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(["predict", "matmul", *arguments])
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


def test_the_bits_are_written_row_by_row(predict: Predict) -> None:
    files = ("--a", "a.raw", "--b", "b.raw")
    assert predict(*COMMON, *files, "--out", "c.raw") == (
        0,
        "c.raw: 4 outputs of f32, row by row\n",
        "",
    )
    assert Path("c.raw").read_bytes() == C.tobytes()
    assert predict(*COMMON, *files, "--out", "c.raw", "--out-as", "bf16", "-q") == (0, "", "")
    assert Path("c.raw").read_bytes() == (C >> 16).astype("<u2").tobytes()
    assert sorted(os.listdir()) == ["a.raw", "b.raw", "c.raw", "seen.raw"]


def test_the_products_of_an_h200_are_compared(predict: Predict) -> None:
    for name, fmt, result, schedule in H200:
        a, b, c = recorded(name, result)
        a.tofile("x.raw")
        np.ascontiguousarray(b).tofile("y.raw")
        c.tofile("z.raw")
        shape = f"{a.shape[0]},{a.shape[1]},{b.shape[1]}"
        options = ["--machine", "hopper", "--as", fmt, "--shape", shape, "--a", "x.raw"]
        options += ["--b", "y.raw", "--expect", "z.raw"]
        given = ["--schedule", schedule] if schedule == PROMOTED else []
        assert predict(*options, *given) == (
            0,
            "z.raw: all 4,096 outputs have the predicted bits\n",
            "",
        )


def test_the_first_difference_is_named(predict: Predict) -> None:
    seen = C.copy()
    seen[1, 0] ^= 1
    seen[1, 1] = 0
    seen.tofile("seen.raw")
    code, out, _ = predict(*COMMON, "--a", "a.raw", "--b", "b.raw", "--expect", "seen.raw", "-q")
    assert code == 1
    assert out == (
        "seen.raw: 2 of 4 outputs differ; the first at [1, 0]: "
        "predicted 0xbf600000, seen 0xbf600001\n"
    )


def test_every_nan_counts_as_the_same(predict: Predict) -> None:
    np.array([[0x7F80, 0x7F80]], "<u2").tofile("inf.raw")
    np.array([[0x3F80], [0xBF80]], "<u2").tofile("sign.raw")
    np.array([0x7FC00000], "<u4").tofile("nan.raw")
    options = ("--machine", "hopper", "--as", "bf16", "--shape", "1,2,1", "--a", "inf.raw")
    code, _, _ = predict(*options, "--b", "sign.raw", "--expect", "nan.raw", "--out", "c.raw")
    assert code == 0
    assert Path("c.raw").read_bytes() == np.array([0x7FFFFFFF], "<u4").tobytes()


def test_operands_come_from_tensor_files(predict: Predict) -> None:
    np.save("a.npy", A)
    header = json.dumps(
        {
            "w": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
            "v": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [8, 16]},
        }
    ).encode()
    content = len(header).to_bytes(8, "little") + header + A.tobytes() + B.tobytes()
    Path("t.safetensors").write_bytes(content)
    options = (*COMMON, "--a", "a.npy", "--b", "t.safetensors:v", "--expect", "seen.raw")
    assert predict(*options)[0] == 0
    assert predict(*options[:-3], "t.safetensors:w", *options[-2:])[0] == 1


def test_operands_are_drawn_from_a_seed(predict: Predict) -> None:
    shape = ("--machine", "hopper", "--as", "bf16", "--shape", "8,64,8")
    written = []
    for draw in DRAWS:
        for seed in ("1", "2"):
            options = ("--seed", seed, "--draw", draw, "--out", "c.raw", "-q")
            assert predict(*shape, *options)[0] == 0
            written.append(Path("c.raw").read_bytes())
            assert predict(*shape, *options)[0] == 0
            assert Path("c.raw").read_bytes() == written[-1]
    assert len(set(written)) == 2 * len(DRAWS)


def test_alpha_bias_and_the_accumulator(predict: Predict) -> None:
    np.array([1, -1], "<f4").tofile("bias.raw")
    files = (*COMMON, "--a", "a.raw", "--b", "b.raw", "--out", "c.raw", "-q")
    assert predict(*files, "--alpha", "0x1p-1", "--bias", "bias.raw")[0] == 0
    want = C.view("<f4") / 2 + np.array([1, -1], np.float32)
    assert Path("c.raw").read_bytes() == want.astype("<f4").tobytes()
    assert predict(*files, "--alpha", "0.5", "--bias", "bias.raw", "--contract")[0] == 0
    assert Path("c.raw").read_bytes() == want.astype("<f4").tobytes()
    options = ("--machine", "ieee", "--as", "e4m3fn,e5m2", "--shape", "1,2,1", "--acc", "f64")
    assert predict(*options, "--seed", "0", "--out", "c.raw", "-q")[0] == 0
    assert len(Path("c.raw").read_bytes()) == 8


KNOWN = "Known: " + ", ".join(sorted(MACHINES)) + "."
FILES = ("--a", "a.raw", "--b", "b.raw", "--out", "c.raw")


@pytest.mark.parametrize(("arguments", "message"), [
    ((*COMMON, *FILES[:4]), "nothing is asked for; give --out FILE or --expect FILE."),
    ((*COMMON, "--a", "a.raw", "--out", "c.raw"),
     "operand b is missing; give --b FILE, or --seed."),
    ((*COMMON[:4], "--shape", "2,2", *FILES),
     "'2,2' gives no sizes; write M,K,N as 64,4096,64."),
    ((*COMMON[:4], "--shape", "2,0,2", *FILES),
     "'2,0,2' has a size of 0; M, K and N are 1 and above."),
    ((*COMMON[:4], "--shape", "2,99999999,2", "--seed", "0", *FILES[4:]),
     "'2,99999999,2': K is 99,999,999, and sums have at most 16,777,216."),
    ((*COMMON[:4], "--shape", "99999999,999999,9999999", "--seed", "0", *FILES[4:]),
     "a product [99999999, 999999, 9999999] needs more memory than there is."),
    ((*COMMON[:4], "--shape", "2,3,2", *FILES),
     "a.raw: holds 8 bytes, and `a` takes 12 (bf16[2, 3]). Raw files hold the codes, row by row."),
    ((*COMMON, "--a", "none.raw", "--b", "b.raw", "--out", "c.raw"),
     "none.raw: cannot be read: No such file or directory."),
    ((*COMMON, *FILES[:4], "--expect", "a.raw"),
     "a.raw: holds 8 bytes, and the expected output takes 16 (f32[2, 2])."),
    ((*COMMON, *FILES, "--bias", "a.raw", "--out-as", "bf61"), "unknown format 'bf61'."),
    ((*COMMON, *FILES, "--bias", "seen.raw"),
     "seen.raw: holds 16 bytes, and the bias takes 8 (f32[2])."),
    ((*COMMON, *FILES, "--alpha", "half"), "'half' is no number; write 0.125 or 0x1p-3."),
    ((*COMMON, *FILES, "--alpha", "nan"), "alpha is nan. It is a finite number, such as 0.125."),
    ((*COMMON, *FILES, "--contract"),
     "--contract rounds alpha and bias at once; give --alpha and --bias."),
    ((*COMMON, *FILES, "--contract", "--alpha", "0.5"), "--contract rounds alpha and bias at once"),
    ((*COMMON, *FILES, "--out-as", "int8"), "no output is rounded to int8 here. Outputs may be"),
    ((*COMMON, *FILES, "--alpha", "0.1"), "alpha is 0.1, which is no value of f32. The nearest"),
    (("--machine", "tpu", *COMMON[2:], *FILES), f"machine 'tpu': it is not known. {KNOWN}"),
    (("--machine", "turing", *COMMON[2:], *FILES),
     "machine 'turing': no matrix unit takes bf16. Known: f16."),
    ((*COMMON[:2], "--as", "bf16,f16,f16", *COMMON[4:], *FILES),
     "'bf16,f16,f16' names more than two formats; write bf16 or e4m3fn,e5m2."),
    ((*COMMON, *FILES, "--schedule", "fused(16, hoper)"),
     "schedule `fused(16, hoper)` has steps of hoper, and the machine is hopper."),
    ((*COMMON, *FILES, "--schedule", "splt(2)"), "'splt' is no schedule. Did you mean 'split'?"),
    ((*COMMON, *FILES, "--schedule", "split(M - 2)"),
     "schedule `split(M - 2)`: n = M - 2 is 0 at M=2. Guard it with max(1, ...)."),
    ((*COMMON, *FILES, "--schedule", "split(P)"), "'P'"),
    ((*COMMON, "--seed", "0", "--out", "."), ".: cannot be written: Is a directory."),
    ((*COMMON, "--seed", "0", "--out", "none/c.raw"),
     "none/c.raw: cannot be written: No such file or directory."),
])  # fmt: skip
def test_what_is_wrong_is_said(predict: Predict, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = predict(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert not Path("c.raw").exists()


@pytest.mark.parametrize(("schedule", "note"), [
    ("split(1000000)", "note: `split(1000000)` of 2 terms has 2 pieces\n"),
    ("promote(100, f32, inner=fused(16, hopper))",
     "note: `promote(100)` of 2 terms adds one part\n"),
    ("promote(1, f32, inner=fused(16, hopper))",
     "note: each 1 products end in a step that takes 1 of 16\n"),
    ("fused(16, hopper)", ""),
])  # fmt: skip
def test_what_a_schedule_does_at_these_sizes_is_said(
    predict: Predict, schedule: str, note: str
) -> None:
    code, _, err = predict(*COMMON, *FILES, "--schedule", schedule)
    assert (code, err) == (0, note)
    assert Path("c.raw").read_bytes() == C.tobytes()  # the sums are exact in any order


def test_help_and_the_list_of_commands(predict: Predict) -> None:
    code, out, _ = predict("--help")
    assert code == 0
    assert "--schedule TEXT" in out
    assert cli.run(["predict", "--help"]) == 0


def test_the_function_is_public() -> None:
    assert lastbit.predict_matmul(A, B, "hopper", "bf16").tolist() == C.tolist()
