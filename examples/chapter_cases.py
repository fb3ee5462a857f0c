"""The chapter's transforms, each with an input of the chapter on which both sides are run."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """A step of a plan, and an input that shows what it does.

    Attributes:
        plan: the name of a plan in `examples/chapter/`.
        step: the id of the step.
        show: the value to compare.
        inputs: values of the inputs, row by row; one number fills an input, and what is not given
            is 0. ROW stands for the row of section 5.2.4.
        sizes: sizes in place of the plan's.
        parameters: parameters in place of the plan's.
        element: which element of the value to print.
    """

    plan: str
    step: str
    show: str
    inputs: dict[str, object] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    element: int = 0


ROW = "row"
LN2 = float.fromhex("0x1.62e430p-1")  # ln 2 in f32
TINY = [1, 2**-4, 2**-12, 2**-12]  # their squares are 1, 2^-8, 2^-24 and 2^-24
HEADS = [1, *[0] * 127, 10, *[0] * 127]  # a row in two chunks, headed by 1 and by 10
SECOND_HEAD = [*[0] * 128, 1, *[0] * 127]  # weighs the 10 and nothing else

# fmt: off
CASES = {
    "T01": Case(
        "5_2_2_output_tile", "tile-128", "c", {"a": [TINY, TINY], "w": TINY},
        sizes={"M": 2, "K": 4, "N": 1}, parameters={"rows": 1, "columns": 1},
    ),
    "T03": Case(
        "5_4_2_epilogue", "acc_c.block-partials", "acc_c", {"a": TINY, "w": TINY},
        sizes={"M": 1, "K": 4, "N": 1}, parameters={"block": 2},
    ),
    "T05": Case(
        "5_2_2_output_tile", "spill-bf16", "z", {"a": [1, 2**-8, 2**-8], "w": 1},
        sizes={"M": 1, "K": 3, "N": 1}, parameters={"block": 1},
    ),
    "T07": Case(
        "5_2_4_merge_order", "three-from-the-right", "three", {"a": [1, 2**-24, 2**-24]},
        sizes={"K": 8},
    ),
    "T09": Case("5_2_4_merge_order", "buffer", "total", {"x": ROW}),
    "T11": Case(
        "5_3_1_activation", "t.fuse-elementwise", "z", {"g": 3 / 4, "u": 3 / 2},
        sizes={"M": 1, "F": 1},
    ),
    "T13": Case(
        "5_3_1_fp8", "one_q.fuse-quantize", "one_q", {"one": 17 / 16 + 2**-12},
        sizes={"M": 1, "F": 1},
    ),
    "T15": Case(
        "5_4_2_epilogue", "c.fuse-elementwise", "y", {"a": [1, 2**-9], "w": 1},
        sizes={"M": 1, "K": 2, "N": 1},
    ),
    "T17": Case(
        "5_4_3_silu_partials", "y.activation-on-accumulator", "y", {"a": [1, -1], "w": 1},
        sizes={"M": 1, "K": 2, "N": 1}, parameters={"block": 1},
    ),
    "T19": Case(
        "5_4_3_rounding", "c.epilogue-before-rounding", "y", {"a": [1, 2**-9], "w": 1},
        sizes={"M": 1, "K": 2, "N": 1},
    ),
    "T21": Case(
        "5_4_3_quantize", "q.quantize-by-frozen-scale", "y", {"t": HEADS, "w": SECOND_HEAD},
        sizes={"M": 1, "N": 1},
    ),
    "T25": Case(  # B, the size of a block, becomes 2 B
        "5_3_3_online_softmax", "o.online-softmax-block-size", "o",
        {"s": [0, 0, 0, 1], "values": [1, 3, 5, 7]}, sizes={"Q": 1, "L": 4, "D": 1, "B": 1},
    ),
    "T27": Case(
        "5_4_3_chunks", "o.merge-without-statistics", "o", {"s": [0, LN2], "values": [1, 3]},
        sizes={"Q": 1, "L": 2, "D": 1}, parameters={"block": 1},
    ),
    "T29": Case(
        "5_3_3_online_softmax", "o.drop-maximum", "o", {"s": [0, 89], "values": [1, 3]},
        sizes={"Q": 1, "L": 2, "D": 1},
    ),
    "T31": Case(
        "5_3_2_layout", "t.change-layout", "z", {"g": range(1, 7), "u": 3},
        sizes={"M": 2, "F": 3},
    ),
    "T35": Case(  # element (i, j) is its own index, 192 i + j; the last tile is (15, 191)
        "5_4_2_epilogue", "acc_c.fuse-loops", "acc_c",
        {"a": [(i, 1) for i in range(16)], "w": [[192] * 192, range(192)]},
        sizes={"M": 16, "K": 2, "N": 192}, parameters={"rows": 1, "columns": 1}, element=-1,
    ),
    "T37": Case(
        "5_2_4_split_k", "by-terms", "c", {"a": TINY, "w": TINY},
        sizes={"M": 1, "K": 4, "N": 1}, parameters={"n": 2},
    ),
    "T41.masked": Case("5_5_3_padding", "masked", "total", {"x": ROW}),
    "T41.unmasked": Case(
        "5_5_3_padding", "unmasked-scores", "l", {"s": [0, 0]},
        sizes={"M": 1, "K": 2}, parameters={"pad": 1},
    ),
    "T43.same": Case("5_5_3_specialise", "same-segments", "total", {"x": ROW}),
    "T43.other": Case("5_5_3_specialise", "one-segment", "total", {"x": ROW}),
}
# fmt: on
