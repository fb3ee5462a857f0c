"""Costing what changes gives what costing the whole program anew gives."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from costed import program

from lastbit.cost import ALL, Placement, Tile, cost_of_program
from lastbit.cost.kernels import CycleError
from lastbit.cost.placement import Spill
from lastbit.cost.whole import Whole
from lastbit.definitions import Definitions, reads
from lastbit.graph import Node, Round, apply
from lastbit.rounding import Rounding

BF16 = Rounding.of("bf16")
SEEDS = range(120)
SPLITS = ("split(2)", "split(3)", "split(2, inner=seq, outer=any_order)")


def random_program(draw: random.Random) -> Definitions:
    """Return a program of up to 14 values; some read two others, some hold sums."""
    lines = ["x: bf16[8, 8]", "w: bf16[8, 8]"]
    names = ["x"]
    for number in range(draw.randint(3, 14)):
        a, b = draw.choice(names), draw.choice(names)
        body = draw.choice(
            [f"silu({a})", f"{a} * {b}", f"matmul({a}, w) acc f32 seq", f"{a} / amax({b}, axis=-1)"]
        )
        if "matmul" in body and draw.random() < 0.3:
            body = body.replace("seq", draw.choice(SPLITS))
        lines.append(f"v{number}: bf16 = {body}")
        names.append(f"v{number}")
    results = draw.sample(names[1:], min(2, len(names) - 1))
    return program("\n".join([*lines, f"return {', '.join(results)}"]))


def changed_a_little(
    draw: random.Random, whole: Definitions, placement: Placement
) -> tuple[Definitions, Placement, set[str]]:
    """Return another program or placement, and the values that are new in it."""
    names = [name for name in whole.nodes if not whole.is_input(name)]
    name = draw.choice(names)
    kinds = ["tile", "inside", "inside", "together", "other", "inline", "split", "spill"]
    kind = draw.choice(kinds)
    readers = whole.consumers(name)
    if kind == "tile":
        tile = Tile(draw.choice([None, 2, 4]), draw.choice([None, 4, ALL]), draw.choice([None, 2]))
        return whole, placement.then(Placement({name: tile})), {name}
    if kind == "inside" and readers:
        pairs = frozenset((name, reader) for reader in draw.sample(readers, 1))
        return whole, placement.then(Placement(inside=pairs)), {name, *readers}
    if kind == "split":
        return whole, placement.then(Placement(split=frozenset({name}))), {name}
    if kind == "spill":
        return whole, placement.then(Placement(spills={name: Spill(3, "bf16")})), {name}
    if kind == "together":
        group = frozenset({name, draw.choice(names)})
        return whole, placement.then(Placement(together=(group,))), set(group)
    if kind == "inline" and readers:
        reader = readers[0]
        body = apply("mul", whole.ref(name), 2)
        leaf = [whole.ref(read) for read in reads(whole.nodes[name])]
        body = apply("add", leaf[0], 1) if leaf else body
        if body.shape != whole.nodes[reader].shape:
            return whole, placement, set()
        return whole.edited({reader: Round(body, BF16)}), placement, {reader}
    new: Node = Round(apply("add", whole.nodes[name], 1), BF16)
    return whole.edited({name: new}), placement, {name}


def totals(launches: object) -> Counter[tuple[object, ...]]:
    return Counter((c.key, c.bytes, c.local_bytes, c.launches) for c in launches)  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_changed_whole_is_the_changed_program_costed_anew(seed: int) -> None:
    draw = random.Random(seed)
    known, placement = random_program(draw), Placement()
    whole = Whole.of(known, placement)
    for _ in range(6):
        other, places, names = changed_a_little(draw, known, placement)
        try:
            anew = cost_of_program(other, places)
        except CycleError:
            with pytest.raises(CycleError):
                _ = whole.changed(other, places, names)[0].peak_bytes
            continue
        after, near = whole.changed(other, places, names)
        assert totals(after.launches(after.laid.program.nodes)) == totals(anew.kernels)
        assert after.peak_bytes == anew.peak_bytes
        outside = set(whole.laid.program.nodes) - near
        assert totals(after.launches(outside)) == totals(whole.launches(outside))
        known, placement, whole = other, places, after


def test_what_nothing_reads_any_more_is_gone_with_what_only_it_read() -> None:
    text = """
    x: f32[64]
    a: f32 = x * 2
    b: f32 = a * 2
    c: f32 = b * 2
    d: f32 = c + x
    """
    before = program(text)
    whole = Whole.of(before, Placement())
    d = Round(apply("add", before.ref("x"), 1), Rounding.of("f32"))
    after, near = whole.changed(before.edited({"d": d}), Placement(), ["d"])
    assert set(after.home) == {"d"}
    assert near == {"a", "b", "c", "d"}
    back, _ = after.changed(before, Placement(), ["d"])
    assert set(back.home) == {"a", "b", "c", "d"}


def test_far_launches_are_not_costed_again() -> None:
    lines = [f"v{i}: f32 = v{i - 1} * 2" for i in range(1, 50)]
    before = program("\n".join(["v0: f32[64]", *lines]))
    whole = Whole.of(before, Placement())
    count = len(whole.known)
    inside = Placement(inside=frozenset({("v20", "v21")}))
    after, near = whole.changed(before, inside, ["v20", "v21"])
    assert near == {"v19", "v20", "v21"}
    assert len(whole.known) == count + 1  # v21 with v20 inside of it
    assert after.home["v5"] is whole.home["v5"]
