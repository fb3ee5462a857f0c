"""The whole audit: survey the target, audit its operators in one more run, judge.

The target is run as given, twice to see which axes count rows, once while its operators are
audited, and then by itself for the results as a whole.
"""

from __future__ import annotations

import contextlib
import inspect
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

from lastbit import __version__
from lastbit.audit.auditing import Auditor, Hooks
from lastbit.audit.bits import same
from lastbit.audit.ending import ended, longest
from lastbit.audit.filling import Program, program
from lastbit.audit.judging import BATCH, OTHERS, POSITION, REPEATS, WORDS, decided, findings_of
from lastbit.audit.recording import watching
from lastbit.audit.records import Audit, CaseRecord, Whole, in_order
from lastbit.audit.sources import SOURCE, source_of
from lastbit.audit.surveying import Survey, surveyed
from lastbit.audit.trials import Asked, Clock
from lastbit.audit.whole import result_axes, tensors_of, tried_whole, with_reason
from lastbit.codec import to_plain
from lastbit.errors import InputError, Problem
from lastbit.importers.torch_calls import load_torch, resolve
from lastbit.records import Location
from lastbit.report.words import plural
from lastbit.result import Finding
from lastbit.tracing.calls import Side

SIZES = {"cpu": (1, 2, 3, 4, 8, 16, 32), "cuda": (1, 2, 3, 4, 8, 16, 32, 64, 128, 256)}
SWEEP = {"cpu": 256, "cuda": 4096}
# Codes of operators that explain what the target does as a whole.
EXPLAINS = {REPEATS: {REPEATS}, BATCH: {BATCH, OTHERS, POSITION, REPEATS}}
OTHERS_SURVEYED = (2, 3, 4, 5)  # rows beside the largest batch, until one of them runs
FOR_WHOLE = 0.2  # of the time, for the target as a whole


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asks for.

    Attributes:
        sizes: batch sizes; empty: those of the device.
        axes: which axes of the inputs count rows, as the user writes them.
        repeats: how often equal calls are made.
        threads: numbers of threads, the first for all other trials; empty: as they are.
        seed: of torch's generators and of drawn inputs.
        device: `cpu` or `cuda`.
        compiled: whether the target is tried compiled as well.
        seconds: the time limit; None: as long as it takes.
        scan: whether to look for the sizes at which bits change, beyond those named.
        shard: which part of the cases is audited, as a text, or null.
    """

    sizes: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()
    repeats: int = 20
    threads: tuple[int, ...] = ()
    seed: int = 0
    device: str = "cpu"
    compiled: bool = False
    seconds: float | None = None
    scan: bool = True
    shard: str | None = None


def asked_of(label: str, options: Options, remedies: bool) -> dict[str, Any]:
    """Return what decides the results of cases, for a journal: JSON values."""
    facts: dict[str, Any] = to_plain(replace(options, seconds=None))
    with_remedies = {"target": label, "remedies": remedies, SOURCE: source_of(label)}
    return with_remedies | facts | {"environment": environment(options.seed, options.device)}


def sweep_of(device: str) -> tuple[int, ...]:
    """Return the batch sizes of a sweep: powers of two."""
    return tuple(2**n for n in range(SWEEP[device].bit_length()))


def audit(label: str, target: Any, options: Options, hooks: Hooks | None = None) -> Audit:
    """Audit a target.

    Args:
        label: as the user named it.
        target: a function of tensors, a module, or a function that builds one.
        options: what is asked.
        hooks: what is told of the audit, and what it leaves out.

    Raises:
        InputError: the target cannot be run, or its batch is not found.
    """
    torch = load_torch()
    hooks = hooks or Hooks()
    clock = Clock(options.seconds)
    if options.device == "cuda" and not torch.cuda.is_available():
        problem = Problem("torch finds no CUDA device", "Leave --device out, or use a GPU host.")
        raise InputError([problem])
    kept = torch.get_num_threads(), torch.get_rng_state()
    asked = _asked(options, kept[0])
    source = source_of(label)  # before a run, which may take long and may import more
    torch.set_num_threads(asked.threads[0])
    try:
        given, most = getattr(target, "inputs", None), longest(options.seconds)
        with ended(label, most):
            inputs = _asked_inputs(label, given, options.seed)
            resolved = resolve(label, target, inputs, options.seed)
        found = program(resolved, given, options.seed, options.device, options.axes, most)
        result = _audited(label, target, found, asked, options, hooks, clock)
        facts = dict(result.environment) | ({SOURCE: source} if source else {})
        return replace(result, environment=facts)
    finally:
        torch.set_num_threads(kept[0])
        torch.set_rng_state(kept[1])


def _asked_inputs(label: str, given: Any, seed: int) -> Any:
    """Return two rows of inputs that are made only for a number of rows; None: as they are."""
    parameter = inspect.signature(given).parameters.get("batch") if callable(given) else None
    if parameter is None or parameter.default is not parameter.empty:
        return None
    load_torch().manual_seed(seed)
    return Side(f"{label}.inputs", given).run(given, batch=2)


def _asked(options: Options, threads: int) -> Asked:
    sizes = tuple(sorted({*(options.sizes or SIZES[options.device])}))
    return Asked(sizes, options.repeats, options.threads or (threads,), options.scan)


def _audited(
    label: str,
    target: Any,
    found: Program,
    asked: Asked,
    options: Options,
    hooks: Hooks,
    clock: Clock,
) -> Audit:
    size = asked.sizes[-1]
    if found.made is not None:
        found.rows = size
    large, returned = surveyed(found, size)
    other, (small, fewer) = _other_survey(found, size, large)
    left = clock.left()
    inner = Clock(None if left is None else left * (1 - FOR_WHOLE))
    auditor = Auditor(large, small, asked, hooks, inner)
    watched = watching(auditor, found.target.call, found.seconds)
    audited = found.run(size, watched=watched)
    auditor.finish()
    if not auditor.numbers and not auditor.graphs:
        problem = Problem(f"{label} calls no operator of torch; nothing was checked", "")
        raise InputError([problem])
    unlike = not same(tensors_of(audited), tensors_of(found.run(size)))
    axes = result_axes((size, returned), (other, fewer))
    del returned, fewer
    whole = [tried_whole(found, "eager", axes, asked, clock)]
    extra: list[Finding] = []
    if options.compiled:
        from lastbit.audit.compiling import tried_compiled

        compiled, extra = tried_compiled(label, target, found, axes, asked, clock, options.seed)
        whole.append(compiled)
    cases = _cases(auditor)
    if options.shard is None:
        whole[0] = with_reason(whole[0], cases)
    findings = [one for case in cases for one in findings_of(case, label)]
    findings += [*of_whole(label, whole, findings, options.shard), *extra]
    return Audit(
        target=label,
        device=options.device,
        batch=found.filled,
        sizes=asked.sizes,
        repeats=asked.repeats,
        threads=asked.threads,
        environment=environment(options.seed, options.device),
        cases=cases,
        known=len(auditor.numbers),
        calls=auditor.seen,
        findings=in_order(findings),
        gaps=(*_gaps(large, small, auditor, unlike), *_settings(found)),
        whole=tuple(whole),
        shard=options.shard,
        decided=decided(cases),
    )


def _other_survey(found: Program, size: int, large: Survey) -> tuple[int, tuple[Survey, Any]]:
    """Return another number of rows with which the target runs, and the survey of that run."""
    *others, last = (number for number in OTHERS_SURVEYED if number != size)
    for number in others:
        with contextlib.suppress(InputError):  # said where the target is tried as a whole
            return number, surveyed(found, number, large)
    return last, surveyed(found, last, large)


def _cases(auditor: Auditor) -> tuple[CaseRecord, ...]:
    """Return the cases with every call of theirs."""
    found = [
        replace(record, calls=tuple(auditor.calls[key]), number=auditor.numbers[key])
        for key, record in auditor.records.items()
    ]
    return tuple(sorted(found, key=lambda case: case.number))


def of_whole(
    label: str, whole: Sequence[Whole], known: Sequence[Finding], shard: str | None = None
) -> list[Finding]:
    """Return findings about the target that no operator explains.

    Args:
        label: as the user named the target.
        whole: what the target itself gave.
        known: findings about operators.
        shard: which part of the cases they are of, or null; of a part, nothing is said.
    """
    found = []
    codes = {one.code for one in known}
    for one in whole:
        for trial in one.trials:
            code = {"repeats": REPEATS, "batch": BATCH}[trial.kind]
            known_by = codes & EXPLAINS[code] or shard is not None
            explained = one.form == "eager" and known_by
            if trial.differs and not explained:
                form = "compiled by Inductor" if one.form == "compiled" else "as a whole"
                what = "equal runs" if trial.kind == "repeats" else "batch sizes"
                message = (
                    f"{label}, {form}, {WORDS[code]}: {trial.distinct} different results in "
                    f"{len(trial.values)} {what}"
                )
                found.append(Finding(code, "error", message, Location(label)))
    return found


def _gaps(large: Survey, small: Survey, auditor: Auditor, unlike: bool) -> list[str]:
    """Return what is true of the whole audit."""
    found = []
    for one, other in ((large, small), (small, large)):
        lone = [pair for pair in one.calls if pair not in other.calls]
        if lone:
            name, path, place = lone[0][:3]
            where = place or (f"`{path}`" if path else "a place that is not known")
            found.append(
                f"with {one.size:,} rows the program makes {plural(len(lone), 'call')} that it "
                f"does not make with {other.size:,}: first {name} at {where}"
            )
    if unlike and not any(REPEATS in one.codes for one in auditor.records.values()):
        found.append("the run that was audited gave other results than a run without the audit")
    if auditor.graphs:
        found.append(
            f"{plural(auditor.graphs, 'graph')} that torch.compile made ran: of their kernels only "
            "the library's operators are seen"
            + ("" if auditor.numbers else "; none was, so only the target as a whole was tried")
        )
    if auditor.seen != len(large.calls):
        found.append(
            f"{len(large.calls):,} calls of operators were seen before the audit and "
            f"{auditor.seen:,} in it: the program takes other ways in equal runs"
        )
    return found


def _settings(found: Program) -> list[str]:
    """Return what the target sets in torch."""
    return [
        f"the target sets {name} for the whole process; it was put back after every run"
        for name in found.settings.changed
    ]


def environment(seed: int, device: str) -> dict[str, str]:
    """Return the facts that a result depends on."""
    torch = load_torch()
    found = {"lastbit": __version__, "python": platform.python_version()}
    found |= {"numpy": metadata.version("numpy"), "torch": str(torch.__version__)}
    found |= {"machine": platform.machine(), "cpu": str(torch.backends.cpu.get_cpu_capability())}
    if device == "cuda":
        found |= {
            "gpu": str(torch.cuda.get_device_name()),
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),
        }
        try:
            found["triton"] = metadata.version("triton")
        except metadata.PackageNotFoundError:
            found["triton"] = "none"
    flag = torch.are_deterministic_algorithms_enabled()
    return found | {"deterministic_algorithms": str(flag).lower(), "seed": str(seed)}
