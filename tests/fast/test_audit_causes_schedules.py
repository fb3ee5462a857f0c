"""The schedules by which a matrix unit adds are inferred where the results of a product differ.

The products are predictions: by which schedule they add is written in them.
"""

import torch
from planted_operators import TERMS, normal, product_split_by_batch, standing

from lastbit.audit.causes import Limits, batch_cause
from lastbit.audit.tensor_values import codes_of_tensor
from lastbit.formats import F32
from lastbit.inference.arrays import native
from lastbit.predicting import predict_matmul

ATEN = torch.ops.aten


def on_hopper(many):
    """Return a product of bf16 as Hopper's matrix unit adds it: one chain for one row."""

    def product(x, w):
        schedule = "fused(16, hopper)" if len(x) == 1 else many
        codes = predict_matmul(codes_of_tensor(x), codes_of_tensor(w), "hopper", "bf16", schedule)
        return native(codes, F32, "torch")

    return product


def test_the_schedules_of_a_product_of_a_matrix_unit_are_inferred():
    many = "split(2, tile=64, inner=fused(16, hopper), outer=seq)"
    x, w = normal(2, 128).abs().bfloat16(), normal(128, 96, seed=1).abs().bfloat16()
    case = standing(ATEN.mm.default, on_hopper(many), (x, w))
    cause = batch_cause(case, 1, 2, limits=Limits(machine="hopper"))
    assert (cause.kind, cause.before, cause.after) == ("schedule", "fused(16, hopper)", many)
    assert cause.text.startswith(
        "hopper sums by another schedule in a batch of 1 than in a batch of 2; the schedules give "
        "all of the "
    )


def test_scales_of_a_product_of_8_bits_are_left_out_of_its_order_and_part_of_its_schedule():
    def product(a, b, scale_a, scale_b, *, out_dtype):
        every = 64 if len(a) > 1 else 128
        codes = predict_matmul(
            codes_of_tensor(a),
            codes_of_tensor(b),
            "hopper",
            "e4m3fn",
            f"promote({every}, f32, inner=fused(32, hopper))",
            alpha=float(scale_a * scale_b),
        )
        return native(codes, F32, "torch")

    a, b = (
        normal(*shape, seed=n).abs().to(torch.float8_e4m3fn)
        for n, shape in enumerate([(2, 256), (96, 256)])
    )
    args = a, b.t(), torch.tensor(0.5), torch.tensor([0.375])
    case = standing(ATEN._scaled_mm.default, product, args, {"out_dtype": torch.float32})
    cause = batch_cause(case, 1, 2, limits=Limits(machine="hopper"))
    assert (cause.kind, cause.before, cause.after) == (
        "schedule",
        "promote(128, f32, inner=fused(32, hopper))",
        "promote(64, f32, inner=fused(32, hopper))",
    )


def test_a_product_that_no_schedule_gives_has_its_order_revealed():
    def product(x, w):
        return product_split_by_batch(x.float(), w.float())

    powers = 2.0 ** torch.linspace(-12, 12, TERMS)  # so that no sum is exact
    args = (normal(2, TERMS) * powers).bfloat16(), normal(TERMS, 8).bfloat16()
    case = standing(ATEN.mm.default, product, args)
    cause = batch_cause(case, 1, 2, limits=Limits(machine="hopper"))
    assert (cause.kind, cause.before, cause.after) == ("order", "seq", "split(2)")
