"""
Workspaces: arrays by name, which the steps of a schedule read and write.

A workspace may have a parent, all of whose names it sees. A name is looked up in this
order: its own names; forwarded names, which stand for another name of the parent; the
names of the parent. An array fed under a name that is there takes its place, wherever
it is; under a name that is not, it becomes the workspace's own.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from penstock.runtime.errors import PenstockError
from penstock.tools.driver.diagnostics import suggest
from penstock.tools.frontend.python.guards import Array


class WorkspaceError(PenstockError):
    """A name is not there, or is where it may not be."""


class Workspace:
    """
    Arrays by name, for several threads at once, which the steps of a schedule read and
    write.

    All names of the `parent` are seen, too. `forwarded` says for names of this
    workspace which names of the parent they stand for, whether these are there yet or
    not.

    Raises WorkspaceError if names are forwarded without a parent.

    ```python
    import penstock

    arrays = penstock.Workspace()
    arrays.feed("x", [1.0, 2.0])
    assert arrays.fetch("x").tolist() == [1.0, 2.0]
    assert arrays.names == ["x"]
    ```
    """

    def __init__(
        self,
        parent: Workspace | None = None,
        forwarded: Mapping[str, str] | None = None,
    ):
        if forwarded and parent is None:
            raise WorkspaceError("names are forwarded to a parent, but there is none")
        self._parent = parent
        self._forwarded = dict(forwarded or {})
        self._arrays: dict[str, Array] = {}
        self._lock: threading.RLock = (
            threading.RLock() if parent is None else parent._lock
        )

    def __contains__(self, name: str) -> bool:
        with self._lock:
            owner, key = self._find(name)
            return key in owner._arrays

    @property
    def forwarded(self) -> Mapping[str, str]:
        """The names that stand for names of the parent."""
        return self._forwarded

    @property
    def names(self) -> list[str]:
        """All names that can be fetched, sorted."""
        with self._lock:
            found = set(self._arrays)
            found |= {name for name in self._forwarded if name in self}
            return sorted(found.union(self._parent.names if self._parent else ()))

    def feed(
        self, name: str, value: npt.ArrayLike, *, local: bool = False, copy: bool = True
    ) -> None:
        """
        Let `name` stand for the array `value`.

        With `local` it becomes the workspace's own, and hides what the parent calls so.
        Without `copy` the array itself is kept.
        """
        array: Array = np.array(value) if copy else np.asarray(value)
        with self._lock:
            owner, key = (self, name) if local else self._find(name)
            owner._arrays[key] = array

    def fetch(self, name: str, *, copy: bool = True) -> Array:
        """
        The array of `name`; without `copy` it must not be changed.

        Raises WorkspaceError if there is none.
        """
        with self._lock:
            owner, key = self._find(name)
            if key not in owner._arrays:
                hint = suggest(name, self.names)
                raise WorkspaceError(f"the workspace has no '{name}'{hint}")
            array = owner._arrays[key]
        return array.copy() if copy else array

    def remove(self, name: str) -> None:
        """
        Forget `name`.

        Raises WorkspaceError if it is none of the workspace's own.
        """
        with self._lock:
            _ = self._own(name)
            del self._arrays[name]

    def rename(self, name: str, new: str) -> None:
        """
        Call the array of `name`, one of the workspace's own, by the name `new`.

        Raises WorkspaceError if there is no such array, or the new name is taken.
        """
        with self._lock:
            array = self._own(name)
            if new in self or new in self._forwarded:
                raise WorkspaceError(f"'{name}' cannot become '{new}', which is taken")
            self._arrays[new] = array
            del self._arrays[name]

    def sizes(self) -> dict[str, int]:
        """
        The bytes of the workspace's own arrays, the largest first.

        The bytes of an array that shares memory with one before it count as 0.
        """
        with self._lock:
            arrays = dict(self._arrays)
        found: dict[str, int] = {}
        seen: list[Array] = []
        for name, array in sorted(arrays.items(), key=lambda item: -item[1].nbytes):
            shared = any(np.may_share_memory(array, other) for other in seen)
            found[name] = 0 if shared else int(array.nbytes)
            seen.append(array)
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def _find(self, name: str) -> tuple[Workspace, str]:
        """Where a name is or, if it is nowhere, would be made, and its name there."""
        if name in self._arrays or self._parent is None:
            return self, name
        if name in self._forwarded:
            return self._parent._find(self._forwarded[name])
        owner, key = self._parent._find(name)
        return (owner, key) if key in owner._arrays else (self, name)

    def _own(self, name: str) -> Array:
        if name not in self._arrays:
            where = "its parent's" if name in self else "not there"
            raise WorkspaceError(
                f"'{name}' is no name of this workspace: it is {where}"
            )
        return self._arrays[name]
