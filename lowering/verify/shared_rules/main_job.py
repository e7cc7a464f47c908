"""
Rules about jobs that are linked to a main job, in plans and in programs.

* There is one lock. It stands between an actor of kind `send_ids`, one of kind `esac`
  and one of kind `case`, which is the only reader of its output; lock, case and esac
  list the same sections.
* The branches of a section lead to its source alone, and from its sink: one actor each,
  of the same section.
* In each act of a section its sink comes after its source, and no signal from the case
  or to an actor of kind `esac` is there at the start.
* The list of each job has all of its sections, each once, and each job but that of the
  lock has one.
* Each other actor of kind `esac` hears of each job, in the order of these lists, by an
  actor that comes after all of that job's.
* Of two jobs that exclude each other, that have one interface which one of them writes,
  or one variable, each has a section that covers its uses, and the lock never grants
  both (`lock_proof`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from xdsl.ir import Operation

from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.graphs import reached
from penstock.lowering.algorithms.lock_proof import (
    Section,
    Shared,
    between,
    unguarded,
)
from penstock.lowering.algorithms.marked_graph import MarkedGraph

Register: TypeAlias = Hashable


class Actor(NamedTuple):
    """A task of a plan, or an actor of a program."""

    op: Operation
    name: str
    """Its name in messages."""
    job: str
    kind: str
    """`send_ids`, `lock`, `case`, `esac`, or any other kind."""
    reads: Sequence[Register]
    writes: Sequence[Register]
    sections: Sequence[str] = ()
    """The sections that a lock, a case or an esac lists."""
    jobs: Sequence[str] | None = None
    """The jobs that an esac says to hear of, if it names them."""
    begins: str | None = None
    """The section that it may be the source of."""
    ends: str | None = None
    """The section that it may be the sink of."""


class Position(NamedTuple):
    """The acts of an actor in the marked graph of its job."""

    graph: MarkedGraph
    first: int
    last: int
    job: Collection[int]
    """All acts of the job."""


@dataclass
class LinkedJobs:
    """A plan or a program whose jobs are linked to a main job."""

    op: Operation
    jobs: Sequence[str]
    actors: Sequence[Actor]
    full: Mapping[Register, Finding]
    """The registers and controls that are full at the start, with their op and name."""
    rivals: Sequence[Collection[int]]
    """For each section of the lock those that it does not grant at the same time."""
    lists: Sequence[tuple[str | None, Sequence[int]]]
    """The sections that are launched with a job, and that job if it is named."""
    names_sections: bool
    """Whether sections, their sources and their sinks have names."""
    position: Callable[[Actor], Position]
    shared: Callable[[], Iterator[Shared]]
    """All that several jobs use, but not at the same time."""

    @cached_property
    def writer(self) -> dict[Register, Actor]:
        """The actor that writes each register."""
        return {name: actor for actor in self.actors for name in actor.writes}

    @cached_property
    def readers(self) -> dict[Register, list[Actor]]:
        """The actors that read each register."""
        found: dict[Register, list[Actor]] = {}
        for actor in self.actors:
            for name in actor.reads:
                found.setdefault(name, []).append(actor)
        return found


class Main(NamedTuple):
    """The actors of a main job that sections depend on."""

    lock: Actor
    send: Actor
    case: Actor
    esac: Actor


class Ends(NamedTuple):
    """The ends of a section."""

    source: Actor
    sink: Actor


def bad_main(linked: LinkedJobs) -> Iterator[Finding]:
    """All that is wrong with the main job. No graph has a cycle without a token."""
    locks = [actor for actor in linked.actors if actor.kind == "lock"]
    if len(locks) != 1:
        yield linked.op, f"jobs are linked by one lock, got {len(locks)}"
        return
    main = main_of(linked, locks[0])
    if isinstance(main, str):
        yield locks[0].op, main
        return
    found = [ends_of(linked, main, i) for i in range(len(main.lock.sections))]
    for section, ends in zip(main.lock.sections, found, strict=True):
        if ends is None:
            label = f"'{section}'" if linked.names_sections else section
            yield main.lock.op, f"section {label} has no source and sink of its own"
    known = [ends for ends in found if ends is not None]
    if len(known) == len(found):
        lists = [(job_of(item, known), item[1]) for item in linked.lists]
        yield from bad_lists(linked, main, known, lists)
        yield from early_signals(linked, main)
        yield from bad_ends(linked, main, [job for job, _ in lists])
        yield from overlaps(linked, main.lock, known)


def main_of(linked: LinkedJobs, lock: Actor) -> Main | str:
    """The main job around a lock, or why there is none."""
    wanted, returned = (linked.writer.get(name) for name in lock.reads[:2])
    takers = linked.readers.get(lock.writes[0], [])
    around = [x for x in (wanted, returned, *takers) if x is not None]
    kinds = [actor.kind for actor in around]
    if kinds != ["send_ids", "esac", "case"]:
        return (
            f"{lock.name} should stand between one each of send_ids, esac and case, "
            f"got {', '.join(kinds)}"
        )
    send, esac, case = around
    if not lock.sections == case.sections == esac.sections:
        return f"{lock.name}, {case.name} and {esac.name} do not list the same sections"
    return Main(lock, send, case, esac)


def ends_of(linked: LinkedJobs, main: Main, section: int) -> Ends | None:
    """The source and the sink of a section, if each is one actor of it."""
    sources = linked.readers.get(main.case.writes[section], [])
    sink = linked.writer.get(main.esac.reads[section])
    if len(sources) != 1 or sink is None:
        return None
    (source,) = sources
    is_own = source.begins is not None and source.begins == sink.ends
    if linked.names_sections and source.begins != main.lock.sections[section]:
        return None
    return Ends(source, sink) if is_own and source.job == sink.job else None


def job_of(listed: tuple[str | None, Sequence[int]], sections: Sequence[Ends]) -> str:
    """The job of a list: without a name, that of its first section."""
    job, numbers = listed
    if job is not None:
        return job
    return sections[numbers[0]].source.job if numbers else ""


def bad_lists(
    linked: LinkedJobs,
    main: Main,
    sections: Sequence[Ends],
    lists: Sequence[tuple[str, Sequence[int]]],
) -> Iterator[Finding]:
    """Jobs whose lists are not those of all of their sections."""
    listed: dict[str, list[int]] = {}
    for job, numbers in lists:
        listed.setdefault(job, []).extend(numbers)
    expected: dict[str, list[int]] = {x: [] for x in linked.jobs if x != main.lock.job}
    for number, (source, _) in enumerate(sections):
        expected.setdefault(source.job, []).append(number)
    for job in dict.fromkeys((*expected, *listed)):
        wanted, got = expected.get(job, []), sorted(listed.get(job, []))
        if wanted != got or not got:
            text = f"job '{job}' has sections {wanted}, but its list is {got}"
            yield main.send.op, text


def early_signals(linked: LinkedJobs, main: Main) -> Iterator[Finding]:
    """Signals that begin or end something at the start, which nobody asked for."""
    heard = [x for a in linked.actors if a.kind == "esac" for x in a.reads]
    for register in (*main.case.writes, *heard):
        if (found := linked.full.get(register)) is not None:
            op, name = found
            yield op, f"{name} of the main job is full at the start"


def bad_ends(
    linked: LinkedJobs, main: Main, listed: Sequence[str]
) -> Iterator[Finding]:
    """Actors that hear of the end of jobs from others than their last actors."""
    for actor in linked.actors:
        if actor.kind != "esac" or actor.op is main.esac.op:
            continue
        jobs = listed if actor.jobs is None else actor.jobs
        if len(actor.reads) != len(jobs):
            text = f"should hear of {len(jobs)} jobs, got {len(actor.reads)}"
            yield actor.op, f"{actor.name} {text}"
            continue
        for job, register in zip(jobs, actor.reads, strict=True):
            last = linked.writer[register]
            if last.job != job or not is_last(linked, last):
                yield (
                    actor.op,
                    f"{actor.name} should hear of job '{job}' from one that comes "
                    f"after all others of it, got {last.name}",
                )


def is_last(linked: LinkedJobs, actor: Actor) -> bool:
    """Whether an actor acts after all others of its job."""
    graph, _, last, job = linked.position(actor)
    return set(job) <= reached(graph.previous, last)


def overlaps(
    linked: LinkedJobs, lock: Actor, ends: Sequence[Ends]
) -> Iterator[Finding]:
    """
    Sections that may end before they begin, and jobs that the lock lets use something
    at the same time.
    """
    sections: list[Section] = []
    for (source, sink), rivals in zip(ends, linked.rivals, strict=True):
        graph, begin, _, _ = linked.position(source)
        end = linked.position(sink).first
        if not graph.reaches(begin, end, 0):
            yield (
                sink.op,
                f"{sink.name} may end a section before {source.name} begins it",
            )
        sections.append(Section(source.job, between(graph, begin, end), rivals))
    for shared in linked.shared():
        for one, other in unguarded(sections, shared):
            yield (
                lock.op,
                f"{lock.name} lets jobs '{one}' and '{other}' use {shared.what} at the "
                "same time",
            )
