"""Soundness: what is called `bitwise` has equal bits; what is called different shows it.

The property and its many random pairs of graphs are in `tests/soundness.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from soundness import check, pairs

from lastbit.verify.region import Region


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(pairs(), st.data())
def test_a_verdict_is_what_evaluation_shows(region: Region, data: st.DataObject) -> None:
    check(region, data)
