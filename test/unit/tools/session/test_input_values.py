"""Inputs in the form of `iree-run-module`."""

import re
from pathlib import Path

import numpy as np
import pytest

from penstock.tools.driver.errors import FileError, UsageError
from penstock.tools.session.input_values import is_value, read_value


@pytest.mark.parametrize(
    ("text", "name", "array"),
    [
        ("x=f32=2.5", "x", np.array(2.5, np.float32)),
        ("x=3xf32=1,2,3", "x", np.array([1, 2, 3], np.float32)),
        ("x=3xf64=1 2 3", "x", np.array([1, 2, 3], np.float64)),
        ("x=2x2xi32=[1 2][3 4]", "x", np.array([[1, 2], [3, 4]], np.int32)),
        ("x=2x3xf32=1,2,3", "x", np.array([[1, 2, 3]] * 2, np.float32)),
        ("x=2x3xf16=-7e-1", "x", np.full((2, 3), -0.7, np.float16)),
        ("x=2xui8", "x", np.zeros(2, np.uint8)),
        ("x=2xi1=true,0", "x", np.array([True, False])),
        ("x=2xf32=inf,nan", "x", np.array([np.inf, np.nan], np.float32)),
        ("x=1xi64=-9223372036854775808", "x", np.array([-(2**63)], np.int64)),
        ("x=1xi32=0x10", "x", np.array([16], np.int32)),
        ("x=0x3xf32", "x", np.zeros((0, 3), np.float32)),
        ("a/b=c=2xsi8=1,2", "a/b=c", np.array([1, 2], np.int8)),
    ],
)
def test_values(
    text: str, name: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]
):
    assert is_value(text)
    found_name, found = read_value(text)
    assert (found_name, found.dtype) == (name, array.dtype)
    np.testing.assert_array_equal(found, array, strict=True)


def test_bfloat16():
    array = read_value("x=2xbf16=1.5")[1]
    assert (array.dtype.name, array.astype(float).tolist()) == ("bfloat16", [1.5, 1.5])


@pytest.mark.parametrize("text", ["in.npz", "a=b.npz", "a=b"])
def test_files_are_no_values(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("a=b").touch()
    assert not is_value(text)


KNOWN = (
    "i1, bf16, f16, f32, f64, i8, si8, i16, si16, i32, si32, i64, si64, ui8, ui16, "
    "ui32, ui64"
)


def npy(count: int) -> bytes:
    """A file of four `f32` whose header says so many."""
    head = str({"descr": "<f4", "fortran_order": False, "shape": (count,)}).ljust(117)
    size = (len(head) + 1).to_bytes(2, "little")
    return b"\x93NUMPY\x01\x00" + size + head.encode() + b"\n" + bytes(16)


FORM = "expected extents and a type such as 2x3xf32=1,2,3, or @FILE.npy"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "x=8xf99=1",
            f"input 'x': unknown element type 'f99' (known: {KNOWN})",
        ),
        (
            "x=8xf3=1",
            "input 'x': unknown element type 'f3', did you mean 'f32'? (known: i1, ",
        ),
        ("x=f33=1", "input 'x': unknown element type 'f33', did you mean 'f32'? "),
        ("3xf32=1", f"input '3xf32': {FORM}, got '1'"),
        ("x=8x-f32=1", f"input 'x': {FORM}, got '8x-f32=1'"),
        ("x=", f"input 'x': {FORM}, got ''"),
    ],
)
def test_texts_that_are_neither_values_nor_files(text: str, message: str):
    assert is_value(text)
    with pytest.raises(UsageError) as caught:
        read_value(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "x=2x3xf32=1,2",
            "input 'x': expected 1 value, or as many as 2x3 or its last extents hold, "
            "got 2",
        ),
        ("x=2xi32=1.5,2", "input 'x': expected a number of int32, got '1.5'"),
        ("x=2xi1=2", "input 'x': expected true or false, got '2'"),
        ("x=2xf32=one", "input 'x': expected a number of float32, got 'one'"),
        ("x=@none.npy", "cannot read none.npy: no such file or directory"),
    ],
)
def test_bad_values(text: str, message: str):
    with pytest.raises(UsageError) as caught:
        read_value(text)
    assert str(caught.value) == message


def test_numbers_that_no_element_can_be():
    with pytest.raises(UsageError, match="input 'x': "):
        read_value("x=1xi8=300")


def test_arrays_in_files(tmp_path: Path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(read_value(f"x=@{path}")[1], range(4))
    np.testing.assert_array_equal(read_value(f"x=4xf32=@{path}")[1], range(4))
    with pytest.raises(UsageError) as caught:
        read_value(f"x=2x2xf32=@{path}")
    message = f"{path} holds float32 of shape (4,), not float32 of (2, 2)"
    assert str(caught.value) == f"input 'x': {message}"
    path.write_bytes(b"no array")
    with pytest.raises(UsageError, match=r"it is no \.npy file"):
        read_value(f"x=@{path}")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        # No memory is taken for what a header claims.
        (npy(10**12)[:-16], "'x.npy' has 0 bytes for a float32 array of shape"),
        (npy(4)[:-1], "'x.npy' has 15 bytes for a float32 array of shape (4,)"),
        (npy(-1), "'x.npy' has 16 bytes for a float32 array of shape (-1,)"),
        (npy(4).replace(b"'<f4'", b"'|O' "), "'x.npy' holds Python objects"),
        (npy(4)[:20], "EOF: reading array header, expected 118 bytes got 10"),
        (b"PK" + npy(4), "it is no .npy file"),
        (b"", "it is no .npy file"),
    ],
)
def test_damaged_arrays_in_files(tmp_path: Path, data: bytes, message: str):
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with pytest.raises(FileError, match=re.escape(message)) as caught:
        read_value(f"x=@{path}")
    assert str(caught.value).startswith(f"cannot read {path}: ")
