"""`lastbit predict`: the bits that a machine's matrix unit will give."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from lastbit.formats import Format
    from lastbit.predicting import MatmulSpec
    from lastbit.round_array import Codes

Command = TypeVar("Command", bound=Callable[..., Any])
Shape = tuple[int, int, int]
MOST_TERMS = 1 << 24  # a schedule is written down term by term

MATMUL_HELP = """Predict the bits of a matrix product [M, K] x [K, N] on a machine.

A and B are raw files of codes, row by row (.npy, .npz and .safetensors too; FILE:NAME names a
tensor of several), or drawn from --seed. Each output is summed by --schedule, in which the symbols
M, K and N may stand; without it by the machine's chain of steps in the order of K. Then come
--alpha, --bias and the rounding to --out-as, each rounded to the accumulator's format before.

\b
    lastbit predict matmul --machine hopper --as bf16 --shape 64,4096,64 --a a.raw --b b.raw \\
        --schedule "split(3, tile=64, inner=fused(16, hopper), outer=seq)" --out c.raw
    lastbit predict matmul --machine hopper --as e4m3fn --shape 64,1024,64 --a a.raw --b b.raw \\
        --schedule "promote(128, f32, inner=fused(32, hopper))" --expect seen.raw

With --expect, exit code 1 says that an output differs, and the message which one. There every NaN
counts as the same; in the file of --out it has the machine's code. An unknown machine, format or
step is refused, with what is known.
"""


@click.group("predict", short_help="Predict the bits of a matrix product on a machine.")
def command() -> None:
    """Predict bits."""


def read_shape(_: click.Context, __: click.Parameter, given: str) -> Shape:
    """Return the sizes that M,K,N gives."""
    sizes = given.split(",")
    if len(sizes) != 3 or not all(size.strip().isdecimal() for size in sizes):
        raise click.BadParameter(f"{given!r} gives no sizes; write M,K,N as 64,4096,64.")
    m, k, n = (int(size) for size in sizes)
    if min(m, k, n) < 1:
        raise click.BadParameter(f"{given!r} has a size of 0; M, K and N are 1 and above.")
    if k > MOST_TERMS:
        raise click.BadParameter(f"{given!r}: K is {k:,}, and sums have at most {MOST_TERMS:,}.")
    return m, k, n


def read_formats(_: click.Context, __: click.Parameter, given: str) -> tuple[str, str]:
    """Return the format of each operand, of one name or two."""
    names = given.split(",")
    if len(names) > 2:
        raise click.BadParameter(
            f"{given!r} names more than two formats; write bf16 or e4m3fn,e5m2."
        )
    return names[0].strip(), names[-1].strip()


def read_number(_: click.Context, __: click.Parameter, given: str | None) -> float | None:
    """Return a number, decimal or hexadecimal."""
    if given is None:
        return None
    try:
        return float.fromhex(given) if "x" in given.lower() else float(given)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{given!r} is no number; write 0.125 or 0x1p-3.") from None


@command.command("matmul", help=MATMUL_HELP, short_help="A matrix product.")
@click.option("--machine", required=True, metavar="NAME", help="Such as hopper, ada, cdna3, ieee.")
@click.option(
    "--as",
    "formats",
    required=True,
    metavar="FORMAT[,FORMAT]",
    callback=read_formats,
    help="The format of A and B, or of each.",
)
@click.option("--shape", required=True, metavar="M,K,N", callback=read_shape, help="The sizes.")
@click.option("--a", "file_a", metavar="FILE", help="The left operand, [M, K].")
@click.option("--b", "file_b", metavar="FILE", help="The right operand, [K, N].")
@click.option("--seed", type=click.IntRange(min=0), help="Draw the operands that have no file.")
@click.option(
    "--draw",
    type=click.Choice(("normal", "wide", "finite", "bits")),
    default="normal",
    show_default=True,
    help="Normal numbers, numbers of very different size, random bits below 2, or random bits.",
)
@click.option("--schedule", metavar="TEXT", help="How each output is summed.")
@click.option("--acc", default="f32", show_default=True, metavar="FORMAT", help="Accumulators.")
@click.option(
    "--alpha", metavar="NUMBER", callback=read_number, help="A factor of the accumulators."
)
@click.option("--bias", "file_bias", metavar="FILE", help="N binary32 values that are added.")
@click.option("--contract", is_flag=True, help="Apply alpha and bias with one rounding.")
@click.option("--out-as", metavar="FORMAT", help="The format of the output; else that of --acc.")
@click.option("--saturate", is_flag=True, help="Outputs beyond the range become the largest.")
@click.option("--out", "file_out", metavar="FILE", help="Write the raw bits, row by row.")
@click.option("--expect", metavar="FILE", help="Compare with bits that were seen.")
@click.option("--threads", type=click.IntRange(min=1), help="As many as there are cores if unset.")
@click.option("--device", metavar="NAME", help="Compute with torch there, such as cuda.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, and no word about success.")
def matmul(
    machine: str,
    formats: tuple[str, str],
    shape: Shape,
    file_a: str | None,
    file_b: str | None,
    seed: int | None,
    draw: str,
    schedule: str | None,
    acc: str,
    alpha: float | None,
    file_bias: str | None,
    contract: bool,
    out_as: str | None,
    saturate: bool,
    file_out: str | None,
    expect: str | None,
    threads: int | None,
    device: str | None,
    quiet: bool,
) -> int:
    """Predict, write, compare, and return the exit code."""
    from lastbit.files import require_folder, write_bytes_atomically
    from lastbit.formats import F32
    from lastbit.inference.room import room
    from lastbit.predicting import MatmulSpec, predict_codes
    from lastbit.schedule_remarks import remarks

    if file_out is None and expect is None:
        raise click.UsageError("nothing is asked for; give --out FILE or --expect FILE.")
    if contract and (alpha is None or file_bias is None):
        raise click.UsageError("--contract rounds alpha and bias at once; give --alpha and --bias.")
    if file_out is not None:
        require_folder(file_out)
    m, k, n = shape
    spec = MatmulSpec(
        machine, *formats, schedule, acc, alpha, contract, out=out_as, saturate=saturate
    )
    spec.tape(m, k, n)  # what is wrong with it is said before files are read
    output = spec.output.format
    seen = None if expect is None else read_tensor(expect, output, (m, n), "the expected output")
    if not quiet:
        for remark in remarks(spec.bound(m, k, n), k):
            click.echo(f"note: {remark}", err=True)
    bias = None if file_bias is None else read_tensor(file_bias, F32, (n,), "the bias")
    spec.epilogue(None)
    progress = None if quiet or not sys.stderr.isatty() else _show_progress
    with room(f"a product {list(shape)}", _drawn_bytes(shape, (file_a, file_b), output)):
        a, b = _operands(spec, shape, (file_a, file_b), seed, draw)
        codes = predict_codes(spec, a, b, bias, threads, device, progress)
    if file_out is not None:
        write_bytes_atomically(file_out, codes.reshape(-1).view("u1").data)
        if not quiet:
            click.echo(f"{file_out}: {codes.size:,} outputs of {output.short}, row by row")
    return 0 if seen is None else _compare(codes, seen, output, expect or "", quiet)


def _drawn_bytes(shape: Shape, files: tuple[str | None, str | None], output: Format) -> int:
    """Return the bytes that operands without a file, and the outputs, take at least."""
    m, k, n = shape
    drawn = sum(size for path, size in zip(files, (m * k, k * n), strict=True) if path is None)
    return drawn * 8 + m * n * (output.container // 8)  # draws are binary64 at first


def _operands(
    spec: MatmulSpec,
    shape: Shape,
    files: tuple[str | None, str | None],
    seed: int | None,
    draw: str,
) -> tuple[Codes, Codes]:
    import numpy as np

    from lastbit.predicting import draw_codes

    m, k, n = shape
    made = []
    for i, (name, path, size) in enumerate(zip("ab", files, ((m, k), (k, n)), strict=True)):
        fmt = spec.formats[i]
        if path is not None:
            made.append(read_tensor(path, fmt, size, f"`{name}`"))
        elif seed is None:
            raise click.UsageError(f"operand {name} is missing; give --{name} FILE, or --seed.")
        else:
            rng = np.random.Generator(np.random.PCG64([seed, i]))
            made.append(draw_codes(size, fmt, draw, rng))
    return made[0], made[1]


def read_tensor(path: str, fmt: Format, shape: tuple[int, ...], of: str) -> Codes:
    """Return the codes of a tensor of a file, which may be named: FILE:NAME."""
    from lastbit.inference.files import tensor_in

    return tensor_in(path, of.strip("`"), fmt, shape, of, choose=True)


def _compare(codes: Codes, seen: Codes, fmt: Format, path: str, quiet: bool) -> int:
    """Say where outputs differ; return 1 if any does."""
    import numpy as np

    from lastbit.inference.arrays import canonical_codes

    ours = canonical_codes(codes, fmt)
    differ = ours != canonical_codes(seen, fmt)
    count = int(differ.sum())
    if not count:
        if not quiet:
            click.echo(f"{path}: all {codes.size:,} outputs have the predicted bits")
        return 0
    place = tuple(int(i) for i in np.unravel_index(int(differ.argmax()), differ.shape))
    digits = -(-fmt.container // 4)
    got, want = (f"0x{int(array[place]):0{digits}x}" for array in (codes, seen))
    click.echo(
        f"{path}: {count:,} of {codes.size:,} outputs differ; the first at "
        f"[{place[0]}, {place[1]}]: predicted {got}, seen {want}"
    )
    return 1


def _show_progress(done: int, total: int) -> None:
    end = "\r\x1b[K" if done == total else f"\r\x1b[K{done:,} of {total:,} outputs"
    click.echo(end, err=True, nl=False)
