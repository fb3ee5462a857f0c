"""Witnesses of two programs, and the scripts that show them."""

import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np

from lastbit.formats import bits_text, format_of
from lastbit.graph import native_rounding
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import ExactDomain, exact_array
from lastbit.interpret.policy import Policy
from lastbit.result import Location, Program, Step, Witness, WitnessInput, hex_of
from lastbit.rounding import Rounding, round_exact
from lastbit.script import write_script
from lastbit.text import parse_program

SPECIAL = ("inf", "-inf", "nan", "-0x0p0", "0x0p0", "0x1p0", "-0x1p-1", "0x1.fp7")
SMALL = ("0x1.8p-1", "-0x1.4p0", "0x1.02p1", "0x1p-2", "-0x1.8p1", "0x0p0", "0x1.fep0")


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


def run_where(folder, modules, scripts):
    """Run scripts, by name, in a folder; they import nothing but Python's own and `modules`."""
    paths = {name: str(folder / f"script{i}.py") for i, name in enumerate(scripts)}
    for name, path in paths.items():
        Path(path).write_text(scripts[name], encoding="utf-8")
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", RUNNER, str(modules)]
    done = subprocess.run([*command, *paths.values()], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    results = json.loads(done.stdout)
    return {name: results[path] for name, path in paths.items()}


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
    """Return a step that a witness shows."""
    place = Location("plan.toml", 3)
    return Step("t.drop", title, place, "rounding", ("t",), "drop-rounding", witness=witness)


def check(run_scripts, witnesses):
    """Run the scripts of witnesses, by name: they must print the exact domain's bits."""
    scripts = {name: write_script(step_of(w), w) for name, w in witnesses.items()}
    for name, (code, text) in run_scripts(scripts).items():
        witness = witnesses[name]
        pairs = zip(witness.before, witness.after, strict=True)
        printed = [line.partition(": ")[2] for line in text.splitlines()[:-1]]
        assert (name, printed) == (name, [f"{old} -> {new}" for old, new in pairs])
        assert (name, text.splitlines()[-1]) == (name, "These are the bits of the witness.")
        assert code == 0
    return scripts
