"""What the chapter's programs move, hold and launch, counted by lastbit from their text.

Each section is a program in text form and a placement: which values share a kernel, and in which
tiles it runs. Every figure is read off the cost of such a program, or of a block on a device.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import lastbit
from lastbit.cost import (
    ALL,
    Attention,
    Block,
    Placement,
    ProgramCost,
    Tile,
    blocks_needed,
    cost_of_program,
    device_of,
    explore,
    needed_in_flight,
    occupancy,
)
from lastbit.definitions import Definitions, reference

KIB, MIB, GIB = 2**10, 2**20, 2**30
KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12
H100, RTX = device_of("h100-sxm"), device_of("rtx-pro-6000")
Figures = Iterator[tuple[str, object]]

PROJECTION = """
x: bf16[M, K]                                        # M = 1024, K = 4096, N = 12288
w: bf16[K, N]
c: bf16 = matmul(x, w) acc f32 seq
"""
SIZES = {"M": 1024, "K": 4096, "N": 12288}
RMS_NORM = """
x: bf16[M, K]
gamma: bf16[1, K]
total: f32 = sum(x * x) acc f32 {schedule}
v: f32 = total / 4096 + 1e-6
scale: f32 = rsqrt(v)
y: f32 = x * scale
z: bf16 = y * gamma
"""
ONE_ROW = Tile(1, ALL, ALL)  # a block holds a row
ACTIVATION = """
g: bf16[M, N]
u: bf16[M, N]
t: bf16 = silu(g)
z: bf16 = t * u
q: e4m3fn = z / 1 saturate
"""
ATTENTION = """
q: bf16[L, D]
k: bf16[L, D]
v: bf16[L, D]
s: f32 = matmul(q, transpose(k)) acc f32 seq
p: f32 = softmax(s)
o: bf16 = matmul(p, v) acc f32 seq
"""
QUANTIZED = """
a: f16[M, K]                                         # M = K = 4096, N = 1536
w: e4m3fn[K, N]
s: f32 = amax(a, axis=-1) / 448
q: e4m3fn = a / s saturate
y: f16 = matmul(q, w) * s acc f32 seq
"""
SILU_OF_PRODUCT = """
a: bf16[M, K]
w: bf16[K, N]
c: bf16 = matmul(a, w) acc f32 seq
y: bf16 = silu(c)
"""
TRANSPOSE = """
x: f32[M, N]
y: f32 = transpose(x)
"""


def program(text: str, **sizes: int) -> Definitions:
    """Return a program at fixed sizes."""
    parsed = lastbit.parse_program(text)
    return Definitions(parsed.nodes(sizes, reference), parsed.outputs)


def fused(*names: str) -> frozenset[tuple[str, str]]:
    """Return the pairs by which each value is computed inside the kernel of the next."""
    return frozenset(pairwise(names))


def projection(edge: int, depth: int, buffers: int = 1) -> ProgramCost:
    """Return the cost of the projection in square tiles."""
    tile = Tile(edge, edge, depth, buffers)
    return cost_of_program(program(PROJECTION, **SIZES), Placement({"c": tile}))


def inputs() -> Figures:
    """Yield the sizes of the projection's matrices, and what moving each once comes to."""
    cost = cost_of_program(program(PROJECTION, **SIZES))
    (kernel,) = cost.kernels
    yield "B002", Fraction(kernel.read["x"], MIB)
    yield "C001", Fraction(kernel.read["w"], MIB)
    yield "B004", Fraction(kernel.written["c"], MIB)
    yield "C002", Fraction(cost.flops, GB)
    yield "C003", Fraction(cost.bytes, MIB)
    yield "B006", Fraction(projection(64, 32).bytes, GIB)
    yield "C004", Fraction(projection(64, 32).local_bytes or 0, KIB)
    yield "B008", Fraction(projection(128, 32).local_bytes or 0, KIB)


