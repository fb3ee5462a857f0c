"""An assertion passes on right results alone: what zeros or a copy would pass is refused."""

import ml_dtypes
import numpy as np
import pytest

import lastbit
from lastbit import (
    RefusedComparisonError,
    assert_batch_invariant,
    assert_bitwise,
    assert_deterministic,
    assert_ulp,
)
from lastbit.errors import InputError

F32 = np.float32
ROWS = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0], [3.0, 5.0, 7.0], [9.0, 11.0, 13.0]], F32)
REMEDY = (
    "Compare values that a wrong result would miss, or give the reason why these must be so as "
    "trivial_because='...'."
)


NAN = "every element of both sides is NaN"


def stepped(index=(1, 2)):
    """Return the rows with one element moved up to the next number."""
    moved = ROWS.copy()
    moved[index] = np.nextafter(moved[index], F32(np.inf))
    return moved


def refusal(call) -> str:
    with pytest.raises(RefusedComparisonError) as error:
        call()
    assert str(error.value) == f"{error.value.assertion} would prove nothing: " + (
        f"{error.value.reason}. {REMEDY}"
    )
    return error.value.reason


def mistake(call) -> str:
    with pytest.raises(InputError) as error:
        call()
    return str(error.value)


def test_equal_bits_pass():
    assert_bitwise(ROWS, ROWS.copy())
    assert_bitwise(ROWS.astype(ml_dtypes.bfloat16), ROWS.astype(ml_dtypes.bfloat16))


def test_other_bits_fail_with_count_worst_element_both_patterns_and_places():
    with pytest.raises(AssertionError) as error:
        assert_bitwise(ROWS, stepped())
    lines = str(error.value).splitlines()
    assert lines[0] == "the bits differ (assert_bitwise)"
    assert lines[1].startswith("f32[4, 3] ")
    assert "    bits      8.33 % of 12 elements differ (1)" in lines
    assert "    worst     [1, 2]: 0x42000000 -> 0x42000001 (32.0 -> 32.000003814697266), 1 ulp" in (
        lines
    )
    assert "    rows      1 of 4 have any; most in 1 (1 of 3)" in lines
    assert "    columns   1 of 3 have any; most in 2 (1 of 4)" in lines


def test_zeros_of_other_sign_are_other_bits_and_no_ulp_apart():
    zero = ROWS.copy()
    zero[0, 0] = 0.0
    with pytest.raises(AssertionError, match=r"1 zero of other sign"):
        assert_bitwise(zero, np.where(zero == 0, F32(-0.0), zero))
    assert_ulp(zero, np.where(zero == 0, F32(-0.0), zero), max_ulp=0, format="f32")


def test_other_types_and_shapes_fail():
    with pytest.raises(AssertionError, match="f32 against f64"):
        assert_bitwise(ROWS, ROWS.astype(np.float64))
    with pytest.raises(AssertionError, match=r"\[4, 3\] against \[1, 4, 3\]"):
        assert_ulp(ROWS, ROWS[None], max_ulp=1, format="f32")


def test_ulp_pass_up_to_the_bound_and_not_beyond():
    assert_ulp(ROWS, stepped(), max_ulp=1, format="f32")
    assert_ulp(ROWS, stepped(), max_ulp=1, format="binary32")
    with pytest.raises(AssertionError) as error:
        assert_ulp(ROWS, stepped(), max_ulp=0, format="f32")
    assert str(error.value).startswith("farther apart than 0 ulp of f32 (assert_ulp)\n")
    with pytest.raises(AssertionError) as error:
        assert_ulp(ROWS, 2 * ROWS, max_ulp=1, format="f32", scale="row")
    assert str(error.value).startswith(
        "farther apart than 1 ulp of f32 at the largest of the row (assert_ulp)\n"
    )


