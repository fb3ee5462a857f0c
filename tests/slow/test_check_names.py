"""The verdict on two functions does not depend on the names of their variables."""

from __future__ import annotations

from typing import Any

import lastbit


def guarded(x: Any) -> Any:
    am = lastbit.amax(x)
    s = lastbit.select(lastbit.equal(am, 0), 1, am / 448).to("f32")
    return (x / s).to("e4m3fn", overflow="saturate")


def plain(x: Any) -> Any:
    am = lastbit.amax(x)
    s = (am / 448).to("f32")
    return (x / s).to("e4m3fn", overflow="saturate")


def renamed(x: Any) -> Any:
    am = lastbit.amax(x)
    t = (am / 448).to("f32")
    return (x / t).to("e4m3fn", overflow="saturate")


def test_the_names_of_local_variables_do_not_change_a_verdict() -> None:
    verdicts = [lastbit.check(before, guarded, x="bf16[M, 4]") for before in (plain, renamed)]
    assert len({str(v.change) for v in verdicts}) == 1
    for v in verdicts:
        assert v.change != "math"  # of ordinary rows the scale is the same
        assert v.witness is None
        assert [(entry.kind, entry.side) for entry in v.domain] == [("nan", "before")]
        assert {entry.witness.output for entry in v.domain if entry.witness} == {"result"}
