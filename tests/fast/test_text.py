"""The text form: what each construct means, and that a graph prints back.

A printed graph parses back to one with the same key, so the two are the same computation.
"""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from sites import HEAD
from strategies import graphs

from lastbit.formats import FORMATS
from lastbit.graph import (
    Const,
    Graph,
    Input,
    Map,
    Reduce,
    Round,
    apply,
    broadcast,
    concat,
    const,
    matmul,
    reshape,
    take,
    transpose,
)
from lastbit.ops import COMPOSITES, ELEMENTWISE, FUNCTION, OPERATORS
from lastbit.printing import print_graph
from lastbit.rounding import Mode, Rounding
from lastbit.schedule import parse_schedule
from lastbit.text import parse_program

X = Input("x", FORMATS["bf16"], shape=(2, 4))
W = Input("w", FORMATS["f32"], shape=(4, 3))
S = Input("s", FORMATS["f16"], shape=(2, 1))
F32 = Rounding.of("f32")
SEQ = parse_schedule("seq")


def value(line, **sizes):
    """Return the node of `y`, the last line of a program that reads x, w and s."""
    return parse_program(HEAD + line).bind(sizes).values["y"]


def real(text, **sizes):
    """Return the node of an expression."""
    return value(f"y: real = {text}", **sizes)


def round_trip(graph):
    """Return the text of a graph, which parses back to it."""
    text = print_graph(graph)
    again = parse_program(text).bind({})
    assert again.key() == graph.key(), text
    assert print_graph(again) == text
    return text


def printed(node):
    """Return the lines of the text of a node, without those of the inputs and of the result."""
    text = round_trip(Graph({"x": X, "w": W, "s": S, "y": node}, ("y",)))
    assert text.startswith(HEAD)
    return text[len(HEAD) :].splitlines()[:-1]


# Operators

MEANINGS = {
    "sum(x)": Reduce("sum", X, 1),
    "mean(x, axis=0)": apply("div", Reduce("sum", X, 0), const(2)),
    "amax(x)": Reduce("max", apply("abs", X), 1),
    "max(x, axis=-2)": Reduce("max", X, 0),
    "min(x, axis=1)": Reduce("min", X, 1),
    "max(x, nth=2)": Reduce("max 2", X, 1),
    "argmax(x)": Reduce("argmax", X, 1),
    "argmax(x, nth=4, axis=1)": Reduce("argmax 4", X, 1),
    "argmax_first(x, axis=0)": Reduce("argmax_first", X, 0),
    "argmax_last(x, nth=2)": Reduce("argmax_last 2", X, 1),
    "topk(x, 2)": concat((Reduce("max", X, 1), Reduce("max 2", X, 1)), 1),
    "topk_indices(x, 2, axis=0)": concat((Reduce("argmax", X, 0), Reduce("argmax 2", X, 0)), 0),
    "topk_indices_first(x, 1)": Reduce("argmax_first", X, 1),
    "matmul(x, w)": matmul(X, W, None, None),
    "softmax(x)": apply(
        "div",
        apply("exp", apply("sub", X, Reduce("max", X, 1))),
        Reduce("sum", apply("exp", apply("sub", X, Reduce("max", X, 1))), 1),
    ),
    "rms_norm(x, s, 1e-6)": apply(
        "mul",
        apply(
            "mul",
            X,
            apply(
                "rsqrt",
                apply(
                    "add",
                    apply("div", Reduce("sum", apply("mul", X, X), 1), const(4)),
                    const(Fraction(1, 10**6)),
                ),
            ),
        ),
        S,
    ),
    "reshape(x, 8, 1)": reshape(X, (8, 1)),
    "broadcast(s, 3, 2, 4)": broadcast(S, (3, 2, 4)),
    "transpose(x)": transpose(X, (1, 0)),
    "transpose(x, 0, 1)": transpose(X, (0, 1)),
    "concat(x, s, -x)": concat((X, S, apply("neg", X)), 1),
    "concat(x, x, axis=0)": concat((X, X), 0),
    "size(8 // 2)": const(4),
    "round(x, e4m3fn)": Round(X, Rounding.of("e4m3fn")),
    "round(x, f16, rtz, saturate)": Round(X, Rounding.of("f16", mode="rtz", overflow="saturate")),
    "opaque('gather', x, s)": apply("opaque:gather", X, S),
    "-x": apply("neg", X),
    "x + s": apply("add", X, S),
    "x - s - s": apply("sub", apply("sub", X, S), S),
    "x - (s - s)": apply("sub", X, apply("sub", S, S)),
    "x * s / s": apply("div", apply("mul", X, S), S),
    "x ** 3": apply("mul", apply("mul", X, X), X),
    "x ** 1": X,
    "x < s": apply("less", X, S),
    "x <= s": apply("less_equal", X, S),
    "x == s": apply("equal", X, S),
    "x[0:1]": take(X, 0, 0, 1),
    "x[:, 1:]": take(X, 1, 1, 4),
    "x[1:, ::2]": take(take(X, 0, 1, 2), 1, 0, 4, 2),
    "x[:, -3:-1]": take(X, 1, 1, 3),
    "x[:, ::-1]": take(X, 1, 3, -1, -1),
    "x[:, :]": X,
}


