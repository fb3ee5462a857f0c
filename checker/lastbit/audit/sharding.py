"""Spread the cases of an audit over processes: shard i of n takes every n-th case.

Each process runs the target itself and audits its own cases as they come by, so processes share
nothing and wait for nothing. Cases are numbered in the order in which the target first reaches
them; neighbours differ in cost, and taking every n-th spreads them evenly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lastbit.errors import InputError, Problem

SHARD = "{shard}"
_FORM = re.compile(r"([1-9]\d{0,6})/([1-9]\d{0,6})")


@dataclass(frozen=True, slots=True)
class Shard:
    """One part of several.

    Attributes:
        index: from 1.
        count: how many parts there are.
    """

    index: int = 1
    count: int = 1

    def takes(self, number: int) -> bool:
        """Say whether the case of this number, counted from 0, belongs to this part."""
        return number % self.count == self.index - 1

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def placed(path: str, shard: Shard, launched: bool) -> str:
    """Return the path of a file of one shard's own: `{shard}` in it becomes `2-of-8`.

    Args:
        path: as the user writes it.
        shard: whose file it is.
        launched: whether a launcher started the shards with one command line.

    Raises:
        InputError: all shards would write to this file.
    """
    if launched and shard.count > 1 and SHARD not in path:
        message = f"{shard.count} processes would write to one file, {path}"
        raise InputError([Problem(message, f"Put {SHARD} into its name, as in part-{SHARD}.json.")])
    return path.replace(SHARD, f"{shard.index}-of-{shard.count}")


def parse_shard(text: str) -> Shard:
    """Return the part that `i/n` names.

    Raises:
        InputError: it is not of that form, or there is no such part.
    """
    match = _FORM.fullmatch(text.strip())
    index, count = (int(part) for part in match.groups()) if match else (1, 0)
    if index > count:
        message = f"{text!r} names no shard"
        raise InputError([Problem(message, "Write i/n with i from 1 to n, as 2/8.")])
    return Shard(index, count)


def shard_of_environment(environment: Mapping[str, str]) -> Shard:
    """Return the part that a launcher gave to this process by RANK and WORLD_SIZE, else the whole.

    RANK counts from 0, as torchrun and most job arrays set it.

    Raises:
        InputError: only one of the two is set, or they are no numbers that fit together.
    """
    rank, world = environment.get("RANK"), environment.get("WORLD_SIZE")
    if rank is None and world is None:
        return Shard()
    try:
        shard = Shard(int(rank or "") + 1, int(world or ""))
    except ValueError:
        shard = Shard(1, 0)
    if not 1 <= shard.index <= shard.count:
        message = f"RANK is {rank!r} and WORLD_SIZE is {world!r}; together they name no shard"
        raise InputError([Problem(message, "Set both, 0 <= RANK < WORLD_SIZE, or give --shard.")])
    return shard
