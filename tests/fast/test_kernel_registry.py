"""Reference kernels are found by scanning, and stand for operators of torch.

Where all sums are exact, a kernel of a fixed schedule gives what the operator gives, whatever the
schedule of that is.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

from kernel_cases import cases  # noqa: E402

from lastbit import kernels  # noqa: E402
from lastbit.errors import InputError  # noqa: E402
from lastbit.kernels import (  # noqa: E402
    Kernel,
    KernelFileError,
    NoKernelsError,
    find_kernel,
    kernel_names,
    load_kernels,
    missing_kernels,
    replaceable,
    replacement,
)

FOLDER = Path(__file__).parents[2] / "reference_kernels"
TORCH = cases("torch")
SEED = 20261130


def test_every_file_holds_the_kernel_of_its_name() -> None:
    files = {path.stem for path in FOLDER.glob("[!_]*.py")}
    assert set(kernel_names()) == files == {*load_kernels(), *missing_kernels()}
    assert len(files) > 30
    assert all("triton" in name and lacks == "triton" for name, lacks in missing_kernels().items())
    for name, kernel in load_kernels().items():
        assert kernel.name == name
        assert kernel.cases


def test_nothing_imports_a_kernel_by_name() -> None:
    named = [f"reference_kernels.{name}" for name in kernel_names()]
    sources = [*FOLDER.glob("*.py"), *FOLDER.parent.glob("checker/**/*.py")]
    texts = {path.name: path.read_text(encoding="utf-8") for path in sources}
    assert len(texts) > 200
    assert [(file, word) for file, text in texts.items() for word in named if word in text] == []


def test_looking_for_kernels_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, lastbit, lastbit.kernels; assert lastbit.kernels.kernel_names();"
        "assert not {'torch', 'triton', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_kernel_is_named_with_its_neighbour() -> None:
    with pytest.raises(InputError) as caught:
        find_kernel("sum_torch_lane")
    expected = "unknown kernel 'sum_torch_lane'. Did you mean 'sum_torch_lanes'?"
    assert str(caught.value) == expected


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let the registry read what a test makes up."""
    kernels._read.cache_clear()
    yield monkeypatch
    kernels._read.cache_clear()


def _module(**contents: object) -> ModuleType:
    module = ModuleType("made_up")
    module.__dict__.update(contents)
    return module


def _importing(module: ModuleType | Exception) -> object:
    def import_module(name: str) -> ModuleType:
        if name == kernels.PACKAGE:
            return real(name)
        if isinstance(module, Exception):
            raise module
        return module

    real = kernels.importlib.import_module
    return import_module


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (_module(), "kernel file 'fma_torch': it has no KERNEL."),
        (
            _module(KERNEL=Kernel("other", "", print, str, (), "any")),
            "kernel file 'fma_torch': its kernel is called 'other'.",
        ),
        (
            ModuleNotFoundError("No module named 'scipy'", name="scipy"),
            "kernel file 'fma_torch': it cannot be imported (No module named 'scipy').",
        ),
    ],
)
def test_a_file_that_holds_no_kernel_is_refused(
    broken: pytest.MonkeyPatch, module: ModuleType | Exception, message: str
) -> None:
    broken.setattr(kernels.importlib, "import_module", _importing(module))
    with pytest.raises(KernelFileError) as caught:
        find_kernel("fma_torch")
    assert str(caught.value) == message


def test_a_package_that_is_not_installed_is_named(broken: pytest.MonkeyPatch) -> None:
    lacking = ModuleNotFoundError("No module named 'triton'", name="triton")
    broken.setattr(kernels.importlib, "import_module", _importing(lacking))
    assert set(missing_kernels().values()) == {"triton"}
    assert load_kernels() == {}
    with pytest.raises(InputError) as caught:
        find_kernel("fma_triton")
    assert str(caught.value) == "the kernel 'fma_triton' needs triton. Install triton."


def test_no_kernels_at_all_are_an_error(broken: pytest.MonkeyPatch) -> None:
    broken.setattr(kernels.pkgutil, "iter_modules", lambda paths: [])
    with pytest.raises(NoKernelsError) as caught:
        load_kernels()
    assert str(caught.value) == "no reference kernels found; the installation is broken."


# What stands for an operator of torch.

aten = torch.ops.aten


