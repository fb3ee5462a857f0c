"""Bits of tensors, and how far apart two results are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lastbit.audit.records import Distance

MOST_MEASURED = 2**20  # elements whose distance is taken

SHORT = {
    "bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64",
    "float8_e4m3fn": "e4m3fn", "float8_e5m2": "e5m2", "float8_e4m3fnuz": "e4m3fnuz",
    "float8_e5m2fnuz": "e5m2fnuz", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
    "uint8": "u8", "bool": "bool",
}  # fmt: skip
MEASURED = {"bf16", "f16", "f32", "f64", "e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"}


class UnreadableError(ValueError):
    """A result whose bits cannot be compared: sparse, quantized, without storage.

    Attributes:
        why: what it is.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


def short_format(tensor: Any) -> str:
    """Return the short name of a tensor's format."""
    name = str(tensor.dtype).removeprefix("torch.")
    return SHORT.get(name, name)


def plain(tensor: Any) -> Any:
    """Return the bytes of a tensor as a tensor, in row-major order.

    Raises:
        UnreadableError: it has none.
    """
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized:
        layout = "quantized" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        raise UnreadableError(f"a result is {layout}, and its bits are not compared")
    dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
    # Of an axis of one place any stride may be left over.
    return dense.as_strided((dense.numel(),), (1,)).view(torch.uint8)


def same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Return whether two results have the same shapes, formats and bits."""
    import torch

    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype or not torch.equal(plain(x), plain(y)):
            return False
    return True


def unnumbered(arguments: Iterable[Any]) -> bool:
    """Return whether no tensor among some arguments holds an element, though one is given."""
    tensors = [one for one in arguments if hasattr(one, "numel")]
    return bool(tensors) and not any(one.numel() for one in tensors)


def constant(results: Sequence[Any]) -> bool:
    """Return whether every floating-point result of several elements is one number everywhere."""
    floats = [one for one in results if one.is_floating_point() and one.numel() > 1]
    each = [plain(one).reshape(one.numel(), -1) for one in floats]
    return bool(each) and all(bool((one == one[0]).all()) for one in each)


class Different:
    """The different ones among some results, numbered in the order in which they came."""

    def __init__(self) -> None:
        self.kept: list[tuple[Any, ...]] = []

    def number(self, results: Sequence[Any]) -> int:
        """Return the number of a result; a new one is kept, away from the device."""
        for number, one in enumerate(self.kept):
            if same(one, self._near(results, number)):
                return number
        first = not self.kept
        self.kept.append(tuple(x.detach().clone() if first else x.detach().cpu() for x in results))
        return len(self.kept) - 1

    def _near(self, results: Sequence[Any], number: int) -> Sequence[Any]:
        """Return results where the kept one lies: the first stays on its device."""
        return results if number == 0 else tuple(one.cpu() for one in results)

    def distance(self) -> Distance | None:
        """Return how far the first is from the others; None where there is one."""
        found = [distance(self.kept[0], one) for one in self.kept[1:]]
        return greatest(found)


def greatest(found: Sequence[Distance]) -> Distance | None:
    """Return the figures of the worst of some distances, each for itself."""
    if not found:
        return None
    most = max(found, key=lambda d: d.differing)
    ulps = [d.max_ulp for d in found if d.max_ulp is not None]
    scaled = [d.max_ulp_at_scale for d in found if d.max_ulp_at_scale is not None]
    return Distance(
        most.format, most.elements, most.differing, max(ulps, default=None),
        max(scaled, default=None),
    )  # fmt: skip


def distance(a: Sequence[Any], b: Sequence[Any]) -> Distance:
    """Return how far apart two results are, in the tensor where most elements differ."""
    if len(a) != len(b) or any(x.shape != y.shape for x, y in zip(a, b, strict=True)):
        return Distance("other shapes", 0, 0, None, None)
    each = [_between(x, y) for x, y in zip(a, b, strict=True)]
    return max(each, key=lambda d: (d.differing, d.elements))


def _between(a: Any, b: Any) -> Distance:
    import numpy as np

    name = short_format(a)
    x, y = plain(a).cpu().numpy(), plain(b).cpu().numpy()
    size = a.element_size()
    other = (x.reshape(-1, size) != y.reshape(-1, size)).any(axis=1) if a.numel() else x != y
    differing = int(np.count_nonzero(other))
    if not differing or name not in MEASURED:
        return Distance(name, a.numel(), differing, None, None)
    u, v = (_numbers(one, name) for one in (a, b))
    finite = np.isfinite(u) & np.isfinite(v)
    scale = float(max(np.abs(u[finite]).max(initial=0), np.abs(v[finite]).max(initial=0)))
    chosen = np.flatnonzero(other & finite)[:MOST_MEASURED]
    return Distance(name, a.numel(), differing, *_ulps(u[chosen], v[chosen], scale, name))


def _numbers(tensor: Any, name: str) -> Any:
    import torch

    wide = torch.float64 if name == "f64" else torch.float32
    return tensor.detach().cpu().to(wide).contiguous().reshape(-1).numpy()


def _ulps(u: Any, v: Any, scale: float, name: str) -> tuple[int | None, float | None]:
    import numpy as np

    from lastbit.formats import format_of
    from lastbit.ulp_array import ulp_distance_array
    from lastbit.ulps import ulp

    if not len(u):
        return None, None
    fmt = format_of(name)
    most = int(ulp_distance_array(u, v, fmt).ulps.max())
    widest = float(np.abs(u.astype(np.float64) - v.astype(np.float64)).max())
    return most, widest / float(ulp(scale, fmt))
