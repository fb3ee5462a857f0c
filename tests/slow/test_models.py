"""Whole models are imported: which operators stay opaque, what is computed, how long it takes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from exported import imported, interpreted, user_inputs  # noqa: E402  needs torch

pytestmark = pytest.mark.slow

F, nn = torch.nn.functional, torch.nn
MODELS = Path(__file__).parents[2] / "examples" / "models"


class Bert(nn.Module):
    """Embeddings and one encoder layer, in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(8, 32)
        self.norm = nn.LayerNorm(32, eps=1e-12)
        self.qkv = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.dense, self.inner, self.outer = nn.Linear(32, 32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.drop = nn.Dropout(0.1)

    def forward(self, ids: Any, mask: Any) -> Any:
        """Compute the module."""
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        x = self.drop(self.norm(x))
        q, k, v = (f(x).view(*ids.shape, 4, 8).transpose(1, 2) for f in self.qkv)
        scores = torch.matmul(q, k.transpose(-1, -2)) / 8**0.5
        scores = scores + (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        mixed = torch.matmul(self.drop(F.softmax(scores, dim=-1)), v)
        x = self.norm(x + self.dense(mixed.transpose(1, 2).reshape(x.shape)))
        return torch.tanh(self.norm(x + self.outer(F.gelu(self.inner(x))))[:, 0])


class Vit(nn.Module):
    """Patches of an image, a class token, and one encoder layer of torch's own."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        self.places = nn.Parameter(torch.randn(1, 17, 32))
        self.ln_1, self.ln_2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.mixed = nn.MultiheadAttention(32, 4, batch_first=True)
        self.inner, self.outer = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, image: Any) -> Any:
        """Compute the module."""
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), dim=1) + self.places
        y = self.ln_1(x)
        x = x + self.mixed(y, y, y, need_weights=False)[0]
        return (x + self.outer(F.gelu(self.inner(self.ln_2(x)))))[:, 0]


class Residual(nn.Module):
    """The beginning of a ResNet: a strided convolution, a pool, a block with a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.bn = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
        self.a, self.b = (nn.Conv2d(8, 8, 3, 1, 1, bias=False) for _ in range(2))
        self.bn_a, self.bn_b = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        """Compute the module."""
        x = F.max_pool2d(F.relu(self.bn(self.first(x))), 3, 2, 1)
        y = F.relu(self.bn_a(self.a(x)))
        x = F.relu(self.bn_b(self.b(y)) + x)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class Gemma(nn.Module):
    """A scaled embedding, a norm with 1 + weight, GeGLU, and soft-capped scores."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32) / 8)
        self.gate, self.up, self.down = nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Any) -> Any:
        """Compute the module."""
        x = x * torch.tensor(32**0.5, dtype=x.dtype)
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        y = (wide * (1.0 + self.weight.float())).type_as(x)
        y = x + self.down(F.gelu(self.gate(y), approximate="tanh") * self.up(y))
        return torch.tanh(torch.matmul(y, y.transpose(-1, -2)) / 30.0) * 30.0


@pytest.mark.parametrize(
    ("build", "inputs", "opaque"),
    [
        (Bert, (torch.ones(2, 8, dtype=torch.long), torch.ones(2, 8)), {"aten.embedding"}),
        (Vit, (torch.randn(2, 3, 16, 16),), set()),
        (Residual, (torch.randn(2, 3, 16, 16),), set()),
        (Gemma, (torch.randn(2, 8, 32),), set()),
    ],
)
def test_the_operators_of_known_models_are_read(
    build: Any, inputs: Any, opaque: set[str], tmp_path: Path
) -> None:
    with torch.no_grad():
        model = imported(tmp_path, build().eval(), inputs)
    assert {one.operator for one in model.opaque} == opaque


@pytest.mark.parametrize("build", [Vit, Residual, Gemma])
def test_an_imported_model_computes_what_torch_does(build: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = build().eval()
    image = build is not Gemma
    x = torch.randn(2, 3, 16, 16) if image else torch.randn(2, 8, 32)
    with torch.no_grad():
        model = imported(tmp_path, module, (x,))
        wanted = module(x).double().numpy()
        state = {**module.state_dict(), "lifted_tensor_0": torch.tensor(32**0.5)}
    given = {name: state[key].double().numpy() for name, key in model.weights.items()}
    given |= {user_inputs(model)[0]: x.double().numpy()}
    (got,) = interpreted(model, given)
    # Orders of float32 sums differ: 2^-16 of the largest result, where a wrong operator is far off.
    assert abs(got - wanted).max() <= abs(wanted).max() * 2.0**-16


def test_36_layers_are_linted_in_seconds_without_torch(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    script = [sys.executable, str(MODELS / "qwen3_layer.py"), str(path), "--layers", "36"]
    subprocess.run(script, check=True, capture_output=True)
    code = (
        "import sys; from lastbit import cli; code = cli.run(['lint', sys.argv[1]]); "
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True
    )
    assert "2592 of 2592 values are read" in done.stdout
    assert time.monotonic() - start < 10