def test_nan_beside_a_number_never_passes():
    with pytest.raises(AssertionError, match="1 only on the first side"):
        assert_ulp(np.where(ROWS == 4, np.nan, ROWS), ROWS, max_ulp=2**31, format="f32")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.zeros(3, F32), "every element of both sides is zero"),
        (np.array([0.0, -0.0]), "every element of both sides is zero"),
        (np.zeros(3, np.int32), "every element of both sides is zero"),
        (np.full(3, np.nan, F32), NAN),
        (np.full(3, 1.5, F32), "all 3 elements are the same number, 0x3fc00000"),
        (np.zeros((0, 4), F32), "there are no elements"),
        (np.full(2, 128, np.uint8).view(ml_dtypes.float8_e4m3fnuz), NAN),  # the code of -0 there
        (
            np.zeros(2, np.uint8).view(ml_dtypes.float8_e8m0fnu),
            "all 2 elements are the same number, 0x00",
        ),  # 2^-127
    ],
)
def test_what_a_broken_program_gives_too_proves_nothing(value, reason: str):
    assert refusal(lambda: assert_bitwise(value, value.copy())) == reason
    if value.dtype == F32:
        call = lambda: assert_ulp(value, value.copy(), max_ulp=1, format="f32")  # noqa: E731
        assert refusal(call) == reason
    assert_bitwise(value, value.copy(), trivial_because="a masked row is like that")


def test_a_single_number_is_no_constant():
    assert_bitwise(np.array([1.5]), np.array([1.5]))
    one = 1.5
    assert_bitwise(one, one)  # Python may keep equal numbers in one place
    assert refusal(lambda: assert_bitwise(0.0, 0.0)) == "every element of both sides is zero"
    assert refusal(lambda: assert_bitwise(np.zeros(1), np.zeros(1))) == (
        "every element of both sides is zero"
    )


def test_an_array_beside_itself_proves_nothing():
    assert refusal(lambda: assert_bitwise(ROWS, ROWS)) == "both sides are the same object"
    assert refusal(lambda: assert_bitwise(ROWS, ROWS[:])) == "both sides are the same memory"
    assert refusal(lambda: assert_ulp(ROWS, ROWS.view(), max_ulp=1, format="f32")) == (
        "both sides are the same memory"
    )
    twice = np.concatenate([ROWS, ROWS])
    assert_bitwise(twice[:4], twice[4:])  # of one array, and not the same memory


def test_torch_tensors_that_share_memory_are_seen():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(ROWS.copy())
    assert refusal(lambda: assert_bitwise(x, x.view(4, 3))) == "both sides are the same memory"
    assert refusal(lambda: assert_bitwise(x, x.numpy())) == "both sides are the same memory"
    assert_bitwise(x, x.clone())


def test_a_bound_that_zeros_are_within_proves_nothing():
    tiny = np.array([1, 2, 3, 4], np.uint32)  # codes of subnormal numbers
    assert refusal(lambda: assert_ulp(tiny, tiny + 1, max_ulp=8, format="f32")) == (
        "zeros are within 8 ulp of f32 as well"
    )
    reason = refusal(lambda: assert_ulp(ROWS, stepped(), max_ulp=2**24, format="f32", scale="row"))
    assert reason == "zeros are within 1.67772e+07 ulp of f32 as well"


def test_a_copy_of_an_input_proves_nothing():
    call = lambda: assert_bitwise(ROWS.copy(), ROWS.copy(), inputs=[ROWS])  # noqa: E731
    assert refusal(call) == "a copy of `inputs` would pass as well"
    assert_bitwise(2 * ROWS, 2 * ROWS, inputs=[ROWS])


def test_an_input_within_the_bound_proves_nothing():
    call = lambda: assert_ulp(  # noqa: E731
        stepped(), stepped((0, 0)), max_ulp=1, format="f32", inputs=(ROWS[0], ROWS)
    )
    assert refusal(call) == "a copy of `inputs[1]` would pass as well"