def streaming_multiprocessor() -> Figures:
    """Yield how a block of 128 x 128 outputs and steps of 64 sits on an SM (section 5.1.5)."""
    (kernel,) = projection(128, 64).kernels
    (narrow,) = cost_of_program(
        program(PROJECTION, M=128, K=64, N=128), Placement({"c": Tile(128, 128, 64)})
    ).kernels  # one step of the block
    working_set = kernel.local_bytes or 0
    yield "B010", Fraction(narrow.read["x"], KIB)
    yield "B012", Fraction(kernel.accumulator_bytes, KIB)
    yield "C005", Fraction(working_set, KIB)
    yield "B014", Fraction(H100.warps)
    yield "B016", Fraction(H100.shared_bytes)
    block = Block(threads=256, registers=128, shared_bytes=working_set)
    held = occupancy(H100, block)
    yield "B018", Fraction(block.threads * block.registers, KIB)
    yield "B020", Fraction(block.shared_bytes + H100.reserve_bytes, KIB)
    yield "B022", Fraction(H100.blocks)
    yield "C006", Fraction(held.admitted["threads"])
    yield "C007", Fraction(held.admitted["registers"])
    yield "C008", Fraction(held.admitted["shared memory"])
    yield "C009", Fraction(held.resident)
    yield "B024", Fraction(held.warps)
    yield "C010", held.share * 100
    taken = held.resident * (block.shared_bytes + H100.reserve_bytes)
    yield "B026", Fraction(H100.shared_bytes - taken, KIB)
    yield "B028", Fraction(kernel.accumulator_bytes, 4 * block.threads)
    in_registers = Block(256, 64 + 64, working_set - kernel.accumulator_bytes)
    other = occupancy(H100, in_registers)
    yield "B030", Fraction(other.admitted["shared memory"])
    yield "C011", Fraction(other.admitted["registers"])
    yield "C012", "/".join(other.tightest)
    yield from in_flight(block)
    instruction = cost_of_program(program(PROJECTION, M=16, K=16, N=8)).flops
    yield "B038", Fraction(instruction)
    yield "B040", Fraction(narrow.flops)
    instructions = Fraction(narrow.flops, instruction)
    yield "C013", instructions
    yield "B042", instructions / (64 // 16) / (block.threads // H100.warp)
    loaded = sum(narrow.read.values())
    copy, compute = Fraction(loaded * H100.sms, H100.bandwidth), Fraction(narrow.flops * H100.sms)
    assert H100.peak is not None
    assert H100.ridge is not None
    yield "C068", Fraction(H100.bandwidth, H100.sms * GB)
    yield "C069", Fraction(H100.peak, H100.sms * TB)
    yield "C014", copy * MB
    yield "C015", compute / H100.peak * MB
    yield "C016", copy * H100.peak / compute
    yield "C017", Fraction(narrow.flops, loaded)
    yield "C018", H100.ridge


def in_flight(block: Block) -> Figures:
    """Yield the bytes under way against those that the bandwidth needs."""
    held = occupancy(H100, block)
    need, slow = needed_in_flight(H100, 600), needed_in_flight(H100, 1000)
    yield "B032", need * H100.sms / MB
    yield "C019", need / KB
    yield "B034", Fraction(held.in_flight(1), held.warps)
    yield "C020", Fraction(held.in_flight(4), KIB)
    yield "B036", held.coverage(600, 4)
    yield "B044", slow / KB
    yield "C021", Fraction(held.in_flight(2), KIB)
    yield "B046", held.coverage(1000, 2)
    warp = Block(H100.warp, 0, 0)
    yield "C022", Fraction(blocks_needed(H100, warp, 1000, 2))
    yield "B048", Fraction(blocks_needed(H100, block, 1000, 2))


def output_tiles() -> Figures:
    """Yield traffic, storage and residence of three output tiles (section 5.2.2)."""
    assert H100.ridge is not None
    names = {
        32: ("C023", "B050", "C024", "B052"),
        64: ("C025", "B054", "C026", "B056"),
        128: ("C027", "B062", "C028", "B064"),
    }
    for edge, (local, traffic, intensity, ceiling) in names.items():
        (kernel,) = projection(edge, 32).kernels
        yield local, Fraction(kernel.local_bytes or 0, KIB)
        yield traffic, Fraction(kernel.bytes, MIB)
        yield intensity, kernel.intensity
        yield ceiling, kernel.intensity / H100.ridge * 100
    reads = {
        64: ("C029", "B058", "C030", "B060", "B070"),
        128: ("C031", "B066", "C032", "B068", "B072"),
    }
    once = cost_of_program(program(PROJECTION, **SIZES)).kernels[0].read
    for edge, (rows, columns, x, w, accumulator) in reads.items():
        (kernel,) = projection(edge, 32).kernels
        yield rows, Fraction(kernel.read["w"], once["w"])  # each row of tiles reads all of W
        yield columns, Fraction(kernel.read["x"], once["x"])
        yield x, Fraction(kernel.read["x"], MIB)
        yield w, Fraction(kernel.read["w"], MIB)
        yield accumulator, Fraction(kernel.accumulator_bytes, KIB)
    yield "B074", Fraction(resident(64, 1))
    yield "C033", Fraction(resident(128, 1))
    ratio = Fraction(projection(128, 32).bytes, projection(64, 32).bytes)
    yield "C034", ratio
    yield "C035", ratio / Fraction(4, 10)


def resident(edge: int, buffers: int) -> int:
    """Return the blocks that an SM of the RTX PRO 6000 holds by its shared memory."""
    local = projection(edge, 32, buffers).local_bytes or 0
    return occupancy(RTX, Block(256, 0, local)).admitted["shared memory"]


def split_reduction() -> Figures:
    """Yield what RMSNorm costs with a row in one piece and in eight (section 5.2.4)."""
    whole = program(RMS_NORM.format(schedule="seq"), M=1024, K=4096)
    row = fused("total", "v", "scale", "y", "z")
    one = cost_of_program(whole, Placement({"z": ONE_ROW}, row))
    split = program(RMS_NORM.format(schedule="split(8)"), M=1024, K=4096)
    three = cost_of_program(
        split,
        Placement(
            {"scale": Tile(1, ALL, 512), "z": Tile(1, 512)},  # eight pieces of 512
            fused("total", "v", "scale") | fused("y", "z"),
            split=frozenset({"total"}),  # each in a block of its own
        ),
    )
    pieces, merged, applied = three.kernels
    yield "B084", Fraction(pieces.partials, 4)
    yield "B086", Fraction(pieces.partials, KIB)
    yield "C036", Fraction(merged.written["scale"], KIB)
    yield "B088", Fraction(one.bytes, MIB)
    main = pieces.read["x"] + applied.read["x"] + applied.read["gamma"] + applied.written["z"]
    yield "B090", Fraction(three.bytes - main, MIB)
    yield "C037", Fraction(three.bytes, MIB)
    yield "C038", Fraction(one.launches)
    yield "B092", Fraction(three.launches)
    wide = program(RMS_NORM.format(schedule="seq").replace("x: bf16", "x: f32"), M=1024, K=4096)
    for entry, depth in (("C039", ALL), ("B094", 512)):
        total = cost_of_program(wide, Placement({"total": Tile(1, ALL, depth)})).kernels[0]
        yield entry, Fraction((total.local_bytes or 0) - total.accumulator_bytes, KIB)


def activation() -> Figures:
    """Yield the traffic and the peaks of the activation, apart and fused (section 5.3.1)."""
    chain = program(ACTIVATION, M=1024, N=12288)
    apart = cost_of_program(chain)
    two = cost_of_program(chain, Placement(inside=fused("t", "z")))
    three = cost_of_program(chain, Placement(inside=fused("t", "z", "q")))
    silu, product, conversion = (Fraction(kernel.bytes, MIB) for kernel in apart.kernels)
    yield "B096", silu
    yield "C040", product
    yield "B098", silu + product
    yield "C041", Fraction(two.kernels[0].bytes, MIB)
    yield "B100", silu + product - Fraction(two.kernels[0].bytes, MIB)
    yield "C042", (silu + product) / Fraction(two.kernels[0].bytes, MIB)
    yield "C043", conversion
    yield "B102", Fraction(apart.bytes, MIB)
    yield "C044", Fraction(two.bytes, MIB)
    yield "B104", Fraction(three.bytes, MIB)
    yield "B106", Fraction(three.kernels[0].written["q"], MIB)
    yield "C045", Fraction(apart.peak_bytes, MIB)
    yield "B108", Fraction(three.peak_bytes, MIB)
    yield "C046", Fraction(apart.bytes - three.bytes, MIB)
    yield "B110", Fraction(apart.peak_bytes - three.peak_bytes, MIB)


def attention() -> Figures:
    """Yield the traffic of a head of attention, stored and block by block (section 5.3.3)."""
    stored = cost_of_program(program(ATTENTION, L=8192, D=128))
    once = stored.by_value["q"][0]
    yield "B118", Fraction(once, MIB)
    yield "B120", Fraction(sum(sum(stored.by_value[name]) for name in "qkvo"), MIB)
    yield "C047", Fraction(stored.by_value["s"][1], MIB)
    yield "C048", Fraction(sum(sum(stored.by_value[name]) for name in "sp"), GIB)
    names = {
        1: ("B122", "C049", "B124", "C050"),
        64: ("B126", "C051", "B128", "C052"),
        128: ("B130", "C053", "B132", "C054"),
    }
    runs = {b: Attention(8192, 128, b, RTX.block_bytes) for b in names}
    for block, entries in names.items():
        run = runs[block]
        found = (run.rows, run.passes, Fraction(run.bytes, MIB), run.updates)
        yield from zip(entries, map(Fraction, found), strict=True)
    yield "B134", Fraction(runs[64].bytes - runs[1].bytes, MIB)
    yield "C055", Fraction(runs[1].updates, runs[64].updates)
    yield "B136", Fraction(runs[64].updates, runs[64].passes)
    yield "B138", Fraction(2 * runs[64].tensor_bytes, MIB)


def partitions() -> Figures:
    """Yield in how many ways chains of operators are cut (section 5.4.1)."""
    yield "C056", Fraction(explore(program(ACTIVATION, M=1024, N=12288)).partitions)
    chain = [f"v{i}: bf16 = v{i - 1} * {i}" for i in range(1, 11)]
    ten = program("\n".join(["v0: bf16[M, N]", *chain]), M=1024, N=12288)
    yield "B142", Fraction(explore(ten).partitions)


def epilogue() -> Figures:
    """Yield what the activation in the epilogue saves (section 5.4.2)."""
    chain = program(SILU_OF_PRODUCT, **SIZES)
    tile = Tile(64, 64, 32)
    apart = cost_of_program(chain, Placement({"c": tile}))
    within = cost_of_program(chain, Placement({"y": tile}, fused("c", "y")))
    once = cost_of_program(chain).kernels[0].read
    yield "B144", Fraction(apart.kernels[0].read["a"], once["a"])
    held = within.kernels[0].held
    yield "B146", Fraction(held.operands, 2 * KIB)
    yield "B148", Fraction(held.accumulators, KIB)
    yield "B150", Fraction(apart.bytes - within.bytes, MIB)


def quantization() -> Figures:
    """Yield what quantizing a row costs, apart and inside of the product (section 5.4.4)."""
    sizes = {"M": 4096, "K": 4096, "N": 1536}
    chain = program(QUANTIZED, **sizes)
    once = cost_of_program(chain)
    yield "B152", Fraction(once.kernels[0].read["a"], MIB)
    yield "C057", Fraction(once.by_value["q"][1], MIB)
    yield "B154", Fraction(once.by_value["w"][0], MIB)
    yield "C058", Fraction(once.by_value["y"][1], MIB)
    tile = Tile(128, 128, 64)
    rows = {"q": ONE_ROW, "s": ONE_ROW}
    together = (frozenset({"s", "q"}),)
    apart = cost_of_program(chain, Placement({"y": tile, **rows}, together=together))
    inside = cost_of_program(chain, Placement({"y": tile, **rows}, fused("q", "y")))
    yield "B156", Fraction(apart.by_value["w"][0], once.by_value["w"][0])
    yield "C059", Fraction(apart.by_value["q"][0], once.by_value["q"][0])
    yield "B158", Fraction(apart.kernels[0].local_bytes or 0, KIB)
    of_input = {
        name: Fraction(sum(cost.by_value["a"]) + sum(cost.by_value.get("q", ())), MIB)
        for name, cost in (("apart", apart), ("inside", inside))
    }
    rest = Fraction(sum(apart.by_value["w"]) + sum(apart.by_value["y"]), MIB)
    yield "B160", of_input["apart"]
    yield "C060", of_input["inside"]
    again = inside.by_value["a"][0] - once.by_value["a"][0] // 2
    yield "B162", Fraction(again - apart.by_value["q"][0], MIB)
    yield "C061", rest
    totals = of_input["apart"] + rest, of_input["inside"] + rest
    yield "B164", totals[0]
    yield "C062", totals[1]
    yield "B166", (totals[1] / totals[0] - 1) * 100
    scales = apart.bytes - int(totals[0] * MIB)
    assert scales == inside.bytes - int(totals[1] * MIB)
    yield "C063", Fraction(scales, KIB)
    wider = program(QUANTIZED, **{**sizes, "N": 1536 + 128})  # one more block of columns
    more = [
        cost_of_program(wider, Placement({"y": tile, **rows}, together=together)).by_value["q"][0]
        - apart.by_value["q"][0],
        cost_of_program(wider, Placement({"y": tile, **rows}, fused("q", "y"))).by_value["a"][0]
        - inside.by_value["a"][0],
    ]
    yield "C064", Fraction(more[0], MIB)
    yield "B168", Fraction(more[1], MIB)
    wide = Placement({"y": Tile(128, 1536, 64), **rows}, fused("q", "y"))
    kernels = (cost_of_program(chain, wide).kernels[-1], inside.kernels[-1])
    yield "C065", Fraction(kernels[0].accumulator_bytes, kernels[1].accumulator_bytes)


def selection() -> Figures:
    """Yield what two buffers change (section 5.4.5)."""
    yield "B170", Fraction(projection(64, 32, 2).local_bytes or 0, KIB)
    yield "C066", Fraction(projection(128, 32, 2).local_bytes or 0, KIB)
    yield "B172", Fraction(resident(64, 2))
    yield "C067", Fraction(resident(128, 2))
    yield "B174", Fraction(resident(64, 1))
    moved = program(TRANSPOSE, M=1024, N=1024)
    sizes = []
    for edge in (16, 32):
        (kernel,) = cost_of_program(moved, Placement({"y": Tile(edge, edge)})).kernels
        assert kernel.bytes == 2 * 4 * 1024 * 1024  # in tiles of any size, each element once
        sizes.append(edge * edge)
    yield "B176", Fraction(sizes[1], sizes[0])


def figures() -> Figures:
    """Yield every figure with its id."""
    for part in (
        inputs,
        streaming_multiprocessor,
        output_tiles,
        split_reduction,
        activation,
        attention,
        partitions,
        epilogue,
        quantization,
        selection,
    ):
        yield from part()
