"""
The search for the first call in the body of a loop or condition that is wrong.

The values of each iteration are those that the op has in NumPy, by the names that they
have in its bodies. A call is wrong after which an argument that has the name of one of
them holds none of the values of its iteration: one place serves several of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdsl.ir import Operation

from penstock.dialects.launch import ActorOp, CarryOp, ProgramOp
from penstock.dialects.launch import LoopOp as LaunchedLoopOp
from penstock.dialects.op.body import FlowOp, YieldOp
from penstock.dialects.op.loop import LoopOp
from penstock.runtime.executors.watched import SeenInside
from penstock.tools.session.differences import difference, relative_error

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array


Flows: TypeAlias = "Mapping[str, tuple[FlowOp, Sequence[Array]]]"
"""Loops and conditions with their operands, by the names of registers of results."""


@dataclass(frozen=True)
class WrongCall:
    """The first call in a body that is wrong: the value that it makes, and how."""

    value: str
    iterations: tuple[int, ...]
    """The numbers of the iterations around it, the outermost first."""
    text: str


def values_in(
    op: FlowOp, operands: Sequence[Array], around: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], str, Array]]:
    """All values of bodies, with the iterations around them, and their names."""
    for number, block, values in op.runs(*operands):
        iterations = (*around, *number)
        for inner in block.ops:
            for result in inner.results:
                yield iterations, result.name_hint or "", values[result]
            if isinstance(inner, FlowOp):
                given = [values[operand] for operand in inner.operands]
                yield from values_in(inner, given, iterations)


class BodySearch:
    """The search in the bodies of one actor, which is shown each of its calls."""

    def __init__(
        self, actor: ActorOp, op: FlowOp, operands: Sequence[Array], tolerance: float
    ) -> None:
        self._name, self._tolerance = actor.sym_name.data, tolerance
        loops = (step for step in actor.walk() if isinstance(step, LaunchedLoopOp))
        carried = (
            enumerate(step for step in loop.body.block.ops if isinstance(step, CarryOp))
            for loop in loops
        )
        self._carried = {x.after.data: i for pairs in carried for i, x in pairs}
        """The numbers of carried values, by the local names of the next ones."""
        self._ends = dict(_ends_of(op))
        self._values: dict[tuple[int, ...], list[tuple[str, Array]]] = defaultdict(list)
        for iterations, name, array in values_in(op, operands):
            self._values[iterations].append((name, array))
        self.found: WrongCall | None = None

    def look(self, seen: SeenInside) -> None:
        """Look at an argument of a call."""
        if self.found is not None or seen.actor != self._name:
            return
        name, array = self._name_of(seen), seen.array
        known = [
            (other, value)
            for other, value in self._values[seen.iterations]
            if value.shape == array.shape and value.dtype == array.dtype
        ]
        wanted = [value for other, value in known if other == name]
        like = (relative_error(array, value) <= self._tolerance for _, value in known)
        if wanted and not any(like):
            text = difference(array, wanted[-1])[0]
            self.found = WrongCall(name, seen.iterations, text)

    def _name_of(self, seen: SeenInside) -> str:
        """The name of the value that a local name is of, as far as it has one."""
        if (number := self._carried.get(seen.name)) is None:
            return seen.name.rpartition("/memory/")[2].removesuffix("/out")
        return self._ends.get((len(seen.iterations), number), "")


def _ends_of(op: Operation, depth: int = 1) -> Iterator[tuple[tuple[int, int], str]]:
    """The names of carried values as iterations yield them, by depth and number."""
    for region in op.regions:
        end = region.block.last_op
        if isinstance(op, LoopOp) and isinstance(end, YieldOp):
            for number, value in enumerate(end.values[: len(op.carried)]):
                yield (depth, number), value.name_hint or ""
        for inner in region.block.ops:
            yield from _ends_of(inner, depth + isinstance(op, LoopOp))


def body_search(
    program: ProgramOp, wrong: str, flows: Flows, register: str, tolerance: float
) -> BodySearch | None:
    """The search in the bodies of a task that writes a register, if it has some."""
    actors = (op for op in program.body.block.ops if isinstance(op, ActorOp))
    actor = next((actor for actor in actors if actor.sym_name.data == wrong), None)
    if actor is None or (flow := flows.get(register)) is None:
        return None
    return BodySearch(actor, *flow, tolerance)
