"""
Damaged files of arrays: each is an error of ours that names the file, before memory is
taken for what a header claims.
"""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import fresh_seed

from penstock.runtime.errors import PenstockError
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.files import sha256_of
from penstock.tools.session.checkpoint import MANIFEST, CheckpointError, Checkpoints
from penstock.tools.session.model_files import read_model_file, write_model_file

ARRAYS = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.arange(3, dtype=np.int64),
    "é": np.array(True),
    "none": np.zeros((0, 5), np.float16),
}
MOST_BYTES = 1 << 22
"""The memory that reading a damaged file may take."""
KINDS = ("npz", "safetensors")


def refused(path: Path) -> str:
    """Why a file is refused, without its name; little memory is taken."""
    tracemalloc.start()
    try:
        with pytest.raises(UsageError) as caught:
            read_model_file(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES
    return str(caught.value).removeprefix(f"cannot read {path}: ")


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_read_as_they_were_written(tmp_path: Path, kind: str) -> None:
    write_model_file(path := tmp_path / f"model.{kind}", ARRAYS)
    found = read_model_file(path)
    assert sorted(found) == sorted(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_arrays_of_numpy_are_read_in_any_order_and_compressed(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    column = np.asfortranarray(ARRAYS["w"])
    big = ARRAYS["w"].astype(">f8")
    np.savez_compressed(path, column=column, big=big, zeros=np.zeros(1 << 20))
    found = read_model_file(path)
    np.testing.assert_array_equal(found["column"], column)
    np.testing.assert_array_equal(found["big"], big)
    assert found["zeros"].shape == (1 << 20,)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_read_or_refused_by_name(tmp_path: Path, kind: str) -> None:
    rng = random.Random(fresh_seed())
    write_model_file(path := tmp_path / f"model.{kind}", ARRAYS)
    whole = path.read_bytes()
    errors: list[str] = []
    for _ in range(200):
        data = bytearray(whole)
        match rng.randrange(3):
            case 0:
                del data[rng.randrange(len(data)) :]
            case 1:
                for _ in range(rng.randint(1, 4)):
                    data[rng.randrange(len(data))] = rng.randrange(256)
            case _:
                start = rng.randrange(len(data))
                data[start : start + rng.randrange(9)] = rng.randbytes(8)
        path.write_bytes(data)
        try:
            read_model_file(path)
        except UsageError as error:
            errors.append(str(error))
    assert errors
    assert all(error.startswith(f"cannot read {path}: ") for error in errors)


def npy(header: Mapping[str, Any] | str, data: bytes = b"") -> bytes:
    text = header if isinstance(header, str) else repr(dict(header))
    head = text.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def facts(shape: object, descr: object = "<f4") -> dict[str, object]:
    return {"descr": descr, "fortran_order": False, "shape": shape}


NPY = {
    "huge": (npy(facts((1 << 40,))), "'w' has 0 bytes for a float32 array of shape"),
    "overflow": (npy(facts((1 << 62, 8))), "'w' has 0 bytes for a float32 array of"),
    "negative": (npy(facts((-4, -1)), bytes(16)), "'w' has 16 bytes for a float32"),
    "short": (npy(facts((4,)), bytes(15)), "'w' has 15 bytes for a float32 array"),
    "long": (npy(facts((4,)), bytes(17)), "'w' has 17 bytes for a float32 array"),
    "dtype": (npy(facts((4,), "<q9"), bytes(16)), "descr is not a valid dtype"),
    "objects": (npy(facts((2,), "|O"), bytes(16)), "'w' holds Python objects"),
    "shape": (npy(facts("four"), bytes(16)), "shape is not valid: 'four'"),
    "header": (npy("{1: 2", bytes(16)), "'w' has a header that cannot be parsed"),
    "magic": (b"NUMPY" * 4, "the magic string is not correct"),
    "version": (b"\x93NUMPY\x09\x00" + bytes(9), "'w' has version (9, 0) of the"),
    "empty": (b"", "EOF: reading magic string, expected 8 bytes got 0"),
    "long header": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "EOF: reading array header"),
}


@pytest.mark.parametrize(("member", "reason"), NPY.values(), ids=NPY)
def test_the_header_of_an_array_is_checked(
    tmp_path: Path, member: bytes, reason: str
) -> None:
    with zipfile.ZipFile(path := tmp_path / "model.npz", "w") as archive:
        archive.writestr("w.npy", member)
    assert reason in refused(path)


def zipped(claimed: int, method: int) -> bytes:
    """An archive whose member says that it is so large, in both of its places."""
    with zipfile.ZipFile(whole := BytesIO(), "w", method) as archive:
        archive.writestr("w.npy", npy(facts((claimed // 4,)), bytes(64)))
    data, size = bytearray(whole.getvalue()), struct.pack("<I", claimed)
    data[22:26] = size
    place = data.index(b"PK\x01\x02") + 24
    data[place : place + 4] = size
    return bytes(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_size_of_a_member_is_checked(tmp_path: Path, method: int) -> None:
    (path := tmp_path / "model.npz").write_bytes(zipped(1 << 31, method))
    assert refused(path).startswith("'w' claims 2147483648 bytes in ")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(path := tmp_path / "model.npz", "w") as archive:
        for _ in range(2):
            archive.writestr("w.npy", npy(facts((1,)), bytes(4)))
    assert refused(path) == "it has two arrays 'w'"


def test_what_is_no_array_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(path := tmp_path / "model.npz", "w") as archive:
        archive.writestr("w", b"text")
    assert refused(path) == "'w' is no array"
    path.write_text("text")
    assert refused(path) == "it is no .npz file"


def entry(shape: object, begin: object, end: object, dtype: str = "F32") -> object:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def tensors(header: object, data: bytes = bytes(16)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


TENSORS = {
    "empty": (b"", "its header claims 0 bytes, the file has 0"),
    "huge header": (
        struct.pack("<Q", 1 << 60) + b"{}",
        "its header claims 1152921504606846976 bytes, the file has 10",
    ),
    "huge": (
        tensors({"w": entry([1 << 40], 0, 1 << 42)}),
        "'w' has bytes 0 to 4398046511104 of 16 for a F32 array of shape",
    ),
    "shape": (tensors({"w": entry([5], 0, 16)}), "'w' has bytes 0 to 16 of 16 for"),
    "negative": (tensors({"w": entry([-4], 0, 16)}), "'w' has shape [-4] at [0, 16]"),
    "backwards": (tensors({"w": entry([4], 16, 0)}), "'w' has bytes 16 to 0 of 16"),
    "float": (tensors({"w": entry([4.0], 0, 16)}), "'w' has shape [4.0] at [0, 16]"),
    "dtype": (tensors({"w": entry([4], 0, 16, "F33")}), "the unknown dtype 'F33'"),
    "no table": (tensors([1]), "its header is no table of arrays"),
    "no entry": (tensors({"w": 1}), "'w' has the unknown dtype None"),
    "overlap": (
        tensors({"a": entry([4], 0, 16), "b": entry([2], 8, 16)}),
        "'a' and 'b' overlap",
    ),
    "twice": (tensors(b'{"w": 1, "w": 2}'), "it has two arrays 'w'"),
    "text": (tensors(b'{"\xff": 1}'), "'utf-8' codec can't decode byte 0xff"),
    "json": (tensors(b"{"), "Expecting property name"),
    "deep": (tensors(b"[" * 100_000), "its header nests too deeply"),
    "hole": (tensors({"w": entry([2], 8, 16)}), ""),
}


@pytest.mark.parametrize(("data", "reason"), TENSORS.values(), ids=TENSORS)
def test_the_header_of_safetensors_is_checked(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    (path := tmp_path / "model.safetensors").write_bytes(data)
    assert reason in refused(path)


def spoil_npz(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", NPY["huge"][0])


def spoil_safetensors(path: Path) -> None:
    path.write_bytes(TENSORS["huge"][0])


@pytest.mark.parametrize(
    ("kind", "spoil"), [("npz", spoil_npz), ("safetensors", spoil_safetensors)]
)
def test_a_checkpoint_with_a_fitting_checksum_is_checked_too(
    tmp_path: Path, kind: str, spoil: Callable[[Path], None]
) -> None:
    saved = Checkpoints(tmp_path).save(ARRAYS, 1)
    spoil(path := saved.path / f"state.{kind}")
    manifest = json.loads((saved.path / MANIFEST).read_bytes())
    manifest |= {"arrays": kind, "sha256": sha256_of(path)}
    (saved.path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=f"has a damaged state.{kind}: 'w' has"):
        saved.state()


@pytest.mark.parametrize("kind", ["../../x", None, ["npz"]])
def test_a_checkpoint_names_a_file_of_its_own(tmp_path: Path, kind: object) -> None:
    saved = Checkpoints(tmp_path).save(ARRAYS, 1)
    manifest = json.loads((saved.path / MANIFEST).read_bytes())
    (saved.path / MANIFEST).write_text(json.dumps({**manifest, "arrays": kind}))
    with pytest.raises(PenstockError, match="has arrays of the unknown kind"):
        saved.state()
