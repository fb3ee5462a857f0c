"""Small programs that are audited, and what of an audit is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch._dynamo  # by which a dispatch mode is entered
from torch import Tensor

from lastbit.audit.auditing import Hooks
from lastbit.audit.records import Audit
from lastbit.audit.running import Options, audit
from lastbit.errors import InputError

SPLITS_FROM = 6  # rows from which `split_sum` adds in four pieces
SMALL = Options(sizes=(1, 2, 5, 8), repeats=3, threads=(1,))


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Return normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def in_order(x: Tensor) -> Tensor:
    """Return the sum of each row, one element after the other."""
    total = torch.zeros_like(x[:, 0])
    for column in x.unbind(1):
        total = total + column
    return total


@torch.library.custom_op("audited::split_sum", mutates_args=())
def split_sum(x: Tensor) -> Tensor:
    """Return the sum of each row; in four pieces where there are many rows."""
    if x.shape[0] < SPLITS_FROM:
        return in_order(x)
    return in_order(torch.stack([in_order(part) for part in x.chunk(4, 1)], 1))


def audited(
    function: Callable[..., Any],
    *inputs: Any,
    options: Options = SMALL,
    hooks: Hooks | None = None,
) -> Audit:
    """Audit a function or module with these inputs."""
    function.inputs = inputs  # type: ignore[attr-defined]
    return audit("target", function, options, hooks)


def refusal(function: Callable[..., Any], *inputs: Any, options: Options = SMALL) -> str:
    """Return why an audit is refused."""
    with pytest.raises(InputError) as caught:
        audited(function, *inputs, options=options)
    return str(caught.value)


def codes(found: Audit) -> Mapping[str, tuple[str, ...]]:
    """Return the codes of each operator that breaks something."""
    return {case.operator: case.codes for case in found.cases if case.codes}


def gaps(found: Audit) -> Mapping[str, tuple[str, ...]]:
    """Return what was not tried, by operator."""
    return {case.operator: case.gaps for case in found.cases if case.gaps}
