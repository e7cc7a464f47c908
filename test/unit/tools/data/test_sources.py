"""Sources of data: each gives the samples that its files hold, and names bad ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from draws import fresh
from ml_dtypes import bfloat16
from safetensors import numpy as safetensors

from penstock import data
from penstock.plugins import forget, register
from penstock.tools.data import sources
from penstock.tools.data.sources import image_folder
from penstock.tools.data.types import Array, Batch, Numbers

save_file: Callable[[dict[str, Any], Path], None] = cast("Any", safetensors).save_file


def read(source: data.Source | data.Samples, *numbers: int) -> Batch:
    assert isinstance(source, data.Source)
    return source.read(np.array(numbers, np.int64))


def read_all(source: data.Source | data.Samples, **options: Any) -> Batch:
    (batch,) = data.Loader(source, 1000, **options)
    return batch


# Arrays ------------------------------------------------------------------------------


def test_arrays_are_read_where_they_lie(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(12).reshape(4, 3))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(6), 3)
    source = data.arrays({"x": mapped}, w=windows)
    found = read(source, 3, 0)
    np.testing.assert_array_equal(found["x"], [[9, 10, 11], [0, 1, 2]])
    np.testing.assert_array_equal(found["w"], [[3, 4, 5], [0, 1, 2]])
    assert all(array.flags.owndata for array in found.values())


def test_an_npz_file_is_a_source(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"x": np.arange(6).reshape(3, 2), "y": np.arange(3)}
    np.savez(path := tmp_path / "train.npz", **arrays, other=np.ones(9))
    found = read(data.npz(path, "x", "y"), 2, 1)
    assert found["y"].tolist() == [2, 1]
    np.testing.assert_array_equal(found["x"], arrays["x"][[2, 1]])


# safetensors -------------------------------------------------------------------------


def test_a_folder_of_safetensors_is_read_by_samples(tmp_path: Path) -> None:
    random = fresh()
    x = random.normal(size=(9, 2, 3)).astype(np.float32)
    y, h = random.integers(0, 9, 9), random.normal(size=9).astype(bfloat16)
    for number, (start, end) in enumerate([(0, 4), (4, 4), (4, 9)]):
        # A name of odd length brings arrays to odd addresses.
        name = tmp_path / f"part-{number}{'x' * number}.safetensors"
        part = {"x": x[start:end], "y": y[start:end], "h": h[start:end]}
        save_file(part, name)
    order = random.permutation(9)
    found = read(data.safetensors(tmp_path), *order)
    for name, array in (("x", x), ("y", y), ("h", h)):
        assert found[name].dtype == array.dtype
        assert found[name].tobytes() == array[order].tobytes()
    one = data.safetensors(tmp_path / "part-0.safetensors")
    assert isinstance(one, data.Source)
    assert len(one) == 4


# Images ------------------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path: Path) -> tuple[Path, dict[str, Array]]:
    """Four images in two folders, as Pillow writes them."""
    image = pytest.importorskip("PIL.Image", reason="needs pillow: the extra `images`")
    random = np.random.default_rng(3)
    found: dict[str, Array] = {}
    for name in ("cats/a.png", "cats/b.PNG", "dogs/a.png", "dogs/c.bmp"):
        found[name] = random.integers(0, 256, (5, 7, 3)).astype(np.uint8)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        image.fromarray(found[name]).save(tmp_path / name)
    (tmp_path / "cats" / "notes.txt").write_text("no image")
    return tmp_path, found


def test_images_have_the_labels_of_their_folders(
    pictures: tuple[Path, dict[str, Array]],
) -> None:
    folder, expected = pictures
    source = data.images(folder)
    found = read_all(source)
    assert getattr(source, "classes") == ("cats", "dogs")  # noqa: B009
    assert found["label"].tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(found["image"], np.stack([*expected.values()]))
    flat = read(data.images(folder / "dogs"), 1)
    assert flat.keys() == {"image"}
    np.testing.assert_array_equal(flat["image"][0], expected["dogs/c.bmp"])


def test_images_are_brought_to_a_size_and_a_mode(
    pictures: tuple[Path, dict[str, Array]],
) -> None:
    from PIL import Image

    folder, expected = pictures
    Image.fromarray(expected["cats/a.png"][:4]).save(folder / "cats" / "a.png")
    found = read_all(data.images(folder, (2, 3), "L"))
    assert (found["image"].shape, found["image"].dtype) == ((4, 2, 3), np.uint8)
    with pytest.raises(data.DataError) as caught:
        read_all(data.images(folder))
    assert str(caught.value) == (
        f"{folder}/cats/b.PNG has shape (5, 7, 3), but {folder}/cats/a.png "
        "(4, 7, 3): give images a size"
    )


def test_images_without_pillow_name_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(name: str) -> None:
        return None

    monkeypatch.setattr(image_folder, "find_spec", none)
    with pytest.raises(data.DataError) as caught:
        data.images(tmp_path)
    expected = f"images in {tmp_path} need a package: pip install pillow"
    assert str(caught.value) == expected


def test_a_damaged_image_is_named(pictures: tuple[Path, dict[str, Array]]) -> None:
    folder, _ = pictures
    path = folder / "dogs" / "a.png"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(data.DataError, match=rf"^cannot read {path}: "):
        read_all(data.images(folder))


# Lines and iterators -----------------------------------------------------------------


def test_lines_of_a_text_are_read_by_their_numbers(tmp_path: Path) -> None:
    lines = ["first", "", "größer", "a\tb", "last"]
    (path := tmp_path / "text.txt").write_bytes("\r\n".join(lines[:3]).encode())
    with path.open("ab") as file:
        file.write("\n".join(["", *lines[3:]]).encode())
    source = data.text(path)
    assert read_all(source)["line"].tolist() == lines
    assert read(source, 4, 2)["line"].tolist() == ["last", "größer"]


def test_an_iterator_gives_samples_of_any_form() -> None:
    pairs = [(np.float32(n), n) for n in range(3)]
    expected = {"x": [0.0, 1.0, 2.0], "y": [0, 1, 2]}
    dictionaries = [{"x": x, "y": y} for x, y in pairs]
    for items in (pairs, dictionaries, lambda: iter(pairs)):
        found = read_all(data.iterator(items, ("x", "y")))
        assert {name: array.tolist() for name, array in found.items()} == expected
    assert read_all(data.iterator(["a", "long"]))["x"].tolist() == ["a", "long"]


def test_shards_of_an_iterator_take_turns() -> None:
    shards = [
        read_all(data.iterator(range(8)), shard=(number, 3))["x"].tolist()
        for number in range(3)
    ]
    assert shards == [[0, 3, 6], [1, 4, 7], [2, 5]]


# Plug-ins ----------------------------------------------------------------------------


def test_sources_are_known_by_name_and_may_be_plug_ins() -> None:
    assert sources.BUILT_IN.keys() <= set(dir(data))
    assert read_all(data.source("arrays", x=[1, 2]))["x"].tolist() == [1, 2]

    @register("data-source", "squares")
    def squares(count: int) -> data.Source:
        return data.arrays(x=np.arange(count) ** 2)

    @register("data-source", "rubbish")
    def rubbish() -> object:
        return [1]

    try:
        assert read_all(data.source("squares", count=3))["x"].tolist() == [0, 1, 4]
        for name, message in (
            ("square", "no data source 'square', did you mean 'squares'?"),
            ("rubbish", "data source 'rubbish' returns no Source or Samples but list"),
        ):
            with pytest.raises(data.DataError) as caught:
                data.source(name)
            assert str(caught.value).startswith(message)
    finally:
        forget(__name__)


# Errors ------------------------------------------------------------------------------


def npz_without(folder: Path) -> object:
    np.savez(folder / "a.npz", x=np.ones(2))
    return data.npz(folder / "a.npz", "x", "y")


def unlike(folder: Path) -> object:
    save_file({"x": np.ones((2, 3))}, folder / "a.safetensors")
    save_file({"x": np.ones((2, 4))}, folder / "b.safetensors")
    return data.safetensors(folder)


def damaged(folder: Path) -> object:
    (folder / "a.safetensors").write_bytes(b"12345678901")
    return data.safetensors(folder)


def no_utf8(folder: Path) -> object:
    (folder / "a.txt").write_bytes(b"fine\n\xff\n")
    return read_all(data.text(folder / "a.txt"))


def mixed(folder: Path) -> object:
    pytest.importorskip("PIL", reason="needs pillow: the extra `images`")
    (folder / "inside").mkdir()
    for name in ("a.png", "inside/b.png"):
        (folder / name).write_bytes(b"")
    return data.images(folder)


def once() -> object:
    loader = data.Loader(data.iterator(iter([1, 2])), 1)
    return list(loader.epochs(2))


REFUSED: list[tuple[Callable[[Path], object], str]] = [
    (lambda _: data.arrays(), "a source needs at least one array"),
    (
        lambda _: data.arrays(x=np.ones((2, 3)), y=np.ones(3), z=1),
        "arrays have different numbers of samples: 'x' (2, 3), 'y' (3,), 'z' ()",
    ),
    (npz_without, "cannot read {}/a.npz: it has no array y"),
    (
        lambda folder: data.npz(folder / "no.npz"),
        "cannot read {}/no.npz: no such file or directory",
    ),
    (
        unlike,
        "{0}/b.safetensors has 'x' float64 (4,), but {0}/a.safetensors has 'x' "
        "float64 (3,)",
    ),
    (
        damaged,
        "cannot read {}/a.safetensors: its header claims 4050765991979987505 bytes, "
        "the file has 11",
    ),
    (data.safetensors, "there is no .safetensors file in {}"),
    (no_utf8, "{}/a.txt:2 is no UTF-8: invalid start byte"),
    (
        lambda folder: data.text(folder / "no.txt"),
        "cannot read {}/no.txt: no such file or directory",
    ),
    (
        mixed,
        "{} has images, such as a.png, beside folders of images, such as inside",
    ),
    (
        lambda _: data.iterator(5),  # pyright: ignore[reportArgumentType]
        "int is neither an iterable nor a function of one",
    ),
    (
        lambda _: read_all(data.iterator([(1, 2)])),
        "a sample has 2 arrays for names x",
    ),
    (
        lambda _: read_all(data.iterator([{"x": 1}, {"y": 1}])),
        "samples have different names: x and y",
    ),
    (
        lambda _: read_all(data.iterator([np.ones(2), np.ones(3)])),
        "'x' is float64 of shape (2,) in one sample and float64 of shape (3,) in "
        "another",
    ),
    (
        lambda _: once(),
        "an iterator cannot begin again: give a function that returns a new one",
    ),
]


@pytest.mark.parametrize(("use", "message"), REFUSED)
def test_bad_data_are_told_in_a_line(
    use: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(data.DataError) as caught:
        use(tmp_path)
    assert str(caught.value) == message.format(tmp_path)


def test_the_numbers_of_samples_are_checked_by_no_source() -> None:
    """Loaders never ask for others."""
    numbers: Numbers = np.array([2], np.int64)
    with pytest.raises(IndexError):
        data.arrays(x=np.ones(2)).read(numbers)
