"""Export two torch functions and compare the files, beside what torch itself computes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from lastbit.lint import judged_plans, prepared
from lastbit.plan_imports import plan_of_models
from lastbit.result import Result

DAY = date(2026, 1, 1)
Function = Callable[..., Any]


def saved(path: Path, function: Function, inputs: tuple[Any, ...]) -> str:
    """Write the graph of a function of tensors; return the file's name."""
    import torch

    class Module(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    torch.export.save(torch.export.export(Module(), inputs), path)
    return str(path)


def compared(folder: Path, before: Function, after: Function, inputs: tuple[Any, ...]) -> Result:
    """Return what a check of two functions finds."""
    first = saved(folder / "a.pt2", before, inputs)
    second = saved(folder / "b.pt2", after, inputs)
    return judged_plans([prepared(plan_of_models(first, second))], "check", DAY, 0)


def worst(result: Result) -> str:
    """Return the largest change of a result's steps; `none` where there is none."""
    order = ["none", "bitwise", "reassociation", "rounding", "math", "unknown"]
    return max((step.change for step in result.steps), key=order.index, default="none")


def torch_differs(before: Function, after: Function, inputs: tuple[Any, ...]) -> bool:
    """Return whether torch gives other bits for two functions of equal tensors."""
    import torch

    def run(function: Function) -> list[bytes]:
        found = function(*(x.clone() for x in inputs))
        many = found if isinstance(found, tuple | list) else (found,)
        return [bytes(x.detach().contiguous().flatten().view(torch.uint8).numpy()) for x in many]

    return run(before) != run(after)
