"""`lastbit infer`: say what gives the bits that were observed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lastbit.commands.check import read_inputs
from lastbit.commands.predict import Shape, read_formats, read_number, read_shape

if TYPE_CHECKING:
    from lastbit.inference.records import Inferred

Command = TypeVar("Command", bound=Callable[..., Any])

_SIZE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(\d+)\s*")
MATMUL = "matmul"

HELP = """Say which variant of REFERENCE has the bits of KERNEL.

REFERENCE is a function, FILE.py:NAME, written with lastbit's own operators, or a value of a plan,
PLAN.toml:NAME. KERNEL is any callable on arrays, FILE.py:NAME, and a black box: a library call, or
a kernel of your own. What fusions, compilers and libraries do to a program (the rules of the
catalogue, every operation rounded, other accumulators and trees) is applied to the reference, one
change, then two, then as many as bring it nearer, until its bits are the kernel's on all inputs.
Exit code 0: one variant, or several equal ones; 1: none, or several that the inputs do not tell
apart. The files are run.

\b
    # norm.py
    import lastbit, numpy
    def reference(x, r):
        h = (x + r).to("bf16")
        return (h * 3).to("bf16")
    def kernel(x, r):
        h = x.astype("float32") + r.astype("float32")
        return (h * 3).astype(x.dtype)
    reference.inputs = {"x": "bf16[64, 1024]", "r": "bf16[64, 1024]"}

\b
    lastbit infer norm.py:reference norm.py:kernel
    lastbit infer norm.py:reference --write-inputs in.npz     # run the kernel elsewhere, then
    lastbit infer norm.py:reference --data in.npz --observed out.npz
    lastbit infer matmul --help                               # products, from files

Arrays are torch's where the kernel names torch, or its file imports torch and the kernel names no
numpy; else numpy's; --arrays says otherwise. `found` means told apart from every variant that was
tried. Functions such as exp are taken as correctly rounded. Where the kernel's library computes
them within N ulp of a format, say so: --ulp 2 --as f32. There is no allowance otherwise.
"""

MATMUL_HELP = """Say by which schedule a matrix product was summed.

A, B and the product are raw files of codes, row by row (.npy, .npz and .safetensors too; FILE:NAME
names a tensor of several). Chains of a matrix unit, promotion, split-K of all kinds and lanes are
tried on a few outputs, then on all. `found` says that every other schedule that is searched differs
on these operands, or is the same tree; where several give all bits, operands are offered that tell
them apart. Else the nearest are printed. With both --alpha and --bias, one rounding is tried too.

\b
    lastbit infer matmul --machine hopper --as bf16 --shape 64,1024,64 \\
        --a a.raw --b b.raw --observed c.raw
"""


class Infer(click.Group):
    """A group whose first word is `matmul`, or else a reference."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Hand everything but `matmul` to the command for functions."""
        if args[:1] != [MATMUL]:
            args = [FUNCTIONS, *(args or ["--help"])]
        return super().parse_args(ctx, args)


FUNCTIONS = ""  # the name of the command for functions, which nobody writes


class _Unnamed(click.Context):
    """The context of the command that has no name."""

    @property
    def command_path(self) -> str:
        """Return the words by which the command is called."""
        return super().command_path.rstrip()


class Functions(click.Command):
    """The command for functions."""

    context_class = _Unnamed


@click.group("infer", cls=Infer, short_help="Infer from bits what a kernel computes.")
def command() -> None:
    """Infer what gives the observed bits."""


def _sizes(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for text in given:
        match = _SIZE.fullmatch(text)
        if not match:
            raise click.BadParameter(f"{text!r} gives no size; write M=64.")
        found[match[1]] = int(match[2])
    return found


def _report_options(command: Command) -> Command:
    shown = click.option(
        "--format", "shown", type=click.Choice(("text", "json")), default="text", show_default=True
    )
    inputs = click.option(
        "--write-inputs",
        "file_inputs",
        metavar="FILE.npz",
        help="Write the inputs that tell variants apart, or on which the nearest fails; without "
        "KERNEL and --observed, those that are drawn.",
    )
    seed = click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Seed of every draw.",
    )
    quiet = click.option(
        "-q", "--quiet", is_flag=True, help="Text: the last line only. No progress."
    )
    return shown(inputs(seed(quiet(command))))


