"""Check two functions: is the second the same as the first, and if not, what kind of change?

    v = lastbit.check(before, after, x=lastbit.bf16("M", 4096))
    assert v.change <= "reassociation", v

The functions are called once with values that record what is computed (`lastbit.tracing`). The two
recordings are compared as the two graphs of a plan are: once as a whole, from the inputs to the
results, and where several values differ that have a name on both sides, each region by itself.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import Any, NoReturn

from lastbit.change import Change
from lastbit.codes import DIFFERENCE_CODES
from lastbit.demands import budget_record, violations
from lastbit.errors import InputError, LastbitError, Problem, did_you_mean
from lastbit.formats import format_of
from lastbit.plan_model import Budget, Plan, Span, Transform
from lastbit.printing import statement_text
from lastbit.records import PROMISES, DomainEntry, Drift, Location, Promise, Witness
from lastbit.result import Finding, Result, Step, environment
from lastbit.tracing.calls import SIDES, Side, as_spec, inputs_of
from lastbit.tracing.plan import Comparison, SizesOf, plan_of
from lastbit.tracing.spec import Spec
from lastbit.verify.decide import Judged
from lastbit.verify.worst import judge_worst

MOST_SHOWN = 12  # statements of each side that a report shows

_SIZE = re.compile(r"\bsize_(\d+)_*\b")


class NoTruthError(LastbitError, TypeError):
    """A verdict was used as a condition."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The verdict on two functions; `print` shows all of it.

    Attributes:
        result: the result with all steps, as the renderers and `lastbit replay` read it.
        change: the kind of change from the first function to the second. Where the two as a whole
            could not be decided but each region could, the worst of the regions; if one of them
            is another function it stays `unknown`, for the results may be the same.
    """

    result: Result
    change: Change

    @property
    def whole(self) -> Step:
        """Return the verdict from the inputs to the results."""
        return self.result.steps[0]

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the verdicts on single regions, or that on the whole where it is the only one."""
        return self.result.steps[1:] or self.result.steps

    @property
    def domain(self) -> tuple[DomainEntry, ...]:
        """Return the classes of inputs on which only one side misbehaves."""
        return self.whole.domain

    @property
    def promises(self) -> Mapping[str, Promise]:
        """Return by name what is promised before and after."""
        return self.whole.promises

    @property
    def drift(self) -> Drift | None:
        """Return how far apart the two are; None for equal bits."""
        return self.whole.drift

    @property
    def witness(self) -> Witness | None:
        """Return inputs that show the kind of change, with the bits of both sides."""
        return self.whole.witness

    @property
    def ok(self) -> bool:
        """Return whether every demand is met; without one, math and new NaN and inf fail."""
        return self.result.exit_code == 0

    def render(self, name: str = "text") -> str:
        """Return the report in a format: text, json ..."""
        from lastbit.report import renderer

        return renderer(name)(self.result)

    def __bool__(self) -> NoReturn:
        raise NoTruthError(
            "a verdict is neither true nor false. Write "
            'assert v.change <= "reassociation", v, or assert v.ok, v.'
        )

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def __repr__(self) -> str:
        return f"<{self.change}{' + domain' if self.domain else ''}: {self.whole.title}>"


