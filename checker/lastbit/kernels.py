"""Find reference kernels: one in each file of `lastbit.reference_kernels`, by scanning it.

A kernel is a frozen value: what runs, and the program with the schedules that it executes, so that
`lastbit.kernel_runs` predicts its bits and holds them against those of a device. Files whose names
begin with an underscore hold no kernel. Reading the files imports torch, and Triton for some of
them; importing this module does not.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from lastbit.errors import InputError, LastbitError, Problem, did_you_mean

PACKAGE: Final = "lastbit.reference_kernels"
OPTIONAL: Final = ("torch", "triton")  # what a kernel may need, and a computer lack
Value: TypeAlias = int | float | str | bool


class NoKernelsError(LastbitError):
    """The installation holds no kernels."""

    def __init__(self) -> None:
        super().__init__("no reference kernels found; the installation is broken.")


class KernelFileError(LastbitError):
    """A file of reference kernels does not hold one.

    Attributes:
        file: the name of the module.
        reason: what is wrong with it.
    """

    def __init__(self, file: str, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(f"kernel file {file!r}: {reason}.")


@dataclass(frozen=True, slots=True)
class Case:
    """Sizes and parameters at which a kernel runs.

    Attributes:
        sizes: by symbol.
        format: of the operands.
        parameters: what `run` is given beside the tensors.
    """

    sizes: Mapping[str, int]
    format: str
    parameters: Mapping[str, Value] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """Return a size or a parameter."""
        return self.sizes[name] if name in self.sizes else self.parameters[name]

    def __str__(self) -> str:
        said = (*self.sizes.items(), *self.parameters.items())
        return ", ".join((self.format, *(f"{name}={value}" for name, value in said)))


@dataclass(frozen=True, slots=True)
class Library:
    """A function of a library that a kernel calls.

    Attributes:
        ulp: the declared bound on its distance from the correctly rounded value, in ulp of
            binary32.
        call: the function itself, on a binary32 tensor, as the kernel calls it.
    """

    ulp: int
    call: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that runs, and what it executes.

    Attributes:
        name: that of its file.
        computes: one line.
        run: the kernel, on the tensors of the program's inputs and the parameters of a case; it
            returns the program's results, in order.
        program: the text of the program that it executes, with the schedule of each sum.
        cases: at which it is compared with its prediction; the first is the usual one.
        device: `cuda`, or `any` for every device of torch.
        deterministic: whether every run gives the same bits.
        batch_invariant: whether a row does not depend on the number of rows, at each case.
        functions: the functions of libraries that take part; all else is decided by the program.
        positive: the inputs that are drawn positive.
        replaces: what stands for an operator of torch, by its name (`aten.mm.default`); None is
            returned where the arguments are none that the kernel takes.
    """

    name: str
    computes: str
    run: Callable[..., Any]
    program: Callable[[Case], str]
    cases: tuple[Case, ...]
    device: Literal["any", "cuda"]
    deterministic: bool = True
    batch_invariant: Callable[[Case], bool] = lambda case: True
    functions: Mapping[str, Library] = field(default_factory=dict)
    positive: frozenset[str] = frozenset()
    replaces: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def promises(self, case: Case) -> dict[str, bool]:
        """Return the promises at a case."""
        return {
            "deterministic": self.deterministic,
            "batch_invariant": self.deterministic and self.batch_invariant(case),
        }


def kernel_names() -> tuple[str, ...]:
    """Return the names of all kernels, sorted; nothing is imported but the package.

    Raises:
        NoKernelsError: there is none.
    """
    paths = importlib.import_module(PACKAGE).__path__
    names = (info.name for info in pkgutil.iter_modules(paths))
    found = tuple(sorted(name for name in names if not name.startswith("_")))
    if not found:
        raise NoKernelsError
    return found


