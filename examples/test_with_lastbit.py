"""Test a kernel's bits and promises with pytest, and audit the tolerance of a test that has one.

    pytest examples/test_with_lastbit.py --lastbit-report report.json
    lastbit tolerance examples/test_with_lastbit.py:within_a_tenth

The kernel is an RMSNorm in numpy that adds up its squares in 8 lanes. Nothing here needs a GPU; the
assertions take tensors of torch on any device as well.
"""

import ml_dtypes
import numpy as np

from lastbit import assert_batch_invariant, assert_bitwise, assert_deterministic, assert_ulp

RNG = np.random.default_rng(0)
X = RNG.standard_normal((16, 512)).astype(ml_dtypes.bfloat16)
W = RNG.standard_normal(512).astype(ml_dtypes.bfloat16)


def kernel(x):
    """Return the norm of each row, its squares added up in binary32 in 8 lanes."""
    rows = x.astype(np.float32)
    lanes = np.zeros((len(rows), 8), np.float32)
    for piece in np.split(rows, rows.shape[1] // 8, axis=1):
        lanes += piece * piece
    total = lanes[:, 0]
    for lane in range(1, 8):
        total = total + lanes[:, lane]
    mean = total[:, None] / np.float32(rows.shape[1]) + np.float32(1e-6)
    return (rows / np.sqrt(mean) * W.astype(np.float32)).astype(x.dtype)


def reference(x):
    """Return the same in binary64, rounded once."""
    rows = x.astype(np.float64)
    mean = (rows * rows).mean(axis=1, keepdims=True) + 1e-6
    return (rows / np.sqrt(mean) * W.astype(np.float64)).astype(x.dtype)


def test_the_kernel_is_within_one_ulp_of_the_exact_norm():
    """Hold it against a result that was computed another way; a copy of X would not do."""
    assert_ulp(kernel(X), reference(X), max_ulp=1, format="bf16", inputs=[X])


def test_the_kernel_treats_a_row_as_it_does_alone():
    """Run rows alone and in smaller batches."""
    assert_batch_invariant(kernel, X)


def test_the_kernel_gives_the_same_bits_in_every_run():
    """Run it 20 times."""
    assert_deterministic(kernel, X)


def test_the_layout_of_the_input_moves_no_bit():
    """Give it the same rows, column by column in memory."""
    assert_bitwise(kernel(np.asfortranarray(X)), kernel(X), inputs=[X])


def test_a_padded_row_stays_zero():
    """Say why zeros are right here; otherwise two sides of zeros are refused."""
    zeros = np.zeros((2, 512), ml_dtypes.bfloat16)
    because = "a padded row is zero, and its norm too"
    assert_ulp(kernel(zeros), zeros, max_ulp=0, format="bf16", trivial_because=because)


def within_a_tenth(actual, expected):
    """Compare as many tests do; `lastbit tolerance` says what that lets pass."""
    np.testing.assert_array_less(
        np.abs(actual.astype(np.float32) - expected.astype(np.float32)),
        0.1 + 0.1 * np.abs(expected.astype(np.float32)),
    )


within_a_tenth.op, within_a_tenth.shape, within_a_tenth.format = "norm", (64, 4096), "bf16"