def whole_numbers(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Return small integers, whose sums and products are exact in any order."""
    generator = torch.Generator().manual_seed(SEED)
    return torch.randint(-3, 4, shape, generator=generator).to(dtype)


FLASH = "aten._scaled_dot_product_flash_attention_for_cpu.default"
EXACT = [
    ("aten.mm.default", (whole_numbers(5, 24), whole_numbers(24, 7)), {}),
    ("aten.mm.default", (whole_numbers(5, 24).float(), whole_numbers(7, 24).float().t()), {}),
    ("aten.addmm.default", (whole_numbers(7), whole_numbers(5, 24), whole_numbers(24, 7)), {}),
    ("aten.bmm.default", (whole_numbers(3, 5, 24), whole_numbers(3, 24, 7)), {}),
    ("aten.bmm.default", (whole_numbers(0, 5, 24), whole_numbers(0, 24, 7)), {}),
    ("aten.sum.dim_IntList", (whole_numbers(4, 5, 6), [1], True), {}),
    ("aten.sum.dim_IntList", (whole_numbers(4, 5, 6), [0, -1]), {}),
    ("aten.sum.dim_IntList", (whole_numbers(4, 5, 6), None), {}),
    ("aten.mean.dim", (whole_numbers(4, 8), [-1], True), {}),
    ("aten.cumsum.default", (whole_numbers(3, 50).float(), 1), {}),
    ("aten.cumsum.default", (whole_numbers(2, 50, 3).float(), -2), {}),
    ("aten.cumsum.default", (whole_numbers(2500).float(), 0), {}),
    # A mean square of 4, and so a root of 2.
    ("aten._fused_rms_norm.default", (torch.full((2, 3, 8), -2.0), [8], torch.ones(8), 0.0), {}),
    ("aten._fused_rms_norm.default", (torch.full((2, 3, 8), 2.0), [3, 8], None, 0.0), {}),
    # Equal numbers: each gets 1/8.
    ("aten._softmax.default", (torch.full((3, 8), 5.0), -1, False), {}),
    ("aten._softmax.default", (torch.full((8, 3), 5.0), 0, False), {}),
    ("aten._log_softmax.default", (torch.full((3, 1), 5.0), 1, False), {}),
    # Queries of zeros give every value the same weight.
    (FLASH, (torch.zeros(2, 3, 5, 16), *[whole_numbers(2, 3, 8, 16).float()] * 2), {}),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "args", "kwargs"), EXACT)
def test_where_all_sums_are_exact_a_replacement_gives_what_the_operator_gives(
    operator: str, args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    found = replacement(operator)
    assert found is not None
    assert found.kernel_for("cpu").device == "any"
    _, name, overload = operator.split(".")
    wanted = getattr(getattr(aten, name), overload)(*args, **kwargs)
    given = found(*args, **kwargs)
    pairs = zip(wanted, given, strict=True) if isinstance(wanted, tuple) else [(wanted, given)]
    for right, mine in pairs:
        assert mine.dtype == right.dtype
        assert mine.shape == right.shape
        assert torch.equal(mine, right)
        zero = operator == "aten._log_softmax.default" or not mine.numel()
        assert zero != bool(mine.count_nonzero())


def test_causal_attention_sees_no_later_key() -> None:
    found = replacement(FLASH)
    assert found is not None
    # Zeros as queries give each key that is seen the same weight; 1, 3, 5 have means 1, 2, 3.
    q, v = torch.zeros(1, 2, 70, 16), (torch.arange(70.0) * 2 + 1)[:, None].expand(1, 2, 70, 16)
    wanted = torch.arange(1.0, 71.0)[:, None].expand(1, 2, 70, 16)
    assert torch.equal(found(q, v, v, 0.0, True)[0], wanted)


def test_every_operator_that_can_be_replaced_is_tried_above() -> None:
    found = {key for name, _ in TORCH for key in find_kernel(name).replaces}
    assert found == {operator for operator, _, _ in EXACT}
    assert found <= {*replaceable()}
    assert replacement("aten.add.Tensor") is None


def test_a_replacement_keeps_a_row_whatever_the_batch() -> None:
    generator = torch.Generator().manual_seed(SEED)
    x, w = (torch.randn(n, generator=generator).bfloat16() for n in ((300, 64), (64, 40)))
    mm = replacement("aten.mm.default")
    assert mm is not None
    assert mm.kernels[-1].name == "matmul_torch_chain"
    assert torch.equal(mm(x, w)[:1], mm(x[:1], w))
    assert mm(x, w).unique().numel() > 1000


def test_arguments_that_no_kernel_takes_are_refused() -> None:
    mm = replacement("aten.mm.default")
    assert mm is not None
    with pytest.raises(InputError) as caught:
        mm(torch.ones(2, 2, dtype=torch.int64), torch.ones(2, 2, dtype=torch.int64))
    assert str(caught.value) == (
        "no reference kernel stands for aten.mm.default on cpu with these arguments. "
        "Leave the operator as it is."
    )
