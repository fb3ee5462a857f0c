"""The exponential function of torch, with its declared bound."""

from __future__ import annotations

import torch

from lastbit.kernels import Library

# CUDA C++ Programming Guide, mathematical functions: expf is within 2 ulp over the full range. On
# processors torch calls SLEEF's u10 variant, within 1 ulp, or MKL's, within 1.
EXP = Library(ulp=2, call=torch.exp)
