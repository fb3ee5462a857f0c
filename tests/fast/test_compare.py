"""A comparison counts every element once, and its figures are those of the exact core."""

import json
import struct
import zipfile
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

import lastbit
from lastbit.codec import from_plain
from lastbit.commands.compare import command
from lastbit.comparing import compare, compare_files
from lastbit.comparing.elements import ELEMENTS
from lastbit.comparing.pairs import compare_pair
from lastbit.comparing.records import Comparison
from lastbit.comparing.tally import BLOCK, SMALL
from lastbit.comparing.tensors import read_tensors
from lastbit.errors import InputError
from lastbit.formats import FORMATS, decode
from lastbit.ulps import ulp_distance

F32 = np.float32


def one(a, b, **options):
    (found,) = compare(a, b, **options).tensors
    return found


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16"])
def test_wide_formats_are_as_the_exact_core_says(name: str):
    element, fmt = ELEMENTS[name], FORMATS[name]
    rng = np.random.default_rng(7)  # seed 7
    last = (1 << fmt.bits) - 1
    edges = [0, 1, 1 << (fmt.bits - 1), last, last >> 1, last >> 2, (last >> 1) + 2]
    drawn = rng.integers(0, last, 200, np.uint64, endpoint=True)
    a = np.array([*edges, *drawn], element.code_type)
    b = np.array([*edges[::-1], *drawn[::-1]], element.code_type)
    found = one(a, b, format=name)
    exact = [
        ulp_distance(decode(int(x), fmt), decode(int(y), fmt), fmt)
        for x, y in zip(a, b, strict=True)
    ]
    apart = [distance.ulps for distance in exact if distance.kind == "distance"]
    assert (found.apart, found.max_ulp) == (len(apart), max(apart))
    ranked = sorted(d.ulps for d in exact if d.ulps is not None)
    assert found.p50 == ranked[-(-len(ranked) // 2) - 1]
    assert found.p99 == ranked[-(-99 * len(ranked) // 100) - 1]
    digits = [ulps.bit_length() for ulps in ranked]
    assert found.histogram == tuple(digits.count(n) for n in range(max(digits) + 1))


def test_the_first_and_the_worst_elements_are_told_with_their_bits():
    a = np.ones((3, 4), F32)
    b = a.copy()
    b[1, 2], b[2, 0] = np.nextafter(F32(1), F32(2)), 2.0
    found = one(a, b)
    assert found.first == (1, 2)
    assert [(w.index, w.a, w.b, w.ulps) for w in found.worst] == [
        ((2, 0), "0x3f800000", "0x40000000", 1 << 23),
        ((1, 2), "0x3f800000", "0x3f800001", 1),
    ]
    assert found.rows is not None
    assert found.columns is not None
    assert (found.rows.touched, found.rows.of, found.rows.most) == (2, 3, ((1, 1), (2, 1)))
    assert (found.columns.touched, found.columns.most) == (2, ((0, 1), (2, 1)))


def test_of_equally_far_elements_the_first_ones_are_told_whatever_the_blocks():
    a = np.ones(3 * BLOCK, F32)
    b = np.nextafter(a, F32(2))
    assert [w.index for w in one(a, b).worst] == [(0,), (1,), (2,), (3,), (4,)]


def test_a_percentile_beyond_what_is_counted_one_by_one_is_exact():
    far = np.arange(SMALL, 9 * SMALL, 8, np.uint32)  # distances from zero, each its own
    found = one(np.zeros(len(far), np.uint32), far, format="f32")
    assert found.p50 == int(far[-(-len(far) // 2) - 1])
    assert found.p999 == int(far[-(-999 * len(far) // 1000) - 1])


def test_zeros_of_other_sign_are_equal_numbers_with_other_bits():
    comparison = compare(np.array([0.0, 1.0]), np.array([-0.0, 1.0]))
    assert comparison.tensors[0].relation == "equal"
    assert comparison.tensors[0].signed_zeros == 1
    assert not comparison
    assert compare(np.array([0.0, 1.0]), np.array([-0.0, 1.0]), max_ulp=0)


def test_nan_against_a_number_never_passes():
    for other in (1.0, np.inf):
        assert not compare(np.array([np.nan]), np.array([other]), max_ulp=1e9)


def test_infinity_against_a_number_never_passes():
    assert not compare(np.array([np.inf]), np.array([1.0]), max_ulp=1e9)
    assert not compare(np.array([np.inf]), np.array([-np.inf]), max_ulp=1e9)


def test_what_is_allowed_passes_up_to_the_bound_and_not_beyond():
    a = np.ones(4, F32)
    b = a + F32(3 * 2**-23)
    assert compare(a, b, max_ulp=3)
    assert not compare(a, b, max_ulp=2)
    assert compare(a, a.copy()).tensors[0].relation == "bitwise"


def test_at_scale_a_cancelled_element_counts_by_its_row():
    a = np.array([[256.0, 2.0**-20], [1.0, 1.0]], F32)  # ulp at 256: 2^-15
    b = np.array([[256.0, 2.0**-16], [1.0, 1.0]], F32)
    found = one(a, b, scale="row")
    assert found.at_scale is not None
    assert found.at_scale.max == float((Fraction(1, 2**16) - Fraction(1, 2**20)) * 2**15)
    assert found.at_scale.p50 == 0
    column = one(a, b, scale="column").at_scale  # the column's largest is 1, ulp 2^-23
    assert column is not None
    assert column.max == float((Fraction(1, 2**16) - Fraction(1, 2**20)) * 2**23)
    assert compare(a, b, scale="row", max_ulp=0.5)
    assert not compare(a, b, max_ulp=0.5)


def test_an_empty_tensor_is_equal_to_an_empty_tensor():
    found = one(np.zeros((0, 4), F32), np.zeros((0, 4), F32))
    assert (found.relation, found.elements, found.max_ulp) == ("bitwise", 0, None)


def test_types_and_shapes_that_differ_do_not_pass():
    relations = [
        one(np.ones(2, F32), np.ones(2)).relation,
        one(np.ones(2, F32), np.ones((2, 1), F32)).relation,
    ]
    assert relations == ["other-type", "other-shape"]
    assert not compare(np.ones(2, F32), np.ones(2))


def test_complex_numbers_and_integers_of_64_bits_are_compared():
    found = one(np.array([1 + 1j]), np.array([1 + 2j]))
    assert (found.format, found.shapes[0], found.apart) == ("f64", (1, 2), 1)
    assert one(np.array([-(2**63)]), np.array([2**63 - 1])).max_ulp == 2**64 - 1


def test_what_is_no_array_of_numbers_is_refused():
    with pytest.raises(InputError) as error:
        compare(np.array(["a"], dtype=object), np.array([1.0]))
    assert str(error.value) == (
        "`a` has elements of type object, which cannot be compared in ulp. Convert it, or give "
        "its codes and `format`."
    )
    with pytest.raises(InputError) as error:
        compare({}, np.array([1.0]))
    assert str(error.value) == (
        "`a` is a dict, no array. Give arrays of numpy, torch, or with DLPack."
    )
    with pytest.raises(InputError, match=r"'f33' is no type of elements. Did you mean 'f32'\?"):
        compare(np.ones(1), np.ones(1), format="f33")


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_and_ml_dtypes_agree(kind: str):
    torch = pytest.importorskip("torch")
    values = np.array([1.0, 2.0, -0.5])
    ours = values.astype(getattr(ml_dtypes, kind))
    theirs = torch.tensor(values).to(getattr(torch, kind))
    assert compare(ours, theirs).equal
    reversed_ = torch.tensor(values[::-1].copy()).to(getattr(torch, kind))
    assert one(theirs, reversed_).apart == 2


def write(path: Path, **tensors) -> str:
    """Write a safetensors file by hand: type, shape and bytes by name."""
    header, content = {}, b""
    for name, (kind, shape, data) in tensors.items():
        offsets = [len(content), len(content) + len(data)]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": offsets}
        content += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)
    return str(path)


def test_files_of_every_kind_hold_the_same(tmp_path):
    values = np.arange(12, dtype=F32).reshape(3, 4)
    np.save(tmp_path / "a.npy", values)
    np.save(tmp_path / "big.npy", values.astype(">f4"))
    np.savez(tmp_path / "a.npz", w=values)
    np.savez_compressed(tmp_path / "b.npz", w=values)
    write(tmp_path / "a.safetensors", w=("F32", [3, 4], values.tobytes()))
    (tmp_path / "a.bin").write_bytes(values.tobytes())
    paths = [str(tmp_path / f) for f in ("a.npy", "big.npy", "a.npz", "b.npz", "a.safetensors")]
    paths.append(str(tmp_path / "a.bin"))
    for path in paths[1:]:
        assert compare_files(paths[0], path, element="f32", shape=(3, 4)).equal, path


def test_bf16_and_fp8_of_safetensors_are_compared_in_their_own_ulp(tmp_path):
    a = write(tmp_path / "a.safetensors", x=("BF16", [2], b"\x80\x3f\x80\x3f"),
              q=("F8_E4M3", [2], b"\x38\x7e"))  # fmt: skip
    b = write(tmp_path / "b.safetensors", x=("BF16", [2], b"\x80\x3f\x82\x3f"),
              q=("F8_E4M3", [2], b"\x38\x7d"))  # fmt: skip
    found = {one.name: one for one in compare_files(a, b).tensors}
    assert (found["x"].format, found["x"].max_ulp) == ("bf16", 2)
    assert found["x"].worst[0].values == (1.0, 1.015625)
    assert (found["q"].format, found["q"].max_ulp) == ("e4m3fn", 1)
    assert compare_files(a, b, max_ulp={"bf16": 2, "e4m3fn": 1})
    assert not compare_files(a, b, max_ulp={"bf16": 2})


def test_what_numpy_saves_of_ml_dtypes_is_read_with_as(tmp_path):
    np.save(tmp_path / "a.npy", np.array([1.0, 1.5], ml_dtypes.bfloat16))
    np.save(tmp_path / "b.npy", np.array([1.0, 1.5078125], ml_dtypes.bfloat16))
    (found,) = compare_files(
        str(tmp_path / "a.npy"), str(tmp_path / "b.npy"), element="bf16"
    ).tensors
    assert (found.format, found.max_ulp) == ("bf16", 1)


def test_a_tensor_that_one_side_lacks_is_a_difference(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones(2), y=np.ones(2))
    np.savez(tmp_path / "b.npz", x=np.ones(2), z=np.ones(2))
    comparison = compare_files(str(tmp_path / "a.npz"), str(tmp_path / "b.npz"))
    assert [(c.name, c.relation) for c in comparison.tensors] == [
        ("x", "bitwise"),
        ("y", "missing"),
        ("z", "missing"),
    ]
    assert not comparison


def test_weights_of_torch_are_read_and_objects_are_not(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.ones(3), "deep": [torch.zeros(2)]}, tmp_path / "a.pt")
    torch.save({"w": torch.ones(3) * 2, "deep": [torch.zeros(2)]}, tmp_path / "b.pt")
    comparison = compare_files(str(tmp_path / "a.pt"), str(tmp_path / "b.pt"))
    relations = {one.name: one.relation for one in comparison.tensors}
    assert relations == {"deep.0": "bitwise", "w": "differs"}
    torch.save({"w": Path("x")}, tmp_path / "c.pt")
    with pytest.raises(InputError, match=r"c\.pt: cannot be read: it holds more than weights"):
        read_tensors(str(tmp_path / "c.pt"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.npy", b"no", "EOF: reading magic string, expected 8 bytes got 2"),
        ("a.npz", b"no", "it is damaged (File is not a zip file)"),
        ("a.safetensors", b"no", "its header is cut off, after 0 of 28526 bytes"),  # too short
        ("a.safetensors", struct.pack("<Q", 1 << 40), "its header has 1099511627776 bytes"),
        ("a.safetensors", b"\x14" + bytes(7) + b"{}", "its header is cut off, after 2 of 20 bytes"),
        ("a.safetensors", struct.pack("<Q", 2) + b"[]", "its header is no object"),
        ("a.safetensors", struct.pack("<Q", 3) + b"{x}", "its header is no JSON"),
    ],
)  # fmt: skip
def test_damaged_files_are_one_error(tmp_path, name: str, content: bytes, said: str):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_tensors(str(path))
    assert str(error.value) == f"{path}: cannot be read: {said}."


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"dtype": "F4", "shape": [1], "data_offsets": [0, 1]}, "the elements of 'w' are F4"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, "'w' has bytes 0 to 4"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "'w' is cut off"),
        ({"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}, "the entry of 'w' has another"),
        ({"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}, "the entry of 'w' has another"),
        ([], "the entry of 'w' has another form"),
    ],
)
def test_entries_that_cannot_be_are_refused(tmp_path, entry, said: str):
    text = json.dumps({"w": entry}).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(InputError) as error:
        read_tensors(str(path))
    assert str(error.value).startswith(f"{path}: cannot be read: {said}")


def test_pickles_in_numpy_files_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"its elements are object, no numbers"):
        read_tensors(str(tmp_path / "a.npy"))


def test_a_member_that_is_no_array_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("../x.npy", b"hello, world")
    with pytest.raises(InputError, match=r"a\.npz: cannot be read: "):
        read_tensors(str(tmp_path / "a.npz"))


def test_raw_bytes_need_a_type(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(6))
    with pytest.raises(InputError) as error:
        read_tensors(str(path))
    assert str(error.value) == (
        f"{path}: says nothing of its elements; files that do end in .npy, .npz, .safetensors, "
        ".pt, .pth. Give --as FORMAT, and --shape if it has rows."
    )
    with pytest.raises(InputError) as error:
        read_tensors(str(path), ELEMENTS["f32"])
    assert str(error.value) == f"{path}: holds 6 bytes, and f32[1] takes 4."


def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(100))
    found = read_tensors(str(tmp_path / "a.npy"))[""]
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:200])
    with pytest.raises(ValueError, match="'' is cut off"):
        compare_pair("w", found, found)


def test_the_command_says_it_all_and_json_reads_back(tmp_path):
    a, b = np.ones((2, 3), F32), np.ones((2, 3), F32)
    b[1, 1] = np.nextafter(F32(1), F32(2))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    paths = [str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]
    shown = CliRunner().invoke(command, paths, standalone_mode=False)
    assert shown.return_value == 1
    assert shown.output == (
        f"{'f32[2, 3]':<88}  differs\n"
        "    bits      16.7 % of 6 elements differ (1)\n"
        "    ulp       up to 1 ulp of f32; p50 0, p99 1, p99.9 1\n"
        "    spread    0: 5, 1: 1\n"
        "    worst     [1, 1]: 0x3f800000 -> 0x3f800001 (1.0 -> 1.0000001192092896), 1 ulp\n"
        "    first     [1, 1]\n"
        "    rows      1 of 2 have any; most in 1 (1 of 3)\n"
        "    columns   1 of 3 have any; most in 1 (1 of 2)\n"
        "\n"
        "compared 1 tensor, 6 elements: 1 differs; 1 element with other bits\n"
    )
    plain = CliRunner().invoke(command, [*paths, "--format", "json"], standalone_mode=False)
    assert from_plain(Comparison, json.loads(plain.output)) == compare_files(*paths)
    within = CliRunner().invoke(
        command, [*paths, "--max-ulp", "f32=1", "-q"], standalone_mode=False
    )
    assert within.return_value == 0
    assert within.output == ("compared 1 tensor, 6 elements: 1 within; 1 element with other bits\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--max-ulp", "f32"], "'f32' gives no ulp; write bf16=1."),
        (["--max-ulp", "f32=-1"], "'f32=-1' gives no ulp; write bf16=1."),
        (["--max-ulp", "f32=nan"], "'f32=nan' gives no ulp; write bf16=1."),
        (["--max-ulp", "f33=1"], "'f33' is no format. Did you mean 'f32'?"),
        (["--max-ulp", "f32=1", "--max-ulp", "f32=2"], "'f32' is given twice."),
        (["--shape", "2,x"], "'2,x' is no shape; write 4096,64."),
    ],
)
def test_options_that_say_nothing_are_refused(options: list[str], said: str):
    shown = CliRunner().invoke(command, ["a.npy", "b.npy", *options])
    assert shown.exit_code == 2
    assert said in shown.output


def test_the_function_is_public():
    assert lastbit.compare is compare
