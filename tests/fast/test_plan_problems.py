"""Every problem of a plan is reported, at its line, with what is allowed and what to do."""

import pytest
from small_plans import GRAPH, PLANS, load

from lastbit.errors import InputError
from lastbit.machines import MACHINES


def test_ten_mistakes_are_reported_together():
    path = PLANS / "ten_mistakes.toml"
    with pytest.raises(InputError) as caught:
        load(path)
    expected = """\
11:11: unknown operator 'sillu'. Did you mean 'silu'?
    t: bf16 = sillu(g)                    # an unknown operator
12:15: `gate` is not defined. Allowed: a, b, g, h, t, u, w, x, y.
    u: bf16 = t * gate                    # an undefined value
14:10: `a` depends on itself: a -> b -> a. A value may only read values that do not need it.
    b: f32 = a * 2
15:4: unknown format 'bf61'. Did you mean 'bf16'?
    h: bf61 = g + 1                       # an unknown format
16:11: matmul needs [M, K] and [K, N]; given [32, 16] and [64, 32].
    y: bf16 = matmul(w, x) acc f32 seq    # an impossible shape
17:1: `g` is defined twice. Line 10 defines it already.
    g: f32 = w * 2                        # a duplicate name
21:8: unknown rule 'split-q'. Did you mean 'split-k'?
    rule = "split-q"                      # an unknown rule
28:5: expression '__import__("os")': a call of '__import__' is not allowed. \
Allowed: integers, symbols, + - * / // % **, min, max, ceil and floor.
    n = '__import__("os")'                # an expression that is not allowed
29:1: unknown field 'brnach' of [[transform]] split-k. Did you mean 'branch'?
    brnach = true                         # a misspelt field
35:9: bad date 2027-02-30. There is no such day or time; write one as 2027-06-30.
    until = 2027-02-30                    # a bad date"""
    assert str(caught.value).replace(f"{path}:", "") == expected
    assert len(caught.value.problems) == 10
    assert {problem.place.file for problem in caught.value.problems} == {str(path)}


def test_problems_of_a_json_plan_have_places(problems):
    text = """{
 "schema": 1,
 "graph": {"symbols": {"K": 32}, "text": "x: f32[K]\\ny: f32 = x * z\\n"},
 "target": {"machine": "hoper"},
 "allow": [{"code": "RED201", "reason": "r", "until": "2027-02-30"}],
 "target": {}
}"""
    assert problems(text, "p.json") == [
        "p.json:3:14: `z` is not defined. Allowed: x, y.\n    y: f32 = x * z",
        'json:5:55: bad date \'2027-02-30\'. Write a day: "until": "2027-06-30".\n'
        '    "allow": [{"code": "RED201", "reason": "r", "until": "2027-02-30"}],',
        'json:6:2: `"target"` is given twice. Line 4 gives it already.\n    "target": {}',
    ]


