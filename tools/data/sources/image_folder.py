"""A source of the images of a folder, which Pillow reads."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np

from penstock.tools.data.errors import DataError
from penstock.tools.data.types import Array, Batch, Numbers, Source, listed

IMAGE, LABEL = "image", "label"

SUFFIXES = frozenset(
    (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
)
"""The files that are taken for images."""


class Images(Source):
    """Images as u8, with the numbers of their folders as labels if they have such."""

    def __init__(
        self, root: Path, files: Sequence[Path], size: tuple[int, int] | None, mode: str
    ):
        self._files = files
        self._size = size
        self._mode = mode
        folders = sorted({file.parent for file in files} - {root})
        self.classes: tuple[str, ...] = tuple(folder.name for folder in folders)
        """The names of the folders, in the order of labels; none without folders."""
        self._labels = np.array(
            [folders.index(file.parent) for file in files] if folders else [], np.int64
        )

    def __len__(self) -> int:
        return len(self._files)

    def read(self, numbers: Numbers) -> Batch:
        files = [self._files[number] for number in listed(numbers)]
        pictures = [self._read(file) for file in files]
        for file, picture in zip(files, pictures, strict=True):
            if picture.shape != pictures[0].shape:
                raise DataError(
                    f"{file} has shape {picture.shape}, but {files[0]} "
                    f"{pictures[0].shape}: give images a size"
                )
        batch: Batch = {IMAGE: np.stack(pictures)}
        if self.classes:
            batch[LABEL] = self._labels[numbers]
        return batch

    def _read(self, file: Path) -> Array:
        """An image as HxWxC, or HxW if its mode has one channel."""
        from PIL import Image

        # Pillow has many errors for damaged files, some of them of its decoders.
        try:
            with Image.open(file) as opened:
                picture = opened.convert(self._mode)
                if self._size is not None:
                    height, width = self._size
                    bilinear = Image.Resampling.BILINEAR
                    picture = picture.resize((width, height), bilinear)
                return np.asarray(cast("Any", picture))
        except Exception as error:
            raise DataError(f"cannot read {file}: {error}") from error


def images(
    folder: str | Path, size: tuple[int, int] | None = None, mode: str = "RGB"
) -> Source:
    """
    A source of the images in a `folder`: `image` as u8, height by width by channels.

    Images in folders inside it have the number of their folder, by name, as `label`;
    the source's `classes` has the names. Images are brought to a `size` of height and
    width if it is given, else all of a batch have to have the same, and to the `mode`
    of Pillow, such as `RGB`, or `L` for one channel without an axis of its own. The
    package `pillow` is needed (`pip install penstock[images]`).

    **Raises** DataError without that package, and if there are no images, or images
    beside folders with images; when one is read, if it is damaged, or of another size.
    """
    root = Path(folder)
    if find_spec("PIL") is None:
        raise DataError(f"images in {root} need a package: pip install pillow")
    found = [file for file in root.glob("*") if _is_image(file)]
    inside = [file for file in root.glob("*/*") if _is_image(file)]
    if not found and not inside:
        raise DataError(f"there are no images in {root}")
    if found and inside:
        raise DataError(
            f"{root} has images, such as {min(found).name}, beside folders of images, "
            f"such as {min(inside).parent.name}"
        )
    return Images(root, sorted(found or inside), size, mode)


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES and file.is_file()
