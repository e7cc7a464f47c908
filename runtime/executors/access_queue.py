"""
One queue of accesses to named resources, for jobs and for calls of them.

An *access* is a use of some names by a run: those that it writes it has to itself,
those that it only reads it shares with others that read. Accesses take their turns in
the order in which they ask. Each waits for the earlier ones that write what it uses, or
use what it writes, so none waits for ever, and accesses without a common name wait for
no other. An access can release names before its end, which lets those go on that waited
for these alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

POLL_SECONDS = 0.0002
"""The time between two looks at the conditions of early releases."""


class Use(NamedTuple):
    """The names that a run uses: those it only reads, and those it writes."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """All of them."""
        return self.reads | self.writes

    def excludes(self, other: Use) -> bool:
        """Whether the two may not be at the same time."""
        return not (
            self.writes.isdisjoint(other.names) and other.writes.isdisjoint(self.names)
        )

    def without(self, names: Collection[str]) -> Use:
        """The use of all other names."""
        return Use(self.reads.difference(names), self.writes.difference(names))


class Access:
    """The place of a run in the queue."""

    def __init__(self, use: Use):
        self.use = use
        """The names that it has or will have, without those that it has released."""
        self.waits_for: set[Access] = set()
        self.followers: list[Access] = []
        self.has_begun = False
        self.early: dict[str, Callable[[], bool]] = {}
        """Names that it releases before its end, each once a function says so."""

    def follow(self, other: Access) -> None:
        """Wait for another access, which comes first."""
        if other not in self.waits_for:
            self.waits_for.add(other)
            other.followers.append(self)


class AccessQueue:
    """The accesses that have not ended, in the order in which they asked."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._users: dict[str, dict[Access, None]] = {}
        """Name: the accesses that have it or will, in their order."""

    def ask(self, use: Use, *, first: bool = False) -> Access:
        """
        An access after all that asked before; or, if it is to be the `first`, after
        those that have begun.
        """
        with self._changed:
            return self._add(use, first)

    def ask_all(self, uses: Sequence[Use]) -> list[Access]:
        """Several accesses, between which no other one comes."""
        with self._changed:
            return [self._add(use, False) for use in uses]

    def begin(self, access: Access) -> None:
        """Return once it is the turn of an access, which then ends with `end`."""
        with self._changed:
            while access.waits_for:
                if not self._release_early(access.waits_for):
                    may_release = any(other.early for other in access.waits_for)
                    self._changed.wait(POLL_SECONDS if may_release else None)
            access.has_begun = True

    def release_when(
        self, access: Access, early: Mapping[str, Callable[[], bool]]
    ) -> None:
        """Let an access that has begun release each name once a function says so."""
        if not early:
            return
        with self._changed:
            access.early = dict(early)
            # An access that waits already is to look at the functions, too.
            self._changed.notify_all()

    def release(self, access: Access, names: Collection[str]) -> None:
        """Let an access that has begun have these names no longer."""
        with self._changed:
            self._release(access, names)

    def end(self, access: Access) -> None:
        """End an access, or give up one that has not begun; nothing if it has ended."""
        with self._changed:
            access.early = {}
            self._release(access, access.use.names)
            access.followers.clear()

    def _add(self, use: Use, first: bool) -> Access:
        access = Access(use)
        for name in use.names:
            for other in self._users.setdefault(name, {}):
                if not use.excludes(other.use):
                    continue
                if first and not other.has_begun:
                    other.follow(access)
                else:
                    access.follow(other)
            self._users[name][access] = None
        return access

    def _release_early(self, accesses: Collection[Access]) -> bool:
        """Release the names that accesses need no longer; False if there are none."""
        found = False
        for access in list(accesses):
            done = [name for name, is_done in access.early.items() if is_done()]
            for name in done:
                del access.early[name]
            self._release(access, done)
            found |= bool(done)
        return found

    def _release(self, access: Access, names: Collection[str]) -> None:
        """Take names from an access, and let those go on that waited for these."""
        for name in access.use.names.intersection(names):
            del self._users[name][access]
        access.use = access.use.without(names)
        for follower in access.followers:
            if not follower.use.excludes(access.use):
                follower.waits_for.discard(access)
        if access.followers:
            self._changed.notify_all()
