"""
Give each register a place: one chunk for each memory case, in the order of the list.

A chunk has up to four kinds of blocks. *Variables* come first and lie side by side, as
they are listed, and so do the *headers* of registers of dynamic shape. Registers that
may share bytes with at least one other are in one *shared* block. The others are *kept*
apart; their attribute `kept` says why, as `<rule>: <why>`. Of two blocks, that behind
which alignment loses the most bytes comes last. An alias has no place of its own: its
users use the register it lies on. `bound` of a block is the lower bound of its bytes if
the tasks act in the order of the plan (`memory_bound`), `sum` is its size if nothing
were shared.

Two registers may share bytes if all users of the one come before all that first write
the other in the same act, and all users of the other before all that first write the
one in the next act; or the other way round. All slots of a register count as one. The
order of tasks follows from registers, full and free slots alike, and from `guard`:

* `stream`: a stream is *guarded* if two registers of one slot that no
  other stream uses can share bytes. Its tasks act in the order of `order`, or as they
  are listed where none has one, and the first one acts again after the last one has.
  Streams that bring data in or take it out go on with other acts meanwhile: several
  slots between streams are there for that.
* `all`: all streams are guarded, and no task acts again before all tasks have acted.
  This needs the least memory, and costs nothing where one act runs at a time; else acts
  do not overlap any more.
* `none`: nothing is added, so that acts overlap as far as slots allow.
* `bounded`, the default: `stream`, unless some devices have several compute streams,
  and all registers take more than 1.5 times what they would with one each. Then these
  streams are guarded with a *window*: no task acts before all have acted that are
  listed more than so many tasks before it on the device, and none again before all have
  acted. It is the largest with which 1.5 times is enough: all tasks, a power of two, or
  0.

The bytes that registers would take with one compute stream each are those of a copy in
which they are made aliases anew. `given_up` of the plan says what the limit costs:
`overlap` of acts, where the window is all tasks, else `parallelism`. Where another
guard takes more than 1.5 times, it is `memory`. Beside it stand the bytes that
registers take (`taken`), those that they would with the guards of single streams
(`free`) and with one stream each (`one_thread`), and the `window`.

The order that the layout relies on is made explicit with control registers `<task> ->
<task>`: from each task of a guarded stream to the next one, and with one initial slot
from the last to the first, or for `all` from each task without successors to each
without predecessors; unless a register already does. A guarded stream in which no
registers share bytes in the end gets none if the layout is right without.

In a plan with rates all acts of a launch are looked at, and all pieces of a register:
two registers may share bytes if all pieces of the one may with all of the other. Tasks
that act equally often and follow each other in a guarded stream are a loop, in which
each acts once before the first one acts again, unless one waits for several acts of
another, which begins a new loop. A loop in which a task asks for `slots` is only put in
order: its first task may act again before the last one has. One such group acts after
the other, in as many rounds in a launch as all of them can count: control registers
between them say in `pieces` how many these are. A stream in which the slots that there
are do not allow that is listed in `unguarded` of the plan: of its groups those are
loops that can be, and act one after the other where they can. Plans of several ranks
are looked at together, as tasks of one wait for messages of another. `all` guards all
streams, but launches overlap. Of more than 16,384 acts in a launch all those of a task
count as one, and no stream is guarded.

Plans of bodies come before the plan around them: the memory of a task with bodies is as
large as that of the plan that needs most. Registers of what a body reads and yields are
outside of it, and have no places; those that a loop carries have places there, as a
value is read in one place and made in another.

`best`, the default, places the largest register first. Only if that needs more than the
bound, it goes on with other rules and a search, which loads compiled code. A search
ends after some `steps`, so that a plan is the same every time, or with `budget-ms`
after some time, for all blocks of all plans together. Other algorithms, and those that
installed packages and loaded files add, are selected by name.

Plans that have blocks are left alone; if some registers have places and others none, it
is an error.

Example: `test/lowering/regst/regst-plan-memory-example.mlir`.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp
from penstock.dialects.regst import (
    BlockOp,
    ChunkOp,
    ControlType,
    DataType,
    MemoryCaseAttr,
    RegisterOp,
)
from penstock.dialects.utils.diagnostics import (
    Finding,
    fail_if_any,
)
from penstock.dialects.utils.pass_events import count
from penstock.lowering.algorithms.block_layout import Demand, Layout, Layouter
from penstock.lowering.algorithms.byte_sharing import (
    CycleError,
    PartialOrder,
    overlapping,
    sharing_of_all,
)
from penstock.lowering.algorithms.packing import (
    DEFAULT_STEPS,
    Budget,
    Problem,
    pack,
    packer_of,
)
from penstock.lowering.algorithms.packing.problem import (
    end_of,
    shares_bytes,
    side_by_side,
)
from penstock.lowering.algorithms.unique_names import UniqueNames
from penstock.lowering.algorithms.unrolled_order import Control
from penstock.lowering.analysis.acting_order import Stream
from penstock.lowering.analysis.body_plans import lies_outside, plans_and_bodies
from penstock.lowering.analysis.control_edges import write_control
from penstock.lowering.analysis.joint_acts import ActOrder, orders_of_acts
from penstock.lowering.analysis.memory_bound import Liveness, write_bounds
from penstock.lowering.analysis.plan_reports import GIVEN_UP
from penstock.lowering.analysis.register_usage import (
    Guard,
    Usage,
    cycle_finding,
    findings_about,
)
from penstock.lowering.analysis.repetitions import PIECES
from penstock.lowering.regst.one_stream import one_thread_plan
from penstock.plugins import nearest

log = logging.getLogger(__name__)

GUARDS = ("all", "bounded", "none", "stream")

UNGUARDED = "unguarded"
"""The attribute of a plan with rates that lists streams that cannot be guarded."""


MOST = 1.5
"""`bounded`: what streams may take, in multiples of what one thread takes."""

KEPT = "kept"
"""The attribute of a register that shares bytes with no other one: why."""

################################################################################
# Guards                                                                       #
################################################################################


def guards_of(
    usage: Usage, guard: str, order: ActOrder | None, window: int | None = None
) -> list[Guard]:
    """
    The guards that may be added to the order of registers, each more than the one
    before.
    """
    if guard == "none" or (usage.rates.is_rated and usage.acts is None):
        return [Guard()]
    if usage.acts is not None:
        return [guard_with_rates(usage, guard, order)]
    guards = [Guard(streams_that_share(usage))]
    if window is not None:
        streams = tuple(dict.fromkeys((*guards[0].streams, *usage.parallel)))
        return [*guards, Guard(streams, window=window)]
    if guard == "all":
        streams = tuple(usage.streams)
        guards += [Guard(streams), Guard(streams, across=len(streams) > 1)]
    return list(dict.fromkeys(guards))


def guard_with_rates(usage: Usage, guard: str, order: ActOrder | None) -> Guard:
    """The streams that can be guarded with the slots that there are; notes others."""
    if order is None or not order.is_acyclic:
        return Guard()
    wanted = streams_that_share(usage) if guard == "stream" else tuple(usage.streams)
    acts, found, refused = usage.acts, list[Control](), list[Attribute]()
    assert acts is not None, "has rates"
    ahead = tasks_ahead(usage)
    with order.trial():
        for stream in wanted:
            line = [usage.number[task] for task in usage.streams[stream]]
            parts = acts.guard(line, ahead)
            whole = [control for part in parts for control in part]
            if order.add(whole):
                found += whole
                continue
            refused.append(StringAttr(stream_text(*stream)))
            for part in parts:
                if part and order.add(part):
                    found += part
    if refused:
        usage.plan.attributes[UNGUARDED] = ArrayAttr(refused)
    return Guard(controls=tuple(found))


def tasks_ahead(usage: Usage) -> set[int]:
    """The tasks that ask for slots, so as to act again before others have."""
    found = (task for task in usage.tasks if "slots" in task.attributes)
    return {usage.number[task] for task in found}


def stream_text(device: DeviceAttr, stream: StreamAttr) -> str:
    """A stream, as tasks say it."""
    kind, index = stream.kind.data, stream.index.data
    rank, name, number = device.rank.data, device.kind.data, device.index.data
    return f"<{rank}, {name}:{number}> <{kind}, {index}>"


def streams_that_share(usage: Usage) -> tuple[Stream, ...]:
    """The streams in which registers of one slot that only they use can share bytes."""
    found: set[Stream] = set()
    for (stream, _), registers in usage.of_streams.items():
        single = [r for r in registers if r.slots.value.data == 1 and r.size]
        steps = [
            [usage.position[task] for task in usage.users[register.register]]
            for register in single
            if register.interface is None
        ]
        if steps and min(map(max, steps)) < max(map(min, steps)):
            found.add(stream)
    return tuple(stream for stream in usage.streams if stream in found)


def least_guard(
    usage: Usage, guards: Sequence[Guard], places: dict[RegisterOp, range]
) -> Guard:
    """The first guard for which registers may lie at these bytes of their memory."""
    sharing = {
        stream
        for (stream, _), registers in usage.of_streams.items()
        if shares_bytes(
            [places[r].start for r in registers], [r.size for r in registers]
        )
    }
    needed = Guard(tuple(s for s in guards[0].streams if s in sharing))
    *weaker, strongest = dict.fromkeys([needed, *guards])
    return next((guard for guard in weaker if allows(usage, guard, places)), strongest)


def allows(usage: Usage, guard: Guard, places: dict[RegisterOp, range]) -> bool:
    """Whether registers that lie on common bytes of their memory may."""
    order = usage.order(guard)
    for registers in usage.by_memory().values():
        used = [r for r in registers if r.register not in usage.variables]
        some = [register for register in used if places[register]]
        together = overlapping([places[register] for register in some])
        if any(together):
            spans = [usage.spans_of(register) for register in some]
            allowed = sharing_of_all(order, spans).allowed
            if any(a & ~b for a, b in zip(together, allowed, strict=True)):
                return False
    return True


################################################################################
# Blocks                                                                       #
################################################################################


class Chunk(NamedTuple):
    """The blocks of a memory, the registers in each, and where the blocks start."""

    case: MemoryCaseAttr
    layouts: list[Layout]
    registers: list[list[RegisterOp]]
    offsets: list[int]
    reasons: dict[RegisterOp, str]

    @property
    def size(self) -> int:
        """The bytes of all blocks."""
        return end_of(self.offsets, [layout.size for layout in self.layouts])

    @property
    def passing(self) -> int:
        """The bytes of blocks that hold more than what lasts."""
        lasting = ("variables", "headers")
        return sum(block.size for block in self.layouts if block.name not in lasting)

    def places(self) -> Iterator[tuple[RegisterOp, range]]:
        """The bytes of each register."""
        for layout, registers, start in zip(
            self.layouts, self.registers, self.offsets, strict=True
        ):
            for register, offset in zip(registers, layout.offsets, strict=True):
                begin = start + offset
                yield register, range(begin, begin + register.size)


def side_by_side_block(name: str, sizes: Sequence[int], alignment: int) -> Layout:
    """A block of registers as they are listed."""
    offsets = side_by_side(sizes, alignment)
    size = end_of(offsets, sizes)
    return Layout(name, range(len(sizes)), offsets, size, size)


@dataclass
class Packings:
    """
    The layouts of packing problems by an algorithm, all within one budget. Equal
    problems are solved once, as devices that do the same have the same.
    """

    algorithm: str
    budget: Budget
    _found: dict[Problem, Sequence[int]] = field(default_factory=dict)

    def of(self, problem: Problem) -> Sequence[int]:
        """An offset for each buffer."""
        if (found := self._found.get(problem)) is None:
            count("problems packed")
            found = pack(problem, self.algorithm, self.budget)
            self._found[problem] = found
        return found


@dataclass
class Placer:
    """Lays out the registers of a plan."""

    usage: Usage
    guard: Guard
    packings: Packings

    def place(self) -> list[Chunk]:
        """All chunks. Raises `CycleError` if tasks wait for each other."""
        order = self.usage.order(self.guard)
        memories = self.usage.by_memory()
        return [self._chunk(order, case, memories[case]) for case in memories]

    def _chunk(
        self,
        order: PartialOrder,
        case: MemoryCaseAttr,
        registers: Sequence[RegisterOp],
    ) -> Chunk:
        variables = [r for r in registers if r.register in self.usage.variables]
        others = [r for r in registers if r.register not in self.usage.variables]
        layouts: list[Layout] = []
        members: list[list[RegisterOp]] = []
        headers = [r for r in variables if r.header is not None]
        weights = [r for r in variables if r.header is None]
        for name, lasting in ("variables", weights), ("headers", headers):
            if lasting:
                sizes = [register.size for register in lasting]
                layouts.append(side_by_side_block(name, sizes, case.alignment))
                members.append(lasting)
        demands = [self._demand(register) for register in others]
        # Acts at different rates are on no line.
        lines = len(self.guard.streams) if self.usage.acts is None else 0
        pack = self.packings.of
        plan = Layouter(demands, case.alignment, order, lines, pack).plan()
        layouts += plan.layouts
        members += [[others[i] for i in layout.members] for layout in plan.layouts]
        offsets = side_by_side([layout.size for layout in layouts], case.alignment)
        reasons = {others[i]: reason for i, reason in plan.reasons.items()}
        return Chunk(case, layouts, members, offsets, reasons)

    def _demand(self, register: RegisterOp) -> Demand:
        first, *further = self.usage.spans_of(register)
        return Demand(
            register.size,
            register.slots.value.data,
            first,
            register.interface is not None,
            further,
        )


def write_chunk(plan: PlanOp, chunk: Chunk) -> None:
    """Add a chunk with its blocks to a plan, and give its registers their places."""
    chunk_op = ChunkOp(chunk.case, chunk.size)
    chunk_op.chunk.name_hint = hint_of(chunk.case)
    first_register = plan.registers[0]
    block = plan.body.block
    block.insert_op_before(chunk_op, first_register)
    blocks = [
        BlockOp(chunk_op, offset, layout.size, layout.sum)
        for offset, layout in zip(chunk.offsets, chunk.layouts, strict=True)
    ]
    block.insert_ops_before(blocks, first_register)
    for block_op, layout, registers in zip(
        blocks, chunk.layouts, chunk.registers, strict=True
    ):
        block_op.block.name_hint = layout.name
        for register, at in zip(registers, layout.offsets, strict=True):
            write_place(register, block_op, at, chunk.reasons.get(register))


def hint_of(case: MemoryCaseAttr) -> str:
    """A name for the chunk of a memory case."""
    if not isinstance(case.device, DeviceAttr):
        return case.kind.data
    return f"{case.kind.data}_{case.device.kind.data}{case.device.index.data}"


PLACED = DenseArrayBase.from_list(i32, [1, 0])


def write_place(
    register: RegisterOp, block: BlockOp, offset: int, reason: str | None
) -> None:
    """Put a register at an offset of a block, and say why it shares no bytes."""
    register.operands = [block.block]
    register.properties["operandSegmentSizes"] = PLACED
    register.offset = IntegerAttr(offset, i64)
    if reason is not None:
        register.attributes[KEPT] = StringAttr(reason)


################################################################################
# Control                                                                      #
################################################################################


UNPLACED = DenseArrayBase.from_list(i32, [0, 0])
CONTROL = ControlType()
ONE = IntegerAttr(1, i64)


def control_register(
    name: str, case: MemoryCaseAttr, initial: int, pieces: int | None
) -> RegisterOp:
    """
    A control register with one slot, which may be full at the start. It may say how
    many pieces there are in a launch.
    """
    properties: dict[str, Attribute] = {
        "register_name": StringAttr(name),
        "memory_case": case,
        "slots": ONE,
        "operandSegmentSizes": UNPLACED,
    }
    if initial:
        properties["initial"] = ONE
    # There is one for each task, and this takes a third of the time.
    attributes = {} if pieces is None else {PIECES: IntegerAttr(pieces, i64)}
    return RegisterOp.create(
        properties=properties, attributes=attributes, result_types=[CONTROL]
    )


def write_controls(usage: Usage, controls: Sequence[Control]) -> None:
    """Add control registers."""
    if not controls:
        return
    plan, tasks = usage.plan, usage.tasks
    names = UniqueNames(register.register_name.data for register in plan.registers)
    waits: dict[TaskOp, list[SSAValue]] = defaultdict(list)
    signals: dict[TaskOp, list[SSAValue]] = defaultdict(list)
    registers: list[RegisterOp] = []
    cases: dict[DeviceAttr, MemoryCaseAttr] = {}
    for source, target, initial, pieces in controls:
        first, second = tasks[source], tasks[target]
        name = names.make(f"{first.task_name.data} -> {second.task_name.data}")
        if (device := second.device) not in cases:
            cases[device] = MemoryCaseAttr.of(device.host)
        said = pieces if pieces < usage.most_pieces(source, target) else None
        register = control_register(name, cases[device], initial, said)
        registers.append(register)
        signals[first].append(register.register)
        waits[second].append(register.register)
    plan.body.block.insert_ops_before(registers, plan.tasks[0])
    for task in plan.tasks:
        if task in waits or task in signals:
            write_control(task, waits[task], signals[task])


class Placing(NamedTuple):
    """Where registers lie, and the order that was assumed."""

    guards: list[Guard]
    chunks: list[Chunk]

    @property
    def taken(self) -> int:
        """The bytes that are taken by all that does not last."""
        return sum(chunk.passing for chunk in self.chunks)


@dataclass(frozen=True)
class MemoryPlanner:
    """Chooses where the registers of a plan lie."""

    usage: Usage
    packings: Packings
    order: ActOrder | None
    """That of acts at different rates, to which guards are added."""

    def place(self, guard: str, window: int | None = None) -> Placing:
        """Places under a guard. Raises `CycleError` if tasks wait for each other."""
        guards = guards_of(self.usage, guard, self.order, window)
        placer = Placer(self.usage, guards[-1], self.packings)
        return Placing(guards, placer.place())

    def plan(self, guard: str) -> Placing:
        """The places under a guard, `bounded` by those of one thread."""
        found = self.place("stream" if guard == "bounded" else guard)
        if self.usage.acts is not None or not self.usage.lanes:
            return found
        single = Usage(one_thread_plan(self.usage))
        if found.taken <= MOST * least_bytes(single):
            return found
        alone = replace(self, usage=single)
        one = alone.place("stream").taken
        if found.taken <= MOST * one:
            return found
        free = found.taken
        if guard == "bounded":
            found = self._widest(int(MOST * one))
        self._write_given_up(found, free, one)
        return found

    def _widest(self, most: int) -> Placing:
        """The places for the largest window that takes so many bytes, else for 0."""
        windows = [0, *(1 << bits for bits in range(self._longest.bit_length()))]
        windows[-1] = self._longest
        best, low, high = self.place("stream", 0), 1, len(windows)
        # Bytes grow with the window, so a binary search finds the largest that fits.
        while low < high:
            middle = (low + high) // 2
            found = self.place("stream", windows[middle])
            if found.taken <= most:
                best, low = found, middle + 1
            else:
                high = middle
        return best

    @property
    def _longest(self) -> int:
        """The most tasks on the compute streams of a device."""
        return max(map(len, self.usage.lanes))

    def _write_given_up(self, found: Placing, free: int, one: int) -> None:
        """Say in the plan what its streams cost, in parallelism or in memory."""
        window = found.guards[-1].window
        what = "memory" if window is None else "parallelism"
        said: dict[str, Attribute] = {
            "free": IntegerAttr(free, i64),
            "one_thread": IntegerAttr(one, i64),
            "taken": IntegerAttr(found.taken, i64),
        }
        if window == self._longest:
            what = "overlap"
        elif window is not None:
            said["window"] = IntegerAttr(window, i64)
        said["what"] = StringAttr(what)
        attribute = DictionaryAttr(dict(sorted(said.items())))
        self.usage.plan.attributes[GIVEN_UP] = attribute


def least_bytes(usage: Usage) -> int:
    """The lower bound of all that does not last."""
    liveness = Liveness(usage.plan)
    return sum(
        liveness.bound(r for r in registers if r.register not in usage.variables)
        for registers in usage.by_memory().values()
    )


def plan_memory(planner: MemoryPlanner, guard: str) -> list[Control]:
    """
    Give the registers of a plan their places, and its tasks the order they need; the
    result has the control registers that are made for it.

    Raises `LocatedPassFailure` if tasks wait for each other.
    """
    usage = planner.usage
    try:
        guards, chunks = planner.plan(guard)
    except CycleError as error:
        fail_if_any([cycle_finding(usage, error)])
        raise
    places = dict(place for chunk in chunks for place in chunk.places())
    controls = list(usage.missing_controls(least_guard(usage, guards, places)))
    log.debug("guards %s", guards)
    count("registers placed", len(places))
    count("problems packed", 0)
    for register, span in places.items():
        log.debug("%s at %s", register.register_name.data, span)
    for chunk in chunks:
        write_chunk(usage.plan, chunk)
    write_controls(usage, controls)
    write_bounds(usage.plan)
    return controls


def hold_bodies(plan: PlanOp) -> bool:
    """
    Make the memory of bodies in a plan as large as those need, which have theirs;
    whether there are any.
    """
    tasks = [task for task in plan.tasks if task.bodies]
    for task in tasks:
        sizes = (sum(x.size.value.data for x in body.chunks) for body in task.bodies)
        memory = DataType(TensorType(i8, [max(sizes)]))
        Rewriter.replace_value_with_new_type(task.outs[-1], memory)
    return bool(tasks)


def left_out(plan: PlanOp) -> Iterator[Finding]:
    """The registers of a plan with blocks that have no place."""
    for register in plan.registers:
        is_data = not isinstance(register.register.type, ControlType)
        if is_data and not register.operands and not lies_outside(register):
            yield (
                register,
                f"register '{register.register_name.data}' has no place, but the plan "
                "has blocks; this pass gives all registers places, or none",
            )


@dataclass(frozen=True)
class RegstPlanMemoryPass(ModulePass):
    """
    Give each register a place: one chunk for each memory case.
    """

    name = "regst-plan-memory"

    algorithm: str = "best"
    """Where registers share memory, they are placed by this algorithm."""

    guard: str = "bounded"
    """
    The guard that is added to the order of tasks: `bounded`, `none`, `stream` or `all`.
    """

    steps: int | None = None
    """A search ends after so many steps of about 4 ns; by default 50,000,000."""

    budget_ms: int | None = None
    """A search ends after so many milliseconds, and no matter how many steps."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = plans_and_bodies(op)
        placed = [plan for plan in plans if plan.has_places]
        usages = [Usage(plan) for plan in plans if plan not in placed]
        if self.guard not in GUARDS:
            raise PassFailedException(
                f"guard must be one of {', '.join(GUARDS)}, got '{self.guard}'"
                f"{nearest(self.guard, GUARDS)}"
            )
        if self.budget_ms is not None and self.budget_ms < 0:
            raise PassFailedException(
                f"budget-ms must not be negative, got {self.budget_ms}"
            )
        fail_if_any(found for plan in placed for found in left_out(plan))
        fail_if_any(found for usage in usages for found in findings_about(usage))
        packer_of(self.algorithm)
        packings = Packings(self.algorithm, self.budget())
        orders = orders_of_acts(usages)
        for usage in usages:
            usage = Usage(usage.plan) if hold_bodies(usage.plan) else usage
            order = orders.get(usage.plan)
            planner = MemoryPlanner(usage, packings, order)
            controls = plan_memory(planner, self.guard)
            if order is not None:
                order.add(controls)

    def budget(self) -> Budget:
        """The budget of all searches together."""
        try:
            if self.budget_ms is not None:
                return Budget(seconds=self.budget_ms / 1000, steps=self.steps)
            return Budget(steps=DEFAULT_STEPS if self.steps is None else self.steps)
        except ValueError as error:
            raise PassFailedException(str(error)) from error
