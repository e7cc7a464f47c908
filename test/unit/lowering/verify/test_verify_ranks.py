"""Plans and programs of the ranks of random jobs: right, and damaged in each way."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest
from draws import draws
from random_sbp_jobs import RandomJob
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects import job, launch, regst
from penstock.dialects.job import DeviceAttr, PlacementAttr
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.utils.diagnostics import Finding, LocatedPassFailure, place_of
from penstock.lowering import pass_of
from penstock.lowering.analysis.control_edges import write_control
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import Model, lower

PLACEMENT = PlacementAttr("cpu", [(rank, 0) for rank in range(3)])
SEEDS = range(draws(1))
LEVELS = {"memory": "verify-plan", "launch": "verify-program"}
"""A level, and the pass that checks it."""

Send: TypeAlias = "job.SendOp | launch.SendOp"
Receive: TypeAlias = "job.ReceiveOp | launch.ReceiveOp"
Actor: TypeAlias = "TaskOp | launch.ActorOp"
Entry: TypeAlias = "PlanOp | launch.ProgramOp"
Damage: TypeAlias = Callable[[ModuleOp, random.Random], str]
"""Change a module, and return a part of the message about it."""


@cache
def compiled(seed: int, level: str) -> ModuleOp:
    """A random job on three ranks, read from its text, so that ops have places."""
    front, passes = installed_compiler()
    model = Model(RandomJob(seed, 5, PLACEMENT).module(), {}, Path())
    lower(front, passes, model, level=level)
    return front.parse(str(model.module).encode(), "ranks.mlir")


def module_of(seed: int, level: str) -> ModuleOp:
    """A fresh copy of a compiled job."""
    return compiled(seed, level).clone()


def told(module: ModuleOp, level: str) -> list[str]:
    """The messages of the pass that checks a level, each with a place."""
    findings: Sequence[Finding] = ()
    try:
        pass_of(LEVELS[level])().apply(Context(), module)
    except LocatedPassFailure as error:
        findings = error.findings
    assert all(place_of(op) is not None for op, _ in findings)
    return [text for _, text in findings]


################################################################################
# Messages                                                                     #
################################################################################


def sends(module: ModuleOp) -> list[Send]:
    """The ops that send messages."""
    return [op for op in module.walk() if isinstance(op, job.SendOp | launch.SendOp)]


def receives(module: ModuleOp) -> list[Receive]:
    """The ops that receive them."""
    ops = module.walk()
    return [op for op in ops if isinstance(op, job.ReceiveOp | launch.ReceiveOp)]


def actor_of(op: Operation) -> Actor:
    """The task or actor whose message it is."""
    actor = op.parent_op()
    assert isinstance(actor, TaskOp | launch.ActorOp)
    return actor


def entry_of(op: Operation) -> Entry:
    """The plan or program that a message is in."""
    entry = actor_of(op).parent_op()
    assert isinstance(entry, PlanOp | launch.ProgramOp)
    return entry


def rank_of(op: Operation) -> int:
    """The rank that a message is of."""
    return actor_of(op).device.rank.data


def peer_of(op: Send | Receive) -> int:
    """The rank that a message is to or from."""
    if isinstance(op, job.SendOp | job.ReceiveOp):
        return op.device.rank.data
    return op.peer.value.data


def point(op: Send | Receive, rank: int) -> None:
    """Let a message be to or from another rank."""
    if isinstance(op, job.SendOp | job.ReceiveOp):
        op.device = DeviceAttr(rank, "cpu", 0)
    else:
        op.peer = IntegerAttr(rank, i64)


def uses_of(actor: Actor) -> tuple[list[object], list[object]]:
    """The registers that an actor reads, without those full at first, and writes."""
    if isinstance(actor, TaskOp):
        ins, outs, waits, signals = actor.ports
        reads, writes = [*ins, *waits], [*outs, *signals]
        full = {x.register for x in registers_of(actor) if x.initial is not None}
        return [x for x in reads if x not in full], [*writes]
    program = actor.parent_op()
    assert isinstance(program, launch.ProgramOp)
    table, home = program.symbol_table(), program.sym_name.data
    found: tuple[list[object], list[object]] = [], []
    for names, own in zip((actor.reads, actor.writes), found, strict=True):
        for name in launch.names_of(names):
            op = table[name]
            if not isinstance(op, launch.ControlOp) or not op.initial_slots:
                own.append((home, name))
    return found


def registers_of(task: TaskOp) -> list[regst.RegisterOp]:
    """The registers of the plan of a task."""
    plan = task.parent_op()
    assert isinstance(plan, PlanOp)
    return plan.registers


def there_and_back(module: ModuleOp) -> Iterator[tuple[Send, Receive]]:
    """Messages of one rank that is sent, and received after it by way of others."""
    actors = [x for x in module.walk() if isinstance(x, TaskOp | launch.ActorOp)]
    uses = {actor: uses_of(actor) for actor in actors}
    readers: dict[object, list[Actor]] = {}
    for actor, (reads, _) in uses.items():
        for register in reads:
            readers.setdefault(register, []).append(actor)
    arrivals = receives(module)
    arrives = {(peer_of(x), rank_of(x), x.tag): actor_of(x) for x in arrivals}
    sent: dict[Actor, list[Send]] = {}
    for send in sends(module):
        sent.setdefault(actor_of(send), []).append(send)
    for send in (x for own in sent.values() for x in own):
        pending, seen = [actor_of(send)], set[Actor]()
        while pending:
            actor = pending.pop()
            if actor in seen:
                continue
            seen.add(actor)
            pending += (x for y in uses[actor][1] for x in readers.get(y, ()))
            for own in sent.get(actor, ()):
                pending.append(arrives[rank_of(own), peer_of(own), own.tag])
        for receive in arrivals:
            if rank_of(receive) == rank_of(send) and actor_of(receive) in seen:
                yield send, receive


################################################################################
# Damages                                                                      #
################################################################################


def other_tag(module: ModuleOp, rng: random.Random) -> str:
    """One end of a message says another number."""
    op = rng.choice([*sends(module), *receives(module)])
    op.tag = IntegerAttr(999, i64)
    return "message 999"


def other_peer(module: ModuleOp, rng: random.Random) -> str:
    """A message is sent to the third rank."""
    op = rng.choice(sends(module))
    (third,) = {0, 1, 2} - {rank_of(op), peer_of(op)}
    point(op, third)
    return f"sends message {op.tag.value.data} to rank {third}, where "


def no_peer(module: ModuleOp, rng: random.Random) -> str:
    """A message is of a rank that there is not."""
    op = rng.choice(receives(module))
    point(op, 8)
    return f"message {op.tag.value.data} of rank 8, which has no program"


def own_peer(module: ModuleOp, rng: random.Random) -> str:
    """A message is of the rank itself."""
    op = rng.choice(receives(module))
    point(op, rank_of(op))
    return f"message {op.tag.value.data} of rank {rank_of(op)}, its own"


def no_send(module: ModuleOp, rng: random.Random) -> str:
    """A message is received, and not sent."""
    op = rng.choice(sends(module))
    rank, tag, actor = rank_of(op), op.tag.value.data, actor_of(op)
    actor.detach()
    actor.erase()
    return f"message {tag} of rank {rank}, where nothing sends it"


def sent_twice(module: ModuleOp, rng: random.Random) -> str:
    """A message is sent by two actors."""
    op = rng.choice(sends(module))
    again = actor_of(op).clone()
    if isinstance(again, launch.ActorOp):
        again.sym_name = StringAttr("again")
    Rewriter.insert_op(again, InsertPoint.after(actor_of(op)))
    return f"both send message {op.tag.value.data} to rank {peer_of(op)}"


def no_program(module: ModuleOp, rng: random.Random) -> str:
    """A rank that is named as a peer has no program."""
    op = rng.choice(receives(module))
    entry, rank = entry_of(op), rank_of(op)
    entry.detach()
    entry.erase()
    return f"to rank {rank}, which has no program"


def two_programs(module: ModuleOp, rng: random.Random) -> str:
    """Two programs are of one rank."""
    again = rng.choice([*map(entry_of, sends(module))]).clone()
    again.sym_name = StringAttr("again")
    module.body.block.add_op(again)
    return "@again are both of rank"


def other_rank(module: ModuleOp, rng: random.Random) -> str:
    """A program says another rank than its messages."""
    entry = entry_of(rng.choice(sends(module)))
    entry.rank = IntegerAttr(7, i64)
    return f"but @{entry.sym_name.data} is of rank 7"


def other_type(module: ModuleOp, rng: random.Random) -> str:
    """A message is received as another type."""
    op = rng.choice(receives(module))
    if isinstance(op, job.ReceiveOp):
        Rewriter.replace_value_with_new_type(op.result, TensorType(f32, [1]))
        return f"rank {rank_of(op)} receives tensor<1xf32>"
    entry = entry_of(op)
    assert isinstance(entry, launch.ProgramOp)
    register = entry.symbol_table()[op.target.string_value()]
    assert isinstance(register, launch.RegisterOp)
    register.type = MemRefType(f32, [1])
    return f"rank {rank_of(op)} receives memref<1xf32>"


def other_rate(module: ModuleOp, rng: random.Random) -> str:
    """A message is received in three acts for one piece."""
    op = rng.choice([x for x in receives(module) if isinstance(x, launch.ReceiveOp)])
    actor = actor_of(op)
    assert isinstance(actor, launch.ActorOp)
    actor.every = DictionaryAttr({op.target.string_value(): IntegerAttr(3, i64)})
    return f"rank {rank_of(op)} receives it 3 times"


def control(first: Actor, second: Actor, initial: int) -> None:
    """Let an actor wait for another one, but for so many acts at first."""
    if isinstance(first, TaskOp) and isinstance(second, TaskOp):
        case = regst.MemoryCaseAttr.of(first.device.host)
        type = regst.ControlType()
        register = regst.RegisterOp("turn", case, type, initial=initial or None)
        Rewriter.insert_op(register, InsertPoint.before(registers_of(first)[-1]))
        write_control(first, [], [register.register])
        write_control(second, [register.register], [])
        return
    assert isinstance(first, launch.ActorOp)
    assert isinstance(second, launch.ActorOp)
    register = launch.ControlOp("turn", 1, initial)
    Rewriter.insert_op(register, InsertPoint.before(first))
    first.writes = launch.symbols([*launch.names_of(first.writes), "turn"])
    second.reads = launch.symbols([*launch.names_of(second.reads), "turn"])


def endless(module: ModuleOp, rng: random.Random) -> str:
    """A message is sent after what comes back of it."""
    send, receive = rng.choice([*there_and_back(module)])
    control(actor_of(receive), actor_of(send), 0)
    return "no slots break the cycle"


def one_slot_short(module: ModuleOp, rng: random.Random) -> str:
    """A message is sent once a slot is free, which what comes back of it makes free."""
    send, receive = rng.choice([*there_and_back(module)])
    control(actor_of(send), actor_of(receive), 1)
    name = "'turn'" if isinstance(send, job.SendOp) else "@turn"
    return f"it takes 1 more slot for {name} of rank {rank_of(send)} to break"


DAMAGES: tuple[Damage, ...] = (
    other_tag,
    other_peer,
    no_peer,
    own_peer,
    no_send,
    sent_twice,
    no_program,
    two_programs,
    other_rank,
    other_type,
    endless,
    one_slot_short,
)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_compiler_makes_is_right(seed: int, level: str) -> None:
    module = module_of(seed, level)
    assert {rank_of(op) for op in receives(module)} == {0, 1, 2}
    assert told(module, level) == []


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_damage_is_found(seed: int, damage: Damage, level: str) -> None:
    module = module_of(seed, level)
    expected = damage(module, random.Random(seed))
    found = told(module, level)
    assert any(expected in text for text in found), (expected, found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_another_rate_is_found(seed: int) -> None:
    """Of plans it is that of their ops."""
    module = module_of(seed, "launch")
    expected = other_rate(module, random.Random(seed))
    found = told(module, "launch")
    assert any(expected in text for text in found), (expected, found)
