"""Whether an operator adds in no fixed order: what shows that, beyond results that differ.

A counter, a clock or an unseeded generator gives different results too. Additions in another order
do so only where sums are rounded: with terms whose sums are all exact, every order gives the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from lastbit.audit.calling import Call
from lastbit.audit.case import Case
from lastbit.audit.contraction import Contraction, contraction_of
from lastbit.audit.guessing import guesses
from lastbit.audit.probing import Prepared
from lastbit.audit.refusals import REFUSALS
from lastbit.audit.taking import Rows
from lastbit.audit.tensor_values import as_integers, format_of_tensor

NUMBERS: Final = 8  # of a row that are not zero: sums of so few small integers are exact
LARGEST: Final = 7
SECONDS: Final = 5.0

# Operators of aten that the documentation of torch.use_deterministic_algorithms lists as not
# deterministic on CUDA, those left out that choose rather than add (median, copies by index), and
# of torch.nn.functional.scaled_dot_product_attention that lists the gradients of its backends.
# `embedding_dense_backward` adds the gradients of equal indices, as index_add does.
ADDS_ON_CUDA: Final = {
    "index_add", "scatter_add", "scatter_reduce", "bincount", "cumsum", "histc", "index_put",
    "_index_put_impl", "put", "embedding_dense_backward", "convolution_backward",
    "avg_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward",
    "adaptive_max_pool2d_backward", "max_pool3d_with_indices_backward",
    "fractional_max_pool2d_backward", "fractional_max_pool3d_backward",
    "upsample_linear1d_backward", "upsample_bilinear2d_backward", "upsample_bicubic2d_backward",
    "upsample_trilinear3d_backward", "_upsample_bilinear2d_aa_backward",
    "_upsample_bicubic2d_aa_backward", "reflection_pad1d_backward", "reflection_pad2d_backward",
    "reflection_pad3d_backward", "replication_pad1d_backward", "replication_pad2d_backward",
    "replication_pad3d_backward", "nll_loss_forward", "nll_loss2d_forward", "_ctc_loss_backward",
    "grid_sampler_2d_backward", "grid_sampler_3d_backward",
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_cudnn_attention_backward", "_flash_attention_backward",
    "_efficient_attention_backward",
}  # fmt: skip
# The same documentation names these for CPU tensors.
ADDS_ON_CPU: Final = {"index_put", "_index_put_impl", "put"}
# They add only where this argument is given and true.
ONLY_WITH: Final = {
    "index_put": "accumulate", "_index_put_impl": "accumulate", "put": "accumulate",
    "bincount": "weights",
}  # fmt: skip


def known_to_race(case: Case) -> bool:
    """Return whether an operator is known to add in the order in which additions come."""
    if "atomic_" in getattr(case.function, "kernel_source", ""):
        return True
    library, _, rest = case.name.partition(".")
    name = rest.partition(".")[0].rstrip("_")
    listed = ADDS_ON_CUDA if case.device.startswith("cuda") else ADDS_ON_CPU
    if library != "aten" or name not in listed:
        return False
    condition = ONLY_WITH.get(name)
    if condition is None:
        return True
    given = Call(case, case.args, case.kwargs).named.get(condition)
    return given is not None and given is not False


def sums_race(case: Case, rows: Rows | None, runs: int) -> bool:
    """Return whether identical calls differ where sums are rounded, and give every exact sum.

    Args:
        case: the operator.
        rows: of the batch, as in `Case.arguments`.
        runs: identical calls of each kind.
    """
    if case.draws:
        return False
    end = time.monotonic() + SECONDS
    try:
        return any(_races(case, rows, *form, runs, end) for form in _forms(case, rows))
    except REFUSALS:  # of an operator that takes no probes
        return False


def _forms(case: Case, rows: Rows | None) -> Iterator[tuple[Contraction, int]]:
    """Yield what the operator may add up, and the number of the result."""
    call = Call.of(case, rows)
    known = contraction_of(case.name, call.named)
    if known is not None:
        yield known, 0
        return
    for number, result in enumerate(call.run()):
        for form in guesses(call.named, result.shape, call.written):
            yield form, number


def _races(
    case: Case, rows: Rows | None, form: Contraction, number: int, runs: int, end: float
) -> bool:
    import torch

    call, place = Call.of(case, rows), form.place(0)
    if format_of_tensor(call.named[form.left.name]) is None:
        return False
    operator = Prepared(case, form, call, place, None, max(0.0, end - time.monotonic()), number)
    draw = torch.Generator().manual_seed(0)
    shape = len(operator.rows), operator.terms
    whole = torch.randint(-LARGEST, LARGEST + 1, shape, generator=draw)
    kept = torch.rand(shape, generator=draw).argsort(1) < NUMBERS
    exact, rounded = whole * kept, torch.randn(shape, generator=draw)

    def results(block: Any) -> Iterator[list[float]]:
        given = block.to(operator.left.dtype)
        own = torch.zeros(shape).to(operator.left.dtype)
        as_integers(own).copy_(as_integers(given))
        for _ in range(runs):
            if time.monotonic() < end:
                yield operator(own.to(operator.left.device)).tolist()

    sums = exact.sum(1).double().tolist()
    found = [one == sums for one in results(exact)]
    return bool(found) and all(found) and len({tuple(one) for one in results(rounded)}) > 1
