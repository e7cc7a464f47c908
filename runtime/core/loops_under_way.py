"""Tasks that are in an act, and the iterations that their loops are in."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.state_layout import State
from penstock.runtime.program.tables import Tables, Words


def is_acting(tables: Tables, state: State, index: int, actors: Words) -> bool:
    """Whether a thread has begun an act of an actor and not ended it."""
    place = int(tables.layout.place[index])
    worker = state.workers[tables.actors[index].worker * w.WORKER_WORDS :]
    last = int(tables.layout.condition_start[index + 1])
    return is_in_act(worker, actors[place:], last)


def is_in_act(worker: Words, actor: Words, last: int) -> bool:
    """
    Whether an act has begun and not ended, by the words of the actor and its worker,
    and the number behind that of the actor's last condition.
    """
    return bool(
        worker[w.LOCKED] and actor[w.QUEUED] == 0 and actor[w.CONDITION] == last
    )


def iterations_text(tables: Tables, state: State, index: int) -> str:
    """The iterations that the loops of an actor are in; empty if it has none."""
    control, places = tables.actors[index].control, tables.control_places[index]
    if control is None or places is None or not control.loops:
        return ""
    numbers = [int(state.rows[places.number_at(i)]) for i in range(len(control.loops))]
    if len(numbers) == 1:
        return f"iteration {numbers[0]}"
    return f"iterations {', '.join(map(str, numbers))} of its loops"


def loops_under_way(tables: Tables, state: State) -> Iterator[str]:
    """A text for each actor that is in an act with loops."""
    actors = state.actors.copy()
    for index, actor in enumerate(tables.actors):
        if actor.control is not None and is_acting(tables, state, index, actors):
            text = iterations_text(tables, state, index)
            yield f"task '{actor.name}' was in {text}"