def load_kernels() -> Mapping[str, Kernel]:
    """Return the kernels that this computer can load, by name.

    Those that need torch or Triton are left out where it is not installed; `missing_kernels` says
    which.

    Raises:
        NoKernelsError: there are no files of kernels.
        KernelFileError: a file holds no kernel.
    """
    return {name: kernel for name in kernel_names() if isinstance(kernel := _read(name), Kernel)}


def missing_kernels() -> Mapping[str, str]:
    """Return the kernels that this computer cannot load, each with the package that it lacks."""
    return {name: lacks for name in kernel_names() if isinstance(lacks := _read(name), str)}


def find_kernel(name: str) -> Kernel:
    """Return the kernel of a name.

    Raises:
        InputError: there is none, or it needs a package that is not installed.
        KernelFileError: its file holds no kernel.
    """
    names = kernel_names()
    if name not in names:
        problem = Problem(f"unknown kernel {name!r}", did_you_mean(name, names))
        raise InputError([problem])
    kernel = _read(name)
    if isinstance(kernel, str):
        problem = Problem(f"the kernel {name!r} needs {kernel}", f"Install {kernel}.")
        raise InputError([problem])
    return kernel


@lru_cache(maxsize=256)
def _read(name: str) -> Kernel | str:
    """Return the kernel of a file, or the package that it lacks."""
    try:
        module = importlib.import_module(f"{PACKAGE}.{name}")
    except ModuleNotFoundError as error:
        lacks = (error.name or "").partition(".")[0]
        if lacks in OPTIONAL:
            return lacks
        raise KernelFileError(name, f"it cannot be imported ({error})") from error
    kernel = getattr(module, "KERNEL", None)
    if not isinstance(kernel, Kernel):
        raise KernelFileError(name, "it has no KERNEL")
    if kernel.name != name:
        raise KernelFileError(name, f"its kernel is called {kernel.name!r}")
    return kernel


@dataclass(frozen=True, slots=True)
class Replacement:
    """Batch-invariant kernels of a fixed schedule that stand for an operator of torch.

    A call takes the arguments of the operator, runs the first kernel that takes them on their
    device, and returns what the operator would.

    Attributes:
        operator: such as `aten.mm.default`.
        kernels: those that can stand for it; the ones for one kind of device come first.
    """

    operator: str
    kernels: tuple[Kernel, ...]

    def kernel_for(self, device: str) -> Kernel | None:
        """Return the kernel that is asked first on a device such as `cuda`, or None."""
        return next(self.on(device), None)

    def on(self, device: str) -> Iterator[Kernel]:
        """Yield the kernels that run on a device such as `cuda`, in the order they are asked."""
        return (kernel for kernel in self.kernels if kernel.device in ("any", device))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the operator would.

        Raises:
            InputError: no kernel takes these arguments.
        """
        device = next((str(x.device.type) for x in _tensors((*args, *kwargs.values()))), "cpu")
        for kernel in self.on(device):
            result = kernel.replaces[self.operator](*args, **kwargs)
            if result is not None:
                return result
        message = f"no reference kernel stands for {self.operator} on {device} with these arguments"
        raise InputError([Problem(message, "Leave the operator as it is.")])


def _tensors(values: tuple[Any, ...]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _tensors(tuple(value))
        elif hasattr(value, "device") and hasattr(value, "dtype"):
            yield value


def replaceable() -> tuple[str, ...]:
    """Return the operators of torch for which a kernel can stand, sorted."""
    return tuple(sorted({name for kernel in load_kernels().values() for name in kernel.replaces}))


def replacement(operator: str) -> Replacement | None:
    """Return what can stand for an operator of torch, or None.

    Args:
        operator: its name, such as `aten.mm.default`.
    """
    kernels = [kernel for kernel in load_kernels().values() if operator in kernel.replaces]
    kernels.sort(key=lambda kernel: (kernel.device == "any", kernel.name))
    return Replacement(operator, tuple(kernels)) if kernels else None
