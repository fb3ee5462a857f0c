"""Every pair of codes of an 8-bit format is compared as the exact core says."""

import itertools

import numpy as np
import pytest

from lastbit.comparing import compare
from lastbit.formats import FORMATS, decode
from lastbit.ulps import ulp_distance


@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "int8", "uint8"])
def test_every_pair_of_8_bit_codes_is_as_the_exact_core_says(name: str):
    a, b = (np.array(side, np.uint8) for side in np.indices((256, 256)).reshape(2, -1))
    found = compare(a, b, format=name).tensors[0]
    values = [decode(code, FORMATS[name]) for code in range(256)]
    exact = [
        (x, y, ulp_distance(values[x], values[y], FORMATS[name]))
        for x, y in itertools.product(range(256), repeat=2)
        if x != y
    ]
    kinds = [distance.kind for _, _, distance in exact]
    apart = [distance.ulps for _, _, distance in exact if distance.kind == "distance"]
    assert found.elements == 65536
    assert found.other_bits == len(exact) == 65536 - 256
    assert found.apart == len(apart)
    assert found.signed_zeros == kinds.count("signed-zero")
    assert sum(found.nan_only) == kinds.count("nan")
    assert found.infinite == kinds.count("inf")
    assert found.nan_payloads == kinds.count("equal")  # of codes that differ
    assert found.max_ulp == max(apart)
    ranked = sorted([*apart, *([0] * (65536 - found.nan_payloads - kinds.count("nan")
                                      - found.infinite - len(apart)))])  # fmt: skip
    for share, got in ((50, found.p50), (99, found.p99)):
        assert got == ranked[-(-share * len(ranked) // 100) - 1]
