"""First values of variables, against the formulas of those who proposed them."""

import zipfile
from collections.abc import Sequence
from math import prod, sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from penstock.dialects.job import InitAttr
from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.initializers import (
    Array,
    WeightFiles,
    initial_value,
)
from penstock.runtime.loading.npz import NpzArrays
from penstock.tools.session.program_export import initializer_of

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def value_of(
    init: InitAttr,
    shape: Sequence[int],
    dtype: npt.DTypeLike = F32,
    name: str = "w",
    folder: Path | None = None,
) -> Array:
    with WeightFiles(folder or Path()) as files:
        made = initializer_of(init)
        return initial_value(made, name, shape, np.dtype(dtype), files)


def numbers(init: InitAttr, shape: Sequence[int]) -> npt.NDArray[np.float64]:
    return value_of(init, shape).astype(np.float64)


def finding_of(
    init: InitAttr,
    shape: Sequence[int],
    dtype: npt.DTypeLike = F32,
    folder: Path | None = None,
) -> str:
    with pytest.raises(PenstockError) as caught:
        value_of(init, shape, dtype, folder=folder)
    return str(caught.value)


# Distributions -----------------------------------------------------------------------

# A matrix [in, out], and weights of a convolution [out, in, height, width].
SHAPES = {(120, 280): (120, 280), (40, 16, 5, 4): (16 * 20, 40 * 20)}


@pytest.mark.parametrize(("shape", "fans"), SHAPES.items())
@pytest.mark.parametrize("family", ["he", "xavier"])
def test_scaled_uniform_values_fill_their_interval(
    family: str, shape: tuple[int, ...], fans: tuple[int, int]
):
    # Glorot and Bengio 2010, (16), and He et al. 2015, (10) for a uniform variance.
    limit = sqrt(6 / fans[0]) if family == "he" else sqrt(6 / sum(fans))
    values = numbers(InitAttr(f"{family}_uniform", {"seed": 3}), shape)
    assert np.abs(values).max() <= limit * (1 + 1e-6)
    assert np.abs(values).max() >= limit * 0.999
    assert values.std() == pytest.approx(limit / sqrt(3), rel=0.02)
    assert abs(values.mean()) < 4 * limit / sqrt(3 * prod(shape))


@pytest.mark.parametrize(("shape", "fans"), SHAPES.items())
@pytest.mark.parametrize("family", ["he", "xavier"])
def test_scaled_normal_values_have_their_deviation(
    family: str, shape: tuple[int, ...], fans: tuple[int, int]
):
    std = sqrt(2 / fans[0]) if family == "he" else sqrt(2 / sum(fans))
    values = numbers(InitAttr(f"{family}_normal", {"seed": 3}), shape)
    assert values.std() == pytest.approx(std, rel=0.03)
    assert abs(values.mean()) < 4 * std / sqrt(prod(shape))
    # 4.6 % of normal values are further than 2 deviations from the mean.
    assert np.mean(np.abs(values) > 2 * std) == pytest.approx(0.0455, rel=0.15)


@pytest.mark.parametrize("shape", [(), (50,)])
def test_fans_of_a_scalar_or_vector_are_its_size(shape: tuple[int, ...]):
    limit = sqrt(6 / prod(shape))
    values = [
        value_of(InitAttr("he_uniform", {"seed": seed}), shape) for seed in range(40)
    ]
    assert values[0].shape == shape
    largest = float(np.abs(np.array(values, np.float64)).max())
    assert 0.9 * limit < largest <= limit


def test_uniform_values_lie_between_low_and_high():
    values = numbers(
        InitAttr("uniform", {"seed": 1, "low": -2.0, "high": 6}), (20_000,)
    )
    assert -2 <= values.min() < -1.99
    assert 5.99 < values.max() <= 6
    assert values.mean() == pytest.approx(2, abs=0.1)


def test_uniform_values_are_between_0_and_1_by_default():
    values = numbers(InitAttr("uniform", {"seed": 1}), (20_000,))
    assert 0 <= values.min() < 0.001
    assert 0.999 < values.max() <= 1


def test_normal_values_have_mean_and_deviation():
    values = numbers(
        InitAttr("normal", {"seed": 1, "mean": 5.0, "std": 0.5}), (20_000,)
    )
    assert values.mean() == pytest.approx(5, abs=0.02)
    assert values.std() == pytest.approx(0.5, rel=0.03)


def test_normal_values_are_standard_by_default():
    values = numbers(InitAttr("normal", {"seed": 1}), (20_000,))
    assert abs(values.mean()) < 0.04
    assert values.std() == pytest.approx(1, rel=0.03)


def test_random_integers_are_rounded_toward_zero():
    init = InitAttr("uniform", {"seed": 1, "low": -3, "high": 3})
    values = value_of(init, (1000,), np.int32)
    assert values.dtype == np.int32
    assert sorted(set(values.tolist())) == [-2, -1, 0, 1, 2]


def test_random_values_depend_on_seed_and_name_only():
    def sample(seed: int, name: str, dtype: npt.DTypeLike = F64) -> list[float]:
        init = InitAttr("normal", {"seed": seed})
        return value_of(init, (3,), dtype, name).tolist()

    assert sample(1, "a") == sample(1, "a")
    assert sample(1, "a") != sample(2, "a")
    assert sample(1, "a") != sample(1, "b")
    assert sample(1, "a", F32) == pytest.approx(sample(1, "a"), rel=1e-6)
    # Values that files and reports of today rest on.
    expected = np.random.default_rng([1, 0xE8B7BE43]).normal(size=3)
    assert sample(1, "a") == expected.tolist()


