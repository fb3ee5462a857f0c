"""A chain of a matrix unit on an NVIDIA GPU: `chain.cu`, compiled when it is needed.

The compiler is NVRTC, and the kernel is launched by the driver; both are called through NVIDIA's
`cuda.bindings`, which torch's builds for CUDA bring along. Compiling takes about a second, once for
each unit and form in a process.
"""

from __future__ import annotations

import ctypes
import importlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from lastbit.engine.operands import BIAS, Ranged
from lastbit.formats import F32
from lastbit.machines import Unit

Tensor: TypeAlias = Any  # of torch
Function: TypeAlias = Any  # of cuda.bindings

SOURCE: Final = Path(__file__).with_name("chain.cu")


class CompilerError(Exception):
    """The kernel cannot be compiled, loaded or launched here."""


@dataclass(frozen=True, slots=True)
class Tile:
    """How the outputs of a tile lie on the threads of a block.

    The operands of a tile for 32 products are to fit 48 KiB of shared memory, with exponents.

    Attributes:
        down: threads along the rows.
        across: threads along the columns.
        rows: of each thread, a power of two.
        columns: of each thread, a power of two from 2 on.
        blocks: at least so many share a multiprocessor, which bounds their registers.
    """

    down: int
    across: int
    rows: int
    columns: int
    blocks: int


TILES: Final = {True: Tile(8, 16, 4, 4, 6), False: Tile(8, 16, 4, 4, 3)}
"""By whether the form is the narrow one."""


def is_narrow(unit: Unit) -> bool:
    """Return whether the narrow form holds the sums of a unit: they are below 2^32."""
    f = unit.fraction_bits
    return (unit.width << (f + 2)) + (1 << (f + 1)) <= 1 << 32


def cuda_chain(
    unit: Unit,
    a: Tensor,
    b: Tensor,
    operands: tuple[Ranged, Ranged],
    narrow: bool,
    tile: Tile | None = None,
) -> Tensor:
    """Return the accumulators after a chain, f32[M, N], at the scale of the operands.

    Args:
        unit: the matrix unit, of the method `aligned`, with an accumulator of f32.
        a: the left operand, `f32[K, M]` on a GPU, K a multiple of the unit's width: `scaled` of the
            operand in the narrow form, else `singles`.
        b: the right operand, `f32[K, N]`, likewise.
        operands: the whole operands, which say the exponents of their formats and scales.
        narrow: whether the narrow form is used: `lastbit.engine.narrow.fits` and `is_narrow`.
        tile: the outputs of a block of threads; the fastest one known if None.

    Raises:
        CompilerError: the compiler is missing, or has no code for this GPU.
    """
    torch = importlib.import_module("torch")
    (k, m), n = a.shape, b.shape[1]
    out = torch.zeros((m, n), dtype=torch.float32, device=a.device)
    if not out.numel() or not k:
        return out
    tile = tile or TILES[narrow]
    a, b = a.contiguous(), b.contiguous()
    least = least_exponents(operands, narrow)
    with torch.cuda.device(a.device):
        capability = torch.cuda.get_device_capability()
        function = _function(a.device.index, capability, definitions(unit, narrow, tile))
        driver = importlib.import_module("cuda.bindings.driver")
        pointers = [x.data_ptr() for x in (a, b, out)]
        kinds = (*[ctypes.c_void_p] * 3, *[ctypes.c_int] * 5)
        grid = -(-n // (tile.across * tile.columns)), -(-m // (tile.down * tile.rows)), 1
        threads = tile.down * tile.across, 1, 1
        stream = torch.cuda.current_stream().cuda_stream
        given = ((*pointers, m, n, k, *least), kinds)
        _checked(driver.cuLaunchKernel(function, *grid, *threads, 0, stream, given, 0))
    return out


def least_exponents(operands: tuple[Ranged, Ranged], narrow: bool) -> tuple[int, int]:
    """Return the biased exponents of the least normal numbers of the operands, as they are given.

    Subnormal numbers count with them.
    """
    scales = (x.extent.most if narrow else 0 for x in operands)
    left, right = (x.format.emin + BIAS - e for x, e in zip(operands, scales, strict=True))
    return left, right


def definitions(unit: Unit, narrow: bool, tile: Tile) -> tuple[str, ...]:
    """Return the constants of `chain.cu`, as a compiler takes them."""
    constants = {
        "WIDTH": unit.width,
        "F": unit.fraction_bits,
        "BITS": unit.result_bits,
        "FLOOR": unit.least_exponent(F32.short),
        "NARROW": int(narrow),
        "DOWN": tile.down,
        "ACROSS": tile.across,
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
        "BLOCKS": tile.blocks,
    }
    return tuple(f"-D{name}={value}" for name, value in constants.items())


@lru_cache(maxsize=64)
def _function(device: int, capability: tuple[int, int], constants: tuple[str, ...]) -> Function:
    """Return the kernel on a device, whose context is the current one."""
    try:
        driver = importlib.import_module("cuda.bindings.driver")
        code = compiled("sm_{}{}".format(*capability), constants)
        module = _checked(driver.cuModuleLoadData(code))
        return _checked(driver.cuModuleGetFunction(module, b"chain"))
    except (ImportError, OSError, RuntimeError) as error:
        raise CompilerError(str(error).partition("\n")[0]) from None


def compiled(architecture: str, constants: tuple[str, ...]) -> bytes:
    """Return the machine code of the kernel for an architecture, such as `sm_90`."""
    nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    source = SOURCE.read_bytes()
    program = _checked(nvrtc.nvrtcCreateProgram(source, b"chain.cu", 0, [], []))
    options = [f"--gpu-architecture={architecture}", "--std=c++17", *constants]
    try:
        result = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        if int(result[0]):
            log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
            _checked(nvrtc.nvrtcGetProgramLog(program, log))
            raise CompilerError(log.decode(errors="replace").strip("\0 \n") or str(result[0]))
        code: bytes = b" " * _checked(nvrtc.nvrtcGetCUBINSize(program))
        _checked(nvrtc.nvrtcGetCUBIN(program, code))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return code


def _checked(result: tuple[Any, ...]) -> Any:
    """Return what a call of cuda.bindings gives besides its status."""
    status, *values = result
    if int(status):
        raise CompilerError(str(status))
    return values[0] if values else None
