"""
Rules of `verify-program` about programs whose jobs are linked to a main job: those with
an actor that hands something on to another job.

* One lock gets its numbers from an actor of kind `send_ids` and from one of kind
  `esac`, and hands them on to one of kind `case`; these have as many branches as the
  lock has sections.
* Each branch of the case leads to one actor, the *source* of a section, and each input
  of the esac comes from one of the same job, the *sink*.
* In each act of a section its sink comes after its source, and no signal from the case
  or to an actor of kind `esac` is there at the start.
* Each list of `send_ids` has all sections of one job, each once, and each job but that
  of the lock has one.
* Each other actor of kind `esac` hears of each job, in the order of these lists, by an
  actor that comes after all of that job's.
* Of two jobs that exclude each other, that have one interface which one of them writes,
  or one variable, each has a section that covers its uses, and the lock never grants
  both (`lock_proof`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from xdsl.ir import Operation

from penstock.dialects.launch import ActorOp, ControlOp, ProgramOp, names_of
from penstock.lowering.algorithms.lock_proof import (
    Section,
    Shared,
    between,
    reached,
    unguarded,
)
from penstock.lowering.verify.program_rules.graph import ProgramGraph

Finding = tuple[Operation, str]
Ends: TypeAlias = tuple[ActorOp, ActorOp]
"""The source and the sink of a section."""


def is_linked(program: ProgramOp) -> bool:
    """Whether some actor hands something on to another job."""
    job = {
        x: actor.job_name for actor in program.actors for x in names_of(actor.writes)
    }
    return any(
        job.get(name) != actor.job_name
        for actor in program.actors
        for name in names_of(actor.reads)
    )


@dataclass
class Wires:
    """Who writes and reads what in a program."""

    program: ProgramOp

    def __post_init__(self) -> None:
        self.writer: dict[str, ActorOp] = {}
        self.readers: dict[str, list[ActorOp]] = {}
        for actor in self.program.actors:
            self.writer.update((name, actor) for name in names_of(actor.writes))
            for name in names_of(actor.reads):
                self.readers.setdefault(name, []).append(actor)

    def reader(self, name: str) -> ActorOp | None:
        """The only actor that reads a register."""
        found = self.readers.get(name, [])
        return found[0] if len(found) == 1 else None


class Main(NamedTuple):
    """The actors of a main job that sections depend on."""

    lock: ActorOp
    send: ActorOp
    begins: Sequence[str]
    """What the case signals for each section."""
    ends: Sequence[str]
    """What the esac waits for."""


def bad_main(graphs: Sequence[ProgramGraph]) -> Iterator[Finding]:
    """All that is wrong with the main job. No graph has a cycle without a token."""
    program = graphs[0].program
    if not is_linked(program):
        return
    locks = [actor for actor in program.actors if actor.kind_name == "lock"]
    if len(locks) != 1:
        yield program, f"jobs are linked by one lock, got {len(locks)}"
        return
    wires = Wires(program)
    main = main_of(wires, locks[0])
    if isinstance(main, str):
        yield locks[0], main
        return
    pairs = list(ends_of_sections(wires, main))
    for section, pair in enumerate(pairs):
        if pair is None:
            yield main.lock, f"section {section} has no source and sink of one job"
    known = [pair for pair in pairs if pair is not None]
    if len(known) == len(pairs):
        yield from bad_lists(main, known, program.jobs)
        yield from early_signals(wires, main)
        yield from bad_ends(graphs, wires, main, known)
        yield from overlaps(graphs, main.lock, known)


def main_of(wires: Wires, lock: ActorOp) -> Main | str:
    """What a lock belongs to, or why it is no part of a main job."""
    name = lock.sym_name.data
    wanted, returned = (wires.writer[x] for x in names_of(lock.reads))
    case = wires.reader(names_of(lock.writes)[0])
    kinds = [x.kind_name for x in (wanted, returned, case) if x is not None]
    if case is None or kinds != ["send_ids", "esac", "case"]:
        return (
            f"@{name} should stand between one actor each of kind send_ids, esac and "
            f"case, got {', '.join(kinds)}"
        )
    begins, ends = names_of(case.writes), names_of(returned.reads)
    count = len(lock.number_lists)
    if not len(begins) == len(ends) == count:
        return (
            f"@{name} has {count} sections, but {len(begins)} begin and {len(ends)} end"
        )
    return Main(lock, wanted, begins, ends)


def ends_of_sections(wires: Wires, main: Main) -> Iterator[Ends | None]:
    """The source and the sink of each section, if these are of one job."""
    for begin, end in zip(main.begins, main.ends, strict=True):
        source, sink = wires.reader(begin), wires.writer[end]
        is_pair = source is not None and source.job == sink.job
        yield (source, sink) if is_pair and source is not None else None


def early_signals(wires: Wires, main: Main) -> Iterator[Finding]:
    """Controls that begin or end something at the start, which nobody asked for."""
    own = [x for x in wires.program.actors if x.job_name == main.lock.job_name]
    heard = [x for a in own if a.kind_name == "esac" for x in names_of(a.reads)]
    table = wires.program.symbol_table()
    for name in (*main.begins, *heard):
        control = table[name]
        if isinstance(control, ControlOp) and control.initial_slots:
            yield control, f"control @{name} of the main job is full at the start"


def bad_lists(
    main: Main, pairs: Sequence[Ends], jobs: Sequence[str]
) -> Iterator[Finding]:
    """Jobs whose numbers do not stand for all of their sections."""
    sections: dict[str | None, list[int]] = {
        job: [] for job in jobs if job != main.lock.job_name
    }
    for number, (source, _) in enumerate(pairs):
        sections.setdefault(source.job_name, []).append(number)
    listed = sorted(sorted(numbers) for numbers in main.send.number_lists)
    expected = sorted(sections.values())
    if listed != expected:
        yield (
            main.send,
            f"@{main.send.sym_name.data} should list all sections of each job, "
            f"{expected}, got {listed}",
        )


def bad_ends(
    graphs: Sequence[ProgramGraph], wires: Wires, main: Main, pairs: Sequence[Ends]
) -> Iterator[Finding]:
    """Actors that hear of the end of jobs from others than their last actors."""
    by_job = {graph.job: graph for graph in graphs}
    lists = main.send.number_lists
    jobs = [pairs[numbers[0]][0].job_name if numbers else None for numbers in lists]
    returned = wires.writer[names_of(main.lock.reads)[1]]
    for actor in by_job[main.lock.job_name].actors:
        if actor.kind_name != "esac" or actor is returned:
            continue
        name, reads = actor.sym_name.data, names_of(actor.reads)
        if len(reads) != len(jobs):
            yield actor, f"@{name} should hear of {len(jobs)} jobs, got {len(reads)}"
            continue
        for job, register in zip(jobs, reads, strict=True):
            last, graph = wires.writer[register], by_job.get(job)
            if graph is None or last.job_name != job or not is_last(graph, last):
                yield (
                    actor,
                    f"@{name} should hear of job '{job}' from an actor that comes "
                    f"after all others of it, got @{last.sym_name.data}",
                )


def is_last(graph: ProgramGraph, actor: ActorOp) -> bool:
    """Whether an actor acts after all others of its job."""
    acts = [i for i, other in enumerate(graph.actors) if other is actor]
    return len(reached(graph.graph.previous, acts[-1])) == len(graph.actors)


def overlaps(
    graphs: Sequence[ProgramGraph],
    lock: ActorOp,
    pairs: Sequence[Ends],
) -> Iterator[Finding]:
    """
    Sections that may end before they begin, and jobs that the lock lets use something
    at the same time.
    """
    by_job = {graph.job: graph for graph in graphs}
    number = {
        actor: i
        for graph in graphs
        for i, actor in reversed(list(enumerate(graph.actors)))
    }
    sections: list[Section] = []
    for (source, sink), rivals in zip(pairs, lock.number_lists, strict=True):
        assert source.job_name is not None, "checked by the verifier"
        graph = by_job[source.job_name].graph
        if not graph.reaches(number[source], number[sink], 0):
            name, other = sink.sym_name.data, source.sym_name.data
            yield sink, f"@{name} may end a section before @{other} begins it"
        covered = between(graph, number[source], number[sink])
        sections.append(Section(source.job_name, covered, rivals))
    for shared in shared_by_jobs(graphs):
        for one, other in unguarded(sections, shared):
            yield (
                lock,
                f"@{lock.sym_name.data} lets jobs '{one}' and '{other}' use "
                f"{shared.what} at the same time",
            )


def shared_by_jobs(graphs: Sequence[ProgramGraph]) -> Iterator[Shared]:
    """All that several jobs use, but not at the same time."""
    users_of: dict[str, dict[str, set[int]]] = {}
    writers: dict[str, set[str]] = {}
    own: dict[str, set[int]] = {}
    for graph in graphs:
        job = graph.job or ""
        own[job] = set()
        for what, users, is_written in uses_in(graph):
            if what is None:
                own[job] |= users
                continue
            users_of.setdefault(what, {}).setdefault(job, set()).update(users)
            if is_written:
                writers.setdefault(what, set()).add(job)
    for group in graphs[0].program.exclusive_jobs:
        yield Shared("the same bytes", {job: own[job] for job in group}, group)
    for what, by_job in users_of.items():
        yield Shared(what, by_job, writers.get(what, ()))


def uses_in(graph: ProgramGraph) -> Iterator[tuple[str | None, set[int], bool]]:
    """
    What a job uses, who does so, and whether it writes: interfaces, variables, and all
    else as one thing that is None.
    """
    for name, storage in graph.storages().items():
        users = {*storage.users, *(() if storage.writer is None else (storage.writer,))}
        if (interface := graph.interface(name)) is not None:
            yield f"interface '{interface}'", users, name not in graph.arriving
        elif not graph.is_variable(name):
            yield None, users, True
        elif users:
            is_written = any(name in updated for updated in graph.updates)
            yield f"variable @{name}", users, is_written
