"""Layers as people write them, exported in both ways, against copies with one planted change.

A rounding that `.float()` drops, another `eps`, the scale of attention before the product in place
of after it, and the other form of GELU are each found, and named as what they are.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from paired import worst  # noqa: E402  needs torch

from lastbit.lint import judged_plans, lint_plans, prepared  # noqa: E402  after the check for torch
from lastbit.plan_imports import plan_of_models  # noqa: E402

pytestmark = pytest.mark.slow

F, nn = torch.nn.functional, torch.nn
HIDDEN, HEADS, ROWS = 32, 2, 4
BATCH = torch.export.Dim("batch", min=2, max=1024)
DAY = date(2026, 1, 1)


class RMSNorm(nn.Module):
    """The norm with its weight outside the cast."""

    def __init__(self, planted: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, HIDDEN))
        self.eps, self.planted = 1e-5 if planted == "eps" else 1e-6, planted

    def forward(self, x: Any) -> Any:
        """Compute the module."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        if self.planted == "float":
            return (self.weight.float() * wide).type_as(x)
        return self.weight * wide.type_as(x)


class Attention(nn.Module):
    """Attention written out, with an additive mask."""

    def __init__(self, planted: str) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.planted, self.scale = planted, 20**-0.5  # no power of two: it rounds

    def forward(self, x: Any) -> Any:
        """Compute the module."""
        heads = (x.shape[0], x.shape[1], HEADS, -1)
        q, k, v = (one(x).view(heads).transpose(1, 2) for one in (self.q, self.k, self.v))
        if self.planted == "scale":
            scores = torch.matmul(q * self.scale, k.transpose(2, 3))
        else:
            scores = torch.matmul(q, k.transpose(2, 3)) * self.scale
        least = torch.finfo(x.dtype).min
        scores = scores + torch.full((x.shape[1], x.shape[1]), least, dtype=x.dtype).triu(1)
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
        return self.o(torch.matmul(weights, v).transpose(1, 2).flatten(2))


class Llama(nn.Module):
    """Attention and SwiGLU, each behind an RMSNorm."""

    def __init__(self, planted: str) -> None:
        super().__init__()
        self.norm, self.inner_norm, self.planted = RMSNorm(planted), RMSNorm(""), planted
        self.attention = Attention(planted)
        self.gate, self.up, self.down = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))

    def forward(self, x: Any) -> Any:
        """Compute the module."""
        mixed = x + self.attention(self.norm(x))
        h = self.inner_norm(mixed)
        return (x if self.planted == "residual" else mixed) + self.down(
            F.silu(self.gate(h)) * self.up(h)
        )


class GPT2(nn.Module):
    """Attention and a GELU, each behind a LayerNorm."""

    def __init__(self, planted: str) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(HIDDEN, 1e-6 if planted == "eps" else 1e-5)
        self.ln_2, self.attention = nn.LayerNorm(HIDDEN), Attention(planted)
        self.fc, self.proj, self.drop = (
            nn.Linear(HIDDEN, 2 * HIDDEN),
            nn.Linear(2 * HIDDEN, HIDDEN),
            nn.Dropout(0.1),
        )
        self.how = "none" if planted == "gelu" else "tanh"

    def forward(self, x: Any) -> Any:
        """Compute the module."""
        x = x + self.drop(self.attention(self.ln_1(x)))
        return x + self.drop(self.proj(F.gelu(self.fc(self.ln_2(x)), approximate=self.how)))


class ResNet(nn.Module):
    """Two convolutions, each with the statistics of its batch norm kept: variances are inputs."""

    shape = (2, 4, 6, 6)

    def __init__(self, planted: str) -> None:
        super().__init__()
        self.c1, self.c2 = (nn.Conv2d(4, 4, 3, padding=1, bias=False) for _ in range(2))
        self.b1, self.b2 = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.planted = planted

    def forward(self, x: Any) -> Any:
        """Compute the module."""
        h = self.b2(self.c2(F.relu(self.b1(self.c1(x)))))
        if self.planted == "float":
            return F.relu(h.float() + x.float()).to(x.dtype)
        return F.relu(h) + x if self.planted == "residual" else F.relu(h + x)


MODELS = {"llama": Llama, "gpt2": GPT2, "resnet": ResNet}
EXPECTED = [
    ("llama", "", "bfloat16", "none"),
    ("llama", "float", "bfloat16", "rounding"),
    ("llama", "float", "float16", "rounding"),
    ("llama", "float", "float32", "none"),  # every cast is one of f32 to f32
    ("llama", "eps", "bfloat16", "math"),
    ("llama", "scale", "bfloat16", "rounding"),
    ("llama", "scale", "float32", "rounding"),
    ("llama", "residual", "bfloat16", "math"),
    ("gpt2", "", "float16", "none"),
    ("gpt2", "scale", "float16", "rounding"),
    ("gpt2", "gelu", "float16", "math"),
    ("gpt2", "gelu", "float32", "math"),
    ("resnet", "float", "bfloat16", "bitwise"),  # f32 has more than twice the digits of bf16
    ("resnet", "residual", "bfloat16", "math"),
]


def exported(path: Path, name: str, planted: str, dtype: str, strict: bool) -> str:
    torch.manual_seed(0)
    module = MODELS[name](planted).to(getattr(torch, dtype)).eval()
    shape = getattr(MODELS[name], "shape", (2, ROWS, HIDDEN))
    x = torch.randn(*shape).to(getattr(torch, dtype))
    with torch.no_grad():
        program = torch.export.export(module, (x,), dynamic_shapes=({0: BATCH},), strict=strict)
    torch.export.save(program, path)
    return str(path)


@pytest.mark.parametrize(("name", "planted", "dtype", "change"), EXPECTED)
def test_a_planted_change_is_found_for_what_it_is(
    name: str, planted: str, dtype: str, change: str, tmp_path: Path
) -> None:
    strict = planted in ("", "float")  # both ways of export give these graphs
    before = exported(tmp_path / "a.pt2", name, "", dtype, strict)
    after = exported(tmp_path / "b.pt2", name, planted, dtype, strict)
    found = judged_plans([prepared(plan_of_models(before, after))], "check", DAY, 0)
    assert worst(found) == change


@pytest.mark.parametrize("name", MODELS)
def test_every_operator_of_a_model_is_known(name: str, tmp_path: Path) -> None:
    found = lint_plans([exported(tmp_path / "a.pt2", name, "", "bfloat16", False)], today=DAY)
    assert not [one for one in found.findings if one.code == "FUS190" or "opaque" in one.message]
    assert found.exit_code == 0
