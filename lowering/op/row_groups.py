"""
Groups of rows: the ops that are computed together with one on rows
(`op-fuse-rows` states the rules).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TypeGuard

from xdsl.dialects.builtin import AnyFloat, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import JobOp, PlacementAttr, placement_of
from penstock.dialects.kernel.row_passes import computed_in
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.groups.fused import FusedOp
from penstock.dialects.op.groups.row_space import RowRoot, RowSpace
from penstock.dialects.op.reduction import ReduceOp
from penstock.dialects.op.row_ops import RowOp
from penstock.dialects.op.tensor_op import is_elementwise
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.tensors import element_count, tensor_type
from penstock.lowering.analysis.in_place_hints import Overwritten, must_lie_over
from penstock.lowering.analysis.op_layouts import OPERANDS, RESULTS
from penstock.lowering.kernel_times.keys import NOT_FUSED
from penstock.lowering.op.outline import NO_ROWS


@dataclass
class JobOps:
    """The ops of a job by their places."""

    job: JobOp
    min_rows: int
    max_ops: int
    at: dict[Operation, int] = field(init=False)
    """The place of each op; a group has that of its last op."""
    ops: list[Operation] = field(init=False)
    overwritten: Overwritten = field(init=False)

    def __post_init__(self) -> None:
        self.ops = [*self.job.body.block.ops]
        self.at = {op: number for number, op in enumerate(self.ops)}
        self.overwritten = Overwritten(self.ops)

    def root(self, op: Operation) -> RowRoot | None:
        """The op, if it is one on rows that others can be computed with."""
        if not isinstance(op, ReduceOp | RowOp) or not _is_whole(op):
            return None
        type = tensor_type(op.operands[0])
        if not type.has_static_shape() or element_count(type) == 0:
            return None
        if isinstance(op, ReduceOp):
            has_rows = RowSpace.of(op).row_count >= self.min_rows
            return op if has_rows else None
        is_of_floats = isinstance(type.element_type, AnyFloat)
        is_of_rows = is_of_floats and type.get_num_dims() > 1 and op.is_of_rows()
        return op if is_of_rows else None


def is_on_elements(op: Operation) -> TypeGuard[Operation]:
    """Whether an op is one on elements, or a group of such ops."""
    return is_elementwise(op) or (isinstance(op, FusedOp) and not op.roots)


def outside(value: SSAValue, ops: Iterable[Operation]) -> list[Operation]:
    """The users of a value but for some ops."""
    users = dict.fromkeys(use.operation for use in value.uses)
    return [user for user in users if user not in ops]


@dataclass
class RowGroup:
    """Ops that are computed row by row, around a root."""

    known: JobOps
    seed: RowRoot
    members: dict[Operation, None] = field(default_factory=dict[Operation, None])

    def __post_init__(self) -> None:
        self.members[self.seed] = None

    @property
    def space(self) -> RowSpace:
        """The rows."""
        return RowSpace.of(self.seed)

    @property
    def ordered(self) -> list[Operation]:
        """The members in the order of the job."""
        return sorted(self.members, key=lambda op: self.known.at[op])

    @property
    def last(self) -> Operation:
        """The member that the group stands in place of."""
        return max(self.members, key=lambda op: self.known.at[op])

    @property
    def roots(self) -> list[Operation]:
        """The members on rows."""
        return [op for op in self.ordered if isinstance(op, ReduceOp | RowOp)]

    @property
    def results(self) -> Sequence[SSAValue]:
        """The values that others use, the last op's first."""
        *before, last = self.ordered
        used = [
            value
            for op in (last, *before)
            for value in op.results
            if outside(value, self.members)
        ]
        return used or [last.results[0]]

    # Growth

    def grow(self) -> None:
        """Take in what follows, and then what comes before."""
        self._take_users()
        if self._is_spread:
            self._leave_rows()
        self._take_makers()

    def _take_users(self) -> None:
        """
        Take in users in their order, up to the first one that is not computed row by
        row. Ops on rows after it that read rows of the group say why they do not join.
        """
        places = [self.known.at.get(op, -1) for op in self._next_to(self.seed)]
        heapify(places)
        seen, barrier = {self.known.at[self.seed]}, False
        while places:
            if (place := heappop(places)) in seen:
                continue
            seen.add(place)
            op = self.known.ops[place] if place >= 0 else None
            is_user = op is None or self._reads(op)
            if op is not None and not barrier and self._takes(op):
                for other in self._next_to(op):
                    heappush(places, self.known.at.get(other, -1))
            elif is_user:
                if op is not None and barrier:
                    self._refuse(op, f"order: others read what {self._made(op)} before")
                barrier = True

    @property
    def _is_spread(self) -> bool:
        """
        Whether blocks of a GPU fold rows whose points lie apart: there are few of them,
        and a grid has more threads for ops on elements.
        """
        is_cpu = placement_of(self.seed, self.known.job).kind.data == "cpu"
        return not is_cpu and not self.space.is_along_last

    def _leave_rows(self) -> None:
        """Leave the last ops out until no rows are made for others."""
        while len(self.members) > 1 and any(map(self._makes_rows, self.members)):
            del self.members[self.last]

    def _makes_rows(self, op: Operation) -> bool:
        """Whether others read rows that an op makes."""
        rows = filter(self._is_of_points, op.results)
        return any(outside(value, self.members) for value in rows)

    def _takes(self, op: Operation) -> bool:
        reason = self.refusal(op)
        if reason is None:
            op.attributes.pop(NO_ROWS, None)
            self.members[op] = None
        elif reason and self._reads(op):
            self._refuse(op, reason)
        return reason is None

    def _refuse(self, op: Operation, reason: str) -> None:
        if self.known.root(op) is not None and op.operands[0].owner in self.members:
            op.attributes[NO_ROWS] = StringAttr(reason)

    def _made(self, op: Operation) -> str:
        owner = op.operands[0].owner
        return f"{owner.name} makes" if isinstance(owner, Operation) else "is made"

    def _reads(self, op: Operation) -> bool:
        return any(value.owner in self.members for value in op.operands)

    def _next_to(self, op: Operation) -> list[Operation]:
        """
        The users of an op, and the ops on rows that read what it reads, or what an op
        on elements makes of that.
        """
        found = [use.operation for value in op.results for use in value.uses]
        for value in op.operands:
            if not self._is_of_points(value):
                continue
            for user in outside(value, self.members):
                near = [user]
                if is_on_elements(user):
                    near = [use.operation for x in user.results for use in x.uses]
                found += [each for each in near if isinstance(each, ReduceOp)]
        return found

    def _is_of_points(self, value: SSAValue) -> bool:
        type = value.type
        return isa(type, TensorType) and type.get_shape() == self.space.shape

    def _take_makers(self) -> None:
        """Take in the ops on elements whose results are read, from the last one."""
        places = self._makers_of(self.members)
        heapify(places)
        while places:
            op = self.known.ops[-heappop(places)]
            if op not in self.members and self._takes_maker(op):
                for place in self._makers_of([op]):
                    heappush(places, place)

    def _makers_of(self, ops: Iterable[Operation]) -> list[int]:
        """The places of ops that make what ops read, below zero."""
        owners = (value.owner for op in ops for value in op.operands)
        return [
            -self.known.at[owner]
            for owner in owners
            if isinstance(owner, Operation) and owner in self.known.at
        ]

    def _takes_maker(self, op: Operation) -> bool:
        makes_rows = any(map(self._is_of_points, op.results))
        if not is_on_elements(op) or not makes_rows or "slots" in op.attributes:
            return False
        if self._is_spread and self._makes_rows(op):
            return False
        if self.refusal(op) is not None:
            return False
        self.members[op] = None
        return True

    # Rules

    def refusal(self, op: Operation) -> str | None:
        """Why an op cannot join, as `"<rule>: <why>"`; nothing if it is not of rows."""
        root = self.known.root(op)
        if root is None and not (is_on_elements(op) and _is_whole(op)):
            return ""
        members = {**self.members, op: None}
        last = max(members, key=lambda each: self.known.at[each])
        for reason in (
            self._place_refusal(op, last),
            self._space_refusal(op, root),
            self._order_refusal(members, last),
        ):
            if reason is not None:
                return reason
        return self._kernel_refusal(sorted(members, key=lambda x: self.known.at[x]))

    def _place_refusal(self, op: Operation, last: Operation) -> str | None:
        first = self.ordered[0]
        if placement_of(op, self.known.job) != placement_of(first, self.known.job):
            return f"place: {first.name} runs in another place"
        for member in self.members:
            if "slots" in member.attributes and member is not last:
                return f"slots: {member.name} asks for them"
        over = self.known.overwritten
        if any(over.keeps_apart(each, last) for each in (op, *self.members)):
            return "in place: something has to be written over"
        return None

    def _space_refusal(self, op: Operation, root: RowRoot | None) -> str | None:
        if root is None:
            types = [computed_in(tensor_type(x).element_type) for x in op.results]
        else:
            if RowSpace.of(root) != self.space:
                return f"rows: those of {self.seed.name} are others"
            parameters = () if isinstance(root, ReduceOp) else root.parameters
            for value in parameters:
                if (owner := value.owner) in self.members:
                    assert isinstance(owner, Operation), "a member"
                    return f"parameters: {owner.name} makes them as well"
            types = [computed_in(tensor_type(root.operands[0]).element_type)]
        own = _type_of(self.seed)
        if any(type != own for type in types):
            return f"types: rows are computed in {own}"
        return None

    def _order_refusal(
        self, members: Iterable[Operation], last: Operation
    ) -> str | None:
        place = self.known.at[last]
        for member in members:
            for value in member.results:
                for user in outside(value, members):
                    if self.known.at.get(user, -1) < place:
                        return f"order: others read what {member.name} makes before"
        return None

    def _kernel_refusal(self, members: Sequence[Operation]) -> str | None:
        """Why rows that members read and make are not those of one kernel."""
        if len(members) > self.known.max_ops:
            return f"size: a group has {self.known.max_ops} ops at most"
        space = self.space
        try:
            places = space.placed(members)
        except VerifyException as error:
            return f"rows: {error}"
        made = [value for op in members for value in op.results]
        for value in made:
            lies = places[value]
            if not (space.has_points(lies) or space.is_of_row(lies)):
                return f"rows: {value.type} is neither rows nor an element for each"
        read = [value for value in places if value.owner not in members]
        if (reason := self._type_refusal(members, read)) is not None:
            return reason
        if space.is_along_last:
            return None
        place = placement_of(self.seed, self.known.job)
        results = [value for value in made if outside(value, members)]
        is_one = self._is_one_fold(members)
        return self._rounding_refusal(members, results, place) if is_one else None

    def _rounding_refusal(
        self,
        members: Sequence[Operation],
        results: Sequence[SSAValue],
        place: PlacementAttr,
    ) -> str | None:
        """
        Why a fold that lies in its result until it is done has not enough bits there. A
        GPU has it in registers until it is rounded.
        """
        own = tensor_type(self.seed.results[0]).element_type
        if all(tensor_type(value).element_type == own for value in results):
            return None
        after = members[members.index(self.seed) + 1 :]
        if place.kind.data != "cpu" and [type(op) for op in after] == [CastOp]:
            return None
        return f"types: a fold of {own} lies in the result until it is done"

    def _is_one_fold(self, members: Sequence[Operation]) -> bool:
        """Whether there is one reduction, and no rows that are made of it."""
        roots = [op for op in members if isinstance(op, ReduceOp | RowOp)]
        after = members[members.index(roots[0]) + 1 :]
        made = (value for op in after for value in op.results)
        is_reduction = len(roots) == 1 and isinstance(roots[0], ReduceOp)
        return is_reduction and not any(map(self._is_of_points, made))

    def _type_refusal(
        self, members: Sequence[Operation], read: Sequence[SSAValue]
    ) -> str | None:
        """Why rows of reductions have elements that vectors do not load together."""
        has_reductions = any(isinstance(op, ReduceOp) for op in members)
        if not has_reductions or self._is_one_fold(members):
            return None
        own = _type_of(self.seed)
        for value in read:
            if computed_in(tensor_type(value).element_type) != own:
                return f"types: rows are computed in {own}, got {value.type}"
        return None


def _type_of(root: RowRoot) -> Attribute:
    """The type that rows are computed in."""
    return computed_in(tensor_type(root.operands[0]).element_type)


def _is_whole(op: Operation) -> bool:
    """Whether an op says nothing by which it has to stay alone, or in parts."""
    is_cut = OPERANDS in op.attributes or RESULTS in op.attributes
    return not is_cut and NOT_FUSED not in op.attributes and not must_lie_over(op)
