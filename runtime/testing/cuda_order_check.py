"""
A check that a log of CUDA calls does all the work of a program, in an order that holds.

It knows nothing of how the runtime chooses streams and events. It takes the image of a
program (the plan), its tables (the order of acts on the host) and the log of
`RecordedDriver`. By vector clocks it finds the order of all work: by a stream, by an
event that a stream waits for, by a graph, by the host that waits for an event before it
goes on. Then it reports

* edges of the plan that nothing in the log covers: pieces that are read before they are
  made, or written again before they are read;
* bytes that are used by two at once, one of which writes or releases them;
* bytes that were overwritten between their writer and a reader;
* missing work, and work that the plan does not ask for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.cuda.driver import Span
from penstock.runtime.cuda.loops import is_known
from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.loader import LoadedProgram
from penstock.runtime.program.actors import CALLER, Call
from penstock.runtime.program.control_assembly import assemble
from penstock.runtime.program.control_flow import HostMemory, Walk
from penstock.runtime.program.executable import ActorImage, ProgramImage
from penstock.runtime.program.tables import Tables
from penstock.runtime.testing.cuda_recording_driver import Entry, RecordedDriver

Lane: TypeAlias = tuple[str, int, int]
"""A lane, whose entries are in order: a stream, an actor, a thread."""
Clock: TypeAlias = dict[Lane, int]
Act: TypeAlias = tuple[int, int]
"""An actor, by its number, and the number of its act."""

NOTE = re.compile(r"(begin|end) (\d+)")
WORK = ("copy", "launch", "clear")
RUN, RAN = "run", "ran"
"""The notes of the caller before a run, and after it."""


def watched(program: LoadedProgram, driver: RecordedDriver) -> LoadedProgram:
    """A program whose actors that make calls note when their acts begin and end."""
    tables = program.tables
    callbacks = list(tables.callbacks.values())

    def noting(text: str) -> Call:
        def note(args: int, part: int, parts: int) -> None:
            driver.note(text)

        callbacks.append(Callback(note))
        return Call(callbacks[-1].address)

    actors = [
        replace(x, calls=(noting(f"begin {i}"), *x.calls, noting(f"end {i}")))
        if x.calls
        else x
        for i, x in enumerate(tables.actors)
    ]
    return replace(program, tables=Tables(tables.registers, actors, callbacks))


def problems(log: Sequence[Entry], program: LoadedProgram) -> list[str]:
    """
    The problems in the log of a watched program, in lines; none if it is right. Its
    runs lie between the notes `RUN` and `RAN`.
    """
    plan = Plan(program)
    reader = Reader(program.tables, plan)
    for entry in log:
        reader.take(entry)
    found = [*reader.findings, *uncovered_edges(plan, reader.work)]
    found += [*conflicts(reader.nodes), *lost_versions(plan, reader)]
    return list(dict.fromkeys(found))


# The order that a plan wants


@dataclass(frozen=True)
class Wanted:
    """A step of an act: the kernel, or '' for what is no call, and its bytes."""

    kernel: str
    spans: tuple[Span, ...]


class Plan:
    """The uses and predecessors of each act, by the image of a program."""

    def __init__(self, program: LoadedProgram):
        self.image: ProgramImage = program.image
        self._chunks = {name: x.address for name, x in program.chunks.items()}
        self._queues = {queue.name: queue for queue in self.image.queues}
        self._variables = {x.name: x for x in self.image.variables}
        self._writer: dict[str, int] = {}
        self._readers: dict[str, list[int]] = {}
        for index, actor in enumerate(self.image.actors):
            self._writer.update(dict.fromkeys(actor.writes, index))
            for name in actor.reads:
                self._readers.setdefault(name, []).append(index)
        far = {memory.name for memory in self.image.chunks if memory.device != "cpu"}
        self.on_device = [
            any(self._chunk_of(name) in far for name in names_in(actor))
            for actor in self.image.actors
        ]

    def is_used(self, span: Span) -> bool:
        """Whether bytes are in a chunk of the program."""
        return any(
            overlap(span, Span(self._chunks[memory.name], memory.size, False))
            for memory in self.image.chunks
        )

    def _chunk_of(self, name: str) -> str | None:
        variable = self._variables.get(name)
        return self._queues[name].chunk if variable is None else variable.chunk

    def name_of(self, act: Act) -> str:
        """An act in words."""
        return f"'{self.image.actors[act[0]].name}' at act {act[1]}"

    def steps(self, act: Act) -> list[Wanted]:
        """The steps of an act."""
        actor = self.image.actors[act[0]]
        if actor.control:
            return list(self._steps_in_loops(act))
        length = max([1, *(n for name, n in actor.every if name in actor.writes)])
        found: list[Wanted] = []
        for step in actor.steps:
            is_first = act[1] % length == 0
            if step.when != "always" and (step.when == "first") != is_first:
                continue
            if step.verb == "copy":
                found.append(Wanted("", self._copied(act, *step.arguments)))
                continue
            written = written_by_actor(actor)
            spans = [self._span(act, x, x in written) for x in step.arguments]
            kernel = step.subject if step.verb == "call" else ""
            found.append(Wanted(kernel, tuple(spans)))
        return found

    def _steps_in_loops(self, act: Act) -> Iterator[Wanted]:
        """The steps of an act with loops. Raises PenstockError if data says which."""
        actor = self.image.actors[act[0]]
        control, roots, cells = assemble(actor)
        if not is_known(control):
            raise PenstockError(
                f"actor '{actor.name}' has loops or conditions by what it reads: a log "
                "does not tell which of its steps are to be done"
            )
        local, sizes, written = actor.local_names, actor.sizes, written_by_actor(actor)
        starts = [self._span(act, name, False).address for name in roots]
        walk = Walk(control, starts, HostMemory())
        for number in walk.calls():
            step = actor.steps[number]
            spans = [
                Span(walk.cells[cells[x]], sizes[x], not written.isdisjoint(local[x]))
                if x in cells
                else self._span(act, x, x in written)
                for x in step.arguments
            ]
            if step.verb == "copy":
                size = min(span.size for span in spans)
                spans = [
                    Span(span.address, size, is_target)
                    for span, is_target in zip(spans, (False, True), strict=True)
                ]
            kernel = step.subject if step.verb == "call" else ""
            yield Wanted(kernel, tuple(spans))

    def _copied(self, act: Act, source: str, target: str) -> tuple[Span, ...]:
        """The bytes of a copy: of what is larger each act has a part."""
        spans = [self._span(act, source, False), self._span(act, target, True)]
        size = min(span.size for span in spans)
        every = dict(self.image.actors[act[0]].every)
        parts = [
            act[1] % every.get(name, 1) * size if span.size > size else 0
            for name, span in zip((source, target), spans, strict=True)
        ]
        return tuple(
            Span(span.address + part, size, span.is_written)
            for span, part in zip(spans, parts, strict=True)
        )

    def _span(self, act: Act, name: str, is_written: bool) -> Span:
        actor = self.image.actors[act[0]]
        if (variable := self._variables.get(name)) is not None:
            start = self._chunks[variable.chunk] + variable.offset
            return Span(start, variable.kind.size, is_written)
        queue = self._queues[name]
        assert queue.chunk is not None, "a step uses data"
        assert queue.kind is not None, "what lies somewhere has a type"
        piece = act[1] // dict(actor.every).get(name, 1)
        piece += queue.initial if name in actor.writes else 0
        frame, part = divmod(piece % queue.slots, queue.parts)
        start = self._chunks[queue.chunk] + queue.offset
        start += frame * queue.stride + part * queue.step
        return Span(start, queue.kind.size, is_written)

    def makers_of(self, act: Act) -> Iterator[tuple[Act, str, str]]:
        """The acts that made what one reads, the register, and why in words."""
        index, number = act
        actor = self.image.actors[index]
        for name in actor.reads:
            piece = number // dict(actor.every).get(name, 1)
            piece -= self._queues[name].initial
            for maker in self._acts_for(self._writer[name], name, piece):
                yield maker, name, f"reads '{name}' of"

    def users_before(self, act: Act) -> Iterator[tuple[Act, str, str]]:
        """The acts that used the slots which one writes again, and of what."""
        index, number = act
        actor = self.image.actors[index]
        for name in actor.writes:
            queue = self._queues[name]
            piece = number // dict(actor.every).get(name, 1)
            for reader in self._readers.get(name, ()):
                free = piece + queue.initial - queue.slots
                for user in self._acts_for(reader, name, free):
                    yield user, name, f"writes '{name}' again after"

    def _acts_for(self, actor: int, name: str, piece: int) -> list[Act]:
        every = dict(self.image.actors[actor].every).get(name, 1)
        first = piece * every
        return [(actor, first + i) for i in range(every)] if piece >= 0 else []


def written_by_actor(actor: ActorImage) -> set[str]:
    """The registers and variables that an actor writes."""
    return {*actor.writes, *(name for name, _ in actor.updates)}


def names_in(actor: ActorImage) -> list[str]:
    """The registers and variables that an actor knows."""
    steps = [name for named in actor.named_by_steps for name in named]
    return [*actor.reads, *actor.writes, *steps]


# The order that a log shows


@dataclass(eq=False)
class Node:
    """Work: what it comes after, and its number on its lane."""

    what: str
    lane: Lane
    number: int
    clock: Clock
    spans: tuple[Span, ...] = ()
    act: Act | None = None

    def is_before(self, other: Node) -> bool:
        """Whether this has ended before the other one begins, for sure."""
        return self is not other and other.clock.get(self.lane, 0) >= self.number


@dataclass
class Graph:
    """A captured graph: its entries, and the streams that took part."""

    origin: int
    streams: set[int]
    events: set[int] = field(default_factory=set[int])
    entries: list[Entry] = field(default_factory=list[Entry])


def merge(clock: Clock, other: Clock) -> None:
    """Let a clock come after another one, too."""
    for lane, number in other.items():
        if clock.get(lane, 0) < number:
            clock[lane] = number


class Reader:
    """Reads a log, entry by entry, and makes nodes of its work."""

    def __init__(self, tables: Tables, plan: Plan):
        self._tables, self._plan = tables, plan
        self.nodes: list[Node] = []
        self.work: dict[Act, list[Node]] = {}
        """The work of acts; those that are not there have none."""
        self.findings: list[str] = []
        self._counts: dict[Lane, int] = {}
        self._streams: dict[int, Clock] = {}
        self._events: dict[int, Clock] = {}
        self._threads: dict[int, Clock] = {}
        self._acting: dict[int, tuple[Act, Clock]] = {}
        self._ended: dict[Act, Clock] = {}
        self._made = [0] * len(tables.actors)
        self._before_run: Clock = {}
        self._freed: list[Span] = []
        self._captures: list[Graph] = []
        self._graphs: dict[int, Graph] = {}
        self._launches = 0
        self._stages: dict[str, int] = {}
        """The number of launches of a call of a kernel."""
        self._done: dict[Act, list[int]] = {}
        """
        The number of steps that an act has done, and that of stages of the next one.
        """

    def take(self, entry: Entry) -> None:
        """Read the next entry."""
        if entry.call == "note":
            self._note(entry)
        elif not self._is_captured(entry):
            self._call(entry)

    def _call(self, entry: Entry) -> None:
        match entry.call:
            case "copy" | "launch" | "clear" | "record" | "wait":
                clock = self._streams.setdefault(_number(entry.stream), {})
                merge(clock, self._host(entry))
                self._on_stream(entry, clock, ("stream", _number(entry.stream), 0))
            case "launch_graph":
                self._replay(entry)
            case "load":
                kernel, _, count = entry.name.rpartition(" ")
                self._stages[kernel] = int(count)
            case "synchronize_event":
                merge(self._host(entry), self._events.get(_number(entry.event), {}))
            case "synchronize_stream":
                merge(self._host(entry), self._streams.get(_number(entry.stream), {}))
            case "synchronize":
                for clock in self._streams.values():
                    merge(self._host(entry), clock)
            case "free" | "free_host":
                self._freed += entry.spans
                self._on_host(entry)
            case "allocate" | "allocate_host":
                (new,) = entry.spans
                self._freed = [x for x in self._freed if not overlap(x, new)]
                self._on_host(entry)
            case _:
                pass

    # Acts

    def _host(self, entry: Entry) -> Clock:
        """The clock of the thread of a call."""
        if entry.thread in self._acting:
            return self._acting[entry.thread][1]
        return self._threads.setdefault(entry.thread, {})

    def _note(self, entry: Entry) -> None:
        own = self._threads.setdefault(entry.thread, {})
        if entry.name == RUN:
            self._before_run = dict(own)
        elif entry.name == RAN:
            for index, count in enumerate(self._made):
                merge(own, self._end_of((index, count - 1)) if count else {})
            # Those that a graph acts for act once an iteration.
            for member in self._members():
                for number in range(max(self._made)):
                    self._check_done((member, number))
        elif (match := NOTE.fullmatch(entry.name)) is not None:
            actor = int(match[2])
            if match[1] == "begin":
                self._begin(entry.thread, (actor, self._made[actor]))
            else:
                self._end(entry.thread)

    def _begin(self, thread: int, act: Act) -> None:
        clock = dict(self._before_run)
        for other in acts_before(self._tables, act):
            merge(clock, self._end_of(other))
        self._acting[thread] = act, clock
        if act[0] < len(self._plan.on_device) and not self._plan.on_device[act[0]]:
            spans = [span for step in self._plan.steps(act) for span in step.spans]
            lane = "actor", act[0], 0
            self._give(self._node("", lane, clock, spans), act)

    def _end(self, thread: int) -> None:
        act, clock = self._acting.pop(thread)
        lane = "actor", act[0], 0
        if lane in self._counts:
            clock[lane] = self._counts[lane]
        self._ended[act] = clock
        self._made[act[0]] += 1
        if act[0] < len(self._plan.on_device) and self._plan.on_device[act[0]]:
            self._check_done(act)

    def _end_of(self, act: Act) -> Clock:
        """The clock at the end of an act; one without calls only passes clocks on."""
        if act in self._ended:
            return self._ended[act]
        actor = self._tables.actors[act[0]]
        clock = self._ended[act] = dict(self._before_run)
        if actor.calls:
            self.findings.append(f"act {act[1]} of '{actor.name}' should have ended")
            return clock
        for other in acts_before(self._tables, act):
            merge(clock, self._end_of(other))
        return clock

    # Work

    def _node(self, what: str, lane: Lane, clock: Clock, spans: Sequence[Span]) -> Node:
        number = self._counts[lane] = self._counts.get(lane, 0) + 1
        self.nodes.append(Node(what, lane, number, dict(clock), tuple(spans)))
        return self.nodes[-1]

    def _on_host(self, entry: Entry) -> None:
        clock, lane = self._host(entry), ("thread", entry.thread, 0)
        node = self._node(entry.call, lane, clock, entry.spans)
        clock[lane] = node.number

    def _on_stream(self, entry: Entry, clock: Clock, lane: Lane) -> None:
        """Something that a stream is asked for; its clock goes on."""
        if entry.call == "record":
            self._events[_number(entry.event)] = dict(clock)
        elif entry.call == "wait":
            merge(clock, self._events.get(_number(entry.event), {}))
        else:
            what = f"{entry.call} {entry.name}".strip()
            node = self._node(what, lane, clock, entry.spans)
            clock[lane] = node.number
            if any(overlap(x, y) for x in entry.spans for y in self._freed):
                self.findings.append(f"{what} uses memory that was given back")
            self._attribute(entry, node)

    def _is_captured(self, entry: Entry) -> bool:
        if entry.call == "begin_capture":
            stream = _number(entry.stream)
            self._captures.append(Graph(stream, {stream}))
            return True
        if entry.call == "end_capture":
            graph = next(x for x in self._captures if x.origin == entry.stream)
            self._captures.remove(graph)
            self._graphs[_number(entry.graph)] = graph
            return True
        for graph in self._captures:
            if entry.stream in graph.streams or entry.event in graph.events:
                graph.entries.append(entry)
                graph.streams.add(_number(entry.stream))
                if entry.call == "record":
                    graph.events.add(_number(entry.event))
                return True
        return False

    def _replay(self, entry: Entry) -> None:
        """Do on a stream what was captured."""
        graph, self._launches = self._graphs[_number(entry.graph)], self._launches + 1
        whole = self._streams.setdefault(_number(entry.stream), {})
        merge(whole, self._host(entry))
        clocks: dict[int, Clock] = {}
        for inner in graph.entries:
            # None begins before the whole graph may.
            clock = clocks.setdefault(_number(inner.stream), dict(whole))
            lane = "graph", self._launches, _number(inner.stream)
            self._on_stream(inner._replace(thread=entry.thread), clock, lane)
        # The graph has ended when all of its work has.
        for clock in clocks.values():
            merge(whole, clock)

    def _members(self) -> list[int]:
        """The actors on devices that graphs act for."""
        return [
            index
            for index, is_on in enumerate(self._plan.on_device)
            if is_on and not self._tables.actors[index].calls
        ]

    # Whose work it is

    def _attribute(self, entry: Entry, node: Node) -> None:
        """Find the act that wanted some work: that of its caller, or one of a graph."""
        if entry.thread not in self._acting or entry.call == "clear":
            return
        (actor, number), _ = self._acting[entry.thread]
        is_own = actor < len(self._plan.on_device)
        for index in [actor] if is_own else self._members():
            if self._goes_on((index, number), entry):
                self._give(node, (index, number))
                return
        # The codes of assertions are copied to the host besides.
        if entry.call != "copy" or any(map(self._plan.is_used, entry.spans)):
            self.findings.append(f"{node.what} is wanted by nobody")

    def _give(self, node: Node, act: Act) -> None:
        node.act, node.what = act, self._plan.name_of(act)
        self.work.setdefault(act, []).append(node)

    def _goes_on(self, act: Act, entry: Entry) -> bool:
        """Whether an entry is the next step of an act, or the next stage of one."""
        steps, done = self._steps(act), self._done.setdefault(act, [0, 0])
        if done[0] == len(steps) or not _fits(steps[done[0]], entry):
            return False
        done[1] += 1
        if done[1] == self._stages.get(steps[done[0]].kernel, 1):
            done[:] = [done[0] + 1, 0]
        return True

    def _check_done(self, act: Act) -> None:
        wanted, (done, _) = len(self._steps(act)), self._done.get(act, (0, 0))
        if done < wanted:
            name = self._plan.name_of(act)
            self.findings.append(f"{name} did {done} of its {wanted} steps")

    def _steps(self, act: Act) -> list[Wanted]:
        """The steps of an act that are work."""
        return [x for x in self._plan.steps(act) if self._stages.get(x.kernel, 1)]


def _number(handle: int | None) -> int:
    assert handle is not None, "the call has one"
    return handle


def _fits(wanted: Wanted, entry: Entry) -> bool:
    """Whether an entry does a step of the plan."""
    if entry.name.rpartition(".")[0] != wanted.kernel:
        return False
    places = [(span.address, span.size) for span in wanted.spans]
    # A kernel is also given its status.
    given = [(span.address, span.size) for span in entry.spans][: len(places)]
    return given == places


def acts_before(tables: Tables, act: Act) -> Iterator[Act]:
    """The acts that the protocol of actors lets one come after, on the host."""
    index, number = act
    actor = tables.actors[index]
    if number:
        yield index, number - 1
    for register in actor.reads:
        made = tables.registers[register]
        piece = number // actor.acts_for(register) - made.initial
        if piece >= 0 and made.producer != CALLER:
            every = tables.actors[made.producer].acts_for(register)
            yield made.producer, (piece + 1) * every - 1
    for register, reader in tables.edges:
        made = tables.registers[register]
        if made.producer != index or reader == CALLER:
            continue
        piece = number // actor.acts_for(register) + made.initial - made.slots
        if piece >= 0:
            yield reader, (piece + 1) * tables.actors[reader].acts_for(register) - 1


# Checks


def uncovered_edges(plan: Plan, work: dict[Act, list[Node]]) -> Iterator[str]:
    """The edges of the plan that nothing in the log covers."""
    known: dict[Act, list[tuple[Act, str]]] = {}
    for act, nodes in list(work.items()):
        for other, why in _real_before(plan, work, act, known):
            if not all(x.is_before(y) for x in work[other] for y in nodes):
                text = f"{plan.name_of(act)} {why} {plan.name_of(other)}"
                yield f"{text}, but nothing orders them"


def _real_before(
    plan: Plan,
    work: dict[Act, list[Node]],
    act: Act,
    known: dict[Act, list[tuple[Act, str]]],
) -> list[tuple[Act, str]]:
    """The acts with work that one comes after, also by way of those without any."""
    if act not in known:
        known[act] = []
        for other, _, why in (*plan.makers_of(act), *plan.users_before(act)):
            if other in work:
                known[act].append((other, why))
            else:
                known[act] += _real_before(plan, work, other, known)
    return known[act]


def overlap(one: Span, other: Span) -> bool:
    """Whether two have a byte in common."""
    ends = one.address + one.size, other.address + other.size
    return max(one.address, other.address) < min(ends)


def conflicts(nodes: Sequence[Node]) -> Iterator[str]:
    """The bytes that two use at once, one of whom writes them."""
    uses = sorted(
        ((span, node) for node in nodes for span in node.spans if span.size),
        key=lambda use: use[0].address,
    )
    for first, (span, node) in enumerate(uses):
        for other_span, other in uses[first + 1 :]:
            if other_span.address >= span.address + span.size:
                break
            if node is other or not (span.is_written or other_span.is_written):
                continue
            if not node.is_before(other) and not other.is_before(node):
                yield f"{node.what} and {other.what} use the same bytes at once"


def lost_versions(plan: Plan, reader: Reader) -> Iterator[str]:
    """
    The findings about pieces that were overwritten between their writer and a reader.
    """
    writes = [(x, node) for node in reader.nodes for x in written_by(node)]
    for act, nodes in reader.work.items():
        makers = _makers(plan, reader.work, act)
        makers_acts = {maker.act for maker in makers}
        for span, writer in writes:
            if writer.act in (act, None) or writer.act in makers_acts:
                continue
            if any(
                _comes_between(span, writer, read, makers)
                for node in nodes
                if writer.is_before(node)
                for read in node.spans
                if not read.is_written and overlap(read, span)
            ):
                yield f"{writer.what} overwrites what {plan.name_of(act)} reads"


def written_by(node: Node) -> list[Span]:
    """The bytes that some work writes."""
    return [span for span in node.spans if span.is_written]


def _makers(plan: Plan, work: dict[Act, list[Node]], act: Act) -> list[Node]:
    """The work that made what an act reads, or the last of it where it is several."""
    used = plan.image.actors[act[0]].names
    pending = [x for x, name, _ in plan.makers_of(act) if name in used]
    found: dict[Node, None] = {}
    while pending:
        other = pending.pop()
        if other in work:
            found.update(dict.fromkeys(work[other]))
        else:
            pending += [x for x, _, _ in plan.makers_of(other)]
    return [x for x in found if not any(_is_replaced(x, y) for y in found)]


def _is_replaced(node: Node, other: Node) -> bool:
    """Whether some work writes again what other work wrote before."""
    return node.is_before(other) and any(
        overlap(one, two) for one in written_by(node) for two in written_by(other)
    )


def _comes_between(
    span: Span, writer: Node, read: Span, makers: Sequence[Node]
) -> bool:
    """Whether a writer comes after a maker of what it overwrites."""
    return any(
        maker.is_before(writer)
        for maker in makers
        for made in written_by(maker)
        if overlap(made, read) and overlap(made, span)
    )
