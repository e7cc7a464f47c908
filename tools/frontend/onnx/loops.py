"""
Loops of graphs inside of nodes, for scans and loops.

A graph is read once, as the body of a loop, where that can be said; or once for each
iteration, where iterations differ in shapes or need to know their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from onnx import GraphProto, NodeProto, OperatorSetIdProto
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.tools.frontend.onnx.expansion import inner_names, passed_on
from penstock.tools.frontend.onnx.graph import (
    AlreadyReported,
    Item,
    JobBuilder,
    Unsupported,
    tensors_of,
)
from penstock.tools.frontend.onnx.loop_builder import (
    Bound,
    Iteration,
    Made,
    add_loop,
)
from penstock.tools.frontend.onnx.ops import Value

Opsets: TypeAlias = Sequence[OperatorSetIdProto]

MOST_STEPS = 10_000
"""The most iterations of a loop that is unrolled."""

YES = np.asarray(True)


class Endless(Unsupported):
    """The number of iterations of a loop is only known at run time."""

    def __init__(self):
        super().__init__("how often it runs is only known at run time")


class Bodies(Protocol):
    """The reader of graphs inside of nodes."""

    builder: JobBuilder
    maxima: Mapping[str, int]

    def read_graph(
        self,
        proto: NodeProto,
        graph: GraphProto,
        name: str,
        given: Sequence[Item],
        opsets: Opsets,
        prefix: str,
    ) -> list[Item]:
        """The outputs of a graph inside of a node for some inputs."""
        ...

    def trial(self) -> AbstractContextManager[None]:
        """Take back all that is read, where that ends in an exception."""
        ...


class Results(NamedTuple):
    """The last state of a loop, and what its iterations have stacked."""

    state: Sequence[Item]
    rows: Sequence[Value]


class Step(NamedTuple):
    """The values of an iteration, and the condition that another one follows."""

    state: Sequence[Item]
    rows: Sequence[Value]
    goes_on: Value


@dataclass(frozen=True)
class Steps:
    """A graph inside of a node, which runs several times."""

    bodies: Bodies
    proto: NodeProto
    name: str
    opsets: Opsets
    graph: GraphProto
    is_loop: bool
    """Whether it is given the number of an iteration and a condition, and makes one."""
    rows: Sequence[int]
    """The outputs that are read, of those that are stacked."""

    def read(
        self,
        number: Value,
        state: Sequence[Item],
        slices: Sequence[Value],
        prefix: str,
    ) -> Step:
        """The values of an iteration."""
        counted = [number, YES] if self.is_loop else []
        results = self.bodies.read_graph(
            self.proto,
            self.graph,
            self.name,
            [*counted, *state, *slices],
            self.opsets,
            prefix,
        )
        (goes_on,) = tensors_of([results.pop(0)]) if self.is_loop else [YES]
        kept = len(state)
        rows = tensors_of([results[kept + index] for index in self.rows])
        return Step(results[:kept], rows, goes_on)

    def repeated(
        self,
        count: int | None,
        state: Sequence[Item],
        slices: Sequence[Value],
        *,
        backward: bool = False,
    ) -> Results:
        """
        The results of `count` iterations: a loop where that can be said, or else they
        are read one after the other, which is enough where all they need is known.
        """
        if count is not None and count != 1 and not self._is_known():
            try:
                with self.bodies.trial():
                    return self.looped(count, state, slices, backward=backward)
            except (AlreadyReported, Unsupported, VerifyException):
                pass  # Numbers of iterations may tell shapes.
        return self.unrolled(count, state, slices, backward=backward)

    def _is_known(self) -> bool:
        """Whether all values that it reads are known."""
        builder = self.bodies.builder
        names = {*self.proto.input, *inner_names(self.proto)}
        if names & builder.sequences.keys():
            return False
        found = names & builder.values.keys()
        return not any(isinstance(builder.values[name], SSAValue) for name in found)

    def looped(
        self,
        count: int | Bound,
        state: Sequence[Item],
        slices: Sequence[Value],
        *,
        backward: bool = False,
    ) -> Results:
        """The results of a loop; without a condition each iteration goes on."""
        kept, all_state = self._carried(len(state)), tensors_of(state)
        has_condition = isinstance(count, Bound) and count.going is not None
        builder = self.bodies.builder

        def body(given: Iteration) -> Made:
            inside = [*all_state]
            for index, value in zip(kept, given.state, strict=True):
                inside[index] = value
            made, rows, goes_on = self.read(given.number, inside, given.slices, "")
            after = tensors_of([made[index] for index in kept])
            if has_condition:
                after.insert(0, builder.ops.reshape(goes_on, []))
            elif isinstance(goes_on, SSAValue) or not goes_on.all():
                raise Endless
            return Made(after, rows)

        carried = [all_state[index] for index in kept]
        made = add_loop(builder, count, carried, slices, body, backward=backward)
        for index, value in zip(kept, made.state, strict=True):
            all_state[index] = value
        return Results(all_state, made.rows)

    def bounded(self, bound: Bound, state: Sequence[Item]) -> Results:
        """The results of as many iterations as are known at run time."""
        if bound.going is None:
            try:
                with self.bodies.trial():
                    return self.looped(bound, state, [])
            except (AlreadyReported, Unsupported, VerifyException):
                bound = bound._replace(going=YES)
        return self.looped(bound, state, [])

    def _carried(self, count: int) -> list[int]:
        """The places of the state that an iteration does not leave as it is."""
        same = passed_on(self.graph)
        inputs = [value.name for value in self.graph.input][2 * self.is_loop :]
        outputs = [value.name for value in self.graph.output][int(self.is_loop) :]
        return [i for i in range(count) if same.get(outputs[i]) != inputs[i]]

    def unrolled(
        self,
        count: int | None,
        state: Sequence[Item],
        slices: Sequence[Value],
        *,
        backward: bool = False,
    ) -> Results:
        """The results of iterations that are read one after the other."""
        ops, rows = self.bodies.builder.ops, list[Sequence[Value]]()
        while count is None or len(rows) < count:
            if len(rows) == MOST_STEPS:
                raise Unsupported(f"it takes more than {MOST_STEPS} steps")
            number = count - 1 - len(rows) if backward and count else len(rows)
            parts = [ops.pick(value, 0, number) for value in slices]
            state, row, goes_on = self.read(
                np.asarray(number), state, parts, f"{len(rows)}/"
            )
            if isinstance(goes_on, SSAValue):
                raise Endless
            rows.append(row)
            if not goes_on.all():
                break
        if self.rows and not rows:
            raise Unsupported("it has no steps that tell the shapes of its outputs")
        if backward:
            rows.reverse()
        columns = zip(*rows, strict=True)
        return Results(state, [ops.stack(column, 0) for column in columns])