@command.command(FUNCTIONS, cls=Functions, help=HELP, short_help="A kernel against a reference.")
@click.argument("reference", metavar="REFERENCE")
@click.argument("kernel", metavar="[KERNEL]", required=False)
@click.option("--observed", metavar="FILE", help="What the kernel returned, in place of KERNEL.")
@click.option("--data", metavar="FILE", help="The inputs; else they are drawn.")
@click.option(
    "--input",
    "inputs",
    metavar="NAME=FORMAT[SIZES]",
    multiple=True,
    callback=read_inputs,
    help="Format and shape of an input, 'x=bf16[64, 4096]', and how it is drawn, "
    "'x=bf16[64, 4096] normal(0, 1) in [-8, 8]'; repeatable.",
)
@click.option(
    "--symbol",
    "sizes",
    metavar="NAME=SIZE",
    multiple=True,
    callback=_sizes,
    help="The size of a symbol, M=64; repeatable.",
)
@click.option("--arrays", type=click.Choice(("numpy", "torch")), help="What the kernel reads.")
@click.option("--device", default="cpu", metavar="NAME", help="Where torch tensors lie.")
@click.option("--machine", metavar="NAME", help="Whose matrix unit may add products: hopper ...")
@click.option(
    "--depth",
    type=click.IntRange(0, 3),
    default=3,
    show_default=True,
    help="Changes at a time; 3: as many as bring a variant nearer.",
)
@click.option(
    "--effort",
    type=click.IntRange(min=1),
    default=400,
    show_default=True,
    help="Variants of two changes that are tried, and of more.",
)
@click.option("--special", is_flag=True, help="Try infinities, NaN, zeros and subnormals too.")
@click.option(
    "--ulp", type=click.IntRange(min=1), metavar="N", help="How far functions may be off."
)
@click.option("--as", "ulp_format", metavar="FORMAT", help="The format of those ulp.")
@_report_options
def functions(
    reference: str,
    kernel: str | None,
    observed: str | None,
    data: str | None,
    inputs: dict[str, str],
    sizes: dict[str, int],
    arrays: str | None,
    device: str,
    machine: str | None,
    depth: int,
    effort: int,
    special: bool,
    ulp: int | None,
    ulp_format: str | None,
    shown: str,
    file_inputs: str | None,
    seed: int,
    quiet: bool,
) -> int:
    """Infer, print the report, write inputs, and return the exit code."""
    from lastbit.inference.files import require_writable
    from lastbit.inference.finding import drawn_inputs, infer
    from lastbit.tracing.targets import load_targets

    if kernel is not None and observed is not None:
        raise click.UsageError("KERNEL and --observed exclude each other.")
    if file_inputs is not None:
        require_writable(file_inputs)
    texts = [text for text in (reference, kernel) if text is not None and not _in_plan(text)]
    loaded = dict(zip(texts, load_targets(*texts), strict=True))
    first = loaded.get(reference, reference)
    if kernel is None and observed is None:
        if file_inputs is None:
            raise click.UsageError("give KERNEL, or --observed FILE, or --write-inputs FILE.npz.")
        ref, codes = drawn_inputs(first, inputs=inputs, sizes=sizes, seed=seed)
        _write(file_inputs, codes, ref.formats, quiet)
        return 0
    result = infer(
        first,
        None if kernel is None else loaded[kernel],
        observed=observed,
        inputs=inputs,
        data=data,
        sizes=sizes,
        arrays=arrays,
        device=device,
        machine=machine,
        depth=depth,
        effort=effort,
        special=special,
        ulp=ulp,
        ulp_format=ulp_format,
        seed=seed,
        progress=_progress(quiet),
    )
    return _give(result, shown, file_inputs, quiet)


def _in_plan(text: str) -> bool:
    return text.rpartition(":")[0].endswith((".toml", ".json"))


