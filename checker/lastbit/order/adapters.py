"""Call a function with vectors of a format: numpy, torch on any device, or a file's own function.

A target is called with one vector or with a batch of them; what it is given are arrays or tensors
of the format, made from codes.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lastbit.errors import InputError, Problem, did_you_mean
from lastbit.formats import Format
from lastbit.round_array import Codes

LIBRARIES = ("numpy", "torch")
NATIVE = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "tf32": np.float32}
NAMED = {"bf16": "bfloat16", "e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2"}
NAMED |= {"e4m3fnuz": "float8_e4m3fnuz", "e5m2fnuz": "float8_e5m2fnuz"}


@dataclass(frozen=True)
class Layout:
    """How vectors are handed over.

    Attributes:
        library: whose arrays the function is given, `numpy` or `torch`.
        device: the device of torch tensors.
        axis: -1 when the elements of a vector lie side by side, 0 when the vectors of a batch do.
        columns: the columns of ones that a product has on its other side.
    """

    library: str = "numpy"
    device: str = "cpu"
    axis: int = -1
    columns: int = 1


@dataclass(frozen=True)
class Target:
    """A function that adds up vectors.

    Attributes:
        label: its name in reports.
        call: takes an array of vectors and says what the function returns for it; the shape is
            `[n]` for one vector alone, else `[rows, n]`, or `[n, rows]` for axis 0.
        layout: how vectors are handed over.
        batched: whether it may take several vectors at once.
    """

    label: str
    call: Callable[[Any], Any]
    layout: Layout = Layout()
    batched: bool = True

    def one(self, codes: Codes, fmt: Format) -> Any:
        """Return what the function gives for one vector."""
        return self.call(_arrays(codes, fmt, self.layout))

    def many(self, codes: Codes, fmt: Format) -> Any:
        """Return what the function gives for the rows of an array."""
        if self.layout.axis == 0:
            codes = np.ascontiguousarray(codes.T)
        return self.call(_arrays(codes, fmt, self.layout))


class NoNumberError(Exception):
    """A result that is no array of real numbers; the text says what it is."""


def numbers(result: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a function's result as binary64, which holds every value exactly.

    Raises:
        NoNumberError: it is something else than real numbers.
    """
    if hasattr(result, "detach"):  # a tensor of torch
        result = result.detach().cpu()
        if result.is_floating_point():
            result = result.double()
        result = result.numpy()
    found = np.asarray(result)
    if found.dtype.kind == "c":
        raise NoNumberError("complex numbers")
    if found.dtype.kind not in "biufV":  # extension types of ml_dtypes are of kind V
        if found.ndim:
            raise NoNumberError(f"an array of type {found.dtype}")
        name = type(result).__name__
        raise NoNumberError("None" if result is None else f"a result of type {name}")
    return found.astype(np.float64)


def require_format(fmt: Format, layout: Layout) -> None:
    """Refuse a format or a library that no array can be made of.

    Raises:
        InputError: the library or the format is not known, the library is not installed, it has no
            such device, or the columns are none.
    """
    if layout.library not in LIBRARIES:
        problem = f"unknown library {layout.library!r}"
        raise InputError([Problem(problem, did_you_mean(layout.library, LIBRARIES))])
    if fmt.short not in {*NATIVE, *NAMED}:
        allowed = ", ".join((*NATIVE, *NAMED))
        raise InputError([Problem(f"no array holds vectors of {fmt}", f"Allowed: {allowed}.")])
    if layout.columns < 1:
        raise InputError([Problem(f"columns is {layout.columns}", "Allowed: 1 and above.")])
    if layout.library == "torch":
        _require_device(layout.device)
    elif layout.device != "cpu":
        problem = f"device is {layout.device!r}, but arrays of numpy lie on the CPU"
        raise InputError([Problem(problem, "Take a function of torch, or `library` torch.")])


def _require_device(device: str) -> None:
    try:
        _torch().empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        said = str(error).strip().partition("\n")[0]
        problem = f"torch has no device {device!r} here: {said}"
        raise InputError([Problem(problem, "Allowed: cpu, and those that torch finds.")]) from None


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        problem = "torch is not installed"
        raise InputError([Problem(problem, "Install it: pip install 'lastbit[torch]'.")]) from None