CASES = {
    "a misspelt table": (
        "[targett]\nmachine = 'hopper'",
        ["8:1: unknown field 'targett' of the plan. Did you mean 'target'?\n    [targett]"],
    ),
    "an unknown machine": (
        "[target]\nmachine = 'hoper'",
        ["9:11: unknown machine 'hoper'. Did you mean 'hopper'?\n    machine = 'hoper'"],
    ),
    "a table that is none": (
        "[[target]]\nmachine = 'hopper'",
        ["8:1: `target` is [{'machine': 'hopper'}]. Allowed: a table, [target].\n    [[target]]"],
    ),
    "tables that are none": (
        "[allow]\ncode = 'RED201'",
        ["8:1: `allow` is {'code': 'RED201'}. Allowed: tables, each under [[allow]].\n    [allow]"],
    ),
    "a table that is a number": (
        "[after]\ntext = 3",
        ["9:8: `text` is 3. Allowed: the statements of the graph, one a line.\n    text = 3"],
    ),
    "an import": (
        "[after]\nimport = 'x.onnx'",
        [
            "9:10: [graph] has no `import`. Import both graphs, or write both.\n"
            "    import = 'x.onnx'"
        ],
    ),
    "no parameter": (
        "[[transform]]\nrule = 'split-k'\nat = 'y'",
        [
            "8:1: [[transform]] split-k has no `n`. It is the number of pieces.\n    [[transform]]",
        ],
    ),
    "a misspelt parameter": (
        "[[transform]]\nrule = 'split-k'\nat = 'y'\nn = 2\ntiel = 64",
        [
            "12:1: unknown field 'tiel' of [[transform]] split-k. Did you mean 'tile'?\n"
            "    tiel = 64"
        ],
    ),
    "a misspelt needed field is one problem": (
        "[[transform]]\nrul = 'split-k'\nat = 'y'\nn = 2",
        ["9:1: unknown field 'rul' of [[transform]]. Did you mean 'rule'?\n    rul = 'split-k'"],
    ),
    "no rule and no site": (
        "[[transform]]\nbranch = true",
        [
            "8:1: [[transform]] has no `rule`. Name the rule to apply.\n    [[transform]]",
            '8:1: [[transform]] has no `at`. Name the values it is applied at: at = ["y"].\n'
            "    [[transform]]",
        ],
    ),
    "sites that are none": (
        "[[transform]]\nrule = 'drop-rounding'\nat = ['y', 'y', 3, 'z']\n"
        "[[transform]]\nrule = 'drop-rounding'\nat = []",
        [
            "10:12: `at` holds 'y' twice. Give it once.\n    at = ['y', 'y', 3, 'z']",
            "10:17: `at` holds 3. Allowed: a list of texts.\n    at = ['y', 'y', 3, 'z']",
            "10:20: the graph has no value 'z'. Allowed: x, y.\n    at = ['y', 'y', 3, 'z']",
            "13:6: `at` is []. Allowed: at least one name of a value.\n    at = []",
        ],
    ),
    "a branch that is a text": (
        "[[transform]]\nrule = 'drop-rounding'\nat = 'y'\nbranch = 'yes'",
        ["11:10: `branch` is 'yes'. Allowed: true or false.\n    branch = 'yes'"],
    ),
    "an id given twice": (
        "[[transform]]\nrule = 'drop-rounding'\nat = 'y'\nid = 'a'\n"
        "[[transform]]\nrule = 'drop-rounding'\nat = 'y'\nid = 'a'",
        ["15:6: the id 'a' is given twice. Line 11 gives it already.\n    id = 'a'"],
    ),
    "parameters of other kinds": (
        "[[transform]]\nrule = 'split-k'\nat = 'y'\nn = true\ntile = 0\npartials = 'bf61'\n"
        "inner = 'seqq'\norder = 'backward'",
        [
            "11:5: `n` is true. Allowed: an integer, an expression of symbols, or "
            '{ by = "M", table = [[1, 16], [64, 4]] }.\n    n = true',
            "12:8: `tile` is 0. Allowed: 1 to 281474976710656.\n    tile = 0",
            "13:12: unknown format 'bf61'. Did you mean 'bf16'?\n    partials = 'bf61'",
            "14:9: schedule `seqq`: 'seqq' is no schedule. Did you mean 'seq'?\n    inner = 'seqq'",
            "15:9: `order` is 'backward'. Allowed: plain, reversed.\n    order = 'backward'",
        ],
    ),
    "parameters of wrong types": (
        "[[transform]]\nrule = 'split-k'\nat = 'y'\nn = 2.5\npartials = 16\ninner = ['seq']",
        [
            "11:5: `n` is 2.5. Allowed: an integer, an expression of symbols, or "
            '{ by = "M", table = [[1, 16], [64, 4]] }.\n    n = 2.5',
            "12:12: `partials` is 16. Allowed: the name of a format, such as bf16.\n"
            "    partials = 16",
            "13:9: `inner` is ['seq']. Allowed: a schedule, such as split(4).\n    inner = ['seq']",
        ],
    ),
    "expressions of no value": (
        "[[transform]]\nrule = 'split-k'\nat = 'y'\nn = 'M // 32'\ntile = '8 // (M - 1)'\n"
        "[[transform]]\nrule = 'split-k'\nat = 'y'\nn = 'N'",
        [
            "11:5: `n` is 0 at M = 1. Allowed: 1 to 281474976710656.\n    n = 'M // 32'",
            "12:8: expression '8 // (M - 1)': '8 // (M - 1)' divides by zero. "
            "Guard the divisor with max(1, ...).\n    tile = '8 // (M - 1)'",
            "16:5: the size symbol 'N' is not declared. Allowed: K, M.\n    n = 'N'",
        ],
    ),
    "tables of no value": (
        "[[transform]]\nrule = 'split-k'\nat = 'y'\nn = { by = 'M', table = [[2, 16]] }\n"
        "[[transform]]\nrule = 'split-k'\nat = 'y'\nn = { by = 'M', tabel = [[2, 16]] }\n"
        "[[transform]]\nrule = 'split-k'\nat = 'y'\nn = { by = 'M', table = [[8, 16], [1, 4]] }",
        [
            "11:5: schedule `table(M, (2, 16))`: no row covers M=1. "
            "Begin with a row for 1 or less.\n    n = { by = 'M', table = [[2, 16]] }",
            "15:5: `n` is {'by': 'M', 'tabel': [[...]]}. "
            'Allowed: { by = "M", table = [[1, 16], [64, 4]] }.\n'
            "    n = { by = 'M', tabel = [[2, 16]] }",
            "19:5: schedule `table(M, (8, 16), (1, 4))`: the bounds do not rise. "
            "Write (1, 16), (64, 4), ...\n    n = { by = 'M', table = [[8, 16], [1, 4]] }",
        ],
    ),
    "an unknown machine in a schedule": (
        "[[transform]]\nrule = 'split-k'\nat = 'y'\nn = 2\ninner = 'fused(16, hoper)'",
        [
            "12:9: machine 'hoper': it is not known. Did you mean 'hopper'? "
            f"Known: {', '.join(sorted(MACHINES))}.\n    inner = 'fused(16, hoper)'"
        ],
    ),
    "inputs that are none": (
        "[inputs]\nz = { distribution = 'normal(0, 1)' }\nx = 'normal(0, 1)'\n"
        "y = { range = [1, 2] }",
        [
            "9:1: the graph has no value 'z'. Allowed: x, y.\n"
            "    z = { distribution = 'normal(0, 1)' }",
            "10:5: `x` is 'normal(0, 1)'. Allowed: a table, [inputs.x].\n    x = 'normal(0, 1)'",
            "11:1: [inputs.y] needs one of `distribution` and `data`. "
            'Write { distribution = "normal(0, 1)" } or { data = "x.safetensors" }.\n'
            "    y = { range = [1, 2] }",
        ],
    ),
    "a misspelt distribution": (
        "[inputs.x]\ndistribution = 'norml(0, 1)'\nrange = [8, -8]",
        [
            "9:16: unknown distribution 'norml'. Did you mean 'normal'?\n"
            "    distribution = 'norml(0, 1)'",
            "10:9: `range` is [8, -8]. Allowed: [low, high], two numbers in order.\n"
            "    range = [8, -8]",
        ],
    ),
    "data elsewhere": (
        "[inputs]\nx = { data = '../x.npy' }\ny = { data = 'y.txt' }",
        [
            "9:14: '../x.npy' lies outside of the plan's folder. Put the file beside the plan.\n"
            "    x = { data = '../x.npy' }",
            "10:14: 'y.txt' is no data file. Allowed: .safetensors or .npy.\n"
            "    y = { data = 'y.txt' }",
        ],
    ),
    "data that does not exist": (
        "[inputs]\nx = { data = '/etc/x.npy' }\ny = { data = 'y.npy', range = [0, 1] }",
        [
            "9:14: '/etc/x.npy' lies outside of the plan's folder. Put the file beside the plan.\n"
            "    x = { data = '/etc/x.npy' }",
            "10:14: there is no file 'y.npy'. Name one in the plan's folder.\n"
            "    y = { data = 'y.npy', range = [0, 1] }",
            "10:31: `range` limits a distribution, not data. Leave it out.\n"
            "    y = { data = 'y.npy', range = [0, 1] }",
        ],
    ),
    "a budget that is none": (
        "[budget]\nchange = 'unknown'\nmax_ulp = { bf61 = 1, f32 = -1, bfloat16 = 1, bf16 = 2 }\n"
        "promises = ['deterministik']\nelementwise = 1\n[budget.node.z]\nchnge = 'math'",
        [
            "9:10: unknown kind of change 'unknown'. "
            "Allowed: bitwise, grid, math, reassociation, rounding.\n    change = 'unknown'",
            "10:13: unknown format 'bf61'. Did you mean 'bf16'?\n"
            "    max_ulp = { bf61 = 1, f32 = -1, bfloat16 = 1, bf16 = 2 }",
            "10:29: `f32` is -1. Allowed: a number of ulp, at least 0.\n"
            "    max_ulp = { bf61 = 1, f32 = -1, bfloat16 = 1, bf16 = 2 }",
            "10:47: `bf16` is given twice. Give each format once.\n"
            "    max_ulp = { bf61 = 1, f32 = -1, bfloat16 = 1, bf16 = 2 }",
            "11:13: unknown promise 'deterministik'. Did you mean 'deterministic'?\n"
            "    promises = ['deterministik']",
            "12:15: `elementwise` is 1. Allowed: true or false.\n    elementwise = 1",
            "13:1: the graph has no value 'z'. Allowed: x, y.\n    [budget.node.z]",
            "14:1: unknown field 'chnge' of [budget.node.z]. Did you mean 'change'?\n"
            "    chnge = 'math'",
        ],
    ),
    "an allow that is none": (
        "[[allow]]\ncode = 'RED202'\nat = 'z'\nreason = ' '\nuntil = '2027-06-30'\n"
        "[[allow]]\nuntil = 2027-06-30T10:00:00\n"
        "[[allow]]\ncode = 'split-k'\nreason = 'r'",
        [
            "9:8: unknown code 'RED202'. Did you mean 'RED201'?\n    code = 'RED202'",
            "10:6: the graph has no value 'z'. Allowed: x, y.\n    at = 'z'",
            "11:10: `reason` is empty. Allowed: a text.\n    reason = ' '",
            "12:9: bad date '2027-06-30'. Write a day without quotes: until = 2027-06-30.\n"
            "    until = '2027-06-30'",
            "13:1: [[allow]] has no `code`. Write a code such as RED201, or a family: RED.\n"
            "    [[allow]]",
            "13:1: [[allow]] has no `reason`. Say why it is accepted.\n    [[allow]]",
            "14:9: bad date 2027-06-30 10:00:00. Write a day without quotes: until = 2027-06-30.\n"
            "    until = 2027-06-30T10:00:00",
            "16:8: unknown code 'split-k'. Write 'RED201'.\n    code = 'split-k'",
        ],
    ),
    "keys given twice, and dates that do not exist": (
        "[[allow]]\ncode = 'RED201'\nreason = 'r'\ncode = 'RED'\nuntil = 2026-13-01 10:00:00\n",
        [
            "11:1: `code` is given twice. Line 9 gives it already.\n    code = 'RED'",
            "12:9: bad date 2026-13-01 10:00:00. There is no such day or time; "
            "write one as 2027-06-30.\n    until = 2026-13-01 10:00:00",
        ],
    ),
    "an after graph": (
        "[after]\ntext = '''\nx: f32[M, K]\nz: f32[M]\ny2: f32 = sum(x) acc f32 pairwise(1)\n'''",
        [
            "9:8: the graph does not give `y`, a result of [graph]. "
            "Both graphs give the same results.\n    text = '''",
            "10:1: `x` is not the same input in [graph]. Both graphs read the same inputs.\n"
            "    x: f32[M, K]",
            "11:1: `z` is not the same input in [graph]. Both graphs read the same inputs.\n"
            "    z: f32[M]",
        ],
    ),
    "an after graph and transforms": (
        "[[transform]]\nrule = 'drop-rounding'\nat = 'y'\n"
        "[after]\ntext = '''\nx: bf16[M, K]\ny: f32 = sum(x) acc f32 any_order\n'''",
        [
            "11:1: a plan holds transforms or an `after` graph, not both. Keep one of them.\n"
            "    [after]"
        ],
    ),
    "an escaped control character": (
        '[target]\nmachine = "hop\\u001bper"',
        [
            "9:11: `machine` holds the character U+001B. Only printable ones may stand.\n"
            '    machine = "hop\\u001bper"'
        ],
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_a_problem_says_where_what_is_allowed_and_what_to_do(problems, text, expected):
    found = problems(GRAPH + text)
    assert found == ["p." * (i == 0) + f"toml:{text}" for i, text in enumerate(expected)]


GRAPH_CASES = {
    "no schema": (
        "[graph]\ntext = 'x: f32[2]'",
        ["1:1: the plan has no `schema`. Write `schema = 1`.\n    [graph]"],
    ),
    "another schema": (
        "schema = 2\n[graph]\ntext = 'x: f32[2]'",
        ["1:10: `schema` is 2. Allowed: 1.\n    schema = 2"],
    ),
    "no graph": (
        "schema = 1",
        ["1:1: the plan has no `graph`. Write a table [graph] with a `text`.\n    schema = 1"],
    ),
    "no text": (
        "schema = 1\n[graph]\nname = 'x'",
        ["2:1: [graph] has no `text`. Write the statements of the graph, one a line.\n    [graph]"],
    ),
    "an empty text": (
        "schema = 1\n[graph]\ntext = '''\n# nothing\n'''",
        ["4: the graph is empty. Write one value a line, such as `x: bf16[M, K]`."],
    ),
    "a misspelt text hides nothing else": (
        "schema = 1\n[graph]\ntxt = 'x: f32[2]'\n[[transform]]\nrule = 'split-q'\nat = 'x'",
        [
            "3:1: unknown field 'txt' of [graph]. Did you mean 'text'?\n    txt = 'x: f32[2]'",
            "5:8: unknown rule 'split-q'. Did you mean 'split-k'?\n    rule = 'split-q'",
        ],
    ),
    "misspelt symbols are one problem": (
        "schema = 1\n[graph]\nsymbls = { M = 2 }\nbatch = 'M'\ntext = 'x: f32[M]'\n"
        "[[transform]]\nrule = 'split-k'\nat = 'x'\nn = 'M'",
        ["3:1: unknown field 'symbls' of [graph]. Did you mean 'symbols'?\n    symbls = { M = 2 }"],
    ),
    "sizes that are none": (
        "schema = 1\n[graph]\nbatch = 'N'\ntext = '''\nx: f32[M]\ny: f32[L]\nz: f32 = x + y\n'''\n"
        "[graph.symbols]\nM = [8, 1]\n'K 2' = 0\nL = { range = [1, 8], typical = 9 }",
        [
            "3:9: unknown symbol 'N'. Allowed: K 2, L, M.\n    batch = 'N'",
            "10:5: the sizes of `M` are [8, 1]. Allowed: a size, [smallest, largest], or "
            "{ range = [1, 8192], typical = 1024 }; sizes are from 1 to 281474976710656.\n"
            "    M = [8, 1]",
            "11:1: 'K 2' cannot name a size. Write a name such as M.\n    'K 2' = 0",
            "11:9: the sizes of `K 2` are 0. Allowed: a size, [smallest, largest], or "
            "{ range = [1, 8192], typical = 1024 }; sizes are from 1 to 281474976710656.\n"
            "    'K 2' = 0",
            "12:5: the typical size of `L` is 9. Allowed: a size from 1 to 8.\n"
            "    L = { range = [1, 8], typical = 9 }",
        ],
    ),
    "a shape that fits at the largest size only": (
        "schema = 1\n[graph]\nsymbols = { M = [1, 8], K = 2 }\n"
        "text = '''\nx: f32[M, K]\ny: f32 = x[0:4]\nz: f32 = y + 1\n'''",
        [
            "6:10: the slice bound 4 is outside of axis 0 with 1 elements at M = 1.\n"
            "    y: f32 = x[0:4]"
        ],
    ),
    "a shape that fits nowhere is reported once": (
        "schema = 1\n[graph]\nsymbols = { M = [4, 8], K = 2 }\n"
        "text = '''\nx: f32[M, K]\nw: f32[3]\ny: f32 = x + w\n'''",
        ["7:10: the shapes [8, 2] and [3] do not broadcast.\n    y: f32 = x + w"],
    ),
    "a wrong line is one problem": (
        "schema = 1\n[graph]\ntext = '''\nx: f31[2]\ny: f32 = x + x\nz: f32 = y * 2\nreturn x, z\n"
        "'''\n[[transform]]\nrule = 'drop-rounding'\nat = ['x', 'z']",
        ["4:4: unknown format 'f31'. Did you mean 'f32'?\n    x: f31[2]"],
    ),
    "an undeclared symbol": (
        "schema = 1\n[graph]\nsymbols = { M = 2 }\ntext = '''\nx: f32[N]\ny: f32 = x\n'''",
        ["5:1: the size symbol 'N' is not declared. Allowed: M.\n    x: f32[N]"],
    ),
    "an unknown machine in the graph": (
        "schema = 1\n[graph]\ntext = '''\nx: f32[4]\ny: f32 = sum(x) acc f32 fused(7, hopper)\n'''",
        [
            "5:10: machine 'hopper': no step takes 7 products. Known: 16 (f16, bf16), "
            "32 (e4m3fn, e5m2), 8 (tf32).\n    y: f32 = sum(x) acc f32 fused(7, hopper)"
        ],
    ),
    "lines that are not in the file as they are read": (
        'schema = 1\n[graph]\ntext = """x: f32[4] \\\n\n  # glued\n\ny: f32 = x * zz'
        '\\nz: f32 = 2 w\nq: f32 = x * w"""',
        [
            "7:14: `zz` is not defined. Did you mean 'z'?\n    y: f32 = x * zz",
            "7:12: cannot read the expression: invalid syntax.\n    z: f32 = 2 w",
            "8:14: `w` is not defined. Allowed: q, x, y, z.\n    q: f32 = x * w",
        ],
    ),
}


@pytest.mark.parametrize(("text", "expected"), GRAPH_CASES.values(), ids=GRAPH_CASES)
def test_a_problem_of_a_graph_has_the_line_of_the_file(problems, text, expected):
    found = sorted(line.removeprefix("p.") for line in problems(text))
    assert found == sorted(f"toml:{text}" for text in expected)


FORMS = "normal(0, 1), uniform(-1, 1), constant(1), integers(-8, 8)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("normal", f"'normal' is no distribution. Allowed: {FORMS}."),
        ("normal(1)", "normal takes 2 numbers, given 1. Write normal(0, 1)."),
        ("normal(0, -1)", "the standard deviation of 'normal(0, -1)' is negative. "
         "Write normal(0, 1)."),
        ("uniform(1, 0)", "the bounds of 'uniform(1, 0)' do not rise. Write uniform(-1, 1)."),
        ("integers(0, 0.5)", "the bounds of 'integers(0, 0.5)' are no integers. "
         "Write integers(-8, 8)."),
        ("constant(one)", "'constant(one)' holds what is no number. Write constant(1)."),
        ("constant(1e999)", "'constant(1e999)' holds what is no number. Write constant(1)."),
        ("constant(1e-999)", "'constant(1e-999)' holds what is no number. Write constant(1)."),
        ("constant(nan)", "'constant(nan)' holds what is no number. Write constant(1)."),
    ],
)  # fmt: skip
def test_a_bad_distribution_says_how_to_write_one(problems, text, message):
    line = f"distribution = '{text}'"
    assert problems(GRAPH + f"[inputs.x]\n{line}") == [f"p.toml:9:16: {message}\n    {line}"]