@pytest.mark.parametrize(("text", "node"), MEANINGS.items(), ids=MEANINGS)
def test_an_expression_means(text, node):
    assert real(text).key == node.key
    printed(node)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_elementwise_function_stands_for_itself(name):
    count, _ = ELEMENTWISE[name]
    args = (X, S, apply("neg", X))[:count]
    node = real(f"{name}({', '.join(('x', 's', '-x')[:count])})")
    assert node.key == Map(FUNCTION.get(name, name), args).key
    printed(node)


def test_every_operator_has_a_meaning_above():
    called = {text.split("(")[0] for text in MEANINGS}
    assert called.issuperset(COMPOSITES)
    assert set(OPERATORS) == {*ELEMENTWISE, *COMPOSITES, "round"}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", Fraction(3)),
        ("-3", Fraction(-3)),
        ("0.1", Fraction(1, 10)),  # as it is written, not the binary64 next to it
        ("1e-6", Fraction(1, 10**6)),
        ("1_000", Fraction(1000)),
        ("16777217", Fraction(2**24 + 1)),
        ("9007199254740993", Fraction(2**53 + 1)),  # the first integer that is no binary64
        ("'0x1.8p+3'", Fraction(12)),
        ("1 / 3", Fraction(1, 3)),
        ("-1 / 3", Fraction(-1, 3)),
        ("'0x1p-1074'", Fraction(1, 2**1074)),
        (str(2**1100), Fraction(2**1100)),  # beyond binary64
        ("1 / 3 / 7", Fraction(1, 21)),
        ("inf", float("inf")),
        ("-inf", float("-inf")),
        ("nan", float("nan")),
        ("-0.0", -0.0),
        ("-0", Fraction(0)),
        ("ln2", "ln2"),
        ("log2e", "log2e"),
        ("pi", "pi"),
    ],
)
def test_a_number_is_exact(text, number):
    node = real(text)
    assert node.key == Const(number).key
    for place in ("add", "div"):
        printed(apply(place, X, node))
        printed(apply(place, node, X))


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (apply("neg", const(2)), "y: real = neg(2)"),
        (apply("neg", Const(float("inf"))), "y: real = neg(inf)"),
        (apply("neg", Const("ln2")), "y: real = -ln2"),
        (apply("div", const(6), const(3)), "y: real = div(6, 3)"),
        (apply("div", const(1), Const("pi")), "y: real = 1 / pi"),
    ],
)
def test_a_function_of_numbers_does_not_print_as_a_number(node, line):
    assert printed(node) == [line]


# Statements


@pytest.mark.parametrize(
    ("tail", "rounding"),
    [
        ("", Rounding.of("e5m2")),
        ("saturate", Rounding.of("e5m2", overflow="saturate")),
        ("to_nan", Rounding.of("e5m2", overflow="nan")),
        ("to_inf", Rounding.of("e5m2", overflow="inf")),
        ("flush", Rounding.of("e5m2", subnormals="flush")),
        ("rup saturate flush", Rounding.of("e5m2", "rup", "saturate", "flush")),
        ("saturate to_inf", Rounding.of("e5m2")),  # the last word counts
        *((mode, Rounding.of("e5m2", mode)) for mode in Mode),
    ],
)
def test_the_tail_says_how_the_result_is_rounded(tail, rounding):
    node = value(f"y: e5m2 = x * s {tail}")
    assert node.key == Round(apply("mul", X, S), rounding).key
    printed(node)


def test_a_statement_rounds_once_and_only_where_it_is_needed():
    assert value("y: real = x * s").key == apply("mul", X, S).key
    assert value("y: bf16 = x").key == X.key
    assert value("y: bf16 = -x").key == apply("neg", X).key
    assert value("y: bf16 = max(x)").key == Reduce("max", X, 1).key
    assert value("y: f32 = x").key == Round(X, F32).key
    assert value("y: bf16 = x rtz").key == Round(X, Rounding.of("bf16", "rtz")).key


@pytest.mark.parametrize(
    "schedule",
    [
        "seq",
        "pairwise(2)",
        "lanes(2, inner=seq(acc=f16), outer=pairwise(1))",
        "split(2, partials=bf16)",
        "split(size=2, inner=pairwise(1), outer=seq)",
        "fused(16, hopper)",
        "promote(2, f32, inner=seq(acc=f16))",
        "tree(((0, 1), (3, 2)))",
        "any_order",
    ],
)
def test_acc_schedules_the_sums_of_its_statement(schedule):
    tree = parse_schedule(schedule)
    node = Reduce("sum", apply("mul", X, S), 1, tree, F32)
    assert value(f"y: f32 = sum(x * s) acc f32 {schedule}").key == node.key
    assert printed(node) == [f"y: f32 = sum(x * s, axis=1) acc f32 {tree}"]
    rounded = Round(node, Rounding.of("bf16", overflow="saturate"))
    assert value(f"y: bf16 = sum(x * s) acc f32 {schedule} saturate").key == rounded.key
    assert printed(rounded) == [f"y: bf16 = sum(x * s, axis=1) acc f32 {tree} saturate"]


