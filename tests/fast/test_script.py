"""A script shows the bits of its witness, with numpy alone; `lastbit.interpret.exact` agrees."""

import ast
import dataclasses
import itertools
import json
import math
import os
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from lastbit import script_helpers
from lastbit.errors import InputError
from lastbit.formats import FORMATS, bits_text, format_of, identical
from lastbit.graph import native_rounding
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import ExactDomain, exact_array
from lastbit.interpret.policy import Policy
from lastbit.ops import ELEMENTWISE, FUNCTION
from lastbit.reals import FUNCTIONS
from lastbit.result import Location, Program, Step, Witness, WitnessInput, hex_of
from lastbit.rounding import Mode, Rounding, round_exact
from lastbit.script import write_script
from lastbit.script_lines import HELPER
from lastbit.text import parse_program

# Sums of these round differently in every order: 2^24 absorbs 1, 2^8 is where bf16 absorbs it.
WORDS = ("0x1p24", "0x1p0", "-0x1.8p0", "0x1p8", "0x1.02p0", "-0x1p24", "0x1.fep-3")
SMALL = ("0x1.8p-1", "-0x1.4p0", "0x1.02p1", "0x1p-2", "-0x1.8p1", "0x0p0", "0x1.fep0")
SPECIAL = ("inf", "-inf", "nan", "-0x0p0", "0x0p0", "0x1p0", "-0x1p-1", "0x1.fp7")


@pytest.fixture(scope="module")
def only_numpy(tmp_path_factory):
    """Return a folder from which numpy can be imported, and nothing else."""
    folder = tmp_path_factory.mktemp("numpy")
    home = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (home / name).exists():
            os.symlink(home / name, folder / name, target_is_directory=True)
    return folder


# Runs scripts one after the other, each as a program of its own would run.
RUNNER = """
import contextlib, io, json, runpy, sys
sys.path.insert(0, sys.argv[1])
done = {}
for path in sys.argv[2:]:
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        done[path] = end.code, out.getvalue()
print(json.dumps(done))
"""


