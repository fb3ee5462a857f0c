"""What the kernel for NVIDIA GPUs is told about a unit. Its bits: tests/slow, and tests/gpu."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lastbit
from lastbit.engine.cuda_chain import SOURCE, TILES, CompilerError, definitions, is_narrow
from lastbit.engine.product import Operand
from lastbit.formats import BF16
from lastbit.machines import UNITS, unit_of
from lastbit.predicting import MatmulSpec


def test_the_narrow_form_is_for_sums_of_32_bits() -> None:
    narrow = {u.name for u in UNITS if u.method == "aligned" and u.width < 64 and is_narrow(u)}
    assert narrow >= {"hopper/16", "hopper/32", "hopper/8", "ampere/8", "ada/16", "volta/4"}
    assert "blackwell/32" not in narrow  # 32 terms below 2^27


def test_the_kernel_uses_what_it_is_given() -> None:
    given = definitions(unit_of("hopper/32"), True, TILES[True])
    assert given[:5] == ("-DWIDTH=32", "-DF=13", "-DBITS=13", "-DFLOOR=-133", "-DNARROW=1")
    source = SOURCE.read_text(encoding="utf-8")
    for constant in given:
        name = constant.removeprefix("-D").partition("=")[0]
        assert re.search(rf"\b{name}\b", source.partition("constexpr")[2]), name


def test_without_its_compiler_torchs_operators_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from lastbit.engine import torch_product

    def missing(*given: object) -> None:
        raise CompilerError("No module named 'cuda'")

    rng = np.random.default_rng(1)
    a, b = (rng.integers(0x3F00, 0x4000, size).astype(np.uint16) for size in ((5, 40), (40, 6)))
    tape = MatmulSpec("hopper", "bf16", "bf16").tape(5, 40, 6)
    product = torch_product._Product(Operand(a, BF16), Operand(b, BF16), tape, "cpu")
    product.by_kernel = True
    monkeypatch.setattr(torch_product, "cuda_chain", missing)
    message = "the kernel for NVIDIA GPUs cannot be used, so torch's operators compute, slowly: No"
    with pytest.warns(RuntimeWarning, match=f"^{message} module named 'cuda'$"):
        got = product.run()
    assert got.view(np.uint32).tolist() == lastbit.predict_matmul(a, b, "hopper", "bf16").tolist()
    assert len(np.unique(got)) > 20
