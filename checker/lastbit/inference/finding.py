"""Infer what a kernel computes from the bits that it returns.

    r = lastbit.infer(reference, kernel, x=lastbit.bf16(8, 4096))
    assert r.found, r

The kernel is a black box: any callable on arrays of numpy or torch, or a file of what it returned.
The reference is a function in lastbit's operators. What fusions, compilers and libraries do to a
program is applied to the reference until its bits are the kernel's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lastbit.errors import InputError, Problem
from lastbit.formats import format_of
from lastbit.inference.allowance import Allowance
from lastbit.inference.kernel import Arrays, Kernel, library_of
from lastbit.inference.records import Inferred
from lastbit.inference.reference import Reference, reference_in_plan, reference_of
from lastbit.inference.search import DEPTH, EFFORT, Progress
from lastbit.inference.work import Inference
from lastbit.machines import machine_of
from lastbit.tracing.spec import Spec


def infer(
    reference: Callable[..., Any] | str | Reference,
    kernel: Callable[..., Any] | None = None,
    *,
    observed: Any = None,
    inputs: Mapping[str, Spec | str] | None = None,
    data: Any = None,
    sizes: Mapping[str, int] | None = None,
    arrays: str | None = None,
    device: str = "cpu",
    machine: str | None = None,
    depth: int = DEPTH,
    effort: int = EFFORT,
    special: bool = False,
    ulp: int | None = None,
    ulp_format: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **specs: Spec | str,
) -> Inferred:
    """Say which variant of a reference has a kernel's bits.

    Args:
        reference: a function of lastbit's values, or `PLAN.toml:NAME`.
        kernel: a callable on arrays, with the inputs of the reference by the same names or in the
            same order; None where `observed` is given.
        observed: what the kernel returned on `data`: a file, an array, or arrays by result.
        inputs: format and shape of each input by name, as `specs`.
        data: the inputs: a file, or arrays by name. Without it they are drawn.
        sizes: a number for each size symbol.
        arrays: whose arrays the kernel reads, `numpy` or `torch`; None: told from the kernel.
        device: where torch tensors lie.
        machine: the machine whose matrix unit may add products, such as `hopper`.
        depth: the most changes at a time, from 0 to 3; 3: as many as bring a variant nearer.
        effort: variants of two and of three changes that are tried.
        special: whether infinities, NaN, zeros and subnormals are among the inputs.
        ulp: how far functions such as exp may be off in the kernel's library; None: not at all.
        ulp_format: the format of those ulp.
        seed: selects every draw.
        progress: called with variants tried, variants in all, and what is tried.
        specs: format and shape of each input: `x=lastbit.bf16(8, 4096)`.

    Raises:
        InputError: the reference cannot be traced, or the kernel fails or returns something else.
    """
    if (kernel is None) == (observed is None):
        raise _error("one of a kernel and observed results is needed", "Give either.")
    if machine is not None:
        machine_of(machine)
    ref = _reference(reference, {**(inputs or {}), **specs}, sizes or {})
    called = None
    if kernel is not None:
        library = library_of(kernel, arrays)
        if library == "numpy" and device != "cpu":
            remedy = "Only torch's do: --arrays torch, or leave out --device."
            raise _error(f"numpy's arrays do not lie on {device!r}", remedy)
        called = Kernel(kernel, ref.formats, ref.results, library, device)
    work = Inference(
        ref,
        called,
        seed=seed,
        depth=depth,
        effort=effort,
        machine=machine,
        special=special,
        allowance=_allowance(ulp, ulp_format),
        progress=progress,
    )
    return work.run(data, observed)


def drawn_inputs(
    reference: Callable[..., Any] | str,
    *,
    inputs: Mapping[str, Spec | str] | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> tuple[Reference, Arrays]:
    """Return a reference, and codes of the inputs on which it is run unless others are given.

    Raises:
        InputError: the reference cannot be traced, or a size is missing.
    """
    ref = _reference(reference, inputs or {}, sizes or {})
    return ref, ref.drawn(seed)


def _reference(
    reference: Callable[..., Any] | str | Reference,
    specs: Mapping[str, Spec | str],
    sizes: Mapping[str, int],
) -> Reference:
    if isinstance(reference, Reference):
        return reference
    if isinstance(reference, str):
        if specs:
            raise _error("a plan states its own inputs", "Leave out the formats and shapes.")
        return reference_in_plan(reference, sizes)
    return reference_of(reference, specs, sizes)


def _allowance(ulp: int | None, fmt: str | None) -> Allowance | None:
    if ulp is None and fmt is None:
        return None
    if ulp is None or fmt is None:
        raise _error("an allowance has a number of ulp and their format", "Write --ulp 2 --as f32.")
    if type(ulp) is not int or ulp < 1:
        raise _error(f"an allowance of {ulp!r} ulp", "Allowed: 1 and above.")
    return Allowance(ulp, format_of(fmt))


def _error(message: str, remedy: str = "") -> InputError:
    return InputError([Problem(message, remedy)])
