"""Codes of findings that no single rule made: about differences, regions, and cost."""

from __future__ import annotations

from collections.abc import Iterable

from lastbit.change import Change

DIFFERENCE_CODES = {
    Change.BITWISE: "FUS100",
    Change.REASSOCIATION: "RED200",
    Change.ROUNDING: "FUS100",
    Change.GRID: "QNT300",
    Change.MATH: "FUS100",
    Change.UNKNOWN: "FUS100",
}
OPAQUE_CODE, ASSUMED_CODE = "FUS190", "FUS191"
GENERAL = {
    "FUS100": "two graphs differ, or several transforms together do more than the plan allows",
    "RED200": "the same, where only the trees of sums differ",
    "QNT300": "the same, where a quantization differs",
    "FUS190": """an operator of an imported model is known by its name only

Why it matters: it gives equal results on equal inputs, and that is all that is known of it. Where a
value that it reads differs, everything after it is undecided, and the step says so. `lastbit ops`
lists the operators that are known. Where a difference there is accepted, allow it by name: an
`[[allow]]` with this code, `at` the operator or the value that it gives, and a reason; on the
command line: `lastbit check ... --allow 'FUS190 at NAME: reason'`.""",
    "FUS191": """what was read of an imported model, and what was assumed

Why it matters: a model file says what is computed, and not in which order a sum adds up, nor with
which accumulator; the table of operators supplies both. The same assumption holds for both sides of
a comparison, so it hides a difference where the two libraries add in different orders.""",
    "DET650": """an operator gives a row other bits in a batch of another size

Why it matters: the same request is answered differently by load. The report says at which sizes the
bits change, how far, and why where that can be shown. Every comparison is between runs of one
operator on its own recorded inputs, so one that only reads a differing result is not blamed.""",
    "DET651": """equal calls of an operator give different bits

Why it matters: a run cannot be repeated. Additions in no fixed order (atomics) do this. Batches are
then not compared.""",
    "DET652": """an operator's bits depend on the number of threads

Why it matters: the same program gives other bits on a computer with another number of cores, or
beside other work. It is a note: threads do not change between two requests to one process.""",
    "DET653": """an operator gives a row other bits at another place in the batch

Why it matters: the same request is answered differently by where it was put into the batch.""",
    "DET654": """an operator gives a row other bits where other rows hold other values

Why it matters: padding, or the requests of other users, change an answer. A scale or a norm over
the whole batch does this, and is then another function, not another rounding.""",
    "DET655": """a target compiled by Inductor gives other bits

Why it matters: what was tested eagerly is not what is deployed. The dropped roundings are named,
each with its line; `lastbit check F.py:f --compile` says more.""",
    "DET690": """an operator could not be run again by itself

Why it matters: nothing was decided of it. The gap says what it raised.""",
    "COST701": """a transform moves more bytes than before

Why it matters: a fusion saves the writing and reading of a value, and where every tile of the
result computes the value anew, each reads its operands again. With a wide operand and a narrow
result that costs more than it saves: a row of 16-bit numbers that 12 columns of tiles quantize is
read 12 times, where its codes, stored once, would be read 12 times at half the width.
How it is counted: bytes across the interface between the working set of a block and the next
storage level; a cache between the blocks is not counted. Kernels are those of the plan, changed by
its transforms, at its sizes; a kernel without a tile reads each operand once.
Source: Lam, Rothberg and Wolf, "The cache performance and optimizations of blocked algorithms"
(ASPLOS 1991).""",
    "COST702": """a block does not fit on the device

Why it matters: such a kernel does not start, or keeps its running sums in local memory, which is
the device's memory.
How it is counted: a block holds the operands of its sums, once for each buffer, its running sums,
and what it needs in a second pass. It has to fit into the shared memory that one block may have;
with `threads` and `registers` in its `[[kernel]]`, into the slots and registers of an SM too.
Source: NVIDIA, "CUDA C++ Programming Guide", table "Technical Specifications per Compute
Capability".""",
    "COST703": """the pass that adds up the pieces of a split sum costs more than the split saves

Why it matters: pieces of a sum keep more of the device busy, and each leaves a partial sum behind
that is written, and read by one launch more. Where the tiles alone fill the device there is nothing
to save.
How it is counted: the bytes of the launches that differ, at the bandwidth of the device, of which
an SM without a block leaves its share unused. The overhead of a launch is not counted. It needs
`device` in `[target]` and the rows and columns of the tile.
Source: Osama et al., "Stream-K" (arXiv 2301.03598), on tiles that do not fill a device.""",
}


def heads(codes: Iterable[str]) -> frozenset[str]:
    """Return what names one of some codes or several: a code, or its beginning with the family.

    Args:
        codes: codes of rules; those that no rule made are added.
    """
    known = {*codes, *GENERAL}
    ends = ((code, len(code.rstrip("0123456789"))) for code in known)
    return frozenset(code[:end] for code, least in ends for end in range(least, len(code) + 1))