@pytest.fixture
def run(only_numpy, tmp_path):
    """Return a function that runs scripts, by name, where only numpy is installed."""

    def run_scripts(scripts):
        paths = {name: str(tmp_path / f"script{i}.py") for i, name in enumerate(scripts)}
        for name, path in paths.items():
            Path(path).write_text(scripts[name], encoding="utf-8")
        command = [sys.executable, "-I", "-S", "-W", "error", "-c", RUNNER, str(only_numpy)]
        done = subprocess.run(
            [*command, *paths.values()], capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        results = json.loads(done.stdout)
        return {name: results[path] for name, path in paths.items()}

    return run_scripts


def exact_bits(text, witness):
    """Return the bits of one side as the exact domain gives them."""
    graph = parse_program(text).bind({})
    node = graph.values[witness.output]
    inputs = {n: exact_array(given.values(), given.shape) for n, given in witness.inputs.items()}
    (value,) = evaluate([node], ExactDomain(inputs), Policy.BITS)
    rounding = native_rounding(node)
    fmt = format_of(witness.format) if rounding is None else rounding.format
    array = np.broadcast_to(value.array, node.shape)
    return tuple(bits_text(array[place], fmt) for place in witness.index)


def make_witness(before, after, words=SMALL, output="y", fmt="bf16"):
    """Return the witness of two programs: every element of the output, on inputs from a list."""
    graph = parse_program(before).bind({})
    inputs = {}
    for leaf in graph.inputs:
        count = math.prod(leaf.shape)
        fill = itertools.islice(itertools.cycle(words), count)
        values = (round_exact(float.fromhex(word), Rounding.of(leaf.format)) for word in fill)
        inputs[leaf.name] = WitnessInput(
            leaf.format.short, leaf.shape, tuple(hex_of(value) for value in values)
        )
    index = tuple(np.ndindex(*graph.values[output].shape))
    blank = ("0x0",) * len(index)
    program = Program(before, after)
    empty = Witness("rounding", inputs, blank, blank, fmt, program, "BITS", output, index)
    old, new = (exact_bits(text, empty) for text in (before, after))
    return Witness("rounding", inputs, old, new, fmt, program, "BITS", output, index)


def step_of(witness, title="`t` is no longer rounded before `y`"):
    place = Location("plan.toml", 3)
    return Step("t.drop", title, place, "rounding", ("t",), "drop-rounding", witness=witness)


def check(run, witnesses):
    """Run the scripts of witnesses, by name: they must print the exact domain's bits."""
    scripts = {name: write_script(step_of(w), w) for name, w in witnesses.items()}
    for name, (code, text) in run(scripts).items():
        witness = witnesses[name]
        pairs = zip(witness.before, witness.after, strict=True)
        printed = [line.partition(": ")[2] for line in text.splitlines()[:-1]]
        assert (name, printed) == (name, [f"{old} -> {new}" for old, new in pairs])
        assert (name, text.splitlines()[-1]) == (name, "These are the bits of the witness.")
        assert code == 0
    return scripts


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


def test_a_sum_is_added_by_its_schedule(run):
    before = "x: bf16[2, 7]\ny: f32 = sum(x, axis=1) acc f32 seq\n"
    witnesses = {}
    for name, schedule in SUMS.items():
        acc = f" acc {schedule}" if schedule else ""
        after = f"x: bf16[2, 7]\ny: {schedule.split(' ')[0] or 'real'} = sum(x, axis=1){acc}\n"
        witnesses[name] = make_witness(before, after, WORDS, fmt="f32")
    check(run, witnesses)
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


def test_a_matrix_unit_adds_by_its_steps(run):
    witnesses = {}
    for (name, after), words in itertools.product(STEPS.items(), (WORDS, SPECIAL)):
        head, _, tail = after.partition(" acc ")
        before = f"{head} acc {tail.split(' ')[0]} seq\n"
        witnesses[name, words] = make_witness(before, after, words)
    check(run, witnesses)


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


def test_a_program_gives_its_bits(run):
    cases = itertools.product(PROGRAMS.items(), (SMALL, SPECIAL))
    check(run, {(name, words): make_witness(*texts, words) for (name, texts), words in cases})


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


def test_every_rounding_is_done(run):
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
    check(run, witnesses)
    assert len(roundings) > 200


def test_the_bits_of_every_format_are_printed(run):
    x = "x: f32[11]\n"
    words = ("0x1p0", "0x1p1", "-0x1p-1", "0x1.8p-6", "0x0p0", *SPECIAL[:5], "0x1p6")
    names = list(FORMATS)
    texts = [f"{x}y: {name} = x{'' if name != 'e8m0' else ' saturate'}\n" for name in names]
    witnesses = {}
    for name, before, after in zip(names, texts, [*texts[1:], texts[0]], strict=True):
        witnesses[name] = make_witness(before, after, words)
    check(run, witnesses)


def test_every_function_is_computed_to_the_last_bit(run):
    words = (*SMALL[:4], *SPECIAL[:5], "0x1p-133", "-0x1p100", "0x1.7p5")
    calls = [
        f"{name}({', '.join(['x', 'z', 'x * z'][:count])})"
        for name, (count, _) in ELEMENTWISE.items()
    ]
    line = f"concat({', '.join(calls)}, axis=0)"
    texts = [f"x: bf16[12]\nz: bf16[1]\ny: {fmt} = {line}\n" for fmt in ("bf16", "f64")]
    check(run, {"functions": make_witness(*texts, words)})


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


@pytest.mark.parametrize("mode", ["", " rtz", " rup"])
def test_an_unrounded_real_rounds_as_its_exact_value(run, mode):
    witnesses = {}
    for name, definition in REALS.items():
        texts = [f"x: bf16[3]\nt: {definition}\ny: {fmt} = t{mode}\n" for fmt in ("bf16", "e4m3fn")]
        witnesses[name] = make_witness(*texts)
    check(run, witnesses)


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


def test_names_that_python_or_the_script_uses_are_changed(run):
    names = ["exp", "np", "Fraction", "bf16", "f32_bits", "terms1", "part1", "print", "match", "_"]
    names += ["before", "INPUTS", "hopper_16_f32", "type", "π", "fi", "exp_", "x", "__debug__"]
    lines = [f"{name}: bf16[2, 2]" for name in names[:3]]
    for old, name in itertools.pairwise(names[2:]):
        lines.append(f"{name}: bf16 = exp({old} / 8) + np * exp  # of `{old}`")
    before = "\n".join([*lines, "ﬁ: f32 = matmul(__debug__, Fraction) acc f32 fused(16, hopper)"])
    after = before.replace("fused(16, hopper)", "pairwise(1)")
    scripts = check(run, {"names": make_witness(before, after, output="ﬁ")})
    assert "# bf16: bf16 = exp(Fraction / 8) + np * exp\n" in scripts["names"]
    assert (
        "    bf16_ = bf16(add(exp(div(Fraction_, Fraction(8))), mul(np_, exp_)))"
        in (scripts["names"])
    )


def test_texts_of_the_result_stay_texts(run):
    line = 'y: bf16 = x / 3  # \rimport os\x0c""" \\'
    witness = make_witness(f"x: bf16[1]\n{line}\n", "x: bf16[1]\ny: bf16 = x * (1 / 3)\n")
    title = 'quotes """ and \'\'\', \\N{oops} \\ and\nnew\r lines, \x00, \udc80 and {braces}"'
    script = write_script(step_of(witness, title), witness)
    assert ast.get_docstring(ast.parse(script)).split("\n")[2].startswith('quotes """ and')
    assert run({"texts": script})["texts"][0] == 0
    assert "import os" not in script


def test_other_bits_than_those_of_the_witness_end_with_1(run):
    text = "x: bf16[1]\ny: bf16 = x / 3\n"
    witness = make_witness(text, text)
    edited = dataclasses.replace(witness, before=("0x3e80",), after=("0x3e81",))
    assert run({"edited": write_script(step_of(edited), edited)}) == {
        "edited": [
            1,
            "y[0] as bf16: 0x3e80 -> 0x3e80\nThe witness says 0x3e80 -> 0x3e81.\n",
        ]
    }


def test_a_script_holds_what_it_needs_and_no_more():
    text = "x: f32[4]\ny: f32 = sum(x, axis=0) acc f32 seq\n"
    witness = make_witness(text, text.replace("seq", "pairwise(2)"))
    script = write_script(step_of(witness), witness)
    assert script == write_script(step_of(witness), witness)
    tree = ast.parse(script)
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert defined <= read
    assert defined == {
        *("before", "after", "elementwise", "exact", "numbers", "floor_log2", "rounded", "add"),
        *("float_bits", "along", "running", "f32_bits", "f32", "bits", "main"),
    }
    assert "Decimal" not in script
    assert max(map(len, script.splitlines())) <= 100


REFUSED = {
    "opaque('topk', x)": "the opaque function 'topk'",
    "round(x, bf16, sr)": "stochastic rounding",
    "sum(x, axis=0) acc f32 any_order": "a sum in any order, which has a set of results",
    "argmax(x, axis=0)": "the index of any of several equal elements",
    "sum(x, axis=0) acc f32 fused(16, hopper)": (
        "a step of a matrix unit over terms that are no products"
    ),
    "sum(x * x, axis=0) acc f32 fused(32, hopper_mma)": (
        "this step of the matrix unit `hopper_mma/32`"
    ),
    "sum(x * abs(x), axis=0) acc f32 fused(16, hopper)": (
        "a step of a matrix unit over operands of no format"
    ),
    "sum(x * x, axis=0) acc f32 split(2, inner=seq, outer=fused(16, hopper))": (
        "a sum that adds some products within a matrix unit, some not"
    ),
    "sum(broadcast(x[0:1], 20000), axis=0) acc f32 seq": "a sum of 20000 terms",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_a_script_cannot_express_is_refused(expression):
    text = f"x: bf16[4]\ny: f32 = {expression}\n"
    inputs = {"x": WitnessInput("bf16", (4,), ("0x1p0",) * 4)}
    program = Program("x: bf16[4]\ny: f32 = x\n", text)
    witness = Witness("rounding", inputs, ("0x0",), ("0x1",), "f32", program, "BITS", "y", ((0,),))
    with pytest.raises(InputError) as caught:
        write_script(step_of(witness), witness)
    assert str(caught.value) == (
        f"a script cannot express {REFUSED[expression]}. Run `lastbit replay` without `--script`."
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"program": None}, "it has no program"),
        ({"output": "z"}, "its program 'before' has no value 'z'"),
        ({"index": ((1,),)}, "[1] is no index into 'y' with the shape [1]"),
        ({"index": ((0, 0),)}, "[0, 0] is no index into 'y' with the shape [1]"),
        ({"inputs": {}}, "it has no input 'x'"),
        (
            {"inputs": {"x": WitnessInput("f32", (1,), ("0x1p0",))}},
            "input 'x' has another shape or format than the program",
        ),
    ],
)
def test_a_witness_that_does_not_fit_its_program_is_refused(changes, reason):
    text = "x: bf16[1]\ny: bf16 = x / 3\n"
    witness = dataclasses.replace(make_witness(text, text), **changes)
    with pytest.raises(InputError) as caught:
        write_script(step_of(witness), witness)
    assert str(caught.value) == f"the witness cannot be used: {reason}."