def test_mistakes_are_told():
    assert mistake(lambda: assert_bitwise(ROWS, ROWS, trivial_because=" ")) == (
        "trivial_because=' ' gives no reason. Write why zeros, NaN or one number everywhere are "
        "right here."
    )
    assert mistake(lambda: assert_ulp(ROWS, stepped(), max_ulp=1, format="bf16")) == (
        "both sides have elements of f32, and ulp of bf16 are to be counted. Convert both to bf16, "
        "or write 'f32'."
    )
    assert mistake(lambda: assert_ulp(ROWS, stepped(), max_ulp=True, format="f32")) == (
        "max_ulp=True is no number. Write max_ulp=1."
    )
    for bound in (-1, float("inf"), float("nan")):
        assert mistake(lambda: assert_ulp(ROWS, stepped(), max_ulp=bound, format="f32")) == (  # noqa: B023
            f"max_ulp={bound!r} is no bound. Write max_ulp=1."
        )


def test_a_row_that_depends_on_no_other_is_batch_invariant():
    assert_batch_invariant(lambda x: x * x, ROWS)
    assert_batch_invariant(lambda x, y: {"sum": x + y, "both": [x - y]}, (ROWS, ROWS + 1))
    assert_batch_invariant(lambda x: (2 * x).T, ROWS, out_axis=1)
    assert_batch_invariant(lambda x: 2 * x, ROWS.T.copy(), axis=1)


def test_a_scale_of_the_whole_batch_is_seen():
    with pytest.raises(AssertionError) as error:
        assert_batch_invariant(lambda x: x / np.abs(x).max(), ROWS)  # 32, in the second row
    lines = str(error.value).splitlines()
    assert lines[:2] == [
        "rows depend on the batch (assert_batch_invariant)",
        "    sizes     other bits in batches of 1, 2 than in one of 4; the same in those of 3",
    ]
    assert lines[2].startswith("`row 0 in the batch / alone` f32[1, 3]")
    assert "    bits      100 % of 3 elements differ (3)" in lines


def test_the_sizes_at_which_bits_change_are_told():
    def by_size(x):  # one row takes another way
        return x * F32(1.5) if len(x) == 1 else x * F32(3)

    with pytest.raises(AssertionError) as error:
        assert_batch_invariant(by_size, ROWS)
    assert "in batches of 1 than in one of 4; the same in those of 2, 3" in str(error.value)
    assert_batch_invariant(by_size, ROWS, sizes=[2, 3])


def test_a_row_that_looks_at_its_place_is_seen():
    def by_place(x):
        return x + np.arange(len(x), dtype=F32)[:, None]

    with pytest.raises(AssertionError, match="row 2 in the batch / alone"):
        assert_batch_invariant(by_place, ROWS, sizes=[1])


def test_batches_that_prove_nothing_are_refused():
    assert refusal(lambda: assert_batch_invariant(lambda x: x, ROWS)) == (
        "a copy of `x` would pass as well"
    )
    assert refusal(lambda: assert_batch_invariant(lambda x: 0 * x, ROWS)) == (
        "every element of the result is zero"
    )
    same = np.repeat(ROWS[:1], 3, axis=0)
    assert refusal(lambda: assert_batch_invariant(lambda x: 2 * x, same)) == (
        "every row of `x` is the same, so one taken for another would pass"
    )
    assert refusal(lambda: assert_batch_invariant(lambda x: 0 * x + ROWS[0], ROWS)) == (
        "every row of the result is the same, so one taken for another would pass"
    )
    assert_batch_invariant(lambda x: 0 * x, ROWS, trivial_because="the mask hides every key")


def test_a_function_that_writes_into_its_input_does_not_mislead():
    def doubled(x):
        x *= 2
        return x

    given = ROWS.copy()
    assert_batch_invariant(doubled, given)
    assert_deterministic(doubled, given)
    assert given.tobytes() == ROWS.tobytes()


