"""A file that is no plan, or more than a plan, is refused with one clear error."""

import os
import time

import pytest
from small_plans import GRAPH, load

from lastbit.errors import InputError


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path, problems):
    path = tmp_path / "p.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GRAPH.replace("\n", "\r\n").encode())
    assert load(path).program.place("y").line == 6
    text = GRAPH.replace("sum(x)", "smu(x)").replace("\n", "\r\n")
    assert problems(text) == [
        "p.toml:6:10: unknown operator 'smu'. Did you mean 'sum'?\n    y: f32 = smu(x) acc f32 seq"
    ]


HOSTILE = {
    "no UTF-8": (b"schema = 1\n# \xff", "2: the file is not UTF-8: byte 0xff. Save it as UTF-8."),
    "a NUL": (b"schema = 1\n\0", "2: the file holds a NUL character. A plan is a text."),
    "too large": (b"#" * (8 * 2**20 + 1), " the file is too large. At most 8 MiB are read."),
    "deep arrays": (
        b"x = " + b"[" * 10**5,
        "1:69: the file is nested too deeply. At most 64 levels are read.",
    ),
    "deep tables": (
        b"x = " + b"{a=" * 10**5,
        "1:197: the file is nested too deeply. At most 64 levels are read.",
    ),
    "deep JSON": (
        b'{"x": ' + b"[" * 10**5,
        "1:71: the file is nested too deeply. At most 64 levels are read.",
    ),
    "a long dotted key": (
        b"a." * 10**5 + b"a = 1",
        "1:1: the file is nested too deeply. At most 64 levels are read.",
    ),
    "a long header": (
        b"[" + b"a." * 10**5 + b"a]",
        "1:2: the file is nested too deeply. At most 64 levels are read.",
    ),
}


@pytest.mark.parametrize(("data", "expected"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_give_one_clear_error(problems, data, expected):
    started = time.process_time()
    name = "p.json" if data.startswith(b"{") else "p.toml"
    assert problems(data, name) == [f"{name}:{expected}"]
    assert time.process_time() - started < 1


def test_a_number_of_5001_digits_is_one_problem_among_others(problems):
    number = "1" + "0" * 5000
    text = GRAPH + f"[inputs.x]\ndistribution = 'constant(1)'\nrange = [0, {number}]\nrnge = 1"
    found = problems(text)
    assert [text.split("\n")[0] for text in found] == [
        "p.toml:10:13: the number 10000000000000000000... of 5001 characters is too long. "
        "At most 400 characters.",
        "toml:11:1: unknown field 'rnge' of [inputs.x]. Did you mean 'range'?",
    ]
    assert max(map(len, found)) < 500


def test_numbers_that_no_float_holds_are_refused(problems):
    text = GRAPH + "[budget]\nmax_ulp = { f32 = inf, bf16 = 1e999, f16 = 1e-999, f64 = nan }"
    assert [line.split("\n")[0].split(": ", 1)[1] for line in problems(text)] == [
        "`f32` is inf. Allowed: a number of ulp, at least 0.",
        "`bf16` is nan. Allowed: a number of ulp, at least 0.",
        "`f16` is nan. Allowed: a number of ulp, at least 0.",
        "`f64` is nan. Allowed: a number of ulp, at least 0.",
    ]


@pytest.mark.parametrize(
    ("name", "text", "head", "tail"),
    [
        ("p.toml", GRAPH + "[target]\nmachine = hopper", "9:11: this is no TOML: ", "hopper"),
        ("p.toml", GRAPH + "[target]\nmachine = '''hopper", "9:20: this is no TOML: ", "hopper"),
        ("p.toml", GRAPH + "x = 'a\x1b[31mb'", "8:7: this is no TOML: ", r"x = 'a\x1b[31mb'"),
        (
            "p.toml",
            GRAPH + "[graph]",
            "8:7: this is no TOML: ",
            "Write each table once.\n    [graph]",
        ),
        ("p.json", "{", "1:2: this is no JSON: ", "{"),
        ("p.json", '{"schema": 1} x', "1:15: this is no JSON: ", "x"),
        ("p.json", "[1]", "1:1: a plan is a table. Write {...}.", "[1]"),
    ],
)
def test_a_text_of_another_language_is_refused_where_it_ends(problems, name, text, head, tail):
    # What stands between is said by `tomllib` or `json`, in words that change with Python.
    (found,) = problems(text, name)
    assert found.startswith(f"{name}:{head}")
    assert found.endswith(tail)
    assert "\x1b" not in found  # it would move the cursor of a terminal


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, message in [
        ("", "this is no file. Name a plan: a .toml or .json file."),
        ("pipe", "this is no file. Name a plan: a .toml or .json file."),
        ("none.toml", "cannot be read: No such file or directory."),
        ("a\0b", "this is no path. A path holds no NUL."),
    ]:
        with pytest.raises(InputError) as caught:
            load(tmp_path / name if name else tmp_path)
        assert str(caught.value).endswith(f": {message}")


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path, problems):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.npy").touch()
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "x.npy").symlink_to(tmp_path / "elsewhere" / "x.npy")
    text = GRAPH + "[inputs]\nx = { data = 'x.npy' }"
    (found,) = problems(text, "plans/p.toml")
    assert "9:14: 'x.npy' lies outside of the plan's folder." in found


def test_the_problems_end_where_nobody_reads_on(problems):
    found = problems(GRAPH + "[[transform]]\n" * 5000)
    assert len(found) <= 202
    assert "toml: more than 200 problems." in found[-1]


def test_too_many_transforms_are_refused(problems, monkeypatch):
    monkeypatch.setattr("lastbit.plan.MAX_TRANSFORMS", 3)
    assert problems(GRAPH + "[[transform]]\n" * 4) == [
        "p.toml:8:1: the plan has 4 transforms. At most 3 are read.\n    [[transform]]"
    ]
