"""What may keep a promise that an operator breaks: other ways to run it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from lastbit.audit.calling import Call
from lastbit.audit.case import Case
from lastbit.audit.contraction import contraction_of
from lastbit.audit.taking import selected
from lastbit.audit.threads import number_of_threads, with_threads

Results: TypeAlias = tuple[Any, ...]

ATTENTION: Final = "aten._scaled_dot_product_"
BACKENDS: Final = {
    "math": "MATH",
    "efficient": "EFFICIENT_ATTENTION",
    "flash": "FLASH_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}
REDUCED: Final = {"torch.bfloat16": "bf16", "torch.float16": "fp16"}


class NotApplicableError(Exception):
    """A candidate that does not fit these arguments."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Another way to run an operator.

    Attributes:
        name: short (`fixed-batch`).
        text: what is to be done, one clause in the imperative.
        function: what is called in place of the operator; null: the operator itself.
        batch: rows of every call: the batch is cut into as many, and the last one padded; null:
            one call for all rows.
    """

    name: str
    text: str
    function: Callable[..., Any] | None = None
    batch: int | None = None

    def run(self, case: Case) -> list[Results]:
        """Return the results of each call that computes the whole batch."""
        if self.batch is None:
            return [case.run(None, self.function)]
        parts = [range(i, min(i + self.batch, case.size)) for i in range(0, case.size, self.batch)]
        return [case.run(self._padded(part), self.function) for part in parts]

    def row(
        self, case: Case, rows: Sequence[int], place: int, others: str | None = None
    ) -> Results:
        """Return the results for one row, by the call that computes it.

        Args:
            case: the operator.
            rows: of the batch, in the order in which they are computed.
            place: of the row among these.
            others: as in `Case.arguments`; the row is then the first.
        """
        part = list(rows)
        if self.batch is not None:
            start = place - place % self.batch
            part, place = self._padded(part[start : start + self.batch]), place - start
        results = case.run(part, self.function, others=others)
        found = []
        for one, axis in zip(results, case.layout.results, strict=False):
            if axis is not None:
                found.append(selected(one, axis, [place], len(part)).contiguous())
        return tuple(found)

    def _padded(self, part: Sequence[int]) -> list[int]:
        return [*part, *[part[-1]] * ((self.batch or 0) - len(part))]


def candidates(case: Case, kinds: Sequence[str], batches: Sequence[int]) -> Iterator[Candidate]:
    """Yield what may help, the plainest first.

    Args:
        case: the operator.
        kinds: what its results depend on: kinds of `lastbit.audit.records.Trial`.
        batches: sizes to which batches may be fixed.
    """
    by_rows = bool({"batch", "alone", "position", "others"} & {*kinds})
    if "repeats" in kinds:
        text = "call torch.use_deterministic_algorithms(True)"
        yield Candidate("deterministic-algorithms", text, _within(case, _deterministic))
    if by_rows or "repeats" in kinds:
        yield from _kernels(case)
        yield from _flags(case)
    if number_of_threads(case.device) > 1:
        text = "compute with one thread: torch.set_num_threads(1)"
        yield Candidate("one-thread", text, _within(case, partial(with_threads, 1)))
    if by_rows and case.separable:
        for size in batches:
            text = f"call it with batches of {size} rows always, the last one padded"
            yield Candidate("fixed-batch", text, batch=size)
        yield Candidate("rows-alone", "call it for each row by itself", batch=1)


def _kernels(case: Case) -> Iterator[Candidate]:
    """Yield reference kernels that stand for the operator, where one can run here."""
    from lastbit.kernels import replacement

    found = replacement(case.name)
    if found is None:
        return
    for kernel in found.on(case.device.partition(":")[0]):  # those made for the device first
        if kernel.deterministic:
            text = f"put the reference kernel {kernel.name} in its place, which has one schedule"
            yield Candidate(kernel.name, text, _taking(kernel.replaces[case.name]))


def _taking(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        returned = function(*args, **kwargs)
        if returned is None:
            raise NotApplicableError
        return returned

    return run


def _flags(case: Case) -> Iterator[Candidate]:
    """Yield what torch lets one choose."""
    if case.name.startswith(ATTENTION):
        for name, backend in BACKENDS.items():
            text = f"choose the {name} backend: torch.nn.attention.sdpa_kernel"
            yield Candidate(f"attention-{name}", text, partial(_attention, case, backend))
        return
    call = Call.of(case, None)
    form = contraction_of(case.name, call.named)
    if form is not None and form.right is None:
        return  # a sum: no library is asked
    if case.device == "cpu":
        text = "leave oneDNN out: torch.backends.mkldnn.flags(enabled=False)"
        yield Candidate("no-onednn", text, _within(case, _without_onednn))
        return
    if form is None:
        return
    formats = {str(value.dtype) for value in call.named.values() if _floats(value)}
    for name in sorted(formats & {*REDUCED}):
        flag = f"allow_{REDUCED[name]}_reduced_precision_reduction"
        text = f"keep torch from splitting sums: torch.backends.cuda.matmul.{flag} = (False, False)"
        yield Candidate("no-split-k", text, _within(case, partial(_without_split_k, flag)))
    for library in ("cublas", "cublaslt"):
        text = f"choose a library: torch.backends.cuda.preferred_blas_library({library!r})"
        yield Candidate(library, text, _within(case, partial(_blas, library)))


def _floats(value: Any) -> bool:
    return hasattr(value, "is_floating_point") and bool(value.is_floating_point())


def _within(
    case: Case, context: Callable[[], contextlib.AbstractContextManager[Any]]
) -> Callable[..., Any]:
    """Return the operator, called within a context."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with context():
            return case.function(*args, **kwargs)

    return run


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@contextlib.contextmanager
def _without_onednn() -> Iterator[None]:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what torch sets besides
        flags = torch.backends.mkldnn.flags(enabled=False)
        flags.__enter__()
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            flags.__exit__(None, None, None)


@contextlib.contextmanager
def _without_split_k(flag: str) -> Iterator[None]:
    import torch

    flags: Any = torch.backends.cuda.matmul
    before = getattr(flags, flag), getattr(flags, f"{flag}_split_k", True)
    try:
        setattr(flags, flag, (False, False))
    except TypeError:  # before torch 2.12 it is one boolean
        raise NotApplicableError from None
    try:
        yield
    finally:
        setattr(flags, flag, before)


@contextlib.contextmanager
def _blas(library: str) -> Iterator[None]:
    import torch

    before = torch.backends.cuda.preferred_blas_library()
    torch.backends.cuda.preferred_blas_library(library)
    try:
        yield
    finally:
        torch.backends.cuda.preferred_blas_library(before)


def _attention(case: Case, backend: str, *args: Any, **kwargs: Any) -> Any:
    """Return what torch's attention gives with one backend; a tuple, as the operator returns."""
    import torch

    given = Call(case, args, kwargs).named
    mask = given.get("attn_bias", given.get("attn_mask"))
    with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, backend)):
        out = torch.nn.functional.scaled_dot_product_attention(
            given["query"],
            given["key"],
            given["value"],
            attn_mask=mask,
            dropout_p=given.get("dropout_p", 0.0),
            is_causal=given.get("is_causal", False),
            scale=given.get("scale"),
        )
    return (out,)
