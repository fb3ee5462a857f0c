"""A script shows the bits of its witness, with numpy alone; `lastbit.interpret.exact` agrees."""

import itertools
import math
import random
from fractions import Fraction

from scripts import SMALL, SPECIAL, check, make_witness

from lastbit import script_helpers
from lastbit.formats import FORMATS, identical
from lastbit.ops import ELEMENTWISE, FUNCTION
from lastbit.reals import FUNCTIONS
from lastbit.rounding import Rounding, round_exact
from lastbit.script_lines import HELPER

# Sums of these round differently in every order: 2^24 absorbs 1, 2^8 is where bf16 absorbs it.
WORDS = ("0x1p24", "0x1p0", "-0x1.8p0", "0x1p8", "0x1.02p0", "-0x1p24", "0x1.fep-3")
SUMS = {
    "seq": "f32 seq",
    "pairwise": "f32 pairwise(2)",
    "split": "f32 split(3, tile=2)",
    "split in bf16": "f32 split(2, tile=1, inner=seq(acc=bf16), outer=pairwise(1))",
    "partials": "f32 split(3, partials=bf16)",
    "lanes": "f32 lanes(3, inner=pairwise(1), outer=seq)",
    "promote": "f32 promote(3, f32, inner=seq(acc=bf16))",
    "promote wide": "bf16 promote(2, f32, inner=seq)",
    "tree": "f32 tree((((6, 0), (3, 1)), ((), ((5, 2), 4))))",
    "reversed": "f32 tree((((((((() , 6), 5), 4), 3), 2), 1), 0))",
    "f16": "f16 seq",
    "exact": "",
}


def test_a_sum_is_added_by_its_schedule(run_scripts):
    before = "x: bf16[2, 7]\ny: f32 = sum(x, axis=1) acc f32 seq\n"
    witnesses = {}
    for name, schedule in SUMS.items():
        acc = f" acc {schedule}" if schedule else ""
        after = f"x: bf16[2, 7]\ny: {schedule.split(' ')[0] or 'real'} = sum(x, axis=1){acc}\n"
        witnesses[name] = make_witness(before, after, WORDS, fmt="f32")
    check(run_scripts, witnesses)
    assert any(w.before != w.after for w in witnesses.values())


STEPS = {
    "hopper": "x: bf16[2, 20]\nw: bf16[20, 2]\ny: f32 = matmul(x, w) acc f32 fused(16, hopper)\n",
    "hopper in f16": (
        "x: f16[2, 20]\nw: f16[20, 2]\ny: f16 = matmul(x, w) acc f16 fused(16, hopper)\n"
    ),
    "hopper on fp8": (
        "x: e4m3fn[2, 40]\nw: e4m3fn[40, 2]\n"
        "y: f32 = matmul(x, w) acc f32 promote(32, f32, inner=fused(32, hopper))\n"
    ),
    "cdna3": "x: bf16[2, 12]\nw: bf16[12, 2]\ny: f32 = matmul(x, w) acc f32 fused(8, cdna3)\n",
    "split": (
        "x: bf16[3, 12]\nw: bf16[1, 12]\nt: real = x * w\n"
        "y: f32 = sum(t[:, 0:10], axis=1) acc f32 "
        "split(2, tile=4, inner=fused(4, hopper/16), outer=seq)\n"
    ),
}


def test_a_matrix_unit_adds_by_its_steps(run_scripts):
    witnesses = {}
    for (name, after), words in itertools.product(STEPS.items(), (WORDS, SPECIAL)):
        head, _, tail = after.partition(" acc ")
        before = f"{head} acc {tail.split(' ')[0]} seq\n"
        witnesses[name, words] = make_witness(before, after, words)
    check(run_scripts, witnesses)


