"""
The rules by which a register may not lie on another one, each as `<rule>: <why>`: what
`regst-alias-registers` lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from xdsl.ir import SSAValue

from penstock.dialects.job import InputOp
from penstock.dialects.op.in_place import MAY, HintAttr
from penstock.dialects.op.tensor_op import InPlacePair
from penstock.dialects.plan import TaskOp, name_of
from penstock.dialects.regst import DataType, Place, RegisterOp, alias_place
from penstock.lowering.analysis.aliases import bytes_of, joined_case, operand_register
from penstock.lowering.analysis.body_plans import is_carried_on
from penstock.lowering.analysis.in_place_pairs import Pairs, Refusal, kept_off
from penstock.lowering.regst.alias_forest import Forest, Spot, Timeline, Tree, Version

REJECTED = "rejected"
"""The attribute of an alias that says why hints to lie over others were rejected."""

NO_ALIAS = "no_alias"
"""The attribute of a register that says why it is none."""


def quoted(name: str) -> str:
    """A name in a message."""
    return f"'{name}'"


def register_of(value: SSAValue) -> RegisterOp:
    """The op that makes a register."""
    register = value.owner
    assert isinstance(register, RegisterOp), "has been checked"
    return register


class Rules:
    """
    The rules that keep registers of a plan from lying on others, in the forest as it is
    now.
    """

    def __init__(
        self, timeline: Timeline, forest: Forest, pairs: Mapping[TaskOp, Pairs]
    ) -> None:
        self._timeline = timeline
        self._forest = forest
        self._pairs = pairs

    def name(self, index: int) -> str:
        """A task in a message."""
        return quoted(self._timeline.tasks[index].task_name.data)

    # Of one register

    def _own_rules(self, part: SSAValue, spot: Spot, place: Place) -> Iterator[Refusal]:
        """The attributes of a register that keep it from lying on these bytes."""
        register = register_of(part)
        root = spot.tree.root
        if register.interface is not None and not is_carried_on(register, root):
            yield f"interface: {quoted(name_of(part))} has bytes of its own"
        if register.target is not None:
            given = alias_place(part)
            # Roots may be found later, or be other registers by now: compare places.
            if given != place and self.lies_by_hand(register) != spot[:2]:
                where = f"byte {given.offset} of {quoted(name_of(given.root))}"
                yield f"given: {quoted(name_of(part))} lies at {where} by hand"
        elif NO_ALIAS in register.attributes:
            yield f"no_alias: {quoted(name_of(part))} says so already"

    def lies_by_hand(self, register: RegisterOp) -> tuple[Tree, int] | None:
        """Where a register that is an alias already lies; None if that is nowhere."""
        root, offset = alias_place(register.register)
        if root not in self._forest:
            return None
        tree, start, _ = self._forest.spot(root)
        return tree, start + offset

    def _memory_rules(
        self, part: SSAValue, spot: Spot, place: Place
    ) -> Iterator[Refusal]:
        """
        The reasons that keep a register from lying on these bytes, for all users of
        them. The `place` is the same one, as aliases that are there have it.
        """
        register, tree = register_of(part), spot.tree
        yield from self._own_rules(part, spot, place)
        if joined_case([tree.case, self._forest.spot(part).tree.case]) is None:
            yield f"memory: {quoted(name_of(tree.root.register))} lies in another one"
            return
        if (slots := register.slots.value.data) > tree.slots:
            yield f"slots: {slots} of them do not fit into {tree.slots}"
        elif tree.slots > 1 and register.stride != tree.root.stride:
            yield f"slots: those of {quoted(name_of(tree.root.register))} are larger"
        elif slots < tree.slots and has_aliases(register):
            yield f"slots: what lies on {quoted(name_of(part))} has {slots}"
        type = part.type
        assert isinstance(type, DataType), "control lies nowhere"
        if type.is_dynamic:
            yield f"dynamic: {quoted(name_of(part))} has its shape in a header"
        if spot.start % (alignment := type.alignment(tree.case)):
            yield f"alignment: byte {spot.start} is no multiple of {alignment}"

    def _interface_rule(self, tree: Tree, result: SSAValue) -> Iterator[Refusal]:
        """Whether a result may be written where a register lies."""
        is_fixed = tree.root.interface is not None
        if is_fixed and not is_carried_on(register_of(result), tree.root):
            name = quoted(name_of(tree.root.register))
            yield f"interface: only its task writes {name}"

    # Of those who use bytes

    def _late_user(self, versions: Sequence[Version], index: int) -> int | None:
        """A task that may use one of these versions after a task has begun."""
        for version in versions:
            for user in reversed(version.users):
                if not self._timeline.is_done(user, index):
                    return user
        return None

    def _reader_rule(
        self, versions: Sequence[Version], index: int
    ) -> Iterator[Refusal]:
        late = self._late_user(versions, index)
        if late is not None:
            yield f"reader: {self.name(late)} may read it later"

    def _must_rule(
        self, versions: Sequence[Version], part: Sequence[Version]
    ) -> Iterator[Refusal]:
        """
        The reason that keeps the users of `part` from using the bytes of versions too:
        a task has to overwrite one of them.
        """
        for version, others in (
            *((version, part) for version in versions),
            *((version, versions) for version in part),
        ):
            for must in version.musts:
                fixed = any(other.writer is None for other in others)
                if fixed or self._late_user(others, must) is not None:
                    yield f"must: {self.name(must)} has to write over it"
                    return

    def peak(self, parts: Sequence[Tree], whole: Tree) -> Iterator[Refusal]:
        """Whether more bytes would be in use at once if trees were parts of one."""
        if whole.is_variable or all(part.size == whole.size for part in parts):
            return
        before, after = self._forest.peak_if_joined(parts, whole)
        if after > before:
            yield f"peak: {after} bytes would be in use at once instead of {before}"

    # Of hints

    def _never_rule(self, task: TaskOp, result: int, spot: Spot) -> Iterator[Refusal]:
        """Whether a result would lie over an operand that it is to be kept off."""
        for operand in self._pairs[task].nevers(result):
            other = self._forest.spot(operand_register(task, operand))
            apart = other.start >= spot.end or spot.start >= other.end
            if other.tree is spot.tree and not apart:
                yield kept_off(operand)

    # Of results that show bytes of operands

    def view(self, task: TaskOp, pair: InPlacePair) -> Iterator[Refusal]:
        """The reasons that keep a result from being a view of an operand."""
        source, result = operand_register(task, pair.operand), task.outs[pair.result]
        tree, start, _ = self._forest.spot(source)
        start += pair.offset
        spot = Spot(tree, start, start + bytes_of(result))
        yield from self._never_rule(task, pair.result, spot)
        words = {h.over: h.word.data for h in self._hints_of(task, pair.result)}
        if MAY in words.values() and words.get(pair.operand) != MAY:
            yield f"may: not over operand {pair.operand}"
        yield from self._memory_rules(result, spot, moved(source, pair.offset))
        shown = self._forest.shown(source)
        yield from self._must_rule(shown, self._forest.shown(result))

    def _hints_of(self, task: TaskOp, result: int) -> list[HintAttr]:
        return [h for h in self._pairs[task].hints if h.result.data == result]

    # Of results that are written over operands

    def overwrite(
        self, index: int, task: TaskOp, pair: InPlacePair, *, is_fixed: bool
    ) -> Iterator[Refusal]:
        """The reasons that keep a result from being written over an operand."""
        source, result = operand_register(task, pair.operand), task.outs[pair.result]
        spot = self._forest.spot(source)
        yield from self._never_rule(task, pair.result, spot)
        if source.type != result.type:
            yield "type: it is not that of the operand"
            return
        if spot.tree.is_variable:
            yield f"variable: {quoted(name_of(spot.tree.root.register))} is one"
        yield from self._interface_rule(spot.tree, result)
        yield from self._memory_rules(result, spot, alias_place(source))
        yield from self._operand_rule(task, pair, spot)
        yield from self._reader_rule(self._forest.overlapping(spot), index)
        if not is_fixed:
            if not self._pairs[task].is_hinted(pair):
                yield from self._input_rule(spot)
            yield from self.peak([self._forest.spot(result).tree], spot.tree)

    def _input_rule(self, spot: Spot) -> Iterator[Refusal]:
        """
        Whether these are the bytes of an input that a run need not copy: all of a tree
        of one slot. Where nothing else is written there, they stay with the caller.
        """
        if spot.tree.slots > 1 or spot.tree.root.interface is not None:
            return
        for version in self._forest.overlapping(spot):
            if version.writer is None:
                continue
            op = self._timeline.tasks[version.writer].op
            is_whole = version.end - version.start == spot.tree.size
            if isinstance(op, InputOp) and is_whole:
                yield f"input: {quoted(op.port.data)} is read where the caller has it"

    def _operand_rule(
        self, task: TaskOp, pair: InPlacePair, spot: Spot
    ) -> Iterator[Refusal]:
        """Whether all that the op reads there may be overwritten while it does."""
        known = self._pairs[task].known
        allowed = {p.operand for p in known if p.result == pair.result}
        for operand in range(len(task.op.operands)):
            register = operand_register(task, operand)
            other = self._forest.spot(register)
            apart = other.start >= spot.end or spot.start >= other.end
            if other.tree is not spot.tree or apart:
                continue
            same = other == spot and register.type == task.outs[pair.result].type
            if operand not in allowed or not same:
                yield f"operand: operand {operand} is read there too"

    # Of operands that are parts of a result

    def gather(self, task: TaskOp, *, is_fixed: bool) -> Iterator[Refusal]:
        """
        The reasons that keep the operands of a task from being parts of its result.
        """
        views = self._pairs[task].views
        if NO_ALIAS in register_of(task.outs[0]).attributes:
            yield f"no_alias: {quoted(name_of(task.outs[0]))} says so already"
        whole = self._forest.spot(task.outs[0]).tree
        operands = [operand_register(task, pair.operand) for pair in views]
        parts = [self._forest.spot(operand).tree for operand in operands]
        for pair, operand in zip(views, operands, strict=True):
            yield from self._gather_rules_of(task, pair, operand)
        if len(set(parts)) < len(parts):
            yield "twice: two operands lie on the same bytes"
        elif whole in parts:
            yield "part: an operand lies where the result does"
        elif not is_fixed:
            yield from self.peak(parts, whole)

    def _gather_rules_of(
        self, task: TaskOp, pair: InPlacePair, operand: SSAValue
    ) -> Iterator[Refusal]:
        name = quoted(name_of(operand))
        if pair.operand in self._pairs[task].nevers(0):
            yield kept_off(pair.operand)
        whole, begin, _ = self._forest.spot(task.outs[0])
        tree, start, _ = self._forest.spot(operand)
        if tree.is_variable:
            yield f"variable: {quoted(name_of(tree.root.register))} is one"
        yield from self._interface_rule(whole, task.outs[0])
        if start or tree.size != bytes_of(operand):
            root = quoted(name_of(tree.root.register))
            yield f"part: {name} is a part of {root}"
        if whole.slots > 1 or tree.slots > 1:
            yield f"slots: {max(whole.slots, tree.slots)} of them cannot be parts"
        start = begin - pair.offset
        spot = Spot(whole, start, start + bytes_of(operand))
        place = moved(task.outs[0], -pair.offset)
        yield from self._memory_rules(tree.root.register, spot, place)
        shown = self._forest.shown(operand)
        for index in chain.from_iterable(version.overwriters for version in shown):
            yield f"reader: {self.name(index)} writes over {name}"
        for own in self._forest.shown(task.outs[0]):
            yield from self._overwriter_rules(shown, own)
            yield from self._must_rule(shown, [own])

    def _overwriter_rules(
        self, shown: Sequence[Version], own: Version
    ) -> Iterator[Refusal]:
        """Whether an operand may lie where tasks write over the result."""
        for overwriter in own.overwriters:
            if any(overwriter in version.users for version in shown):
                yield f"operand: {self.name(overwriter)} reads it and writes over it"
            yield from self._reader_rule(shown, overwriter)


def moved(register: SSAValue, offset: int) -> Place:
    """The place so many bytes after that of a register."""
    root, start = alias_place(register)
    return Place(root, start + offset)


def has_aliases(register: RegisterOp) -> bool:
    """Whether registers lie on one by hand."""
    return any(isinstance(use.operation, RegisterOp) for use in register.register.uses)
