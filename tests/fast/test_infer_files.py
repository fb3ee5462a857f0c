"""Arrays and files hold codes: what numpy, ml_dtypes, torch and files give comes back alike."""

import json

import ml_dtypes
import numpy as np
import pytest

from lastbit.errors import InputError
from lastbit.formats import FORMATS
from lastbit.inference.arrays import NUMPY, TORCH, canonical_codes, codes_of, native, plain_array
from lastbit.inference.files import tensor_in, write_tensors
from lastbit.inference.room import room
from lastbit.round_array import code_type

BF16 = FORMATS["bf16"]


def every_code(fmt):
    step = 1 if fmt.container <= 16 else (1 << fmt.container) // 4093
    codes = np.arange(0, 1 << fmt.bits, step, dtype=np.uint64)
    return (codes << np.uint64(fmt.padding)).astype(code_type(fmt)).reshape(1, -1)


@pytest.mark.parametrize("name", sorted({*NUMPY} - {"f64"}))
def test_codes_come_back_from_arrays_of_numpy(name):
    fmt = FORMATS[name]
    codes = canonical_codes(every_code(fmt), fmt)
    array, held = plain_array(native(codes, fmt, "numpy"))
    assert np.array_equal(codes_of(array, held, fmt), codes)


@pytest.mark.parametrize("name", sorted({*TORCH} - {"f64", "e8m0"}))
def test_codes_come_back_from_tensors_of_torch(name):
    pytest.importorskip("torch")
    fmt = FORMATS[name]
    codes = canonical_codes(every_code(fmt), fmt)
    array, held = plain_array(native(codes, fmt, "torch"))
    assert np.array_equal(codes_of(array, held, fmt), codes)


def test_every_nan_counts_as_one():
    codes = np.array([0x7FC0, 0x7FFF, 0xFF81, 0x7F80], np.uint16)
    assert canonical_codes(codes, BF16).tolist() == [0x7FC0, 0x7FC0, 0x7FC0, 0x7F80]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_format_without_arrays_is_refused(library):
    pytest.importorskip("torch")
    name = {"numpy": "int64", "torch": "e2m1"}[library]
    codes = np.zeros(2, np.uint64 if name == "int64" else np.uint8)
    with pytest.raises(InputError, match=f"{library} has no arrays of {name}. Formats of inputs"):
        native(codes, FORMATS[name], library)


def test_integers_beyond_binary64_are_no_values():
    reason = codes_of(np.array([2**53 + 1], np.int64), None, FORMATS["int32"])
    assert reason == "elements of type int64 beyond 2^53"
    assert codes_of(np.array([True]), None, BF16) == "elements of type bool"


def saved(path, header, content=b""):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)
    return str(path)


def entry(dtype, shape, size):
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}


def test_safetensors_are_read(tmp_path):
    codes = np.arange(6, dtype=np.uint16) + 0x3F80
    path = saved(tmp_path / "a.safetensors", {"x": entry("BF16", [2, 3], 12)}, codes.tobytes())
    assert np.array_equal(tensor_in(path, "x", BF16, (2, 3), "`x`").ravel(), codes)
    values = np.arange(6, dtype=np.float32)
    path = saved(tmp_path / "b.safetensors", {"x": entry("F32", [6], 24)}, values.tobytes())
    wanted = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    assert np.array_equal(tensor_in(path, "other", BF16, (6,), "`x`"), wanted)


def test_what_was_written_is_read(tmp_path):
    path = str(tmp_path / "in.npz")
    tensors = {
        name: (canonical_codes(every_code(FORMATS[name]), FORMATS[name]), FORMATS[name])
        for name in ("bf16", "f32", "f16", "e4m3fn", "int8")
    }
    write_tensors(path, tensors)
    first = (tmp_path / "in.npz").read_bytes()
    for name, (codes, fmt) in tensors.items():
        assert np.array_equal(tensor_in(path, name, fmt, codes.shape, name), codes), name
    write_tensors(path, tensors)
    assert (tmp_path / "in.npz").read_bytes() == first


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ([1], "its header is no object"),
        (b"{nonsense", "cannot be read: its header is no JSON"),
        ({"x": {"dtype": "F32"}}, "the entry of 'x' has another form"),
        (
            {"x": entry("C64", [1], 8)},
            "the elements of 'x' are C64, unknown here",
        ),
        ({"y": entry("F32", [1], 4), "z": entry("F32", [1], 4)}, "has no tensor 'x'. Allowed: y"),
        ({"x": entry("F32", [2], 8)}, r"`x` has the shape \[2\], not \[3\]"),
        ({"x": entry("F32", [50], 200)}, "'x' is cut off: it ends at byte 200 of 64"),
        ({"x": entry("F32", [2], 16)}, r"'x' has bytes 0 to 16, which is not F32\[2\]"),
        ({}, "holds no tensors"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(tmp_path, header, message):
    path = saved(tmp_path / "a.safetensors", header, bytes(64))
    with pytest.raises(InputError, match=message):
        tensor_in(path, "x", FORMATS["f32"], (3,), "`x`")


def test_a_long_header_is_not_read(tmp_path):
    (tmp_path / "a.safetensors").write_bytes((1 << 40).to_bytes(8, "little"))
    with pytest.raises(InputError, match="cannot be read: its header has 1099511627776 bytes"):
        tensor_in(str(tmp_path / "a.safetensors"), "x", BF16, (3,), "`x`")


def test_values_that_a_format_does_not_hold_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([1.0, 1.001]))
    with pytest.raises(InputError, match=r"`x` holds f64 with 1.001 at \[1\], which is no bf16"):
        tensor_in(str(tmp_path / "a.npy"), "x", BF16, (2,), "`x`")
    np.save(tmp_path / "b.npy", np.array(["text"]))
    with pytest.raises(InputError, match="cannot be read: its elements are <U4, no numbers"):
        tensor_in(str(tmp_path / "b.npy"), "x", BF16, (1,), "`x`")


