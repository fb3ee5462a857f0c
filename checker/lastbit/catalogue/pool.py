"""Check many rules, several at a time where there are several cores."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence

from lastbit.catalogue.check import check_rule
from lastbit.catalogue.records import Checked
from lastbit.forking import can_fork, forked_pool
from lastbit.rule import Rewrite

FEW_RULES = 3  # rules that are not worth another process

Progress = Callable[[int, int, str], None]


def check_rules(
    rules: Sequence[Rewrite],
    seed: int = 0,
    progress: Progress | None = None,
    processes: int | None = None,
) -> list[Checked]:
    """Return what the check of each rule finds, in their order.

    Args:
        rules: the rules.
        seed: selects trials and draws.
        progress: called with rules done, rules in all, and the next one's code.
        processes: processes at work; None: one for each core.
    """
    done: list[Checked] = []
    for checked in _checked(rules, seed, processes or len(os.sched_getaffinity(0))):
        done.append(checked)
        if progress is not None:
            following = rules[len(done)].code if len(done) < len(rules) else ""
            progress(len(done), len(rules), following)
    return done


def _checked(rules: Sequence[Rewrite], seed: int, processes: int) -> Iterator[Checked]:
    workers = min(processes, len(rules))
    if workers < 2 or len(rules) < FEW_RULES or not can_fork():
        yield from (check_rule(rule, seed) for rule in rules)
        return
    _forked[:] = [rules, seed]
    with forked_pool(workers) as pool:
        yield from pool.imap(_check_forked, range(len(rules)))


# Rules hold functions, which no other process could be sent; it inherits them.
_forked: list[object] = []


def _check_forked(number: int) -> Checked:
    rules, seed = _forked
    assert isinstance(rules, Sequence)
    assert isinstance(seed, int)
    try:
        return check_rule(rules[number], seed)
    except Exception:
        # Not every exception survives the way back; its text does.
        raise RuntimeError(traceback.format_exc()) from None
