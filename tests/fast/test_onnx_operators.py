"""What the importer makes of an ONNX operator is what ONNX Runtime computes for it.

Equal bits where every function is exact (sums are of small whole numbers, exact in any order); else
within a few ulp of the result: a library function of ONNX Runtime is not correctly rounded, and the
composites of f32 hold several of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto
from onnx_models import (
    Array,
    evaluated,
    expected,
    model,
    node,
    normals,
    referenced,
    saved,
    ulps,
    whole_numbers,
)

from lastbit.checking import check_models
from lastbit.errors import InputError
from lastbit.importers.onnx import read_onnx

DTYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16}
KINDS = tuple(DTYPES)
EXACT = ("Add", "Sub", "Mul", "Div", "Max", "Min")
EXACT_OF_ONE = ("Neg", "Abs", "Relu", "Reciprocal", "Floor", "Ceil", "Sign", "Identity", "Sqrt")
LIBRARY = {"Exp": 1, "Log": 1, "Sigmoid": 1, "Tanh": 1, "Erf": 1, "Sin": 1, "Cos": 1}
# Functions of several steps: the most ulp seen is half of these bounds.
COMPOSITE = {
    "Softmax": 4,
    "LogSoftmax": 4,
    "Gelu": 4,
    "Softplus": 6,
    "Softsign": 2,
    "HardSwish": 2,
    "HardSigmoid": 2,
    "LeakyRelu": 2,
    "Elu": 8,
    "Selu": 10,
    "Mish": 6,
    "ThresholdedRelu": 0,
}


def distance(
    folder: Path,
    text: str,
    inputs: Mapping[str, Array],
    weights: Mapping[str, Array] | None = None,
    by: Any = expected,
    **attributes: Any,
) -> int:
    """Return the greatest distance of lastbit from an oracle on one operator, in ulp."""
    kind = next(k for k, dtype in DTYPES.items() if next(iter(inputs.values())).dtype == dtype)
    given = [f"{name}: {kind}[{', '.join(map(str, x.shape))}]" for name, x in inputs.items()]
    made = node(f"z = {text}", **attributes)
    proto = model([made], given, [f"z: {kind}[]"], weights)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    path = saved(folder, proto)
    want, got = np.asarray(by(path, inputs)["z"]), evaluated(path, inputs)["z"]
    assert got.shape == want.shape
    assert want.any()  # a result of zeros shows nothing
    return ulps(got, want)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", EXACT)
def test_arithmetic_rounds_once(tmp_path: Path, op: str, kind: str) -> None:
    x, y = (normals((3, 64), DTYPES[kind], seed) for seed in (1, 2))
    assert distance(tmp_path, f"{op}(x, y)", {"x": x, "y": y}) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", EXACT_OF_ONE)
def test_exact_functions_have_equal_bits(tmp_path: Path, op: str, kind: str) -> None:
    x = normals((3, 64), DTYPES[kind], 1)
    assert distance(tmp_path, f"{op}(x)", {"x": np.abs(x) if op == "Sqrt" else x}) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", LIBRARY)
def test_library_functions_are_near_the_rounded_real(tmp_path: Path, op: str, kind: str) -> None:
    x = np.abs(normals((3, 64), DTYPES[kind], 1)) + DTYPES[kind](0.25)
    most = 4 if kind == "f32" else 0  # in f16 the rounding hides the library's error here
    assert distance(tmp_path, f"{op}(x)", {"x": x}) <= most


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", COMPOSITE)
def test_operators_with_a_body_are_near_it(tmp_path: Path, op: str, kind: str) -> None:
    x = normals((3, 8), DTYPES[kind], 1)
    assert distance(tmp_path, f"{op}(x)", {"x": x}) <= COMPOSITE[op]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare"])
def test_reductions_have_equal_bits(tmp_path: Path, op: str, keep: int, kind: str) -> None:
    x = whole_numbers((2, 4, 8), DTYPES[kind])
    axes = {"a": np.array([-1, 1])}
    assert distance(tmp_path, f"Reduce{op}(x, a)", {"x": x}, axes, keepdims=keep) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_matrix_products_have_equal_bits(tmp_path: Path, kind: str) -> None:
    dtype = DTYPES[kind]
    for left, right in (
        ((3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
    ):
        given = {"x": whole_numbers(left, dtype, 1), "y": whole_numbers(right, dtype, 2)}
        assert distance(tmp_path, "MatMul(x, y)", given) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_scaled_product_with_a_bias_rounds_step_by_step(tmp_path: Path, kind: str) -> None:
    dtype = DTYPES[kind]
    weights = {"w": whole_numbers((8, 4), dtype), "b": normals((8,), dtype, 4)}
    given = {"x": whole_numbers((3, 4), dtype, 1)}
    text, how = "Gemm(x, w, b)", {"alpha": 0.5, "beta": 0.25, "transB": 1}
    assert distance(tmp_path, text, given, weights, **how) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_convolutions_and_pools_have_equal_bits(tmp_path: Path, kind: str) -> None:
    dtype = DTYPES[kind]
    image = {"x": whole_numbers((1, 3, 7, 7), dtype, 1)}
    weights = {"w": whole_numbers((5, 3, 3, 3), dtype, 2), "b": normals((5,), dtype, 3)}
    for how in (
        {"pads": [1, 1, 1, 1], "strides": [2, 2]},
        {"dilations": [2, 2]},
        {"pads": [0, 1, 2, 0]},
    ):
        assert distance(tmp_path, "Conv(x, w, b)", image, weights, **how) == 0
    small = {"w": whole_numbers((5, 3, 1, 1), dtype, 2)}
    assert distance(tmp_path, "Conv(x, w)", image, small) == 0
    for text in ("MaxPool(x)", "AveragePool(x)"):
        how = {"kernel_shape": [3, 3], "strides": [2, 2]}
        assert distance(tmp_path, text, image, **how) == 0
    padded = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    assert distance(tmp_path, "MaxPool(x)", image, **padded) == 0
    assert distance(tmp_path, "GlobalAveragePool(x)", image) == 0


def test_norms_of_exact_sums_have_equal_bits_in_f32(tmp_path: Path) -> None:
    x = {"x": whole_numbers((1, 4, 8), np.float32, 1)}
    scale = {"w": normals((8,), np.float32, 2)}
    assert distance(tmp_path, "RMSNormalization(x, w)", x, scale) == 0
    # ONNX Runtime multiplies by a reciprocal where the body divides.
    assert distance(tmp_path, "LayerNormalization(x, w)", x, scale) <= 2
    skip = {**x, "y": whole_numbers((1, 4, 8), np.float32, 4)}
    text = "com.microsoft::SkipSimplifiedLayerNormalization(x, y, w)"
    assert distance(tmp_path, text, skip, scale, epsilon=1e-5) == 0
    text = "com.microsoft::SkipLayerNormalization(x, y, w)"
    assert distance(tmp_path, text, skip, scale, epsilon=1e-5) <= 2


def test_norms_in_f16_follow_the_body_or_the_kernel(tmp_path: Path) -> None:
    x = {"x": normals((1, 4, 8), np.float16, 1)}
    scale = {"w": normals((8,), np.float16, 2)}
    text = "RMSNormalization(x, w)"  # the body rounds before the scale, ONNX Runtime does not
    assert distance(tmp_path, text, x, scale) <= 1
    assert distance(tmp_path, "SimplifiedLayerNormalization(x, w)", x, scale, epsilon=1e-5) == 0
    skip = {**x, "y": normals((1, 4, 8), np.float16, 3)}
    both = {**scale, "b": normals((8,), np.float16, 4)}
    text = "com.microsoft::SkipLayerNormalization(x, y, w, b)"
    assert distance(tmp_path, text, skip, both, epsilon=1e-5) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_norm_is_near_its_formula(tmp_path: Path, kind: str) -> None:
    weights = {name: np.abs(normals((3,), DTYPES[kind], i)) for i, name in enumerate("wbmv")}
    image = {"x": whole_numbers((1, 3, 4, 4), DTYPES[kind], 1)}
    assert distance(tmp_path, "BatchNormalization(x, w, b, m, v)", image, weights) <= 8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("text", "most"),
    [("QuickGelu(x)", 6), ("Gelu(x)", 2), ("BiasGelu(x, b)", 2), ("FastGelu(x, b)", 26)],
)
def test_fused_activations_are_near_the_kernels_steps(
    tmp_path: Path, text: str, most: int, kind: str
) -> None:
    x, bias = normals((3, 8), DTYPES[kind], 1), {"b": normals((8,), DTYPES[kind], 4)}
    bound = most if kind == "f32" else 1  # x near -3 cancels in f32
    given = bias if "b" in text else None
    assert distance(tmp_path, f"com.microsoft::{text}", {"x": x}, given) <= bound


@pytest.mark.parametrize("kind", KINDS)
def test_a_fused_product_has_equal_bits(tmp_path: Path, kind: str) -> None:
    dtype = DTYPES[kind]
    given = {"x": whole_numbers((2, 3, 4), dtype, 1), "y": whole_numbers((2, 5, 4), dtype, 2)}
    text = "com.microsoft::FusedMatMul(x, y)"
    assert distance(tmp_path, text, given, alpha=0.125, transB=1) == 0


def test_a_fused_convolution_has_equal_bits(tmp_path: Path) -> None:
    image = {"x": whole_numbers((1, 3, 7, 7), np.float32, 1)}
    weights = {"w": whole_numbers((5, 3, 3, 3), np.float32, 2), "b": normals((5,), np.float32, 3)}
    text = "com.microsoft::FusedConv(x, w, b)"
    assert distance(tmp_path, text, image, weights, activation="Relu") == 0


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_in_f16_is_the_body_bit_for_bit(tmp_path: Path, causal: int) -> None:
    given = {
        "q": normals((1, 4, 6, 8), np.float16, 1),
        "k": normals((1, 2, 6, 8), np.float16, 2),
        "v": normals((1, 2, 6, 8), np.float16, 3),
    }
    text = "Attention(q, k, v)"
    assert distance(tmp_path, text, given, by=referenced, is_causal=causal) == 0
    rows = {"q": normals((1, 6, 32), np.float16, 1), "k": normals((1, 6, 32), np.float16, 2)}
    how = {"is_causal": causal, "q_num_heads": 4, "kv_num_heads": 4}
    assert distance(tmp_path, "Attention(q, k, k)", rows, by=referenced, **how) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("td,edf->tef", (5, 4), (3, 4, 2)),
        ("tef,efd->ted", (5, 3, 2), (3, 2, 4)),
        ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
        ("ij,jk->ki", (3, 4), (4, 5)),
        ("ij,kl->ijkl", (3, 4), (2, 5)),
    ],
)
def test_einstein_sums_have_equal_bits(
    tmp_path: Path, equation: str, left: tuple[int, ...], right: tuple[int, ...], kind: str
) -> None:
    dtype = DTYPES[kind]
    given = {"x": whole_numbers(left, dtype, 1), "y": whole_numbers(right, dtype, 2)}
    assert distance(tmp_path, "Einsum(x, y)", given, equation=equation) == 0


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [-1, 0, 2])
def test_triangles_keep_the_same_elements(tmp_path: Path, upper: int, diagonal: int) -> None:
    given = {"k": np.array(diagonal)}
    x = {"x": normals((4, 5), np.float16, 1)}
    assert distance(tmp_path, "Trilu(x, k)", x, given, upper=upper) == 0


@pytest.mark.parametrize("power", [2.0, 3.0, 0.5, -1.0])
def test_constant_powers_round_once(tmp_path: Path, power: float) -> None:
    x = np.abs(normals((3, 8), np.float32, 1))
    given = {"n": np.array(power, np.float32)}
    assert distance(tmp_path, "Pow(x, n)", {"x": x}, given) <= 1  # powf is a library function


def test_choices_and_comparisons_have_equal_bits(tmp_path: Path) -> None:
    x, y = normals((3, 8), np.float16, 1), normals((3, 8), np.float16, 2)
    for op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        nodes = [node(f"c = {op}(x, y)"), node("n = Not(c)"), node("d = Or(c, n)")]
        nodes += [node("e = And(c, d)"), node("z = Where(e, x, y)")]
        made = model(nodes, ["x: f16[3, 8]", "y: f16[3, 8]"], ["z: f16[3, 8]"])
        path = saved(tmp_path, made)
        given = {"x": x, "y": y}
        assert ulps(evaluated(path, given)["z"], expected(path, given)["z"]) == 0


def test_the_largest_and_their_indices_agree(tmp_path: Path) -> None:
    x = normals((3, 8), np.float16, 1)
    nodes = [node("z, i = TopK(x, k)"), node("a = ArgMax(x)", axis=1, keepdims=0)]
    outs = ["z: f16[3, 2]", "i: i64[3, 2]", "a: i64[3]"]
    path = saved(tmp_path, model(nodes, ["x: f16[3, 8]"], outs, {"k": np.array([2])}))
    got, want = evaluated(path, {"x": x}), expected(path, {"x": x})
    for name, array in want.items():
        assert got[name].tolist() == array.tolist()


def test_casts_round_once_and_widening_ones_not_at_all(tmp_path: Path) -> None:
    x = normals((3, 64), np.float32, 1)
    nodes = [node("h = Cast(x)", to=10), node("w = Cast(h)", to=1), node("z = Add(w, x)")]
    path = saved(tmp_path, model(nodes, ["x: f32[3, 64]"], ["z: f32[3, 64]"]))
    assert ulps(evaluated(path, {"x": x})["z"], expected(path, {"x": x})["z"]) == 0


@pytest.mark.parametrize("kind", ["f32", "i64"])
def test_the_remainder_of_values_is_opaque(kind: str, tmp_path: Path) -> None:
    three = np.array(3, np.float32 if kind == "f32" else np.int64)
    made = model(
        [node("y = Mod(x, c)", fmod=int(kind == "f32"))],
        [f"x: {kind}[4]"],
        [f"y: {kind}[4]"],
        {"c": three},
    )
    imported = read_onnx(saved(tmp_path, made))
    assert [(one.operator, one.reads[0]) for one in imported.opaque] == [("Mod", "x")]


def test_results_of_other_types_and_shapes_are_refused(tmp_path: Path) -> None:
    one = [node("y = Add(x, x)")]
    wide = [node("t = Add(x, x)"), node("y = Cast(t)", to=TensorProto.DOUBLE)]
    turned = [node("t = Add(x, x)"), node("y = Reshape(t, s)")]
    before = saved(tmp_path, model(one, ["x: f32[4]"], ["y: f32[4]"]), "a.onnx")
    other = model(wide, ["x: f32[4]"], ["y: f32[4]"])
    other.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    with pytest.raises(InputError, match="the result `y` is f64, and f32 in"):
        check_models(before, saved(tmp_path, other, "b.onnx"))
    square = model(turned, ["x: f32[4]"], ["y: f32[2, 2]"], {"s": np.array([2, 2])})
    with pytest.raises(InputError, match=r"the result `y` has the shape \[2, 2\], and \[4\] in"):
        check_models(before, saved(tmp_path, square, "c.onnx"))


def test_the_gelu_of_onnx_runtime_is_another_rounding_than_erf_and_a_quotient(
    tmp_path: Path,
) -> None:
    weights = {"r": np.float32(2**0.5), "one": np.float32(1), "h": np.float32(0.5)}
    given = {name: np.asarray(value) for name, value in weights.items()}
    texts = ["d = Div(x, r)", "e = Erf(d)", "p = Add(e, one)", "q = Mul(x, p)", "y = Mul(q, h)"]
    paths = [
        saved(tmp_path, model(nodes, ["x: f32[2000]"], ["y: f32[2000]"], held), f"{n}.onnx")
        for n, (nodes, held) in enumerate(
            (([*map(node, texts)], given), ([node("y = Gelu(x)")], {}))
        )
    ]
    x = {"x": normals((2000,), np.float32)}
    first, second = (expected(path, x)["y"] for path in paths)
    assert np.any(first != second)
    assert {step.change for step in check_models(*paths).steps} == {"rounding"}
