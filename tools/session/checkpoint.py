"""
Checkpoints: the state of a session in a folder, from which work goes on.

    checkpoints = Checkpoints("runs/digits", keep=3)
    checkpoints.save(session.state(), step, data=loader.state())
    ...
    if (last := checkpoints.latest()) is not None:
        session.load_state(last.state())
        loader.restore(last.data())

A checkpoint is a folder `step-<number>` with the arrays, as `state.safetensors` where
the package `safetensors` is installed, else `state.npz`, and a `manifest.json` with
their SHA-256. It is written under another name, and gets its own when all of it is on
the disk. So whenever a process is killed, what carries the name is whole, and older
checkpoints are removed only after that.

On several ranks each one writes the parts that lie there, `session.state_parts()`, to a
file of its own, `state-<rank>`, in one folder, which rank 0 names. `state()` has
whole arrays again, for any number of ranks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from penstock.runtime.errors import PenstockError
from penstock.tools.driver.files import explain_os_error, sha256_of
from penstock.tools.session.safetensors_files import read_safetensors

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array
    from penstock.tools.session.state_parts import StateParts

MANIFEST = "manifest.json"
FORMAT = "penstock checkpoint"
FORMAT_VERSION = 1
PARTS_VERSION = 2
"""The version of a checkpoint in parts, which older ones cannot read."""
STATE = "state"
KINDS = ("npz", "safetensors")
"""The files that arrays are kept in, by suffix."""

_NAME = re.compile(r"step-(\d{10,})")


class CheckpointError(PenstockError):
    """A checkpoint cannot be written or read; the text says why."""


@dataclass(frozen=True)
class Checkpoint:
    """
    A checkpoint on disk, a folder at `path`, and the number of steps that led to it,
    `step`.
    """

    path: Path
    step: int

    @property
    def manifest(self) -> Mapping[str, Any]:
        """
        The facts of its manifest. Raises CheckpointError if it is no checkpoint that
        this version can read.
        """
        try:
            facts: object = json.loads((self.path / MANIFEST).read_bytes())
        except OSError as error:
            raise self._error(f"cannot be read: {explain_os_error(error)}") from error
        except (ValueError, RecursionError) as error:
            raise self._error(f"has a manifest that is no JSON: {error}") from error
        found = cast("dict[str, Any]", facts) if isinstance(facts, dict) else {}
        if found.get("format") != FORMAT:
            raise self._error(f"is no {FORMAT}")
        if (version := found.get("version")) not in (FORMAT_VERSION, PARTS_VERSION):
            raise self._error(
                f"has version {version} of the format, but this penstock reads "
                f"versions {FORMAT_VERSION} and {PARTS_VERSION}"
            )
        return found

    def note(self) -> Mapping[str, Any]:
        """The note that it was saved with. Raises CheckpointError as `manifest`."""
        return self._saved("note")

    def data(self) -> Mapping[str, Any]:
        """
        The place in the data that it was saved with, for `restore` of a loader. Raises
        CheckpointError as `manifest`, and if there is none.
        """
        return self._saved("data")

    def seeds(self) -> Mapping[str, int]:
        """The seeds that it was saved with. Raises CheckpointError as `data`."""
        return self._saved("seeds")

    def _saved(self, what: str) -> dict[str, Any]:
        if not isinstance(found := self.manifest.get(what), dict):
            raise self._error(f"has no {what} in its manifest")
        return cast("dict[str, Any]", found)

    def state(self) -> dict[str, Array]:
        """
        The arrays by name. Raises CheckpointError if they cannot be read or are not
        those that were saved.
        """
        facts = self.manifest
        if (kind := facts.get("arrays")) not in KINDS:
            raise self._error(f"has arrays of the unknown kind {kind!r}")
        if facts["version"] == FORMAT_VERSION:
            found = self._file(f"{STATE}.{kind}", facts.get("sha256"))
            return dict(sorted(found.items()))
        return self._whole(facts.get("files"))

    def _file(self, name: str, digest: object) -> dict[str, Array]:
        """The arrays of a file that is as it was written."""
        path = self.path / name
        try:
            if sha256_of(path) != digest:
                raise self._error(
                    f"is damaged: the checksum of {name} is not that of its manifest"
                )
        except OSError as error:
            raise self._error(f"lacks {name}: {explain_os_error(error)}") from error
        return self._arrays(path)

    def _whole(self, files: Any) -> dict[str, Array]:
        """The arrays of which several files have parts."""
        from penstock.runtime.loading.variables import whole_of
        from penstock.tools.session.state_parts import parts_in

        try:
            return whole_of(
                part
                for file in files
                for part in parts_in(
                    self._file(Path(file["name"]).name, file["sha256"]), file["parts"]
                )
            )
        except CheckpointError:
            raise
        except (IndexError, KeyError, TypeError, ValueError, PenstockError) as error:
            raise self._error(f"has parts that do not fit: {error}") from error

    def _arrays(self, path: Path) -> dict[str, Array]:
        from penstock.runtime.loading.npz import (
            NPZ_ERRORS,
            NpzArrays,
            explain_npz_error,
        )

        if path.suffix == ".safetensors" and find_spec("safetensors") is None:
            raise self._error(
                f"holds {path.name}: reading it needs a package: "
                "pip install safetensors"
            )
        try:
            if path.suffix == ".safetensors":
                return read_safetensors(path)
            with NpzArrays(path) as arrays:
                return {name: arrays[name] for name in arrays.files}
        except NPZ_ERRORS as error:
            reason = explain_npz_error(error)
            raise self._error(f"has a damaged {path.name}: {reason}") from error

    def _error(self, text: str) -> CheckpointError:
        return CheckpointError(f"checkpoint {self.path} {text}")


class Checkpoints:
    """
    The checkpoints in a `folder`, of which the last `keep` stay; None keeps all.

    A checkpoint has its name when all of it is on the disk, and older ones are removed
    after that. One process writes to a folder at a time. Raises CheckpointError unless
    at least one stays.

    ```python
    from tempfile import mkdtemp

    import numpy as np

    import penstock
    from penstock import data

    loader = data.Loader(data.arrays(x=np.arange(9)), 2, shuffle=True)
    checkpoints = penstock.Checkpoints(mkdtemp(), keep=2)
    for step, batch in enumerate(loader):
        checkpoints.save({"w": batch["x"]}, step, data=loader.state())
    assert [found.step for found in checkpoints.all()] == [3, 4]

    last = checkpoints.latest()
    loader.restore(last.data())
    assert (last.state()["w"] == batch["x"]).all()
    ```
    """

    def __init__(self, folder: str | Path, keep: int | None = 3):
        if keep is not None and keep < 1:
            raise CheckpointError(f"at least one checkpoint must be kept, got {keep}")
        self.folder = Path(folder)
        self.keep = keep

    def all(self) -> list[Checkpoint]:
        """Every complete checkpoint, by step."""
        if not self.folder.is_dir():
            return []
        found = [(_NAME.fullmatch(path.name), path) for path in self.folder.iterdir()]
        return sorted(
            (Checkpoint(path, int(match[1])) for match, path in found if match),
            key=lambda checkpoint: checkpoint.step,
        )

    def latest(self) -> Checkpoint | None:
        """The one of the most steps; None if there is none yet."""
        return max(self.all(), key=lambda checkpoint: checkpoint.step, default=None)

    def save(
        self,
        state: Mapping[str, Array] | StateParts,
        step: int,
        note: Mapping[str, Any] | None = None,
        *,
        data: Mapping[str, Any] | None = None,
        seeds: Mapping[str, int] | None = None,
    ) -> Checkpoint:
        """
        Write a checkpoint of the arrays of a `state` by name after a `step`. With it
        goes all that a run needs to go on: the state of its `data` loader, or of
        several by names, its `seeds` by names, and a `note` of anything that JSON can
        hold. Then remove those that need not be kept. Of a state in parts
        (`Session.state_parts`) each rank writes its own, to a folder that all of them
        see: all call this, and the checkpoint is there when it returns.

        Raises CheckpointError, and leaves all others as they are, unless it is of more
        steps than they are, or if it cannot be written.
        """
        if not isinstance(state, Mapping) and state.size > 1:
            return self._save_parts(state, step, note, data=data, seeds=seeds)
        if not isinstance(state, Mapping):
            from penstock.runtime.loading.variables import whole_of

            state = whole_of(state.own())
        final, saved = self._checked(step, note, data, seeds)
        try:
            with self._draft(final) as draft:
                arrays = _write_arrays(draft, STATE, state)
                _write_manifest(
                    draft,
                    FORMAT_VERSION,
                    step,
                    arrays.suffix,
                    {"sha256": sha256_of(arrays), **saved},
                )
        except OSError as error:
            raise CheckpointError(
                f"cannot write {final}: {explain_os_error(error)}"
            ) from error
        self._remove_old()
        return Checkpoint(final, step)

    def _save_parts(
        self,
        state: StateParts,
        step: int,
        note: Mapping[str, Any] | None,
        *,
        data: Mapping[str, Any] | None,
        seeds: Mapping[str, int] | None,
    ) -> Checkpoint:
        """`save` of the parts of several ranks. Rank 0 makes and names the folder."""
        final = self.folder / f"step-{step:010}"
        draft = self.folder / f".{final.name}.tmp"
        own, is_first = state.own(), state.rank == 0

        def begin() -> object:
            saved = self._checked(step, note, data, seeds)[1]
            if is_first:
                self._make_draft(draft)
            return saved

        def write() -> object:
            path = _write_arrays(draft, f"{STATE}-{state.rank}", keyed(own))
            _sync(path)
            digest = sha256_of(path)
            return {"name": path.name, "sha256": digest, "parts": facts_of(own)}

        def end(saved: Mapping[str, Any], files: Sequence[Any]) -> None:
            if is_first:
                suffix = Path(files[0]["name"]).suffix
                more = {"ranks": state.size, "files": files, **saved}
                _write_manifest(draft, PARTS_VERSION, step, suffix, more)
                self._name(draft, final)
                self._remove_old()

        from penstock.tools.session.state_parts import facts_of, keyed

        try:
            saved = state.step(begin)[0]
            files = state.step(write)
            state.step(lambda: end(saved, files))
        except PenstockError as error:
            if is_first:
                shutil.rmtree(draft, ignore_errors=True)
            raise CheckpointError(f"cannot write {final}: {error}") from error
        return Checkpoint(final, step)

    def _checked(
        self,
        step: int,
        note: Mapping[str, Any] | None,
        data: Mapping[str, Any] | None,
        seeds: Mapping[str, int] | None,
    ) -> tuple[Path, dict[str, Any]]:
        """The folder of a checkpoint, and what goes with its arrays, as JSON has it."""
        if step < 0:
            raise CheckpointError(f"the step must not be negative, got {step}")
        final = self.folder / f"step-{step:010}"
        if (last := self.latest()) is not None and last.step >= step:
            raise CheckpointError(
                f"{last.path} is of step {last.step}, so there can be none of step "
                f"{step} after it in this folder"
            )
        given = {"note": note or {}, "data": data, "seeds": seeds}
        saved = {
            x: _as_json(x, facts) for x, facts in given.items() if facts is not None
        }
        return final, saved

    @contextmanager
    def _draft(self, final: Path) -> Generator[Path]:
        """A folder to write to, which gets its name at the end."""
        draft = self.folder / f".{final.name}.tmp"
        self._make_draft(draft)
        try:
            yield draft
            self._name(draft, final)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def _make_draft(self, draft: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # Drafts of processes that were killed would stay for ever.
        for left in self.folder.glob(".step-*"):
            shutil.rmtree(left, ignore_errors=True)
        draft.mkdir()

    def _name(self, draft: Path, final: Path) -> None:
        """Give a folder its name, once all of it is on the disk."""
        for path in (*draft.iterdir(), draft):
            _sync(path)
        draft.rename(final)
        _sync(self.folder)

    def _remove_old(self) -> None:
        if self.keep is None:
            return
        for checkpoint in self.all()[: -self.keep]:
            # Removed under another name, so that none is ever seen half removed.
            doomed = self.folder / f".{checkpoint.path.name}.old"
            shutil.rmtree(doomed, ignore_errors=True)
            with suppress(OSError):
                checkpoint.path.rename(doomed)
                shutil.rmtree(doomed)


def _as_json(what: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as JSON gives them back. Raises CheckpointError if it cannot hold them."""
    try:
        return json.loads(json.dumps(dict(facts)))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the {what} is no JSON: {error}") from error


def _write_manifest(
    folder: Path, version: int, step: int, suffix: str, more: Mapping[str, Any]
) -> None:
    facts = {
        "format": FORMAT,
        "version": version,
        "step": step,
        "arrays": suffix[1:],
        **more,
    }
    (folder / MANIFEST).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _write_arrays(folder: Path, name: str, state: Mapping[str, Array]) -> Path:
    import numpy as np

    arrays = {key: np.asarray(array, order="C") for key, array in state.items()}
    if find_spec("safetensors") is None:
        from penstock.tools.session.arrays import write_arrays

        path = folder / f"{name}.npz"
        write_arrays(path, arrays)
        return path
    from safetensors import numpy as safetensors

    path = folder / f"{name}.safetensors"
    cast("Any", safetensors).save_file(arrays, path)
    return path


def _sync(path: Path) -> None:
    """Bring a file or a folder to the disk, where the system can do that."""
    if path.is_dir() and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
