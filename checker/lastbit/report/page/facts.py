"""The facts of a verdict as rows of a list: drift, bound, evidence, demands."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lastbit.report.page.escape import ARROW, arrows, escaped, prose
from lastbit.report.words import count, number, operations, pair, percent, plural, size_pair
from lastbit.result import (
    PROMISES,
    Budget,
    Cost,
    DomainEntry,
    Drift,
    Evidence,
    Fit,
    Promise,
    Region,
    Step,
)

Row = tuple[str, str]  # a name and HTML


def rows(verdict: Step | Region) -> Iterator[Row]:
    """Yield what is known of a verdict, besides its tables and its witness."""
    for entry in verdict.domain:
        yield "domain", prose(domain_text(entry))
    if verdict.drift is not None:
        yield from _drift(verdict.drift)
    if _all_hold(verdict):
        names = ", ".join(map(promise_word, verdict.promises))
        yield "promises", f"{escaped(names)}: kept"
    for evidence in verdict.evidence:
        yield "evidence", prose(_evidence(evidence))
    for note in verdict.notes:
        yield "note", prose(note)


def domain_text(entry: DomainEntry) -> str:
    """Say what happens on which inputs."""
    return f"{entry.kind} only {entry.side}, on {entry.inputs}"


def _drift(drift: Drift) -> Iterator[Row]:
    unit = f"ulp of {drift.format}"
    text = f"{percent(drift.share)} of elements differ" if drift.share else "no element differs"
    if drift.share and drift.max_ulp_at_scale is not None:
        text += f", up to {number(drift.max_ulp_at_scale)} {unit} at scale"
    if drift.share and drift.max_ulp is not None:
        text += f", {number(drift.max_ulp)} ulp of the result"
    spread = [("99th percentile", drift.p99_ulp), ("mean", drift.mean_ulp)]
    known = [f"{name} {number(n)}" for name, n in spread if n is not None and drift.share]
    if known:
        text += f" ({', '.join(known)})"
    if drift.codes_changed is not None:
        text += f"; {percent(drift.codes_changed)} of codes change"
    yield "drift", escaped(text)
    compared, total = drift.sampled
    of = f"all {count(total)}" if compared == total else f"{count(compared)} of {total:,}"
    where = f" of `{drift.output}`" if drift.output else ""
    drawn = drift.inputs if drift.seed is None else f"{drift.inputs}; seed {drift.seed}"
    worst = ""
    if drift.share and drift.worst_index is not None:
        worst = f"; worst at [{', '.join(map(str, drift.worst_index))}]"
    yield "measured", prose(f"{of} elements{where} on {drawn}{worst}")
    if drift.nearer and drift.before_error_ulp is not None and drift.after_error_ulp is not None:
        errors = f"{number(drift.before_error_ulp)} -> {number(drift.after_error_ulp)}"
        yield "nearer exact", escaped(arrows(f"{drift.nearer}; mean error {errors} ulp at scale"))
    if drift.bound is not None:
        bound = drift.bound
        parts = []
        if bound.times_sum_abs is not None:
            parts.append(f"{number(bound.times_sum_abs)} times the sum of absolute terms")
        if bound.ulp is not None:
            parts.append(f"{number(bound.ulp)} {unit}")
        said = "at most " + ", ".join(parts) if parts else "none"
        yield "bound", prose(f"{said} ({bound.why})" if bound.why else said)


def _evidence(evidence: Evidence) -> str:
    parts = [evidence.by]
    if evidence.draws:
        parts.append(plural(evidence.draws, "draw"))
    sizes = [", ".join(f"{k} = {v}" for k, v in entry.items()) for entry in evidence.sizes]
    if sizes:
        parts.append("at " + "; ".join(sizes))
    if evidence.assumes:
        parts.append("assuming " + ", ".join(evidence.assumes))
    if evidence.failure_probability is not None:
        parts.append(f"wrong with probability {number(evidence.failure_probability)}")
    parts += [evidence.detail] if evidence.detail else []
    return ", ".join(parts)


def budget_text(budget: Budget) -> str:
    """Say what is allowed and what is demanded."""
    parts = [f"`{budget.change}`"] if budget.change else []
    scale = "of the result" if budget.elementwise else "at scale"
    parts += [f"{number(n)} ulp of {name} {scale}" for name, n in budget.max_ulp.items()]
    text = "allows " + ", ".join(parts) if parts else ""
    names = ", ".join(promise_word(name) for name in budget.promises)
    wants = f"demands {names}" if names else ""
    return "; ".join(part for part in (text, wants) if part) or "no demand"


def promise_word(name: str) -> str:
    """Write the name of a promise."""
    return name.replace("_", "-")


def promise_short(promise: Promise) -> str:
    """Say in a word what becomes of a promise; empty where it holds as before."""
    if promise.after is None:
        return "not decided"
    if promise.after:
        return "gained" if promise.before is False else ""
    return "broken before" if promise.before is False else "lost"


def _all_hold(verdict: Step | Region) -> bool:
    promises = verdict.promises.values()
    return bool(promises) and all(p.before and p.after and not p.cause for p in promises)


def promises_table(verdict: Step | Region) -> str:
    """Return the promises before and after, with causes; empty where all hold on both sides."""
    given = [(name, verdict.promises[name]) for name in PROMISES if name in verdict.promises]
    if not given or _all_hold(verdict):
        return ""
    has_causes = any(promise.cause for _, promise in given)
    head = "<tr><th scope=col>promise<th scope=col>before<th scope=col>after"
    head += "<th scope=col>cause" if has_causes else ""
    body = "".join(
        f"<tr><th scope=row>{promise_word(name)}<td>{_kept(p.before)}<td{_mark(p)}>{_kept(p.after)}"
        + (f"<td>{prose(p.cause or '')}" if has_causes else "")
        for name, p in given
    )
    return f"<table><caption>Promises</caption>{head}{body}</table>"


def _kept(held: bool | None) -> str:
    return "not decided" if held is None else "holds" if held else "broken"


def _mark(promise: Promise) -> str:
    return " class=bad" if promise.after is False and promise.before is not False else ""


def cost_table(cost: Cost) -> str:
    """Return the cost before and after, with bars; what does not change is in the last row."""
    at = ", ".join(f"{name} = {size}" for name, size in cost.at.items())
    caption = "Cost" + (f" at {escaped(at)}" if at else "")
    caption += f" on {escaped(cost.fit.device)}" if cost.fit else ""
    same, body = [], []
    for name, text, bar in _costs(cost):
        if ARROW in text:
            body.append(f"<tr><th scope=row>{name}<td>{escaped(text)}<td>{bar}")
        else:
            same.append(f"{name} {escaped(text)}")
    if same:
        body.append(f"<tr><th scope=row>as before<td colspan=2>{'; '.join(same)}")
    head = f"<tr><th scope=col>what<th scope=col>before {ARROW} after<th scope=col><span class=vh>"
    caption = f"<caption>{caption}</caption>"
    return f"<table class=cost>{caption}{head}bars</span>{''.join(body)}</table>"


def _costs(cost: Cost) -> Iterator[tuple[str, str, str]]:
    sizes: list[tuple[str, tuple[int | None, int | None]]]
    sizes = [("bytes moved", cost.bytes), ("peak memory", cost.peak_bytes)]
    if cost.local_bytes != (None, None):
        sizes.insert(1, ("local storage", cost.local_bytes))
    for name, (before, after) in sizes:
        yield name, arrows(size_pair((before, after))), _bars(before, after)
    yield "launches", arrows(pair(*map(str, cost.launches))), _bars(*cost.launches)
    if cost.flops is not None and any(cost.flops):
        yield "operations", arrows(operations(cost.flops)), _bars(*cost.flops)
        if all(cost.bytes):
            each = [n / size for n, size in zip(cost.flops, cost.bytes, strict=True)]
            text = arrows(pair(*(f"{n:.3g}" for n in each)))
            ridge = cost.fit.ridge if cost.fit else None
            text += f" (device: {ridge:.3g})" if ridge is not None else ""
            yield "FLOP per byte", text, _bars(*each)
    if cost.fit:
        yield from _fit(cost.fit)


def _fit(fit: Fit) -> Iterator[tuple[str, str, str]]:
    limits = ", ".join(f"{name} {_counts(counts)}" for name, counts in fit.admitted.items())
    text = _counts(fit.blocks) + (f" ({limits})" if limits else "")
    yield "blocks on an SM", text, ""
    if any(share is not None for share in fit.occupancy):
        yield "share of its warps", _shares(fit.occupancy, percent), ""
    if any(share is not None for share in fit.in_flight):
        text = _shares(fit.in_flight, lambda share: f"{share:.3g}")
        yield "bytes under way", f"{text} times what is needed", ""


def _counts(counts: tuple[int | None, int | None]) -> str:
    return arrows(pair(*("?" if n is None else str(n) for n in counts)))


def _shares(shares: tuple[float | None, float | None], write: Callable[[float], str]) -> str:
    return arrows(pair(*("?" if share is None else write(share) for share in shares)))


def _bars(before: float | None, after: float | None) -> str:
    """Return two thin bars, as wide as the greater of both allows; none where they are equal."""
    if before is None or after is None or before == after:
        return ""
    most = max(before, after)
    rects = (
        f'<rect class=b{side} y={5 * side} width="{100 * n / most:.3g}%" height=4 />'
        for side, n in enumerate((before, after))
    )
    return f"<svg class=bar aria-hidden=true>{''.join(rects)}</svg>"
