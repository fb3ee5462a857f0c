"""Every key and value of a valid TOML or JSON text is found where it stands."""

import json
import random
import tomllib
from pathlib import Path

import pytest

from lastbit.toml_places import TooDeepError, scan

ROOT = Path(__file__).parents[2]
ODD_TOML = r'''
# a comment = [ "
bare = 1 # b = 2
"quoted \" = key" = 'a # b'
'it = s'."x.y" . z = true
empty = ""
multi = """
one "two" ""three""
\"""" # after
raw = \'\'\'
it''s [not] a = table
\'\'\''
"\u00e9" = 1979-05-27 07:32:00Z
t = 07:32:00
dates = [1979-05-27, 1979-05-27T00:32:00.5-07:00, ]
list = [ # c ] "
  1, [2, [], [ "]" ]],   # ,
  { a = 1, "b" = { c.d = [3] } },
  -inf, nan, +1_000.5e-3, 0xDEAD_beef,
]
inline = { x = "}", y = [ "," ], }
[ table . "sub.table" ]
k = 1
[[array]]
k = 1
[array.under]
k = [1]
[[array.deep]]
[[array.deep]]
k.l = 1
[[array]]
k = 2
[[array.deep]]
k = 3
'''.replace(r"\'", "'").replace(", }\n[ table", " }\n[ table")


def leaves(value, path=()):
    """Yield each value inside a document, with its path."""
    if path:
        yield path, value
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    for key, inner in inside:
        yield from leaves(inner, (*path, key))


def check(text):
    """Compare the scanner with the real parser, and return how many values they agree on."""
    places = scan(text)
    assert (places.odd, places.repaired) == ([], text)
    values = dict(leaves(tomllib.loads(text)))
    assert set(places.values) <= set(values)
    for path, value in values.items():
        offset = places.values.get(path)
        if offset is None:  # a table with a header of its own, or one that a dotted key makes
            assert isinstance(value, dict | list)
            continue
        # The text from there begins with the value: what follows, cut at each end, parses to it.
        rest = text[offset:]
        ends = (i for i in range(1, len(rest) + 1) if repr(parsed(rest[:i])) == repr(value))
        assert next(ends, None), (path, value)
    return len(places.values)


def parsed(text):
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return None


def test_every_value_of_an_odd_text_is_found():
    assert check(ODD_TOML) == 38


def test_every_value_of_this_project_is_found():
    assert check((ROOT / "pyproject.toml").read_text(encoding="utf-8")) > 40


def test_keys_are_found_where_they_are_written():
    places = scan(ODD_TOML)
    for path, text in [
        (("bare",), "bare = 1"),
        (("it = s", "x.y", "z"), "'it = s'"),
        (("list", 2, "b", "c", "d"), "c.d = [3]"),
        (("table", "sub.table"), "[ table"),
        (("table", "sub.table", "k"), "k = 1"),
        (("array",), "[[array]]\nk = 1"),
        (("array", 1), "[[array]]\nk = 2"),
        (("array", 0, "under"), "[array.under]"),
        (("array", 0, "deep", 1, "k", "l"), "k.l = 1"),
        (("array", 1, "deep", 0, "k"), "k = 3"),
    ]:
        line, column = places.key(path)
        assert places.line(line)[column - 1 :].startswith(text.split("\n")[0])
        offset = places.keys[path]
        assert ODD_TOML[offset:].startswith(text)


def test_what_is_not_there_has_the_place_of_what_is_around_it():
    places = scan("[a]\nb = [1,\n 2]\n")
    assert places.value(("a", "b", 1)) == (3, 2)
    assert places.value(("a", "b", 7, "c")) == (2, 5)
    assert places.key(("a", "z")) == (1, 1)
    assert places.key(("q",)) == (1, 1)
    assert (places.line(3), places.line(4), places.line(9)) == (" 2]", "", "")


def test_every_value_of_a_json_text_is_found():
    value = {"a": [1, {"b": "}", 'c"d': [None, True, -1.5e3]}, []], "e": {"f": {}}}
    text = json.dumps(value, indent=1)
    places = scan(text, json=True)
    found = dict(leaves(value)) | {(): value}
    assert set(places.values) == set(found)
    for path, inner in found.items():
        decoded, _ = json.JSONDecoder().raw_decode(text, places.values[path])
        assert decoded == inner


def test_what_stops_the_parser_is_replaced_in_place():
    long = "9" * 5000
    text = f"a = 2027-02-30 # 1\nb = [{long}, 2027-02-28]\na = 3\nc = {{ d = 25:00:00 }}\n"
    places = scan(text)
    assert [(odd.kind, odd.path) for odd in places.odd] == [
        ("date", ("a",)),
        ("number", ("b", 0)),
        ("twice", ("a",)),
        ("date", ("c", "d")),
    ]
    assert len(places.repaired) == len(text)
    assert places.position(places.odd[2].offset) == (3, 1)
    assert tomllib.loads(places.repaired) == {
        "a": "027-02-3",
        "b": [long[2:], tomllib.loads("x = 2027-02-28")["x"]],
        "c": {"d": "5:00:0"},
    }


def test_the_lines_of_a_string_are_those_of_the_file():
    text = 'a = """\none \\\n  \n  two\n\nthree\\nfour\\\\\nfive"""\nb = "x\\ny"\n'
    text += "c = '''p\n\\\nq'''"
    places = scan(text)
    for name, lines in [("a", [2, 5, 6, 6, 7]), ("b", [8, 8]), ("c", [9, 10, 11])]:
        value = tomllib.loads(text)[name]
        assert places.string_lines((name,), value.count("\n") + 1) == lines


def test_depth_is_limited():
    assert scan("x = " + "[" * 64 + "]" * 64).values
    with pytest.raises(TooDeepError, match="nested more than 64 deep"):
        scan("x = " + "[" * 65 + "]" * 65)


def test_a_broken_text_never_stops_the_scanner():
    seed = 20260601
    rng = random.Random(seed)
    for _ in range(500):
        chars = list(ODD_TOML)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(chars))
            chars[at] = rng.choice(["", "[", "]", "{", "'", '"', "\n", "=", ".", "\\", "9", "#"])
        text = "".join(chars)
        try:
            places = scan(text)
            tomllib.loads(text)
        except (tomllib.TOMLDecodeError, TooDeepError):
            continue
        values = dict(leaves(tomllib.loads(text)))
        assert set(places.values) <= set(values), f"seed {seed}: {text}"