def check(
    before: Callable[..., Any],
    after: Callable[..., Any],
    *,
    inputs: Mapping[str, Spec | str] | None = None,
    symbols: Mapping[str, SizesOf] | None = None,
    batch: str | None = None,
    max_change: str | None = None,
    max_ulp: Mapping[str, float] | None = None,
    elementwise: bool = False,
    promises: Sequence[str] = (),
    seed: int = 0,
    today: date | None = None,
    **specs: Spec | str,
) -> CheckResult:
    """Say what kind of change it is to compute `after` in place of `before`.

    Args:
        before: a function of lastbit's values; its results are values that end in a rounding.
        after: another one with the same results.
        inputs: format and shape of each input by the name of the parameter, as `specs`.
        symbols: the sizes of each symbol: a number, or (smallest, largest). Others take the sizes
            from 1 to about 2000, and the report says so.
        batch: the symbol that counts rows.
        max_change: the most that is allowed; None: anything that is the same function.
        max_ulp: the most that is allowed in ulp, by format.
        elementwise: whether `max_ulp` counts ulp of each result rather than ulp at scale.
        promises: the promises that `after` must keep.
        seed: selects every draw.
        today: the day that the result names.
        specs: format and shape of each input: `x=lastbit.bf16("M", 4096)`. What is not given is
            taken from the attribute `inputs` of the functions, from defaults and annotations.

    Raises:
        InputError: the functions cannot be traced or compared; the text says where and why.
    """
    _check_given(inputs=inputs, symbols=symbols, max_ulp=max_ulp)
    if batch is not None and not isinstance(batch, str):
        raise error_of(f"batch is {batch!r}", 'Write the name of a symbol: batch="M".')
    if type(seed) is not int or seed < 0:
        raise error_of(f"seed is {seed!r}", "Allowed: a whole number, 0 or more.")
    if today is not None and not isinstance(today, date):
        raise error_of(f"today is {today!r}", "Write datetime.date(2026, 1, 31).")
    linecache.checkcache()  # a file may have changed since it was shown last
    sides = (Side("before", before), Side("after", after))
    given = {name: as_spec(name, value) for name, value in {**(inputs or {}), **specs}.items()}
    found = inputs_of(sides, given)
    budget = budget_of(max_change, max_ulp, elementwise, promises)
    compared = plan_of(sides, found, symbols or {}, batch)
    notes = ["`before` and `after` are the same function"] if before is after else []
    return _result(compared, budget, seed, today or date.today(), notes)


def check_models(
    before: str,
    after: str,
    *,
    symbols: Mapping[str, tuple[int, int]] | None = None,
    batch: str | None = None,
    max_change: str | None = None,
    max_ulp: Mapping[str, float] | None = None,
    elementwise: bool = False,
    promises: Sequence[str] = (),
    run: bool = False,
    seed: int = 0,
    today: date | None = None,
) -> Result:
    """Say what kind of change it is from one model file to another, region by region.

    Two files of ONNX are taken as a model and what ONNX Runtime made of it: values are matched by
    name, and the roundings that were dropped are named.

    Args:
        before: a file that an importer reads, such as `.pt2`.
        after: another one with the same inputs and results.
        symbols: the sizes of symbols, in place of those that the files give.
        batch: the symbol that counts rows; None: the first axis of the inputs, if it has one.
        max_change: the most that is allowed; None: anything that is the same function.
        max_ulp: the most that is allowed in ulp, by format.
        elementwise: whether `max_ulp` counts ulp of each result rather than ulp at scale.
        promises: the promises that `after` must keep.
        run: whether both are run with ONNX Runtime, the first node by node, and held against the
            prediction; for two files of ONNX.
        seed: selects every draw.
        today: the day that the result names.

    Raises:
        InputError: a file cannot be read or run, or the two cannot be compared.
    """
    from lastbit.lint import judged_plans, prepared
    from lastbit.plan_imports import plan_of_models, unknown_symbol

    budget = budget_of(max_change, max_ulp, elementwise, promises)
    if before.lower().endswith(".onnx") and after.lower().endswith(".onnx"):
        from lastbit.importers.onnx.checking import check_onnx

        return check_onnx(
            before,
            after,
            symbols=symbols,
            batch=batch,
            budget=budget,
            seed=seed,
            today=today,
            run=run,
        )
    if run:
        raise error_of(
            "models of torch.export are not run", "Leave out `run`, or give .onnx files."
        )
    plan = plan_of_models(before, after)
    spans = {name: Span(low, high, high) for name, (low, high) in (symbols or {}).items()}
    for name in [*spans, *([batch] if batch else [])]:
        if name not in plan.symbols:
            raise InputError([unknown_symbol(plan, name)])
    plan = replace(
        plan, symbols={**plan.symbols, **spans}, batch=batch or plan.batch, budget=budget
    )
    return judged_plans([prepared(plan)], "check", today or date.today(), seed)


# How each argument that goes by name is written.
_FORMS = {
    "inputs": 'inputs={"x": "bf16[M, 4096]"}',
    "symbols": 'symbols={"M": (1, 8192)}',
    "max_ulp": 'max_ulp={"bf16": 1}',
}


def _check_given(**given: object) -> None:
    for name, value in given.items():
        if value is not None and not isinstance(value, Mapping):
            raise error_of(f"{name} is {value!r}", f"Write {_FORMS[name]}.")


