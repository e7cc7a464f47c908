"""
The order of calls of jobs that use variables of one name.

A call that assigns to a variable has it to itself; calls that only read it may have it
together. Calls take their *turns* in the order in which they ask; each waits for those
before it that use what it assigns, or assign what it uses, so none waits for ever, and
calls of jobs that share nothing wait for nobody. Turns asked for by a callback of a
call may go before all that have not begun, as these may wait for the callback to end.
"""

from __future__ import annotations

import threading
from collections.abc import Collection


class Turn:
    """The place of a call in the order: what it uses, and what it waits for."""

    def __init__(self, reads: Collection[str], writes: Collection[str]):
        self.writes = frozenset(writes)
        self.names = self.writes | frozenset(reads)
        self.waits_for: set[Turn] = set()
        self.followers: list[Turn] = []
        self.has_begun = False

    def excludes(self, other: Turn) -> bool:
        """Whether the two may not run at the same time."""
        return not (
            self.writes.isdisjoint(other.names) and other.writes.isdisjoint(self.names)
        )


class Turns:
    """The turns of calls that have not ended."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._users: dict[str, dict[Turn, None]] = {}
        """Name: the turns that have it or will, in the order in which they asked."""

    def ask(
        self, reads: Collection[str], writes: Collection[str], *, first: bool = False
    ) -> Turn:
        """
        The turn of a call that uses these variables, after all that asked before; or,
        if it is to be the `first`, after those that have begun.
        """
        turn = Turn(reads, writes)
        with self._changed:
            for name in turn.names:
                for other in self._users.setdefault(name, {}):
                    if not turn.excludes(other):
                        continue
                    late, early = (
                        (other, turn)
                        if first and not other.has_begun
                        else (turn, other)
                    )
                    if early not in late.waits_for:
                        late.waits_for.add(early)
                        early.followers.append(late)
                self._users[name][turn] = None
        return turn

    def begin(self, turn: Turn) -> None:
        """Return once it is the turn of a call, which then ends with `end`."""
        if not turn.names:
            return
        with self._changed:
            while turn.waits_for:
                self._changed.wait()
            turn.has_begun = True

    def end(self, turn: Turn) -> None:
        """End a call, or give up a turn that has not begun."""
        if not turn.names:
            return
        with self._changed:
            for name in turn.names:
                del self._users[name][turn]
            for follower in turn.followers:
                follower.waits_for.discard(turn)
            if turn.followers:
                self._changed.notify_all()
