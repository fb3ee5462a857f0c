"""Causes and remedies that take longer: long products, flags that load the compiler, a library.

Planted operators and predicted products, as among the fast tests.
"""

import pytest
import torch
from planted_operators import ROWS, InAnyOrder, added, normal, planted, standing

from lastbit.audit import remedies as module
from lastbit.audit.causes import Limits, batch_cause
from lastbit.audit.nearer import nearness
from lastbit.audit.remedies import remedies
from lastbit.audit.tensor_values import codes_of_tensor
from lastbit.formats import BF16
from lastbit.inference.arrays import native
from lastbit.predicting import predict_matmul

ATEN = torch.ops.aten
TERMS = 48


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "TIMED", 0.0)


def by_name(found):
    return {one.name: one for one in found}


def test_deterministic_algorithms_are_verified_by_as_many_calls_as_found_the_fault():
    shuffled = InAnyOrder()

    def sums(x):
        fixed = torch.are_deterministic_algorithms_enabled()
        return added(x.unbind(-1)) if fixed else shuffled(x)

    found = by_name(remedies(planted(sums, (normal(3, 8, TERMS),)), ("repeats",)))
    assert found["deterministic-algorithms"].verified
    assert found["deterministic-algorithms"].text == (
        "call torch.use_deterministic_algorithms(True)"
    )
    assert " different results in 20 equal calls" in found["no-onednn"].text
    assert "rows-alone" not in found  # a single row is added in any order too
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_remedy_under_which_the_operator_raises_is_said_not_to_help():
    def sums(x):
        if torch.are_deterministic_algorithms_enabled():
            raise RuntimeError("sums has no deterministic implementation\nmore lines")
        return InAnyOrder()(x)

    found = by_name(remedies(planted(sums, (normal(3, TERMS),)), ("repeats",)))
    assert not found["deterministic-algorithms"].verified
    assert found["deterministic-algorithms"].text == (
        "call torch.use_deterministic_algorithms(True): it raises RuntimeError: sums has no "
        "deterministic implementation"
    )


# With these seeds one or two of the rounded outputs differ.
@pytest.mark.parametrize(("bias", "seed"), [(False, 3), (True, 1)])
def test_a_split_of_which_few_rounded_outputs_tell_is_inferred(bias, seed):
    many = "split(3, tile=64, inner=fused(16, hopper), outer=seq)"

    def product(x, w, added):
        schedule = "fused(16, hopper)" if len(x) == 1 else many
        codes = predict_matmul(
            *(codes_of_tensor(one) for one in (x, w)),
            "hopper",
            "bf16",
            schedule,
            out="bf16",
            bias=added,
        )
        return native(codes, BF16, "torch")

    x, w = normal(2, 4096).abs().bfloat16(), normal(4096, 256, seed=seed).abs().bfloat16()
    if bias:
        args = (normal(256).bfloat16(), x, w)
        case = planted(
            standing(ATEN.addmm.default, lambda b, x, w: product(x, w, b.float()), args).function,
            args,
            (None, ROWS),
            name="aten.addmm.default",
        )
    else:
        case = standing(ATEN.mm.default, lambda x, w: product(x, w, None), (x, w))
    assert nearness(case, 1, 2).distance.differing > 0
    cause = batch_cause(case, 1, 2, limits=Limits(seconds=120, machine="hopper"))
    assert (cause.kind, cause.before, cause.after) == ("schedule", "fused(16, hopper)", many)


def test_what_is_said_of_the_library_of_this_processor_holds():
    # Which sizes differ, and why, is the library's choice.
    x, w = normal(8, 1000), normal(1000, 1000, seed=1)
    case = standing(ATEN.mm.default, ATEN.mm.default, (x, w))
    for before, after in ((2, 4), (4, 8)):
        differ = not torch.equal((x[:before] @ w)[0], (x[:after] @ w)[0])
        found = nearness(case, before, after)
        assert (found.nearer.side is not None) == differ
        cause = batch_cause(case, before, after)
        if cause.kind == "order":
            assert differ
            assert cause.before != cause.after
    known = by_name(remedies(case, ("batch",)))
    assert known["rows-alone"].verified
    assert known["rows-alone"].ratio > 0
    assert known["matmul_torch_chain"].verified
