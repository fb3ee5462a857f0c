"""Rows of a recorded operator: which axes count them, and memory as for a batch of that size."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

torch = pytest.importorskip("torch")

from audited import numbers  # noqa: E402

from lastbit.audit.batch import Seen, Tensor, layout  # noqa: E402
from lastbit.audit.case import Case, Layout, NotSeparableError  # noqa: E402
from lastbit.audit.taking import Axis, copied, taken  # noqa: E402
from lastbit.audit.thresholds import sizes_to_scan, thresholds  # noqa: E402


def case(function: object, *args: object, axes: Sequence[Axis | None], **facts: object) -> Case:
    found = Layout(tuple(axes), (Axis(0),), facts.pop("why", None))
    return Case("op", "op", 0, "", None, 4, "cpu", function, args, {}, found, **facts)


@pytest.mark.parametrize("rows", [1, 3, [2], [3, 0]])
@pytest.mark.parametrize(
    ("tensor", "axis", "strides"),
    [
        (numbers(4, 6, 5), Axis(0), lambda n: (30, 5, 1)),
        (numbers(4, 6, 5).transpose(1, 2), Axis(0), lambda n: (30, 1, 5)),
        (numbers(6, 4, 5), Axis(1), lambda n: (n * 5, 5, 1)),
        (numbers(6, 4, 5).permute(2, 1, 0), Axis(1), lambda n: (1, 5, n * 5)),
        (numbers(4, 1, 5).expand(4, 6, 5), Axis(0), lambda n: (5, 0, 1)),
        (numbers(6, 1).expand(6, 4), Axis(1), lambda n: (1, 0)),
        (numbers(4, 12)[:, 3:8], Axis(0), lambda n: (12, 1)),
        (numbers(8, 5), Axis(0, 2), lambda n: (5, 1)),
        (numbers(8, 5), Axis(0, 2, inner=True), lambda n: (5, 1)),
    ],
)
def test_rows_hold_the_numbers_and_strides_of_a_smaller_batch(tensor, axis, strides, rows) -> None:
    wanted = list(range(rows)) if isinstance(rows, int) else rows
    shape = list(tensor.shape)
    halves = (axis.each, 4) if axis.inner else (4, axis.each)
    apart = tensor.reshape(shape[: axis.axis] + list(halves) + shape[axis.axis + 1 :])
    chosen = apart.index_select(axis.axis + axis.inner, torch.tensor(wanted))
    shape[axis.axis] = axis.each * len(wanted)
    found = taken(tensor, axis, rows, 4)
    assert torch.equal(found, chosen.reshape(shape))
    assert found.stride() == strides(len(wanted))
    assert found.data_ptr() % 64 == tensor.data_ptr() % 64
    assert found.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()


def test_a_copy_keeps_strides_and_alignment() -> None:
    tensor = numbers(8, 12)[:, 3:8].t()
    found = copied(tensor)
    assert torch.equal(found, tensor)
    assert found.stride() == tensor.stride()
    assert found.data_ptr() % 64 == tensor.data_ptr() % 64


def test_an_operator_is_run_on_rows_and_on_other_values_beside_row_0() -> None:
    x, w = numbers(4, 3), numbers(3, 2, seed=1)
    product = case(torch.matmul, x, w, axes=(Axis(0), None))
    assert torch.equal(product.run([2, 0])[0], torch.matmul(x[[2, 0]], w))
    assert torch.equal(product.run(3)[0], torch.matmul(x[:3].clone(), w))
    (zeros,) = product.run(others="zeros")
    assert torch.equal(zeros[1:], torch.zeros(3, 2))
    (nans,) = product.run(others="nan")
    assert nans[1:].isnan().all()
    assert not nans[0].isnan().any()
    assert torch.equal(product.rows_of(product.run(), [3])[0], torch.matmul(x, w)[3:])


def test_other_values_go_into_elements_that_stand_for_several() -> None:
    wide = numbers(4, 1, 3).expand(4, 5, 3)
    doubled = case(torch.mul, wide, 2, axes=(Axis(0), None))
    (zeros,) = doubled.run(others="zeros")
    assert torch.equal(zeros[0], wide[0] * 2)
    assert torch.equal(zeros[1:], torch.zeros(3, 5, 3))


def test_rows_that_are_kept_are_those_named() -> None:
    x = numbers(4, 3)
    (zeros,) = case(torch.clone, x, axes=(Axis(0),)).run(others="zeros", keep=(1, 3))
    assert torch.equal(zeros[[1, 3]], x[[1, 3]])
    assert not zeros[[0, 2]].any()


def test_a_row_is_moved_to_the_front_with_all_that_belongs_to_it() -> None:
    x = numbers(8, 3)  # two places for each of 4 rows
    turned = case(torch.clone, x, axes=(Axis(0, 2),)).turned(2)
    assert torch.equal(turned.args[0], x[[4, 5, 0, 1, 2, 3, 6, 7]])


@pytest.mark.parametrize(("inner", "rows"), [(False, (1, 2)), (True, (0, 2))])
def test_rows_with_other_bits_are_named(inner: bool, rows: tuple[int, ...]) -> None:
    x = numbers(3, 8)
    y = x.clone()
    y[0, 2] += 1  # row 1 of [B * T], row 2 of [T * B]
    y[2, 4] = torch.nextafter(y[2, 4], torch.tensor(9.0))  # row 2, or row 0
    axis = Axis(1, 2, inner)
    copy = Case(
        "op", "op", 0, "", None, 4, "cpu", torch.clone, (x,), {}, Layout((axis,), (axis,))
    )  # fmt: skip
    assert copy.rows_apart((x,), (y,)) == rows
    assert copy.rows_apart((x,), (x.clone(),)) == ()


def test_what_is_written_is_written_into_a_copy() -> None:
    x = numbers(4, 3)
    kept = x.clone()
    added = case(torch.Tensor.add_, x, 1, axes=(Axis(0), None), written=frozenset({0}))
    assert torch.equal(added.run()[0], kept + 1)
    assert torch.equal(added.run([1])[0], kept[1:2] + 1)
    assert torch.equal(x, kept)


def test_one_tensor_given_twice_stays_one() -> None:
    doubled = case(
        torch.Tensor.add_, numbers(4, 3), numbers(4, 3), axes=(Axis(0), Axis(0)),
        written=frozenset({0}),
    )  # fmt: skip
    tensor = doubled.args[0]
    twice = Case(
        "op", "op", 0, "", None, 4, "cpu", torch.Tensor.add_, (tensor, tensor), {}, doubled.layout,
        frozenset({0}),
    )  # fmt: skip
    args, _ = twice.arguments(2)
    assert args[0] is args[1]


def test_numbers_that_count_rows_follow_the_rows() -> None:
    shaped = case(torch.Tensor.new_zeros, numbers(4, 3), [8, 2], axes=(Axis(0), Axis(0, 2), None))
    assert shaped.arguments(3)[0][1] == [6, 2]


def test_rows_of_what_has_none_are_refused_with_the_reason() -> None:
    whole = case(torch.sum, numbers(4, 3), axes=(Axis(0),), why="its result has no rows")
    with pytest.raises(NotSeparableError) as caught:
        whole.run([0])
    assert str(caught.value) == (
        "the rows of this operator cannot be taken apart: its result has no rows"
    )


def seen(*arguments: object, results: Sequence[Tensor] = (Tensor((8, 3), "float32"),)) -> Seen:
    return Seen(arguments, tuple(results))


SMALL_RESULT = (Tensor((2, 3), "float32"),)


@pytest.mark.parametrize(
    ("large", "small", "why"),
    [
        (Tensor((8, 8), "float32"), Tensor((2, 2), "float32"),
         "2 axes of argument 0 depend on the number of rows"),
        (Tensor((9, 3), "float32"), Tensor((3, 3), "float32"),
         "an axis of argument 0 has 9 places for 8 rows and 3 for 2"),
        (Tensor((8, 3), "float32"), Tensor((2, 3, 1), "float32"),
         "argument 0 has other axes or another format for other batch sizes"),
        (Tensor((3,), "int64", b"a"), Tensor((3,), "int64", b"b"),
         "argument 0, of integers, depends on the number of rows"),
        (9, 3, "argument 0 is 9 for 8 rows and 3 for 2"),
    ],
)  # fmt: skip
def test_what_keeps_rows_together_is_named(large: object, small: object, why: str) -> None:
    found = layout("op", seen(large), seen(small, results=SMALL_RESULT), (8, 2), False)
    assert found.why_whole == why
    assert not found.outside


def test_an_operator_without_rows_is_outside() -> None:
    weight = Tensor((5, 5), "float32")
    found = layout("op", seen(weight, results=()), seen(weight, results=()), (8, 2), False)
    assert (found.why_whole, found.outside) == ("nothing in it counts rows of the batch", True)


def test_several_places_of_an_axis_belong_to_a_row() -> None:
    found = layout(
        "op",
        seen(Tensor((24, 3), "float32"), 16),
        seen(Tensor((6, 3), "float32"), 4, results=SMALL_RESULT),
        (8, 2),
        False,
    )
    assert found.arguments == (Axis(0, 3), Axis(0, 2))
    assert found.results == (Axis(0, 1),)


@pytest.mark.parametrize("change", [2, 37, 100, 255, 256, 257, 3000, 4096])
def test_one_change_is_found_exactly_wherever_it_is(change: int) -> None:
    calls: list[int] = []

    def result(size: int) -> int:
        calls.append(size)
        return int(size >= change)

    found = thresholds(sizes_to_scan(4096), result, lambda: True)
    assert found.changes == (change,)
    assert [segment.result for segment in found.segments] == [0, 1]
    assert (found.segments[0].last, found.segments[1].first) == (change - 1, change)
    assert len(calls) == len(set(calls)) < 120


def test_several_changes_are_numbered_in_the_order_of_sizes() -> None:
    steps = (5, 17, 24)
    found = thresholds(
        sizes_to_scan(32), lambda size: 7 - sum(size >= step for step in steps), lambda: True
    )
    assert found.changes == steps
    assert [(s.first, s.last, s.result) for s in found.segments] == [
        (1, 4, 0), (5, 16, 1), (17, 23, 2), (24, 32, 3),
    ]  # fmt: skip
    assert found.complete


def test_without_time_the_ends_are_run_and_the_cut_is_said() -> None:
    found = thresholds(sizes_to_scan(4096), lambda size: int(size > 9), lambda: False)
    assert (found.tried, found.cut, found.changes) == (2, True, ())
    assert [(s.first, s.last) for s in found.segments] == [(1, 1), (4096, 4096)]


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_rows_of_8_bit_numbers_are_taken_and_filled(dtype: object) -> None:
    x = numbers(4, 3).to(dtype)
    copy = case(torch.clone, x, axes=(Axis(0),))
    bits = x.view(torch.uint8)
    assert torch.equal(copy.run([2, 1])[0].view(torch.uint8), bits[[2, 1]])
    (zeros,) = copy.run(others="zeros")
    assert torch.equal(zeros.view(torch.uint8)[0], bits[0])
    assert not zeros.view(torch.uint8)[1:].any()
    assert copy.run(others="nan")[0][1:].float().isnan().all()
