"""What may be the matter where no schedule gives a product: a factor or a bias was not told.

The product in binary64 is compared with what was observed. Rounding explains a difference up to
2^-10 of the sum of the absolute terms (no sum of the searched schedules, with parts in 16 bits, is
farther off than some units of 2^-11 there) and of the output; beyond that, one factor for all
outputs, or one number for each column, may.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lastbit.formats import F32
from lastbit.inference.product import Product, spread
from lastbit.round_array import decode_array

SAMPLE: Final = (32, 64)  # rows and columns
ROUNDING: Final = 2.0**-10
FEWEST: Final = 4  # outputs, and rows, that show a factor or a bias

Floats = NDArray[np.float64]


def hints(product: Product) -> tuple[str, ...]:
    """Return what the observed product may have besides the sums, in words."""
    sample = [spread(*pair) for pair in zip(product.seen.shape, SAMPLE, strict=True)]
    left, right = product.spec.formats
    a = decode_array(np.ascontiguousarray(product.a[sample[0]]), left).astype(np.float64)
    b = decode_array(np.ascontiguousarray(product.b[:, sample[1]]), right).astype(np.float64)
    seen = decode_array(product.seen[np.ix_(*sample)], product.format).astype(np.float64)
    with np.errstate(all="ignore"):
        alpha = 1.0 if product.spec.alpha is None else product.spec.alpha
        exact, size = alpha * (a @ b), abs(alpha) * (np.abs(a) @ np.abs(b))
        bias = product.bias_of(sample[1])
        if bias is not None:
            exact = exact + decode_array(bias, F32)
    finite = np.isfinite(seen) & np.isfinite(exact)
    if not finite.all() or _explained(seen, exact, size, product):
        return ()
    return _untold(seen, exact, size, product)


def _untold(seen: Floats, exact: Floats, size: Floats, product: Product) -> tuple[str, ...]:
    if bool(exact.any()) and exact.size >= FEWEST and product.spec.alpha is None:
        factor = float((seen * exact).sum() / (exact * exact).sum())
        if factor and _explained(seen, factor * exact, abs(factor) * size, product):
            return (f"all outputs are about {factor:.4g} times the product: is alpha untold?",)
    if len(seen) >= FEWEST and product.bias is None:
        columns = np.median(seen - exact, axis=0)
        if _explained(seen, exact + columns, size + np.abs(columns), product):
            some = ", ".join(f"{value:.4g}" for value in columns[:3])
            return (
                f"the outputs of each column are off by about one number ({some} ...): is a bias "
                "untold?",
            )
    share = np.abs(seen - exact) / np.where(size > 0, size, 1)
    i, j = (int(n) for n in np.unravel_index(int(share.argmax()), share.shape))
    return (
        "outputs are farther from the product of these operands than rounding can bring them "
        f"({seen[i, j]:.6g}, and the product is {exact[i, j]:.6g}): are the shapes, the formats "
        "and the order of B right?",
    )


def _explained(seen: Floats, exact: Floats, size: Floats, product: Product) -> bool:
    """Return whether rounding explains how far all outputs are from a product."""
    fmt = product.format
    output = np.abs(exact) * 2.0**-fmt.precision + float(fmt.min_subnormal)
    return bool((np.abs(seen - exact) <= ROUNDING * size + 2 * output).all())
