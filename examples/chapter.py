"""Recompute the worked examples of a textbook chapter on tiling and fusion, to the last bit.

    python examples/chapter.py            a table
    python examples/chapter.py --json     the same for programs

Every number is computed here: graphs in text form are run in rationals, partial sums are merged in
every order, the plans in `examples/chapter/` are linted, and traffic, storage and launches are
counted. What should come out, and what the chapter prints, is in `tests/data/chapter_oracle.json`.
Each line says whether the computed value equals the exact one, and whether the printed figure is
that value, rounded to the digits printed. Exits with 1 when a value is another one, or a figure
does not follow that should (`follows` in that file).
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from itertools import pairwise
from math import floor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from chapter_cases import CASES, HEADS, ROW, Case
from chapter_costs import figures as cost_figures

import lastbit

HERE = Path(__file__).resolve().parent
PLANS = HERE / "chapter"
ORACLE = HERE.parent / "tests" / "data" / "chapter_oracle.json"
F32, BF16, E4M3 = (lastbit.format_of(name) for name in ("f32", "bf16", "e4m3fn"))

# Section 5.2.4: a row of 4096 numbers, and RMSNorm with the sum of squares in 1 or 8 segments.
# What stands inside a statement is exact; a statement rounds once, at its end.

SINES = """
i: f32[4096]                                         # 1 ... 4096
sine: f32 = sin(i)                                   # correctly rounded
"""
THE_ROW = """
sine: f32[4096]
x: bf16 = sine {mode}
square: real = x * x
stored: f32 = square
exact: real = sum(square)
partials: f32 = sum(reshape(square, 8, 512)) acc f32 seq
"""
RMS_NORM = """
total_{n}: f32 = sum(square) acc f32 split({n})
v_{n}: f32 = total_{n} / 4096 + 1e-6                 # rms_norm_eps of Qwen3-8B
scale_{n}_A: f32 = rsqrt(v_{n})                      # rounds once
root_{n}: f32 = sqrt(v_{n})
scale_{n}_B: f32 = 1 / root_{n}                      # rounds twice
output_{n}_A: f32 = x[0:1] * scale_{n}_A
output_{n}_B: f32 = x[0:1] * scale_{n}_B
narrow_{n}_A: bf16 = output_{n}_A
narrow_{n}_B: bf16 = output_{n}_B
"""
THREE = """
a: f32[3]                                            # 1, 2^-24, 2^-24
from_left: f32 = sum(a) acc f32 seq
last_two: f32 = a[1:2] + a[2:3]
from_right: f32 = sum(a) acc f32 tree((0, (1, 2)))
"""

# Section 5.3.3: online softmax over the scores 0 and ln 2, in real numbers.

ONLINE = """
k: f32[2]                                            # 0, 1
v: f32[2]                                            # the values 1, 3
s: real = k * ln2
m1: real = s[0:1]
l1: real = exp(s[0:1] - m1)
u1: real = l1 * v[0:1]
m: real = maximum(m1, s[1:2])
r: real = exp(m1 - m)
p: real = exp(s[1:2] - m)
l: real = r * l1 + p
u: real = r * u1 + p * v[1:2]
online: real = u / l
whole: real = sum(softmax(s) * v)
chunk1: real = softmax(s[0:1]) * v[0:1]
chunk2: real = softmax(s[1:2]) * v[1:2]
"""

# Section 5.4.3: SiLU of partial sums; a row of 256 quantized by one maximum or by another.

SILU = """
c: f32[2]                                            # the partial sums 1, -1
complete: real = silu(sum(c))
apart: real = sum(silu(c))
"""
QUANTIZE = """
t: bf16[256]
chunk: real = t[0:256//2]
row_max: real = amax(t)
row_scaled: real = t[0:1] * 448 / row_max
row_code: e4m3fn = row_scaled saturate
row_back: real = row_code * row_max / 448
chunk_max: real = amax(chunk)
chunk_code: e4m3fn = t[0:1] * 448 / chunk_max saturate
chunk_back: real = chunk_code * chunk_max / 448
"""


class Values:
    """Some values of a graph in text form, by name: lists of exact numbers."""

    def __init__(self, text: str, inputs: Mapping[str, object]) -> None:
        graph = lastbit.parse_program(text).bind({})
        names = [name for name in graph.values if name not in inputs]
        self.lists = {k: list(v.flat) for k, v in lastbit.run_graph(graph, inputs, names).items()}

    def __getitem__(self, name: str) -> Any:
        """Return a value: a number, or a list of several."""
        found = self.lists[name]
        return found if len(found) > 1 else found[0]

    def bits(self, name: str, fmt: lastbit.Format) -> str:
        """Return the code of a number."""
        return lastbit.bits_text(self[name], fmt)


def row_of(sines: Values, mode: str) -> Values:
    """Return the row, its sums, scales and outputs; `mode` rounds the sines to bf16."""
    text = THE_ROW.format(mode=mode) + RMS_NORM.format(n=1) + RMS_NORM.format(n=8)
    return Values(text, {"sine": sines["sine"]})


def apart(a: Fraction, b: Fraction) -> Fraction:
    """Return how many ulp of f32 lie between two f32."""
    return Fraction(lastbit.ulp_distance(a, b, F32).ulps)


def figures_of(row: Values) -> Iterator[tuple[str, object]]:
    """Yield what the chapter prints of the row."""
    exact, one, eight, partials = row["exact"], row["total_1"], row["total_8"], row["partials"]
    unit = lastbit.ulp(one, F32)
    orders = lastbit.merge_orders(partials, lastbit.Rounding.of("f32"))
    results = [result.value for result in orders.results]
    yield "A005", "true" if row["square"] == row["stored"] else "false"
    yield "A006", exact
    yield "A007", exact / 4096
    yield "A008", (one - exact) / unit
    yield "A009", abs(eight - exact) / unit
    yield "A010", apart(one, eight)
    yield "A011", (eight - one) / one * 10**6
    yield "A012", sum(partials) / 8
    yield "A013", Fraction(orders.total)
    yield "A014", Fraction(len(results))
    yield "A015", max(apart(a, b) for a, b in pairwise(results))
    yield "A016", apart(row["scale_1_A"], row["scale_8_A"])
    yield "A017", apart(row["output_1_A"], row["output_8_A"])


def bits_of(row: Values) -> Iterator[tuple[str, object]]:
    """Yield the values behind these figures."""
    exact, unit = row["exact"], lastbit.ulp(row["total_1"], F32)
    yield "ROW.trunc.exact_sum", exact
    yield "ROW.trunc.ulp", unit
    for n in (1, 8):
        name, total = f"ROW.trunc.seg{n}", row[f"total_{n}"]
        yield f"{name}.total", total
        yield f"{name}.total_bits", row.bits(f"total_{n}", F32)
        yield f"{name}.offset_ulp", (total - exact) / unit
        for by in "AB":
            yield f"{name}.scale_bits.{by}", row.bits(f"scale_{n}_{by}", F32)
            yield f"{name}.first_output_bits.{by}", row.bits(f"output_{n}_{by}", F32)
            yield f"{name}.first_output_bf16_bits.{by}", row.bits(f"narrow_{n}_{by}", BF16)


def small_examples() -> Iterator[tuple[str, object]]:
    """Yield the numbers that need no row."""
    three = Values(THREE, {"a": [1, Fraction(1, 2**24), Fraction(1, 2**24)]})
    yield "A001", three["from_left"]
    yield "A002", three["last_two"]
    yield "A003", three["from_right"]
    yield "A004", apart(three["from_left"], three["from_right"])
    online = Values(ONLINE, {"k": [0, 1], "v": [1, 3]})
    yield "A019", ",".join(str(online[name]) for name in ("m1", "l1", "u1"))
    for entry, name in (("A020", "r"), ("A021", "l"), ("A022", "u"), ("A023", "online")):
        yield entry, online[name]
    yield "A024", online["whole"]
    yield "A027", f"{online['chunk1']},{online['chunk2']}"
    silu = Values(SILU, {"c": [1, -1]})
    yield "A025", silu["complete"]
    yield "A026", silu["apart"]
    row = Values(QUANTIZE, {"t": HEADS})
    codes = [lastbit.decode(code, E4M3) for code in range(256)]
    yield "A030", max(value for value in codes if isinstance(value, Fraction))
    names = ("row_max", "row_scaled", "row_code", "row_back", "chunk_code", "chunk_back")
    for number, name in enumerate(names, 31):
        yield f"A{number:03}", row[name]
    difference = row["chunk_back"] - row["row_back"]
    yield "A037", difference
    yield "A038", difference / row["chunk_back"] * 100
    yield "A039", Fraction(len(row["chunk"]))


def sides_of(case: Case, row: Values) -> list[tuple[str, ...]]:
    """Return the bits of a case's value before and after its step."""
    plan = str(PLANS / f"{case.plan}.toml")
    sides = []
    for graph in lastbit.step_graphs(plan, case.step, case.sizes, **case.parameters):
        given = {node.name: case.inputs.get(node.name, 0) for node in graph.inputs}
        inputs = {name: row["x"] if value == ROW else value for name, value in given.items()}
        sides.append(lastbit.run_bits(graph, inputs, [case.show])[case.show])
    return sides


def judge_plan(path: Path) -> dict[tuple[str, str], str]:
    """Lint a plan; return the kind of change of each step, by plan and id."""
    result = lastbit.lint_plans([str(path)])
    return {(path.stem, step.id): step.change for step in result.steps}


def number_of(text: str) -> Fraction | None:
    """Return the number that a text writes as `44.8`, `7/3` or `1+2^-23`; None if it does not."""
    try:
        return sum((_term(term) for term in text.split("+")), Fraction(0))
    except ValueError:
        return None


def _term(text: str) -> Fraction:
    base, power, exponent = text.partition("^")
    return Fraction(base) ** int(exponent) if power else Fraction(base)


def rounded(value: Fraction, decimals: int) -> Fraction:
    """Return a number rounded half up to some decimals, as one does by hand."""
    size = floor(abs(value) * 10**decimals + Fraction(1, 2))
    return Fraction(size if value > 0 else -size, 10**decimals)


def bounds(value: object) -> tuple[Fraction, Fraction]:
    """Return rationals around a real number; both are the number where it is rational."""
    return (value, value) if isinstance(value, Fraction) else value.enclose(200)


def follows(figure: str, value: object) -> bool:
    """Return whether a printed figure is a value, rounded to the digits printed."""
    number = number_of(figure)
    if number is None or isinstance(value, str):
        return figure == value
    decimal = re.fullmatch(r"-?\d+(?:\.(\d+))?", figure)
    if decimal is None:
        return number == value
    return all(rounded(end, len(decimal[1] or "")) == number for end in bounds(value))


def written(value: object, like: str) -> str:
    """Return a value as text; a real number is cut off after as many decimals as `like` has."""
    if isinstance(value, str | Fraction):
        return str(value)
    decimals = len(like.removesuffix("...").partition(".")[2])
    low, high = (floor(end * 10**decimals) for end in bounds(value))
    assert low == high, "the enclosure is too wide for these digits"
    return f"{low // 10**decimals}.{low % 10**decimals:0{decimals}}..."


def number_record(entry: dict[str, Any], value: object) -> dict[str, Any]:
    """Return what came out for a number of the chapter."""
    figure = entry.get("published")
    plain = figure and figure.removesuffix(entry.get("unit", "")).strip()
    computed = written(value, entry["exact"])
    return {
        "id": entry["id"],
        "published": figure,
        "computed": computed,
        "agrees": computed == entry["exact"],
        "published_agrees": plain and follows(plain, value),
    }


def transform_record(
    entry: dict[str, Any], change: str, before: tuple[str, ...], after: tuple[str, ...]
) -> dict[str, Any]:
    """Return what came out for a transform: its kind, and the bits on the chapter's input."""
    element = CASES[entry["id"]].element
    shown = [before[element], after[element]]
    right = change == entry["change"] and (before == after) == (change == "bitwise")
    return {
        "id": entry["id"],
        "published": None,
        "computed": change,
        "agrees": right and shown == entry["bits"],
        "published_agrees": None,
        "before": shown[0],
        "after": shown[1],
    }


def notes_of(row: Values, nearest: Values) -> Iterator[str]:
    """Yield where the chapter's words do not give its figures, and what they give."""
    cut, near = dict(figures_of(row)), dict(figures_of(nearest))
    yield 'Footnote 3 has the row of 5.2.4 "rounded to BF16". The printed figures come out where'
    yield "the low 16 bits of binary32 are cut off. Rounded to nearest, the row gives others:"
    yield f"  {'':52} {'cut off':>12} {'to nearest':>12}"
    for entry, what in (
        ("A008", "sum in 1 segment, from the exact sum, in ulp"),
        ("A009", "sum in 8 segments, distance from the exact sum"),
        ("A010", "between the two"),
        ("A014", "results over the orders of 8 partial sums"),
        ("A016", "between the scales"),
        ("A017", "between the first outputs"),
    ):
        yield f"  {entry}  {what:46} {shown(cut[entry]):>12} {shown(near[entry]):>12}"
    scale, output = (apart(row[f"{v}_1_B"], row[f"{v}_8_B"]) for v in ("scale", "output"))
    yield ""
    yield "A016, A017: the scale is 1 / sqrt(v), rounded once. With a square root that is rounded"
    yield f"too, the scales are {scale} ulp apart and the first outputs {output}."
    yield ""
    stored = sorted({row.bits(f"narrow_{n}_A", BF16) for n in (1, 8)})
    yield f"A017 is counted in f32. Stored in bf16, the first output is {' or '.join(stored)}."


def figures_that_do_not_follow(
    entries: list[dict[str, Any]], records: list[dict[str, Any]]
) -> Iterator[str]:
    """Yield the printed figures that are not the computed value, rounded to their digits."""
    about = {entry["id"]: entry for entry in entries}
    for record in records:
        value = number_of(record["computed"])
        if record["published_agrees"] is False and value is not None:
            decimals = len(record["published"].partition(".")[2])
            digits, more = (float(rounded(value, decimals + n)) for n in (0, 1))
            yield ""
            yield f"{record['id']}, {about[record['id']]['quantity']}: {record['computed']} is"
            yield f"{more}, rounded {digits}. The chapter prints {record['published']}, cut off."


def shown(value: object) -> str:
    """Return a value for the table: short fractions as they are, others with seven digits."""
    if isinstance(value, Fraction) and len(str(value)) > 16:
        return f"{float(value):.7g}"
    text = str(value)
    return text if len(text) <= 16 else f"{text[:13]}..."


def line_of(entry: dict[str, Any], record: dict[str, Any]) -> str:
    """Return the line of a record."""
    name = record["id"].removeprefix("ROW.trunc.seg1.").removeprefix("ROW.trunc.seg8.")
    name = "" if record["id"].startswith("ROW") else name
    verdict = "=" if record["agrees"] else f"is not {entry.get('exact') or entry['change']}"
    if record["published_agrees"] is False:
        verdict += "; the printed figure does not follow"
    if "before" in record:
        computed = f"{record['computed']:<13}  {record['before']} -> {record['after']}"
        return f"  {name:12}  {entry['quantity']:44}  {computed:<53}  {verdict}"
    number = number_of(record["computed"])
    computed = shown(record["computed"] if number is None else number)
    figure = record["published"] or ""
    return f"  {name:12}  {entry['quantity']:54}  {figure:>10}  {computed:>17}  {'':12}{verdict}"


def print_table(entries: list[dict[str, Any]], records: list[dict[str, Any]]) -> None:
    """Print a line for each record, by section."""
    about = {entry["id"]: entry for entry in entries}
    for section in sorted({about[record["id"]]["section"] for record in records}):
        print(f"{section:70}  {'printed':>10}  {'computed':>17}")
        for record in records:
            if about[record["id"]]["section"] == section:
                print(line_of(about[record["id"]], record))
        print()
    exact = sum(record["agrees"] for record in records)
    printed = [record["published_agrees"] for record in records if record["published"]]
    print(f"{exact} of {len(records)} as they should be (=)")
    print(f"{sum(printed)} of {len(printed)} printed figures follow, rounded to the digits printed")


def main(arguments: list[str]) -> int:
    """Print the records; return the exit status."""
    entries = json.loads(ORACLE.read_text("utf-8"))["entries"]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        verdicts = pool.map(judge_plan, sorted(PLANS.glob("*.toml")))  # while this goes on
        sines = Values(SINES, {"i": range(1, 4097)})
        row = row_of(sines, "rtz")
        values = dict([*small_examples(), *figures_of(row), *bits_of(row)])
        sides = {name: sides_of(case, row) for name, case in CASES.items()}
        changes = {step: change for plan in verdicts for step, change in plan.items()}
    values |= dict(cost_figures())
    splits = [step for plan, step in changes if plan == "5_2_4_split_rmsnorm"]
    values["A018"] = Fraction(sum(step.removeprefix("split-").isdigit() for step in splits))
    records = []
    for entry in entries:
        if "exact" in entry:
            records.append(number_record(entry, values[entry["id"]]))
        elif entry["id"] in CASES:
            case = CASES[entry["id"]]
            change = changes[case.plan, case.step]
            records.append(transform_record(entry, change, *sides[entry["id"]]))
    if "--json" in arguments:
        print(json.dumps({"entries": records}, indent=1))
    else:
        print_table(entries, records)
        print("", *notes_of(row, row_of(sines, "rne")), sep="\n")
        print(*figures_that_do_not_follow(entries, records), sep="\n")
    expected = {entry["id"]: entry.get("follows", True) for entry in entries}
    return 0 if all(r["agrees"] and as_expected(r, expected[r["id"]]) for r in records) else 1


def as_expected(record: dict[str, Any], follows: bool) -> bool:
    """Return whether a printed figure follows, or does not, as the data say; there may be none."""
    return record["published_agrees"] in (None, follows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