def budget_of(
    change: str | None,
    max_ulp: Mapping[str, float] | None,
    elementwise: bool,
    promises: Sequence[str],
) -> Budget | None:
    """Return what a caller demands; None: nothing.

    Raises:
        InputError: a demand cannot be read.
    """
    if isinstance(promises, str) or not isinstance(promises, Iterable):
        raise error_of(f"promises is {promises!r}", 'Write promises=["deterministic"].')
    if not isinstance(elementwise, bool):
        raise error_of(f"elementwise is {elementwise!r}", "Write elementwise=True.")
    if change is None and not max_ulp and not promises:
        return None
    kinds = [kind.value for kind in Change if kind != Change.UNKNOWN]
    if change is not None and change not in kinds:
        raise error_of(f"unknown kind of change {change!r}", did_you_mean(str(change), kinds))
    for name in promises:
        if name not in PROMISES:
            raise error_of(f"unknown promise {name!r}", did_you_mean(str(name), PROMISES))
    ulp = {}
    for name, value in (max_ulp or {}).items():
        try:
            number = Fraction(value)
            if number < 0:
                raise ValueError
            ulp[format_of(str(name)).short] = number
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, LastbitError):
                raise
            raise error_of(
                f"max_ulp of {name} is {value!r}", "Allowed: a number of ulp, at least 0."
            ) from None
    return Budget(Change(change) if change else None, ulp, elementwise, tuple(promises))


def _result(
    compared: Comparison, budget: Budget | None, seed: int, day: date, notes: Sequence[str]
) -> CheckResult:
    plan = compared.plan
    found, more = judge_worst(plan, seed)
    if found.change in (Change.MATH, Change.UNKNOWN) and compared.numbers != plan:
        # A number among the constants may belong to a size: judge at that size.
        exact, others = judge_worst(compared.numbers, seed)
        if exact.change < found.change:
            found, more = exact, others
    whole = found.whole
    notes = [*notes, *more]
    if compared.assumed:
        notes.append(_assumption(plan, compared.assumed))
    head = found.transforms[0]
    step = _step(head, _title(head, not found.same), whole, None)
    shown = () if found.same else tuple(_statements(plan))
    step = replace(step, notes=(*step.notes, *notes, *shown), budget=budget_record(budget))
    steps = [step]
    for transform, one in zip(found.transforms[1:], found.judged[1:], strict=True):
        origin = None if one.same_as is None else found.transforms[one.same_as].id
        steps.append(_step(transform, _title(transform, True), one, origin))
    findings = [
        Finding(DIFFERENCE_CODES[found.change], "error", sentence, step.location, step.id)
        for _, sentence in violations("`after` in place of `before`", whole, budget)
    ]
    return CheckResult(Result.of("check", steps, findings, environment(seed, day)), found.change)


def _title(transform: Transform, different: bool) -> str:
    if not different:
        return "both functions compute the same program"
    names = ", ".join(f"`{name}`" for name in transform.at)
    verb = "is" if len(transform.at) == 1 else "are"
    return f"{names} {verb} computed in another way"


def _statements(plan: Plan) -> Iterator[str]:
    """Yield the statements in which the two sides differ, each with its place."""
    assert plan.after is not None
    programs = plan.program, plan.after
    texts = [{statement_text(st): st.place for st in program.statements} for program in programs]
    for side, own, other in zip(SIDES, texts, reversed(texts), strict=True):
        only = [text for text in own if text not in other]
        for text in only[:MOST_SHOWN]:
            plain = _SIZE.sub(r"\1", text)
            yield f"{side}: {plain}    ({own[text]})"
        if len(only) > MOST_SHOWN:
            yield f"{side}: and {len(only) - MOST_SHOWN} more"


def _assumption(plan: Plan, assumed: Iterable[str]) -> str:
    ranges = ", ".join(f"{name} in {plan.symbols[name]}" for name in assumed)
    return f"assumed {ranges}; give other sizes with --symbol M=1..8192 or symbols="


def _step(transform: Transform, title: str, judged: Judged, same_as: str | None) -> Step:
    place = transform.place
    notes = judged.notes if not judged.rejected else (*judged.notes, judged.rejected)
    return Step(
        id=transform.id,
        title=title,
        location=Location(place.file or "after", place.line or None, place.column or None),
        change=str(judged.change),
        at=transform.at,
        domain=judged.domain,
        promises=judged.promises,
        drift=judged.drift,
        witness=judged.witness,
        evidence=judged.evidence,
        notes=notes,
        same_as=same_as,
    )


def error_of(message: str, remedy: str) -> InputError:
    """Return an error about what the caller gave."""
    return InputError([Problem(message, remedy)])
