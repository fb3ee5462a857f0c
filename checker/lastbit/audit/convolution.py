"""A convolution as a product: each output is a sum over a patch of the input.

    out[b, o, p] = sum over k of weight[o, k] * patches[b, k, p] + bias[o]

Only the exact value is read off this form; which order a library adds in does not follow from it.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from lastbit.audit.contraction import Arguments, Contraction, Operand

Tensor: TypeAlias = Any  # of torch, which is imported when it is needed

NAME: Final = "aten.convolution.default"


def patches_of(arguments: Arguments) -> tuple[Contraction, dict[str, Any]] | None:
    """Return a convolution as a product, with its operands by name; None where it is another one.

    Args:
        arguments: of one call of `aten.convolution`, by name.
    """
    import torch

    x, weight, bias = (arguments.get(name) for name in ("input", "weight", "bias"))
    if x is None or weight is None or x.ndim not in (3, 4) or weight.ndim != x.ndim:
        return None
    if arguments.get("transposed") or arguments.get("groups", 1) != 1:
        return None
    if not x.is_floating_point():
        return None
    kernel = _pair(weight.shape[2:], 1)
    step, gap = (_pair(arguments[name], 1) for name in ("stride", "dilation"))
    around = _pair(arguments["padding"], 0)
    wide = x.double()  # which holds every value
    wide = wide if wide.ndim == 4 else wide.unsqueeze(2)
    patches = torch.nn.functional.unfold(wide, kernel, gap, around, step)
    batch, terms, places = patches.shape
    outputs = weight.shape[0]
    operands = {
        "weight": weight.reshape(1, outputs, terms).expand(batch, outputs, terms),
        "patches": patches,
    }
    if bias is not None:
        operands["bias"] = bias.reshape(outputs, 1)
    order = (0, 1, 2)
    form = Contraction(
        Operand("weight", order, (batch, outputs, terms)),
        Operand("patches", order, (batch, terms, places)),
        (batch, outputs, places),
        terms,
        addend=None if bias is None else "bias",
    )
    return form, operands


def _pair(sizes: Any, missing: int) -> tuple[int, int]:
    """Return the sizes of two axes; of one axis, the first is missing."""
    given = [int(size) for size in sizes]
    return (given[0], given[1]) if len(given) == 2 else (missing, given[0])
