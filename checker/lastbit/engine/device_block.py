"""Operands on a device of torch: the numbers of `lastbit.engine.operands`, made there."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from lastbit.engine.operands import (
    BIAS,
    NO_EXPONENT,
    SPREAD,
    Codes,
    Extent,
    extent_of_fields,
    small_values,
)
from lastbit.formats import BF16, F16, Format

Tensor: TypeAlias = Any  # of torch


@dataclass
class DeviceBlock:
    """The left operand, or the right one.

    Attributes:
        codes: their bits as signed integers, with K first, on a device.
        format: their format, of at most 24 digits.
    """

    codes: Tensor
    format: Format

    @classmethod
    def of(cls, codes: Codes, fmt: Format, device: Any, transposed: bool) -> DeviceBlock:
        """Return codes on a device, turned over if they have K last."""
        torch = importlib.import_module("torch")
        signed = np.ascontiguousarray(codes).view(f"i{codes.itemsize}")
        tensor = torch.from_numpy(signed if signed.flags.writeable else signed.copy()).to(device)
        return cls(tensor.t().contiguous() if transposed else tensor, fmt)

    @cached_property
    def singles(self) -> Tensor:
        """The values in binary32."""
        torch = importlib.import_module("torch")
        match self.format.short:
            case BF16.short:
                return (self.codes.to(torch.int32) << 16).view(torch.float32)
            case F16.short:
                return self.codes.view(torch.float16).to(torch.float32)
        if self.codes.dtype == torch.int32:
            return self.codes.view(torch.float32)
        values = np.zeros(256, np.float32)
        values[: 1 << self.format.bits] = small_values(self.format)
        places = self.codes.reshape(-1).to(torch.int32) & 0xFF
        table = torch.from_numpy(values).to(self.codes.device)
        return table.index_select(0, places).reshape(self.codes.shape)

    @property
    def values(self) -> Tensor:
        """The values in binary64."""
        return self.singles.double()

    @property
    def fields(self) -> Tensor:
        """The exponents plus 127, as `Block.fields`, in 32 bits."""
        torch = importlib.import_module("torch")
        words = self.singles.view(torch.int32) & 0x7FFFFFFF
        fields = (words >> 23).clamp_(min=self.format.emin + BIAS)
        return fields.masked_fill_(words == 0, 0)

    @property
    def exponents(self) -> Tensor:
        """The exponents; `NO_EXPONENT` for a zero."""
        fields = self.fields
        return (fields - BIAS).masked_fill_(fields == 0, NO_EXPONENT)

    @cached_property
    def extent(self) -> Extent:
        """The range of the exponents."""
        fields = self.fields
        if not fields.numel():
            return extent_of_fields(0, 0)
        return extent_of_fields(
            int(fields.masked_fill(fields == 0, 2 * BIAS + 2).min()), int(fields.max())
        )

    @property
    def is_narrow(self) -> bool:
        """Whether all elements are finite, with exponents near one another."""
        extent = self.extent
        return extent.is_finite and extent.most - extent.least <= SPREAD

    @property
    def scaled(self) -> Tensor:
        """The values times 2^-e in binary32, e the largest exponent, where they are narrow."""
        return (self.values * 2.0**-self.extent.most).float()
