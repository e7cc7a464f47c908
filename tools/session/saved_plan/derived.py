"""
Facts derived from the text of a launch program, which are kept in the cache folder.

To make it, IR has to be parsed, verified and printed as source. To find it again takes
only the text's checksum, and none of the libraries. It never comes from a plan's file,
so the writer of that file has no say in it but by the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os.path import basename
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.runtime.jit.cache import cache_dir, content_hash
from penstock.runtime.jit.cache_files import FOR_USER, clear
from penstock.runtime.program.executable import ProgramImage, image_from_json
from penstock.tools.driver.errors import UsageError
from penstock.tools.session.report import Report
from penstock.tools.session.saved_plan.archive import (
    Archive,
    Json,
    Members,
    write_archive,
)
from penstock.tools.session.saved_plan.arrays import Array, array_members, read_array
from penstock.tools.session.saved_plan.build import build

if TYPE_CHECKING:
    from penstock.tools.session.executable import Executable


class Derived(NamedTuple):
    """
    The image of a program, the source of its kernels by name, the values of its
    constants by name, what a person is told of it, the kernels that come with a source
    of their own, in place of one that is printed from their body, and why it is only
    run if that is allowed, each with its place if it is known.
    """

    image: ProgramImage
    sources: Mapping[str, str]
    constants: Mapping[str, Array]
    report: Report
    own_sources: Sequence[str]
    objections: Sequence[str]


def derive(executable: Executable) -> Derived:
    """The facts derived from the text of an executable's program."""
    return Derived(
        in_no_folder(executable.image),
        executable.sources,
        executable.constants,
        executable.report,
        executable.own_sources,
        executable.objections,
    )


def in_no_folder(image: ProgramImage) -> ProgramImage:
    """An image whose places name files without their folders, as the text does."""
    actors = (
        actor._replace(place=actor.place and basename(actor.place))
        for actor in image.actors
    )
    return image._replace(actors=tuple(actors))


def derived_in(archive: Archive) -> Derived:
    """
    The facts in an archive that were derived from a text. Raises PlanError, KeyError,
    TypeError or ValueError for one that this package has not written.
    """
    sources = cast("dict[str, str]", json.loads(archive.text("sources.json")))
    report = json.loads(archive.text("report.json"))
    index = cast("dict[str, str]", archive.manifest["constants"])
    return Derived(
        image_from_json(archive.text("image.json")),
        sources,
        {name: read_array(archive, member) for name, member in index.items()},
        Report(*report),
        cast("list[str]", archive.manifest["own_sources"]),
        cast("list[str]", archive.manifest["objections"]),
    )


def members_of(derived: Derived) -> tuple[Json, Members]:
    """The facts and the members of an archive with what was derived from a text."""
    index, arrays = array_members("constants", derived.constants)
    texts = {
        "image.json": derived.image.to_json(),
        "sources.json": json.dumps(dict(derived.sources)),
        "report.json": json.dumps(derived.report),
    }
    facts = {
        "constants": index,
        "own_sources": list(derived.own_sources),
        "objections": list(derived.objections),
    }
    return facts, {**{name: [text.encode()] for name, text in texts.items()}, **arrays}


def kept(text_hash: str) -> Derived | None:
    """The entry of the cache for a text of this checksum; None without one."""
    # Whatever else lies there is nothing, too.
    with suppress(UsageError, KeyError, TypeError, ValueError):
        archive = Archive(_path(text_hash), private=True)
        archive.check_members()
        return derived_in(archive)
    return None


def keep(text_hash: str, derived: Derived) -> None:
    """Put into the cache what follows from the text of this checksum, if it can be."""
    path = _path(text_hash)
    with suppress(OSError, UsageError):
        clear(path)
        write_archive(path, *members_of(derived))
        path.chmod(FOR_USER)


def _path(text_hash: str) -> Path:
    return cache_dir() / content_hash([text_hash, build()]) / "plan.zip"
