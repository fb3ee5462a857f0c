"""Inputs are drawn as a plan says: distributions, ranges and files."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
from drifts import drift_of, spec

from lastbit.formats import FORMATS
from lastbit.graph import Input
from lastbit.plan_model import DataFile, Distribution
from lastbit.verify.draw import DrawError, draw


def test_a_draw_depends_on_the_seed_and_the_name_only() -> None:
    x = Input("x", FORMATS["f32"], shape=(5,))
    first = draw(x, spec("normal", "0", "1"), 7)
    assert first.tolist() == draw(x, spec("normal", "0", "1"), 7).tolist()
    others = [draw(x, spec("normal", "0", "1"), 8)]
    others.append(draw(Input("y", FORMATS["f32"], shape=(5,)), spec("normal", "0", "1"), 7))
    assert all(first.tolist() != other.tolist() for other in others)


@pytest.mark.parametrize(
    ("given", "low", "high", "distinct"),
    [
        (spec("uniform", "-2", "3"), -2, 3, 900),
        (spec("constant", "1/4"), 0.25, 0.25, 1),
        (spec("integers", "-1", "2"), -1, 2, 4),
        (spec("normal", "0", "10", within=("-1/2", "1/2")), -0.5, 0.5, 20),
    ],
)
def test_distributions_give_what_they_say(
    given: Distribution, low: float, high: float, distinct: int
) -> None:
    x = draw(Input("x", FORMATS["f32"], shape=(1000,)), given, 0)
    assert (x.min() >= low, x.max() <= high) == (True, True)
    assert len(set(x.tolist())) >= distinct
    assert {float(np.float32(value)) for value in x} == set(x.tolist())
    if given.kind == "integers":
        assert set(x.tolist()) == {-1.0, 0.0, 1.0, 2.0}


def test_a_normal_distribution_has_its_mean_and_deviation() -> None:
    x = draw(Input("x", FORMATS["f32"], shape=(10_000,)), spec("normal", "3", "1/2"), 0)
    assert 2.98 < x.mean() < 3.02
    assert 0.49 < x.std() < 0.51


def test_inputs_beyond_their_format_saturate() -> None:
    x = draw(Input("x", FORMATS["e4m3fn"], shape=(2,)), spec("constant", "1000"), 0)
    assert x.tolist() == [448.0, 448.0]


def safetensors(
    path: pathlib.Path, name: str, dtype: str, shape: list[int], content: bytes
) -> None:
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(content)]}
    header = json.dumps({"__metadata__": {}, name: entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content)


def test_inputs_come_from_a_file_the_first_rows_where_fewer_are_sampled(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.array([[2**24, 1, 1], [1, 1, 1]], np.float32))
    sums = [f"x: f32[1, 3]\ny: f32 = sum(x) acc f32 {s}" for s in ("seq", "tree((0, (1, 2)))")]
    drift = drift_of(sums[0], sums[1], {"x": DataFile(path, "x.npy")})
    assert (drift.max_ulp, drift.inputs) == (1.0, "x.npy")  # 2^24 and 2^24 + 2
    assert (drift.before_error_ulp, drift.after_error_ulp) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("dtype", "fmt", "content", "want"),
    [
        ("F32", "f32", np.array([1.5, -2], "<f4").tobytes(), [1.5, -2.0]),
        ("BF16", "bf16", bytes.fromhex("c03f00c0"), [1.5, -2.0]),
        ("F8_E4M3", "e4m3fn", bytes.fromhex("7ec0"), [448.0, -2.0]),
        ("I8", "int8", bytes.fromhex("7f80"), [127.0, -128.0]),
    ],
)
def test_safetensors_are_read(
    dtype: str, fmt: str, content: bytes, want: list[float], tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "x.safetensors"
    safetensors(path, "x", dtype, [2], content)
    node = Input("x", FORMATS[fmt], shape=(2,))
    assert draw(node, DataFile(path, "x.safetensors"), 0).tolist() == want


def test_a_file_that_does_not_fit_is_refused(tmp_path: pathlib.Path) -> None:
    npy, tensors = tmp_path / "x.npy", tmp_path / "x.safetensors"

    def message(path: pathlib.Path, fmt: str = "bf16", shape: tuple[int, ...] = (2,)) -> str:
        with pytest.raises(DrawError) as caught:
            draw(Input("x", FORMATS[fmt], shape=shape), DataFile(path, path.name), 0)
        return str(caught.value)

    np.save(npy, np.array([1, 0.1], np.float32))
    assert message(npy) == "`x` in x.npy holds 0.10000000149011612, which is no bf16"
    assert message(npy, shape=(3,)) == "`x` has the shape [2] in x.npy, not [3]"
    assert message(npy, shape=(2, 1)) == "`x` has the shape [2] in x.npy, not [2, 1]"
    np.save(npy, np.array(["a", "b"]))
    assert message(npy) == "x.npy cannot be read: its elements are <U1, no numbers"
    safetensors(tensors, "w", "F32", [2], bytes(8))
    assert message(tensors) == "x.safetensors has no tensor 'x'. Allowed: w."
    safetensors(tensors, "x", "F32", [3], bytes(8))
    assert message(tensors) == (
        "x.safetensors cannot be read: 'x' has bytes 0 to 8, which is not F32[3]"
    )
    safetensors(tensors, "x", "C64", [2], bytes(8))
    assert message(tensors) == (
        "x.safetensors cannot be read: the elements of 'x' are C64, unknown here. "
        "Did you mean 'U64'?"
    )
    safetensors(tensors, "x", "BOOL", [2], bytes(2))
    assert message(tensors).startswith("x.safetensors cannot be read: its elements are BOOL. ")
    tensors.write_bytes(b"\xff" * 8)
    assert message(tensors) == f"x.safetensors cannot be read: its header has {2**64 - 1} bytes"


def test_an_unknown_distribution_is_refused() -> None:
    with pytest.raises(DrawError) as caught:
        draw(Input("x", FORMATS["f32"], shape=(2,)), spec("cauchy", "0"), 0)
    assert str(caught.value) == "`x` has the unknown distribution 'cauchy'"