PROGRAMS = {
    "rounding point": (
        "g: bf16[5]\nt: bf16 = silu(g)\ny: bf16 = t * g\n",
        "g: bf16[5]\nt: real = silu(g)\ny: bf16 = t * g\n",
    ),
    "matmul": (
        "x: bf16[2, 7]\nw: bf16[7, 3]\ny: bf16 = matmul(x, w) acc f32 seq\n",
        "x: bf16[2, 7]\nw: bf16[7, 3]\n"
        "a: f32 = matmul(x[:, 0:4], w[0:4, :]) acc f32 seq\n"
        "b: f32 = matmul(x[:, 4:], w[4:, :]) acc f32 seq\n"
        "y: bf16 = round(a + b, f32)\n",
    ),
    "quantized row": (
        "g: bf16[2, 5]\ns: f32 = amax(g) / 448\ny: e4m3fn = g / s saturate\n",
        "g: bf16[2, 5]\ns: f32 = amax(g[:, 0:3]) / 448\ny: e4m3fn = g / s saturate\n",
    ),
    "quantized to integers": (
        "g: f32[9]\nm: f32 = amax(g) / 127\ny: int8 = g / m\n",
        "g: f32[9]\nm: bf16 = amax(g) / 127 rtz\ny: int8 = g / m rtz\n",
    ),
    "softmax": (
        "g: bf16[2, 4]\ny: bf16 = softmax(g) acc f32 seq\n",
        "g: bf16[2, 4]\np: f16 = exp(g)\nl: f16 = sum(p) acc f16 pairwise(1)\ny: bf16 = p / l\n",
    ),
    "norm": (
        "g: bf16[2, 4]\ny: bf16 = rms_norm(g, 1, 1e-6) acc f32 seq\n",
        "g: bf16[2, 4]\ny: bf16 = rms_norm(g, 1, 1e-6) acc bf16 lanes(2)\n",
    ),
    "views": (
        "a: f16[2, 3]\nb: f16[3, 2]\n"
        "c: f16[4, 3] = concat(a, transpose(b), axis=0)\n"
        "y: f16[3, 4] = reshape(c[::-1, 2:0:-1], 1, 8)[0:1, ::2] * broadcast(3, 3, 4)\n",
        "a: f16[2, 3]\nb: f16[3, 2]\n"
        "c: f16[4, 3] = concat(a, transpose(b, 1, 0), axis=0)\n"
        "y: f16[3, 4] = broadcast(reshape(c[3:1:-1, 1:], 4) / 3, 3, 4)\n",
    ),
    "extremes": (
        "a: f32[2, 4]\ny: f32 = max(a, axis=0) - min(a, axis=0)\n",
        "a: f32[2, 4]\ny: f32 = maximum(a[0:1, :], a[1:2, :])\n",
    ),
    "choices": (
        "a: f32[2, 9]\ny: int32 = topk_indices_first(a, 9, axis=1)\n",
        "a: f32[2, 9]\ny: int32 = concat(argmax_last(a, axis=1), argmax_last(-a, nth=3, axis=1), "
        "argmax_first(exp(a), nth=2, axis=1), topk_indices_first(a, 6, axis=1), axis=1)\n",
    ),
    "chosen values": (
        "a: f32[2, 9]\ny: f32 = topk(a, 9, axis=1)\n",
        "a: f32[2, 9]\ny: f32 = -topk(-a, 9, axis=1)\n",
    ),
    "nothing to add": (
        "a: f32[2, 4]\ny: f32 = sum(a[:, 0:0], axis=1) acc f32 seq\n",
        "a: f32[2, 4]\ny: f32 = max(a[:, 0:0], axis=1)\n",
    ),
    "scalars": (
        "a: f32[]\nb: f32[]\ny: f32 = a / 3 + ln2 * b\n",
        "a: f32[]\nb: f32[]\ny: f32 = exp(a) - pi * b * log2e\n",
    ),
    "views of scalars": (
        "a: f32[]\nb: f32[]\ny: f32 = concat(reshape(a, 1), broadcast(b, 3), axis=0)\n",
        "a: f32[]\nb: f32[]\n"
        "y: f32 = concat(broadcast(inf, 2), reshape(exp(b), 1), reshape(pi, 1), axis=0)\n",
    ),
    "a shared expression": (
        "a: bf16[3]\ny: bf16 = (exp(a) + a) * (exp(a) + a) - exp(a)\n",
        "a: bf16[3]\nb: real = exp(a)\nc: real = b\ny: bf16 = (c + a) * (b + a) - 1e-3\n",
    ),
    "an output that is an input": (
        "y: f32[2]\n",
        "y: f32[2]\n",
    ),
}


def test_a_program_gives_its_bits(run_scripts):
    cases = itertools.product(PROGRAMS.items(), (SMALL, SPECIAL))
    check(
        run_scripts, {(name, words): make_witness(*texts, words) for (name, texts), words in cases}
    )


def test_the_bits_of_every_format_are_printed(run_scripts):
    x = "x: f32[11]\n"
    words = ("0x1p0", "0x1p1", "-0x1p-1", "0x1.8p-6", "0x0p0", *SPECIAL[:5], "0x1p6")
    names = list(FORMATS)
    texts = [f"{x}y: {name} = x{'' if name != 'e8m0' else ' saturate'}\n" for name in names]
    witnesses = {}
    for name, before, after in zip(names, texts, [*texts[1:], texts[0]], strict=True):
        witnesses[name] = make_witness(before, after, words)
    check(run_scripts, witnesses)


def finite(rng):
    return Fraction(rng.choice((-1, 1)) * rng.getrandbits(8)) * Fraction(2) ** rng.randint(-12, 1)


def test_the_helpers_are_the_functions_of_the_exact_core():
    rng = random.Random(5)
    specials = [math.inf, -math.inf, math.nan, -0.0, Fraction(0), Fraction(1), Fraction(9, 4)]
    rounding = Rounding.of("bf16")
    compared = 0
    for name, (count, _) in ELEMENTWISE.items():
        fn = FUNCTION.get(name, name)
        helper = getattr(script_helpers, HELPER.get(fn, fn))
        for args in itertools.product(specials, repeat=count):
            args = [rng.choice([x, finite(rng)]) for x in args]
            want = round_exact(FUNCTIONS[fn](*args), rounding)
            given = script_helpers.settled(helper(*args), 8, -126)
            got = script_helpers.rounded(given, 8, -126, rounding.format.max_finite)
            assert identical(got, want), (name, args, got, want)
            compared += 1
    assert compared > 1000
