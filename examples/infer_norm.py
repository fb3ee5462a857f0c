"""Which rounding did the fused kernel lose? Ask it, without reading its source.

    lastbit infer examples/infer_norm.py:reference examples/infer_norm.py:kernel
    python examples/infer_norm.py

`reference` is a residual and an RMSNorm as two kernels compute them: their sum is stored in
bfloat16, and so is the normalised row before it meets the weight. `kernel` is one kernel, written
in numpy here, that computes in binary32 and stores once. The answer names the rounding of the sum
that it no longer does, and what else it does otherwise: how the row is summed up, and that it
divides by a square root where the reference multiplies by its reciprocal.
"""

import ml_dtypes
import numpy as np

import lastbit


def reference(x, r, w):
    """Store the sum, then the normalised row, then the result, each in bfloat16."""
    h = (x + r).to("bf16")
    v = (lastbit.mean(h * h, axis=-1, acc="f32", schedule="seq") + 1e-6).to("f32")
    n = (h * lastbit.rsqrt(v)).to("bf16")
    return (n * w).to("bf16")


def kernel(x, r, w):
    """Keep the sum in binary32."""
    x, r, w = (array.astype(np.float32) for array in (x, r, w))
    h = x + r
    v = np.mean(h * h, axis=-1, keepdims=True) + np.float32(1e-6)
    n = (h / np.sqrt(v)).astype(ml_dtypes.bfloat16)
    return (n.astype(np.float32) * w).astype(ml_dtypes.bfloat16)


reference.inputs = {"x": "bf16[64, 1024]", "r": "bf16[64, 1024]", "w": "bf16[1024]"}

if __name__ == "__main__":
    print(lastbit.infer(reference, kernel))
