"""Infer by which schedule a matrix product was summed, from its bits.

    r = lastbit.infer_matmul(a, b, observed, "bf16", machine="hopper")

Every schedule of the space (`lastbit.inference.schedules`) is run on a few outputs, what agrees
there on more, and so on to all (`lastbit.inference.product_search`). So `found` says that every
other schedule of the space differs on these operands, or is proven to be the same tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from lastbit.errors import InputError, Problem
from lastbit.formats import Format, bits_text, decode, format_of
from lastbit.inference import records
from lastbit.inference.arrays import canonical_codes, codes_of, plain_array
from lastbit.inference.product import Product, Way
from lastbit.inference.product_apart import Told, told_apart
from lastbit.inference.product_hints import hints
from lastbit.inference.product_search import ProductSearch
from lastbit.inference.records import MOST_SHOWN, Change, Explained, Failure, Inferred
from lastbit.inference.schedules import WITHOUT_UNIT, candidates, chains_of
from lastbit.inference.search import Progress
from lastbit.machines import machine_of
from lastbit.predicting import MatmulSpec
from lastbit.report.words import count, plural
from lastbit.round_array import Codes

HALVES: Final = ("bf16", "f16")  # formats in which partial sums may be stored
MOST_ORDERS: Final = 3  # that are named
NOTHING_APART: Final[Told] = (), {}, ()
CONTRACTED: Final = Change(
    "FUS107",
    "contract-fma",
    ("c",),
    {},
    "FUS107 contract-fma at `c`",
    "alpha and the bias are applied with one rounding",
)


def infer_matmul(
    a: Any,
    b: Any,
    observed: Any,
    formats: str | tuple[str, str],
    *,
    machine: str | Sequence[str] | None = None,
    out: str | None = None,
    acc: str = "f32",
    alpha: float | None = None,
    bias: Any = None,
    units_only: bool = False,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
    name: str = "the observed product",
) -> Inferred:
    """Say which schedules give the bits of a matrix product.

    Args:
        a: the left operand, `[M, K]`: codes of its format, or numbers that it holds.
        b: the right operand, `[K, N]`.
        observed: the product, `[M, N]`.
        formats: the format of both operands, or that of each.
        machine: the machine, or machines, on which it was computed; None: all that are known.
        out: the format of the product; None: that of the accumulators.
        acc: the format of the accumulators.
        alpha: a factor of the accumulators.
        bias: `[N]`, binary32 values that are added.
        units_only: whether schedules without a matrix unit are left out.
        seed: selects the inputs that are offered to tell schedules apart.
        device: a device of torch on which schedules are run, such as `cuda`; None: numpy.
        progress: called with schedules tried, schedules in all, and what is tried.
        name: what is compared, for the report.

    Returns:
        each variant with its `schedule`.

    Raises:
        LastbitError: the operands, the formats and the machine do not fit.
    """
    left, right = (formats, formats) if isinstance(formats, str) else formats
    known = [machine] if isinstance(machine, str) else machine
    for one in known or ():
        machine_of(one)
    fmt_a, fmt_b, fmt_out = format_of(left), format_of(right), format_of(out or acc)
    codes_a, codes_b = _matrix(a, fmt_a, "a"), _matrix(b, fmt_b, "b")
    seen = canonical_codes(_matrix(observed, fmt_out, "observed"), fmt_out)
    (m, k), (k2, n) = codes_a.shape, codes_b.shape
    if k != k2 or seen.shape != (m, n):
        raise _error(
            f"a is {[m, k]}, b is {[k2, n]} and the product {list(seen.shape)}",
            "They are [M, K], [K, N] and [M, N].",
        )
    if not seen.size or not k:
        raise _error("the product has no elements", "M, K and N are 1 and above.")
    bias_codes = None if bias is None else _vector(bias, n)
    chains = chains_of(fmt_a.short, fmt_b.short, format_of(acc).short, known)
    if units_only:
        chains = [chain for chain in chains if chain.machine not in WITHOUT_UNIT]
    if not any(chain.machine not in WITHOUT_UNIT for chain in chains) and known:
        machine_of(known[0]).unit(fmt_a.short)  # says which formats it takes
    if not chains:
        of = f" of {' or '.join(known)}" if known else ""
        what = f"no matrix unit{of} multiplies {fmt_a.short} by {fmt_b.short} into {acc}"
        raise _error(what, "Leave out units_only (--units-only), or name a machine with a unit.")
    spec = MatmulSpec("ieee", fmt_a.short, fmt_b.short, None, acc, alpha, out=fmt_out.short)
    product = Product(spec, codes_a, codes_b, seen, bias_codes, device)
    spec.epilogue(None)  # what is wrong with it is said before schedules are tried
    search = ProductSearch(product, candidates(k, chains, _narrow(fmt_a, fmt_out)), progress)
    found = search.run()
    result = _found(search, found, seed, name) if found else _none(search, seed, name)
    if progress is not None:
        progress(1, 1, "")
    return result


def _narrow(operand: Format, out: Format) -> list[str]:
    """Return the formats in which partial sums may be stored: first those that take part."""
    part = [fmt.short for fmt in (out, operand) if fmt.container == 16 and fmt.kind == "float"]
    return list(dict.fromkeys([*part, *HALVES]))


def _found(search: ProductSearch, found: Sequence[Way], seed: int, name: str) -> Inferred:
    size = search.product.seen.size
    notes = []
    for way in found[:MOST_SHOWN]:
        chain = way.candidates[0].chain
        if chain.also:
            notes.append(f"{', '.join(chain.also)} add in the same steps as {chain.machine}")
    if search.untried:
        more = plural(search.untried, "more schedule")
        notes.append(
            f"{more} gave the {count(search.sampled)} elements on which all were compared, and "
            "were not run on the others"
        )
    variants = [_explained(way, size) for way in found]
    several = len(found) > 1
    apart, inputs, told = told_apart(search.product, found, seed) if several else NOTHING_APART
    status = records.AMBIGUOUS if several else records.FOUND
    if several and not search.untried and search.differ_in_order_only(found):
        status, variants, apart = records.FOUND, variants[:1], ()
        told = (_order_note(search, found, bool(inputs)),)
    return _result(
        search,
        name,
        seed,
        status=status,
        variants=tuple(variants),
        apart=apart,
        inputs=dict(inputs),
        notes=tuple(dict.fromkeys([*notes, *told])),
    )


def _explained(way: Way, size: int) -> Explained:
    first, *rest = (str(candidate.schedule) for candidate in way.candidates)
    changes = (CONTRACTED,) if way.contract else ()
    return Explained(changes, size, size, schedule=first, alike=tuple(rest))


def _order_note(search: ProductSearch, found: Sequence[Way], offered: bool) -> str:
    assert isinstance(found[0].tree, int)
    parts = len(search.trees.parts(found[0].tree))
    others = ", ".join(f"`{way.schedule}`" for way in found[1 : MOST_ORDERS + 1])
    more = f" and {len(found) - 1 - MOST_ORDERS} more" if len(found) > MOST_ORDERS + 1 else ""
    give = "gives" if len(found) == 2 else "give"
    note = (
        f"the order in which the {parts} parts are added is not told: on these operands every "
        f"addition of them is exact, so {others}{more} {give} all bits too"
    )
    return f"{note}; --write-inputs gives operands that tell" if offered else note


def _none(search: ProductSearch, seed: int, name: str) -> Inferred:
    near = tuple(
        Explained(
            (CONTRACTED,) if way.contract else (),
            way.equal,
            way.total,
            failure=None if way.whole else _failure(search.product, codes),
            schedule=str(way.schedule),
        )
        for way, codes in search.nearest()
    )
    notes = hints(search.product)
    return _result(search, name, seed, status=records.NONE, variants=(), near=near, notes=notes)


def _failure(product: Product, codes: Codes) -> Failure:
    fmt, seen = product.format, product.seen
    index = tuple(int(i) for i in np.argwhere(codes != seen)[0])
    values = [decode(int(array[index]), fmt) for array in (seen, codes)]
    kernel, variant = (bits_text(value, fmt) for value in values)
    pair = float(values[0]), float(values[1])
    return Failure("given", "c", index, fmt.short, kernel, variant, pair, {})


def _result(search: ProductSearch, name: str, seed: int, **facts: Any) -> Inferred:
    product, spec = search.product, search.product.spec
    (m, k), n = product.a.shape, product.b.shape[1]
    operands = " by ".join(dict.fromkeys((spec.left, spec.right)))
    about = f"a product [{m}, {k}] x [{k}, {n}] of {operands} into {product.format.short}"
    return Inferred(
        reference=about,
        kernel=name,
        data={"given": product.seen.size},
        seed=seed,
        tried=len(search.candidates),
        formats={"a": spec.formats[0], "b": spec.formats[1]},
        noun="schedule",
        **{"near": (), **facts},
    )


def _matrix(value: Any, fmt: Format, name: str) -> Codes:
    codes = _taken(value, fmt, name)
    if codes.ndim != 2:
        raise _error(f"`{name}` has the shape {list(codes.shape)}", "A matrix has two sizes.")
    return codes


def _vector(value: Any, n: int) -> Codes:
    codes = _taken(value, format_of("f32"), "bias")
    if codes.shape != (n,):
        raise _error(f"the bias has the shape {list(codes.shape)}", f"It holds {n} values.")
    return codes


def _taken(value: Any, fmt: Format, name: str) -> Codes:
    found = plain_array(value)
    if found is None:
        kind = type(value).__name__
        raise _error(f"`{name}` is a {kind}", "Give an array of numpy or torch.")
    codes = codes_of(*found, fmt)
    if isinstance(codes, str):
        raise _error(f"`{name}` holds {codes}", f"Give values or codes of {fmt.short}.")
    return codes


def _error(message: str, remedy: str = "") -> InputError:
    return InputError([Problem(message, remedy)])