def test_torch_functions_are_called_with_tensors():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(ROWS.copy())
    assert_batch_invariant(lambda x: x.to(torch.bfloat16) * 3, x)
    with pytest.raises(AssertionError, match="rows depend on the batch"):
        assert_batch_invariant(lambda x: x / x.abs().max(), x.requires_grad_())


def test_batches_that_cannot_be_compared_are_told():
    assert mistake(lambda: assert_batch_invariant(lambda x: x, ROWS[:1])) == (
        "`x` has 1 row along axis 0, so nothing is compared. Give a batch of at least two rows."
    )
    assert mistake(lambda: assert_batch_invariant(lambda x: x, ROWS, axis=2)) == (
        "an input of shape [4, 3] has no axis 2. Name the axis of the rows: axis=0."
    )
    assert mistake(lambda: assert_batch_invariant(lambda x: x, [1.0, 2.0])) == (
        "an input of shape [] has no axis 0. Name the axis of the rows: axis=0."
    )
    assert mistake(lambda: assert_batch_invariant(lambda x, w: x, (ROWS, ROWS[:3]))) == (
        "the inputs have 4, 3 rows along axis 0. Close over what is no batch: lambda x: fn(x, w)."
    )
    assert mistake(lambda: assert_batch_invariant(lambda x: x.sum(axis=0), ROWS)) == (
        "a result for 4 rows has shape [3], and so not as many along axis 0. Name the axis of the "
        "rows in the result: out_axis=1."
    )
    assert mistake(lambda: assert_batch_invariant(lambda x: 2 * x, ROWS, sizes=[4])) == (
        "sizes=[4] holds 4. Sizes may be 1 to 3."
    )
    assert mistake(lambda: assert_batch_invariant(lambda x: 2 * x, ROWS, sizes=[])) == (
        "sizes=[] compares nothing. Leave it out, or name sizes."
    )
    assert mistake(lambda: assert_batch_invariant(lambda x: x, ())) == (
        "`x` holds no array. Give an array, or a tuple of them."
    )
    assert mistake(lambda: assert_batch_invariant(lambda x: None, ROWS)) == (
        "the function returned no arrays, so nothing was compared. Return what it computes."
    )
    assert mistake(lambda: assert_batch_invariant(lambda x: "text", ROWS)) == (
        "`result` is a str, no array. Give arrays of numpy, torch, or with DLPack."
    )


def test_the_same_bits_in_every_run_are_deterministic():
    runs = []
    assert_deterministic(lambda x: runs.append(1) or 2 * x, ROWS)
    assert len(runs) == 20


def test_a_run_that_gives_other_bits_is_seen():
    runs = []

    def every_third(x):
        runs.append(1)
        return 2 * x if len(runs) % 3 else 4 * x

    with pytest.raises(AssertionError) as error:
        assert_deterministic(every_third, ROWS, repeats=7)
    lines = str(error.value).splitlines()
    assert lines[0] == "runs differ (assert_deterministic)"
    assert lines[1] == (
        "    runs      2 of 6 runs after the first gave other bits, run 3 before the others"
    )
    assert lines[2].startswith("`run 1 / run 3` f32[4, 3]")


def test_runs_that_prove_nothing_are_refused():
    assert refusal(lambda: assert_deterministic(lambda x: x, ROWS)) == (
        "a copy of `x` would pass as well"
    )
    assert refusal(lambda: assert_deterministic(lambda x: x * np.nan, ROWS)) == (
        "every element of the result is NaN"
    )
    for repeats in (1, True):
        assert mistake(lambda: assert_deterministic(lambda x: x, ROWS, repeats=repeats)) == (  # noqa: B023
            f"repeats={repeats!r} compares nothing. Run it at least twice."
        )
    counts = iter([1, 2])
    assert mistake(lambda: assert_deterministic(lambda x: [2 * x] * next(counts), ROWS)) == (
        "one run returned 1 array, another 2. Return as many arrays in every run."
    )


def test_the_assertions_are_public():
    assert lastbit.assert_bitwise is assert_bitwise