def test_an_exact_sum_stays_exact_beside_a_scheduled_one():
    exact = Reduce("sum", X, 0)
    node = Reduce("sum", exact, 1, SEQ, F32)
    assert printed(node) == [
        "v1: real = sum(x, axis=0)",
        "y: f32 = sum(v1, axis=1) acc f32 seq",
    ]
    product = matmul(X, W, None, None)
    assert printed(Reduce("sum", product, 1, SEQ, F32)) == [
        "v1: real = matmul(x, w)",
        "y: f32 = sum(v1, axis=1) acc f32 seq",
    ]
    assert printed(Round(exact, F32)) == ["y: f32 = sum(x, axis=0)"]


def test_two_sums_of_one_value_have_their_own_schedules():
    left = Reduce("sum", X, 1, SEQ, F32)
    right = Reduce("sum", X, 1, parse_schedule("pairwise(1)"), Rounding.of("bf16"))
    assert printed(Round(apply("sub", left, right), F32)) == [
        "v1: f32 = sum(x, axis=1) acc f32 seq",
        "v2: bf16 = sum(x, axis=1) acc bf16 pairwise(1)",
        "y: f32 = v1 - v2",
    ]


def test_a_rounding_that_changes_nothing_is_kept():
    assert printed(Round(X, Rounding.of("bf16"))) == ["y: bf16 = round(x, bf16)"]
    total = Round(Reduce("sum", X, 1, SEQ, F32), F32)
    assert printed(total) == ["y: f32 = round(sum(x, axis=1), f32) acc f32 seq"]
    twice = Rounding.of("f16", mode="rtz", subnormals="flush")
    assert printed(Round(Round(X, twice), twice)) == [
        "v1: f16 = x rtz flush",
        "y: f16 = round(v1, f16, rtz, flush) rtz flush",
    ]


def test_a_matrix_product_prints_as_one():
    assert printed(Round(matmul(X, W, SEQ, F32), Rounding.of("bf16"))) == [
        "y: bf16 = matmul(x, w) acc f32 seq"
    ]
    terms = apply("mul", reshape(X, (2, 1, 4)), reshape(transpose(W, (1, 0)), (1, 3, 4)))
    other = reshape(Reduce("sum", terms, 2, SEQ, F32), (3, 2))
    assert printed(other)[-1] == "y: real = reshape(v1, 3, 2)"


def test_what_is_read_twice_is_written_once():
    shared = apply("exp", X)
    assert printed(apply("mul", shared, shared)) == ["v1: real = exp(x)", "y: real = v1 * v1"]


def test_values_of_one_node_keep_their_names():
    graph = Graph({"x": X, "v1": X, "y": apply("exp", X), "z": apply("exp", X)}, ("z", "v1"))
    assert round_trip(graph) == (
        "x: bf16[2, 4]\ny: real = exp(x)\nv1: real = x\nz: real = y\nreturn z, v1\n"
    )


@settings(max_examples=100, deadline=None, derandomize=True)
@given(graphs())
def test_a_random_graph_prints_back(graph):
    round_trip(graph)


# Programs


def test_lines_stand_in_any_order_and_results_are_what_nothing_reads():
    program = parse_program(
        "y: f32 = t * 2\n\n# a comment\nt: f32 = exp(x)  # and one behind\nx: f32[N]"
    )
    assert [st.name for st in program.statements] == ["x", "t", "y"]
    assert program.outputs == ("y",)
    assert program.symbols == {"N"}
    assert parse_program("x: f32[2]\ny: f32 = x * 2\nz: f32 = y\nreturn y, z").outputs == ("y", "z")


def test_symbols_stand_for_sizes_in_shapes_slices_axes_and_schedules():
    program = parse_program(
        "x: f32[M, 2 * K]\nt: f32[M, K] = x[:, K:2 * K]\n"
        "y: f32 = sum(reshape(t, K, M), axis=M - 2) acc f32 split(max(1, K // 2))"
    )
    assert program.symbols == {"M", "K"}
    graph = program.bind({"M": 2, "K": 6})
    y = graph.values["y"]
    assert y.shape == (1, 2)
    assert str(y.schedule) == "split(3)"
    wanted = program.nodes({"M": 2, "K": 6}, lambda name, node: node, lambda name, tree: SEQ)
    assert str(wanted["y"].schedule) == "seq"


def test_other_statements_read_a_value_by_its_reference():
    program = parse_program("x: f32[2]\nt: f32 = exp(x)\ny: f32 = t * 2")
    leaf = Input("t", FORMATS["f32"], shape=(2,))
    nodes = program.nodes({}, lambda name, node: leaf if name == "t" else node)
    assert nodes["y"].key == Round(apply("mul", leaf, const(2)), F32).key


def test_a_value_of_no_axes_is_read():
    assert parse_program("x: f32[]\ny: f32 = x * 2").bind({}).values["y"].shape == ()
