"""Scripts do every rounding and compute every function to the last bit, with numpy alone."""

import itertools

import pytest
from scripts import SMALL, SPECIAL, check, make_witness

from lastbit.formats import FORMATS
from lastbit.ops import ELEMENTWISE
from lastbit.rounding import Mode, Rounding

pytestmark = pytest.mark.slow


def words_of(rounding):
    """Return the words of the text form for a rounding that is not the default."""
    overflow = {"inf": "to_inf", "nan": "to_nan", "saturate": "saturate"}[rounding.overflow]
    flush = " flush" if rounding.subnormals == "flush" else ""
    return f"{rounding.format.short}, {rounding.mode}, {overflow}{flush.replace(' ', ', ')}"


def every_rounding():
    """Yield each rounding to each format, but stochastic ones; int64 exceeds binary64."""
    for fmt in FORMATS.values():
        held = {"inf": fmt.has_inf, "nan": fmt.has_nan, "saturate": True}
        overflows = [name for name, holds in held.items() if holds]
        modes = [mode for mode in Mode if mode is not Mode.STOCHASTIC]
        for mode, overflow, subnormals in itertools.product(modes, overflows, ("keep", "flush")):
            if fmt.short not in ("f64", "int64"):
                yield Rounding.of(fmt, mode, overflow, subnormals)


def test_every_rounding_is_done(run_scripts):
    # Midpoints, subnormals and what lies beyond the range of each format, specials among them.
    x = "x: f64[18]\n"
    words = (*SPECIAL, "-0x1.18p0", "0x1.38p3", "0x1.cp8", "-0x1.d8p8", "0x1p-149", "-0x1.8p-150")
    words += ("0x1.8p-16", "0x1.5p6", "-0x1.fep6", "0x1p130")
    roundings = list(every_rounding())
    witnesses = {}
    for i in range(0, len(roundings), 40):
        parts = [f"round(x, {words_of(r)})" for r in roundings[i : i + 40]]
        text = f"{x}y: real = concat({', '.join(parts)}, axis=0)\n"
        witnesses[i] = make_witness(text, text, words, fmt="f64")
    check(run_scripts, witnesses)
    assert len(roundings) > 200


def test_every_function_is_computed_to_the_last_bit(run_scripts):
    words = (*SMALL[:4], *SPECIAL[:5], "0x1p-133", "-0x1p100", "0x1.7p5")
    calls = [
        f"{name}({', '.join(['x', 'z', 'x * z'][:count])})"
        for name, (count, _) in ELEMENTWISE.items()
    ]
    line = f"concat({', '.join(calls)}, axis=0)"
    texts = [f"x: bf16[12]\nz: bf16[1]\ny: {fmt} = {line}\n" for fmt in ("bf16", "f64")]
    check(run_scripts, {"functions": make_witness(*texts, words)})


REALS = {
    # exp(x) exp(-x) is 1, so each value is x * 257 / 256: of an odd x / 2^7, a midpoint of bf16.
    "a midpoint": "real = (exp(x) * exp(-x)) * x * 1.00390625",
    "zero": "real = exp(x) * exp(-x) - 1",
    "below a midpoint": "real = 1.00390625 - exp(-x * x * 90)",
    "above a midpoint": "real = 1.01171875 + exp(-x * x * 90)",
    "cancellation": "real = (1 + exp(x - 100)) - 1",
    "comparison": "real = (exp2(x) * exp2(-x) <= 1) + floor(exp2(x) * exp2(-x) * 8)",
    "a saturated tail": "real = sigmoid(x * 100) + gelu(46 * x * x)",
}


def test_an_unrounded_real_rounds_as_its_exact_value(run_scripts):
    witnesses = {}
    for (name, definition), mode in itertools.product(REALS.items(), ("", " rtz", " rup")):
        texts = [f"x: bf16[3]\nt: {definition}\ny: {fmt} = t{mode}\n" for fmt in ("bf16", "e4m3fn")]
        witnesses[name, mode] = make_witness(*texts)
    check(run_scripts, witnesses)
