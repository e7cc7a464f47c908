"""
The findings of `verify-plan` against the definition, on small graphs and on plans.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import combinations

import pytest
from counted_work import LINEAR, growth_of
from draws import draws
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    Builtin,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.parser import Parser
from xdsl.passes import PassPipeline
from xdsl.utils.hints import isa

from penstock.dialects import get_all_dialects
from penstock.dialects.plan import PlanOp
from penstock.dialects.regst import BlockOp, RegisterOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.algorithms.marked_graph import (
    Edge,
    MarkedGraph,
    Storage,
    clashes,
    overlaps,
)
from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass
from penstock.lowering.plan.assign_streams import PlanAssignStreamsPass
from penstock.lowering.plan.create_registers import PlanCreateRegistersPass
from penstock.lowering.plan.reduce_events import PlanReduceEventsPass
from penstock.lowering.regst.plan_memory import RegstPlanMemoryPass
from penstock.lowering.verify.plan import VerifyPlanPass

ACTS = 4
"""Acts that the brute-force definition looks at; two would do."""

Act = tuple[int, int]
"""An actor and the number of its act."""


def acts_before(size: int, edges: Sequence[Edge]) -> dict[Act, set[Act]]:
    """For each act all that end before it begins, straight from the definition."""
    before: dict[Act, set[Act]] = {
        (actor, act): set() for act in range(ACTS) for actor in range(size)
    }
    direct = [*edges, *(Edge(actor, actor, 1) for actor in range(size))]
    changed = True
    while changed:
        changed = False
        for source, target, tokens in direct:
            for act in range(tokens, ACTS):
                earlier = (source, act - tokens)
                known = before[target, act]
                new = before[earlier] | {earlier}
                if not new <= known:
                    known |= new
                    changed = True
    return before


def bytes_in(storage: Storage, act: int) -> set[int]:
    """The bytes of the slot that one act uses."""
    start = storage.start + act % storage.slots * storage.stride
    return set(range(start, start + storage.slot_size))


def true_clashes(
    size: int, edges: Sequence[Edge], storages: Sequence[Storage]
) -> list[tuple[int, int]]:
    """The pairs of storages with common bytes that two acts may use together."""
    before = acts_before(size, edges)

    def ends_first(a: Storage, act: int, b: Storage, other: int) -> bool:
        if a.writer is None or b.writer is None:
            return False
        return all((user, act) in before[b.writer, other] for user in a.users)

    acts = [(m, n) for m in range(ACTS) for n in range(ACTS)]
    found: list[tuple[int, int]] = []
    for (i, a), (j, b) in combinations(enumerate(storages), 2):
        pairs = [(m, n) for m, n in acts if bytes_in(a, m) & bytes_in(b, n)]
        if not all(ends_first(a, m, b, n) or ends_first(b, n, a, m) for m, n in pairs):
            found.append((i, j))
    return found


def random_edges(rng: random.Random, size: int) -> list[Edge]:
    """Edges without a cycle that has no token, listed in any order."""
    edges: list[Edge] = []
    for _ in range(rng.randrange(3 * size)):
        a, b = sorted(rng.sample(range(size), 2))
        edges.append(Edge(a, b, rng.choice([0, 0, 0, 1])))
        edges.append(Edge(b, a, rng.choice([1, 1, 1, 2])))
    names = rng.sample(range(size), size)
    rng.shuffle(edges)
    return [Edge(names[a], names[b], tokens) for a, b, tokens in edges]


def random_storage(rng: random.Random, size: int) -> Storage:
    """A few bytes of sixteen, and their users; now and then those of a variable."""
    start = rng.randrange(16)
    users = rng.sample(range(size), rng.randrange(1, min(4, size) + 1))
    writer = None if rng.random() < 0.05 else users[0]
    return Storage(start, start + rng.randrange(8), writer, users)


@pytest.mark.parametrize("seed", range(draws(100)))
def test_clashes_are_those_of_the_definition(seed: int):
    rng = random.Random(seed)
    size = rng.randrange(2, 9)
    edges = random_edges(rng, size)
    storages = [random_storage(rng, size) for _ in range(rng.randrange(1, 8))]
    graph = MarkedGraph(size, edges)
    assert not graph.cycles
    assert clashes(graph, storages) == true_clashes(size, edges, storages)


@pytest.mark.parametrize("seed", range(draws(16)))
def test_overlaps_are_those_of_the_bytes(seed: int):
    rng = random.Random(seed)
    storages = [random_storage(rng, 4) for _ in range(10)]
    storages = [storage for storage in storages if storage.start < storage.end]
    for a, found in zip(storages, overlaps(storages), strict=True):
        for j, b in enumerate(storages):
            common = set(range(a.start, a.end)) & set(range(b.start, b.end))
            assert bool(found >> j & 1) == (bool(common) and a is not b)


@pytest.mark.parametrize("seed", range(draws(33)))
def test_cycles_are_cycles_and_leave_none(seed: int):
    rng = random.Random(seed)
    size = rng.randrange(1, 12)
    edges = [
        Edge(rng.randrange(size), rng.randrange(size), rng.choice([0, 0, 1]))
        for _ in range(rng.randrange(2 * size))
    ]
    graph = MarkedGraph(size, edges)
    without_token = {(a, b) for a, b, tokens in edges if not tokens}
    members = [actor for cycle in graph.cycles for actor in cycle]
    assert len(members) == len(set(members))
    for cycle in graph.cycles:
        following = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
        assert set(following) <= without_token
    rest = set(range(size)) - set(members)
    left = [e for e in edges if e.source in rest and e.target in rest]
    assert not MarkedGraph(size, left).cycles
    assert sorted([*graph.order, *members]) == list(range(size))


def test_an_actor_that_needs_a_cycle_is_not_in_it():
    chain = [Edge(0, 1, 0), Edge(3, 4, 0), Edge(4, 3, 0), Edge(4, 0, 0)]
    assert MarkedGraph(5, chain).cycles == [[3, 4]]


################################################################################
# Plans                                                                        #
################################################################################


def random_plan(seed: int, length: int, streams: int = 2) -> PlanOp:
    """A plan of sums, with places; now and then one has two slots."""
    rng = random.Random(seed)
    lines = ["job.job @random placement <cpu, [0:0]> {", '%v0 = job.input "x" : !t']
    lines.append('%v1 = job.variable "w" init <zeros> : !t')
    for index in range(2, length):
        a, b = (rng.randrange(max(0, index - 5), index) for _ in "ab")
        slots = rng.choice(["", "", "", " {slots = 2 : i64}"])
        lines.append(f"%v{index} = op.add %v{a}, %v{b}{slots} : !t, !t -> !t")
    lines.append(f'job.output "y", %v{length - 1} : !t')
    context = Context()
    context.load_dialect(Builtin)
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    text = "\n".join(["!t = tensor<16xf32>", *lines, "}"])
    module = Parser(context, text).parse_module()
    passes = (
        ConvertJobToPlanPass(),
        PlanAssignStreamsPass(streams),
        PlanCreateRegistersPass(),
        RegstPlanMemoryPass(steps=1_000),
    )
    PassPipeline(passes).apply(context, module)
    return next(op for op in module.walk() if isinstance(op, PlanOp))


def messages_about(plan: PlanOp) -> list[str]:
    """The messages of `verify-plan`."""
    module = plan.parent_op()
    assert isinstance(module, ModuleOp)
    try:
        VerifyPlanPass().apply(Context(), module)
    except LocatedPassFailure as failure:
        return [message for _, message in failure.findings]
    return []


def place_of(register: RegisterOp) -> range:
    """The bytes of a register in the only chunk of its plan."""
    assert register.block is not None
    assert register.offset is not None
    block = register.block.owner
    assert isinstance(block, BlockOp)
    start = block.offset.value.data + register.offset.value.data
    return range(start, start + register.size)


def wrong_pairs(plan: PlanOp) -> set[tuple[str, str, int]]:
    """
    The pairs that are in use together, by brute force over the plan's text form, and
    how many bytes they share.
    """
    acting = [task for task in plan.tasks if task.kind != "variable"]
    edges: list[Edge] = []
    storages: list[Storage] = []
    names: list[str] = []
    for register in plan.registers:
        value = register.register
        writers = [i for i, t in enumerate(acting) if value in (*t.outs, *t.signals)]
        readers = [i for i, t in enumerate(acting) if value in (*t.ins, *t.waits)]
        initial = 0 if register.initial is None else register.initial.value.data
        free = register.slots.value.data - initial
        for writer in writers:
            edges += [Edge(writer, reader, initial) for reader in readers]
            edges += [Edge(reader, writer, free) for reader in readers]
        if register.block is not None:
            place = place_of(register)
            writer = writers[0] if writers else None
            users = [*writers, *readers]
            slots, stride = register.slots.value.data, register.stride
            storages.append(
                Storage(place.start, place.stop, writer, users, slots, stride)
            )
            names.append(register.register_name.data)
    found = true_clashes(len(acting), edges, storages)
    return {(names[i], names[j], shared(storages[i], storages[j])) for i, j in found}


def shared(a: Storage, b: Storage) -> int:
    """The bytes that slots of both have in common."""
    slots = [(i, j) for i in range(a.slots) for j in range(b.slots)]
    return sum(len(bytes_in(a, i) & bytes_in(b, j)) for i, j in slots)


@pytest.mark.parametrize("streams", [1, 2, 3])
@pytest.mark.parametrize("seed", range(draws(4)))
def test_planted_overlaps_are_found(seed: int, streams: int):
    plan = random_plan(seed, 16, streams)
    assert messages_about(plan) == []
    rng = random.Random(seed)
    placed = [register for register in plan.registers if register.block is not None]
    for _ in range(6):
        register = rng.choice(placed)
        assert register.block is not None
        block = register.block.owner
        assert isinstance(block, BlockOp)
        room = (block.size.value.data - register.size) // 64
        register.offset = IntegerAttr(64 * rng.randrange(room + 1), i64)
        wanted = {
            f"registers '{a}' and '{b}' share {count} bytes"
            for a, b, count in wrong_pairs(plan)
        }
        found = messages_about(plan)
        assert {text.split(", but ")[0] for text in found} == wanted
        assert len(found) == len(wanted)


@pytest.mark.parametrize("seed", range(draws(6)))
def test_an_event_that_was_dropped_is_found(seed: int):
    plan = random_plan(seed, 20, 3)
    module = plan.parent_op()
    assert isinstance(module, ModuleOp)
    PlanReduceEventsPass().apply(Context(), module)
    assert messages_about(plan) == []
    dropped = 0
    for task in plan.tasks:
        events = task.attributes.get("waits_for")
        if not isa(events, ArrayAttr[StringAttr]):
            continue
        for event in events:
            left = [other for other in events if other != event]
            task.attributes["waits_for"] = ArrayAttr[StringAttr](left)
            missing = f"must wait for '{event.data}', but no event says so"
            assert any(text.endswith(missing) for text in messages_about(plan))
            dropped += 1
        task.attributes["waits_for"] = events
    assert dropped > 3


def test_planting_is_not_in_vain():
    """The test above sees plans with and without findings."""
    counts: list[int] = []
    for seed in range(5):
        plan = random_plan(seed, 16)
        placed = [register for register in plan.registers if register.block is not None]
        for register in placed:
            register.offset = IntegerAttr(0, i64)
        counts.append(len(wrong_pairs(plan)))
    assert min(counts) > 5


def judged_chain(size: int) -> Callable[[], object]:
    """The judgement of a chain of tasks whose values lie at three places in turn."""
    edges = [Edge(i, i + 1, 0) for i in range(size - 1)]
    edges += [Edge(i + 1, i, 1) for i in range(size - 1)] + [Edge(size - 1, 0, 1)]
    storages = [
        Storage(64 * (i % 3), 64 * (i % 3) + 64, i, [i, min(i + 1, size - 1)])
        for i in range(size)
    ]
    assert clashes(MarkedGraph(size, edges), storages) == []
    return lambda: clashes(MarkedGraph(size, edges), storages)


def test_a_long_chain_of_tasks_takes_linear_time():
    """Looking at all pairs that share bytes would take a hundred times as long."""
    assert growth_of(judged_chain, 300) < LINEAR