@command.command(MATMUL, help=MATMUL_HELP, short_help="A matrix product, from files.")
@click.option("--a", "file_a", required=True, metavar="FILE", help="The left operand, [M, K].")
@click.option("--b", "file_b", required=True, metavar="FILE", help="The right operand, [K, N].")
@click.option("--transposed-b", is_flag=True, help="The file holds B as [N, K].")
@click.option("--observed", required=True, metavar="FILE", help="The product, [M, N].")
@click.option(
    "--as",
    "formats",
    required=True,
    metavar="FORMAT[,FORMAT]",
    callback=read_formats,
    help="The format of A and B, or of each.",
)
@click.option("--shape", required=True, metavar="M,K,N", callback=read_shape, help="The sizes.")
@click.option("--machine", "machines", multiple=True, metavar="NAME", help="Repeatable; else all.")
@click.option("--units-only", is_flag=True, help="Leave out sums without a matrix unit.")
@click.option("--acc", default="f32", show_default=True, metavar="FORMAT", help="Accumulators.")
@click.option("--alpha", metavar="NUMBER", callback=read_number, help="A factor of these.")
@click.option("--bias", "file_bias", metavar="FILE", help="N binary32 values that are added.")
@click.option("--out-as", metavar="FORMAT", help="The format of the product; else that of --acc.")
@click.option("--device", metavar="NAME", help="Compute with torch there, such as cuda.")
@_report_options
def matmul(
    file_a: str,
    file_b: str,
    transposed_b: bool,
    observed: str,
    formats: tuple[str, str],
    shape: Shape,
    machines: tuple[str, ...],
    units_only: bool,
    acc: str,
    alpha: float | None,
    file_bias: str | None,
    out_as: str | None,
    device: str | None,
    shown: str,
    file_inputs: str | None,
    seed: int,
    quiet: bool,
) -> int:
    """Infer, print the report, write inputs, and return the exit code."""
    from lastbit.commands.predict import read_tensor
    from lastbit.formats import F32, format_of
    from lastbit.inference.files import require_writable
    from lastbit.inference.products import infer_matmul
    from lastbit.inference.room import room

    if file_inputs is not None:
        require_writable(file_inputs)
    m, k, n = shape
    left, right = (format_of(name) for name in formats)
    a = read_tensor(file_a, left, (m, k), "`a`")
    stored = read_tensor(file_b, right, (n, k) if transposed_b else (k, n), "`b`")
    seen = read_tensor(observed, format_of(out_as or acc), (m, n), "the observed product")
    bias = None if file_bias is None else read_tensor(file_bias, F32, (n,), "the bias")
    with room(f"a product {list(shape)}"):
        result = infer_matmul(
            a,
            stored.T if transposed_b else stored,
            seen,
            formats,
            machine=machines or None,
            out=out_as,
            acc=acc,
            alpha=alpha,
            bias=bias,
            units_only=units_only,
            seed=seed,
            device=device,
            progress=_progress(quiet),
            name=observed,
        )
    return _give(result, shown, file_inputs, quiet)


def _give(result: Inferred, shown: str, file_inputs: str | None, quiet: bool) -> int:
    if file_inputs is not None and result.inputs:
        _write(file_inputs, result.inputs, result.formats, quiet=True)
    elif file_inputs is not None and shown != "text":
        click.echo(f"{file_inputs}: there are no inputs to write", err=True)
    text = result.render(shown)
    if shown == "text":
        if file_inputs is not None:
            wrote = f"wrote {file_inputs}" if result.inputs else "there are no inputs to write"
            text = f"{text.rstrip()}; {wrote}\n"
        if quiet:
            text = text.rstrip("\n").rpartition("\n")[2] + "\n"
    click.echo(text, nl=False)
    return result.exit_code


def _write(path: str, codes: Any, formats: Any, quiet: bool) -> None:
    from lastbit.inference.files import write_tensors

    write_tensors(path, {name: (codes[name], formats[name]) for name in codes})
    if not quiet:
        names = ", ".join(f"{n}: {formats[n].short}{list(codes[n].shape)}" for n in codes)
        click.echo(f"{path}: {names}")


def _progress(quiet: bool) -> Callable[[int, int, str], None] | None:
    return None if quiet or not sys.stderr.isatty() else _show_progress


def _show_progress(done: int, total: int, text: str) -> None:
    end = "\r\x1b[K" if done == total else f"\r\x1b[K{done} of {total}  {text[:60]}"
    click.echo(end, err=True, nl=False)