def test_arrays_that_numpy_saves_without_their_type_count_as_codes(tmp_path):
    array = np.arange(3, dtype=np.float32).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "a.npy", array)
    found = tensor_in(str(tmp_path / "a.npy"), "", BF16, (3, 1), "`x`")
    assert np.array_equal(found.ravel(), array.view(np.uint16))


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    codes = np.zeros(2, np.uint16)
    with pytest.raises(InputError, match="cannot be written"):
        write_tensors(str(tmp_path / "missing" / "a.npz"), {"x": (codes, BF16)})


def written(path, **tensors):
    np.savez(path, **tensors)
    return path.read_bytes()


def test_a_file_that_is_cut_off_or_damaged_is_refused_wherever_it_ends(tmp_path):
    path = tmp_path / "a.npz"
    content = written(path, x=np.ones(40, np.float32), y=np.ones(4, np.float32))
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        with pytest.raises(InputError, match=r"a\.npz: cannot be read: it is (no|cut off)"):
            tensor_in(str(path), "x", FORMATS["f32"], (40,), "`x`")
    middle = content.index(b"\x00\x00\x80\x3f")  # a one: its check sum is another then
    path.write_bytes(content[:middle] + b"\x01" + content[middle + 1 :])
    with pytest.raises(InputError, match=r"a\.npz: cannot be read: it is cut off or damaged \(Bad"):
        tensor_in(str(path), "x", FORMATS["f32"], (40,), "`x`")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", b"garbage", "cannot be read: it is no .npz file."),
        ("a.npy", b"garbage", "cannot be read: it is no .npy file."),
        ("a.safetensors", b"\xff\0\0\0\0\0\0\0{}", "its header is cut off, after 2 of 255 bytes."),
        ("a.npz", b"PK\x05\x06" + bytes(18), "holds no tensors."),
        (
            "a.npy",
            b"\x93NUMPY\x01\x00v\x00"
            + b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999,), }".ljust(118),
            "cannot be read: ",
        ),
    ],
)
def test_what_is_no_tensor_file_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        tensor_in(str(tmp_path / name), "x", BF16, (1,), "`x`")
    assert message in str(error.value)


def test_objects_are_no_numbers_and_stay_packed(tmp_path):
    array = np.array([{"a": 1}], object)
    np.savez(tmp_path / "a.npz", x=array)
    np.save(tmp_path / "a.npy", array)
    for name in ("a.npz", "a.npy"):
        with pytest.raises(
            InputError, match="cannot be read: its elements are objects, no numbers"
        ):
            tensor_in(str(tmp_path / name), "x", BF16, (1,), "`x`")


def test_a_tensor_of_several_is_named_behind_a_colon(tmp_path):
    path = str(tmp_path / "a.npz")
    written(tmp_path / "a.npz", one=np.ones(2, np.float32), two=np.full(2, 2, np.float32))
    assert tensor_in(f"{path}:two", "a", BF16, (2,), "`a`", choose=True).tolist() == [0x4000] * 2
    with pytest.raises(InputError) as error:
        tensor_in(path, "a", BF16, (2,), "`a`", choose=True)
    assert str(error.value) == f"{path}: has no tensor 'a'. Allowed: one, two. Write {path}:NAME."
    with pytest.raises(InputError, match=r"has no tensor 'tow'\. Did you mean 'two'"):
        tensor_in(f"{path}:tow", "a", BF16, (2,), "`a`", choose=True)
    written(tmp_path / "b.npz", one=np.ones(2, np.float32))  # the wrong name of a single one, too
    with pytest.raises(InputError, match="has no tensor 'two'"):
        tensor_in(f"{tmp_path / 'b.npz'}:two", "a", BF16, (2,), "`a`", choose=True)


def test_a_product_that_memory_does_not_hold_is_refused():
    with pytest.raises(InputError) as error, room("a product", 1 << 60):
        raise AssertionError
    assert str(error.value) == "a product needs more memory than there is. Give smaller sizes."
    with (
        pytest.raises(InputError, match="a product needs more memory than there is"),
        room("a product"),
    ):
        np.empty(1 << 60, np.uint8)
