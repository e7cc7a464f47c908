"""
Files of a plan in one zip file: stored as they are, at multiples of 64 bytes.

So arrays can be used where they lie in the file, and any tool that reads zip files can
look into one. The member `manifest.json` has the size and SHA-256 of each other.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, Any, TypeAlias, cast
from zlib import crc32

from penstock.runtime.jit.cache_files import is_private
from penstock.tools.driver.drafts import drafting
from penstock.tools.driver.errors import FileError, UsageError, explain_os_error

Json: TypeAlias = dict[str, Any]
"""The value of a JSON text, which has no types."""
Members: TypeAlias = Mapping[str, Sequence[bytes | memoryview]]
"""Members by name, each in pieces."""

MANIFEST = "manifest.json"
ALIGNMENT = 64
"""Bytes: a cache line, and what the header of an `.npy` file is padded to."""
MAX_MANIFEST = 1 << 26

_HEADER = struct.Struct("<4sHHHHHIIIHH")
_PADDING_ID = 0xD935
"""The zip extra field that other tools too pad members with."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


class PlanError(FileError):
    """A file is no plan that can be used here; the text says why."""


def write_archive(path: Path, facts: Json, members: Members) -> None:
    """
    Write a file with these members, each given in pieces, and a manifest that says
    these facts. Nobody sees half of it. Raises UsageError if that fails.
    """
    try:
        with drafting(path) as draft, draft.open("wb") as file:
            _write(file, facts, members)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {explain_os_error(error)}") from error


def archive_bytes(facts: Json, members: Members) -> bytes:
    """The bytes of such a file."""
    file = BytesIO()
    _write(file, facts, members)
    return file.getvalue()


def _write(file: IO[bytes], facts: Json, members: Members) -> None:
    manifest = {**facts, "members": {n: _description(m) for n, m in members.items()}}
    text = json.dumps(manifest, indent=1).encode()
    with zipfile.ZipFile(file, "w") as archive:
        _add(archive, MANIFEST, [text])
        for name, pieces in members.items():
            _add(archive, name, pieces)


def _description(pieces: Iterable[bytes | memoryview]) -> Json:
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += memoryview(piece).nbytes
    return {"bytes": size, "sha256": digest.hexdigest()}


def _add(
    archive: zipfile.ZipFile, name: str, pieces: Sequence[bytes | memoryview]
) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.external_attr = 0o644 << 16
    info.file_size = sum(memoryview(piece).nbytes for piece in pieces)
    # `zipfile` itself adds the sizes of large members to the extra field.
    large = 20 * (info.file_size * 1.05 > zipfile.ZIP64_LIMIT)
    assert archive.fp is not None, "the archive is open"
    start = archive.fp.tell() + _HEADER.size + len(name.encode()) + large + 4
    padding = -start % ALIGNMENT
    info.extra = struct.pack("<HH", _PADDING_ID, padding) + bytes(padding)
    with archive.open(info, "w") as file:
        for piece in pieces:
            file.write(piece)


class Archive:
    """
    The members of a file, or of its `data`, where they lie in it. Raises UsageError if
    it cannot be read, PlanError if it holds anything but plain members and a manifest
    of them.

    Nothing is ever unpacked to disk, so names of members are names and no paths. The
    memory that is needed is at most the size of the file. With `private`, a file that
    others than this user can have written is not read.
    """

    def __init__(
        self, path: Path, data: memoryview | None = None, *, private: bool = False
    ):
        self.path = path
        try:
            with path.open("rb") if data is None else BytesIO(data) as file:
                if private and not is_private(os.fstat(file.fileno())):
                    raise self.error("others can have written it")
                if data is None:
                    whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                    data = memoryview(whole)
                with zipfile.ZipFile(file) as archive:
                    infos = archive.infolist()
        except OSError as error:
            text = f"cannot read {path}: {explain_os_error(error)}"
            raise UsageError(text) from error
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise self.error(f"it is cut off, or no zip file: {error}") from error
        self._data = data
        self._members: dict[str, memoryview] = {}
        self._checksums = {info.filename: info.CRC for info in infos}
        for info in infos:
            if info.filename in self._members:
                raise self.error(f"it holds '{info.filename}' twice")
            self._members[info.filename] = self._find(info)
        self.manifest = self._read_manifest()

    def error(self, reason: str) -> PlanError:
        """An error that names the file."""
        return PlanError(f"{self.path}: {reason}")

    def _find(self, info: zipfile.ZipInfo) -> memoryview:
        name, start = info.filename, info.header_offset + _HEADER.size
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise self.error(f"'{name}' is compressed or encrypted")
        header = self._data[info.header_offset : start]
        if len(header) == _HEADER.size:
            fields = _HEADER.unpack(header)
            start += fields[-2] + fields[-1]
        if len(header) < _HEADER.size or start + info.file_size > len(self._data):
            raise self.error(f"'{name}' lies beyond the end of the file")
        return self._data[start : start + info.file_size]

    def _read_manifest(self) -> Json:
        if (data := self._members.pop(MANIFEST, None)) is None:
            raise self.error(f"it has no {MANIFEST}")
        if len(data) > MAX_MANIFEST:
            raise self.error(f"its manifest has {len(data)} bytes")
        if crc32(data) != self._checksums[MANIFEST]:
            raise self.error("its manifest is damaged")
        try:
            manifest: object = json.loads(bytes(data))
        except (ValueError, RecursionError) as error:
            raise self.error(f"its manifest is no JSON: {error}") from error
        if not isinstance(manifest, dict):
            raise self.error("its manifest is no JSON object")
        return cast("Json", manifest)

    def check_sums(self) -> None:
        """
        Raise PlanError if a member is damaged: by the checksums that zip files have,
        which are found in half the time of those that the manifest lists.
        """
        for name, data in self._members.items():
            if crc32(data) != self._checksums[name]:
                raise self.error(f"'{name}' is damaged")

    def check_members(self) -> None:
        """Raise PlanError unless all members are those of the manifest, unchanged."""
        listed = self.manifest.get("members")
        if not isinstance(listed, dict):
            raise self.error("its manifest lists no members")
        expected = cast("Json", listed)
        if missing := sorted(set(expected) - set(self._members)):
            raise self.error(f"it lacks {', '.join(missing)}")
        if extra := sorted(set(self._members) - set(expected)):
            raise self.error(f"it holds {', '.join(extra)}, which its manifest lacks")
        for name, data in self._members.items():
            if _description([data]) != expected[name]:
                raise self.error(
                    f"the checksum of '{name}' is not that of its manifest"
                )

    def __getitem__(self, name: str) -> memoryview:
        """The bytes of a member. Raises PlanError if there is none of that name."""
        if (data := self._members.get(name)) is None:
            raise self.error(f"it lacks {name}")
        return data

    def text(self, name: str) -> str:
        """The text of a member."""
        try:
            return str(self[name], "utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"'{name}' is no UTF-8 text") from error