# Constants ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("init", "dtype", "expected"),
    [
        (InitAttr("zeros", {}), "float32", 0),
        (InitAttr("ones", {}), "int8", 1),
        (InitAttr("ones", {}), "bool", True),
        (InitAttr("constant", {"value": 2.5}), "float16", 2.5),
        (InitAttr("constant", {"value": 3.0}), "int64", 3),
        (InitAttr("constant", {"value": 2**62 + 1}), "int64", 2**62 + 1),
    ],
)
def test_constants_fill_the_shape(init: InitAttr, dtype: str, expected: float):
    values = value_of(init, (2, 3), dtype)
    assert values.dtype == dtype
    assert values.tolist() == [[expected] * 3] * 2


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (300, "int8"),
        (2.5, "int32"),
        (7, "bool"),
        (1e300, "float32"),
        (70000, "float16"),
    ],
)
def test_constant_must_be_a_value_of_the_dtype(value: float, dtype: str):
    finding = finding_of(InitAttr("constant", {"value": value}), (2,), dtype)
    assert finding == f"variable 'w' of {dtype} cannot hold {value}"


# Files -------------------------------------------------------------------------------


def npz(file: str, name: str | None = None) -> InitAttr:
    return InitAttr("npz", {"file": file} | ({"name": name} if name else {}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    arrays = {
        "w": np.arange(6.0).reshape(2, 3),
        "other": np.arange(6, 12).reshape(2, 3),
        "swapped": np.arange(6, dtype=">f4").reshape(2, 3),
    }
    np.savez(tmp_path / "weights.npz", allow_pickle=False, **arrays)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "first"), [(None, 0), ("w", 0), ("other", 6), ("swapped", 0)]
)
def test_array_is_found_by_its_name_or_else_the_variables(
    folder: Path, name: str | None, first: int
):
    values = value_of(npz("weights.npz", name), (2, 3), F32, folder=folder)
    assert values.dtype == F32
    assert values.dtype.isnative
    assert values.ravel().tolist() == list(range(first, first + 6))


def test_files_are_opened_once_and_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    opened: list[NpzArrays] = []

    def note(path: Path) -> NpzArrays:
        opened.append(NpzArrays(path))
        return opened[-1]

    monkeypatch.setattr("penstock.runtime.loading.initializers.NpzArrays", note)
    with WeightFiles(folder) as files:
        for name in ("w", "other"):
            init = initializer_of(npz("weights.npz", name))
            initial_value(init, name, (2, 3), F32, files)
    assert len(opened) == 1
    with pytest.raises(ValueError, match="closed"):
        opened[0]["w"]


def test_missing_file(folder: Path):
    finding = finding_of(npz("none.npz"), (2, 3), folder=folder)
    path = folder / "none.npz"
    assert finding == f"cannot read weights from {path}: no such file or directory"


@pytest.mark.parametrize("data", [b"", b"hello", b"PK\x05\x06 but no more"])
def test_file_of_another_kind(folder: Path, data: bytes):
    path = folder / "other.npz"
    path.write_bytes(data)
    finding = finding_of(npz("other.npz"), (2, 3), folder=folder)
    assert finding == f"cannot read weights from {path}: it is no .npz file"


def test_file_that_is_damaged(folder: Path):
    path = folder / "weights.npz"
    data = bytearray(path.read_bytes())
    data[150] ^= 0xFF
    path.write_bytes(data)
    finding = finding_of(npz("weights.npz"), (2, 3), folder=folder)
    assert finding == (f"cannot read weights from {path}: Bad CRC-32 for file 'w.npy'")


def test_member_that_is_no_array(folder: Path):
    path = folder / "text.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", b"\x93NUMPY what?")
    finding = finding_of(npz("text.npz"), (2, 3), folder=folder)
    assert finding.startswith(f"cannot read weights from {path}: ")


def test_array_of_objects_is_never_unpickled(folder: Path):
    np.savez(folder / "objects.npz", w=np.array([[1, None, 3]] * 2, object))
    finding = finding_of(npz("objects.npz"), (2, 3), folder=folder)
    assert finding == (
        f"cannot read weights from {folder / 'objects.npz'}: 'w' holds Python objects"
    )


def test_missing_array(folder: Path):
    finding = finding_of(npz("weights.npz", "v"), (2, 3), folder=folder)
    path = folder / "weights.npz"
    assert finding == f"{path} has no array 'v', which 'w' starts from"


def test_array_of_another_shape(folder: Path):
    finding = finding_of(npz("weights.npz", "other"), (3, 2), folder=folder)
    path = folder / "weights.npz"
    assert finding == f"array 'other' of {path} has shape (2, 3), but 'w' has (3, 2)"


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_floats_are_no_integers(folder: Path, dtype: str):
    finding = finding_of(npz("weights.npz"), (2, 3), dtype, folder=folder)
    path = folder / "weights.npz"
    assert finding == f"array 'w' of {path} has dtype float64, but 'w' has {dtype}"