def _arrays(codes: Codes, fmt: Format, layout: Layout) -> Any:
    if layout.library == "torch":
        torch = _torch()
        kind = getattr(torch, f"int{fmt.container}" if fmt.container > 8 else "uint8")
        name = NAMED.get(fmt.short) or f"float{fmt.container}"
        signed = codes.view(f"i{codes.itemsize}" if codes.itemsize > 1 else "u1").copy()
        return torch.from_numpy(signed).to(layout.device, kind).view(getattr(torch, name))
    if fmt.short in NATIVE:
        return codes.view(NATIVE[fmt.short])
    import ml_dtypes

    return codes.view(getattr(ml_dtypes, NAMED[fmt.short]))


def _sum(name: str) -> Callable[[Layout], Callable[[Any], Any]]:
    module, _, path = name.partition(".")

    def made(layout: Layout) -> Callable[[Any], Any]:
        function: Any = importlib.import_module(module)
        for part in path.split("."):
            function = getattr(function, part)
        return lambda x: function(x, axis=layout.axis if x.ndim > 1 else 0)

    return made


def _numpy_dot(layout: Layout) -> Callable[[Any], Any]:
    return lambda x: np.dot(x, np.ones(x.shape[-1], x.dtype))


def _numpy_product(layout: Layout) -> Callable[[Any], Any]:
    def product(x: Any) -> Any:
        rows = x.reshape(1, -1) if x.ndim == 1 else x
        return np.matmul(rows, np.ones((rows.shape[1], layout.columns), x.dtype))[:, 0]

    return product


def _torch_dot(layout: Layout) -> Callable[[Any], Any]:
    torch = _torch()
    return lambda x: torch.dot(x, torch.ones_like(x))


def _torch_product(layout: Layout) -> Callable[[Any], Any]:
    torch = _torch()

    def product(x: Any) -> Any:
        rows = x.reshape(1, -1) if x.ndim == 1 else x
        ones = torch.ones((rows.shape[1], layout.columns), dtype=x.dtype, device=x.device)
        return torch.mm(rows, ones)[:, 0]

    return product


def _torch_sum(layout: Layout) -> Callable[[Any], Any]:
    torch = _torch()
    return lambda x: torch.sum(x, dim=layout.axis if x.ndim > 1 else 0)


# Each name: the library whose arrays it takes, whether it takes several vectors, what makes it.
_NAMES: dict[str, tuple[str, bool, Callable[[Layout], Callable[[Any], Any]]]] = {
    "numpy.sum": ("numpy", True, _sum("numpy.sum")),
    "numpy.add.reduce": ("numpy", True, _sum("numpy.add.reduce")),
    "numpy.dot": ("numpy", True, _numpy_dot),
    "numpy.matmul": ("numpy", True, _numpy_product),
    "math.fsum": ("numpy", False, lambda layout: math.fsum),
    "torch.sum": ("torch", True, _torch_sum),
    "torch.dot": ("torch", False, _torch_dot),
    "torch.mm": ("torch", True, _torch_product),
    "torch.matmul": ("torch", True, _torch_product),
}
NAMES = tuple(_NAMES)
PRODUCTS = ("numpy.matmul", "torch.mm", "torch.matmul")


def named_target(text: str, layout: Layout) -> Target:
    """Return a library function by its name, or the function `file.py:name`.

    Raises:
        InputError: there is no such function.
    """
    if text in _NAMES:
        library, batched, made = _NAMES[text]
        layout = replace(layout, library=library)
        if library == "torch":
            _torch()
        if layout.columns != 1 and text not in PRODUCTS:
            problem = f"columns is {layout.columns}, but {text} multiplies no matrices"
            allowed = ", ".join(PRODUCTS)
            raise InputError([Problem(problem, f"Products of matrices are {allowed}.")])
        return Target(text, made(layout), layout, batched)
    if text.endswith(".py"):
        raise InputError([Problem(f"{text!r} names no function", f"Write {text}:NAME.")])
    if ":" in text or re.search(r"\.(py|toml|json)$", text):
        from lastbit.tracing.targets import load_targets

        return Target(text, load_targets(text)[0], layout)
    remedy = f"{did_you_mean(text, NAMES)} Or write FILE.py:NAME."
    raise InputError([Problem(f"{text!r} names no function", remedy)])
