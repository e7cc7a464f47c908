"""Faults in streams and in programs of special actors: an error, or as without them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from draws import draws

from penstock.runtime.errors import (
    DeadlockError,
    MessageError,
    PenstockError,
    TaskError,
)
from penstock.runtime.executors.executor import Executor
from penstock.runtime.executors.stream import Ending, EndOfData, Stream
from penstock.runtime.executors.stream_ports import Wiring
from penstock.runtime.program.tables import Tables
from penstock.runtime.testing.fault_injection import (
    Fault,
    FaultyCore,
    FaultyStreamCore,
    KernelFault,
    MessageFault,
    inject,
)

sys.path.insert(0, str(Path(__file__).parent))

from test_stream import (
    NUMBER,
    Text,
    executor,
    main_job,
    number,
    pair,
    random_program,
    values,
)

Errors = (TaskError, DeadlockError, MessageError)
KINDS: tuple[Literal["drop", "duplicate", "late"], ...] = ("drop", "duplicate", "late")

threads_of = pytest.mark.parametrize("threads", [1, 2, 3])


def sums(slots: int = 1) -> Text:
    text = Text()
    text.feed("x")
    text.feed("y")
    text.add("s", "x", "y", slots=slots)
    text.fetch("s")
    return text


@contextmanager
def streaming(text: Text, threads: int, *faults: Fault) -> Generator[Stream]:
    with (
        executor(text, threads=threads) as runner,
        inject(runner, *faults),
        runner.stream() as stream,
    ):
        yield stream


def pieces(
    counts: Mapping[str, Sequence[int]], stream: Stream
) -> dict[str, list[np.ndarray]]:
    """The pieces of inputs, as each of them takes them."""
    make = {x: pair if stream.shape_of(x) == (2,) else number for x in counts}
    return {name: [make[name](x) for x in numbers] for name, numbers in counts.items()}


SUMS = {"x": list(range(8)), "y": [10 * i for i in range(8)]}


# What becomes of each fault ----------------------------------------------------------


@threads_of
def test_a_kernel_of_a_stream_fails_at_its_act(threads: int) -> None:
    with streaming(sums(), threads, KernelFault("add_s", 3, code=9)) as stream:
        with pytest.raises(TaskError) as caught:
            stream.run(pieces(SUMS, stream))
        assert caught.value.reason == "task 'add_s' failed at act 3 with code 9"


@threads_of
def test_a_lost_piece_is_named(threads: int) -> None:
    with (
        streaming(sums(), threads, MessageFault("s", 2, "drop")) as stream,
        pytest.raises((DeadlockError, MessageError)) as caught,
    ):
        stream.run(pieces(SUMS, stream))
    line = "'add_s' filled 3 slots of register 's', but told of 2"
    if isinstance(caught.value, DeadlockError):
        assert caught.value.stuck[-1] == line
        waits = "'fetch_s' at act 2: no piece in register 's' from 'add_s'"
        assert any(x.endswith(waits) for x in caught.value.stuck)
    else:
        # Who gives one input had no room while the other one had not come yet.
        assert list(caught.value.lines) == [line]


@threads_of
def test_the_last_piece_is_missed_when_the_stream_ends(threads: int) -> None:
    with (
        streaming(sums(2), threads, MessageFault("s", 7, "drop")) as stream,
        pytest.raises(MessageError) as caught,
    ):
        stream.run(pieces(SUMS, stream))
    line = "'add_s' filled 8 slots of register 's', but told of 7"
    assert list(caught.value.lines) == [line]


@threads_of
def test_who_takes_the_end_of_what_was_lost_is_told(threads: int) -> None:
    with streaming(sums(2), threads, MessageFault("s", 0, "drop")) as stream:
        for name in "xy":
            stream.put(name, pair(1), 300)
        stream.end()
        with pytest.raises(Errors) as caught:
            stream.take("s", 300)
        assert "'add_s' filled 1 slots of register 's', but told of 0" in str(
            caught.value
        )
        with pytest.raises(Errors):
            stream.finish(300)


@threads_of
def test_who_waits_for_what_was_lost_is_told(threads: int) -> None:
    with streaming(sums(2), threads, MessageFault("s", 0, "drop")) as stream:
        for name in "xy":
            stream.put(name, pair(1), 300)
        with pytest.raises(MessageError) as caught:
            stream.take("s", 300)
    assert "'add_s' filled 1 slots of register 's', but told of 0" in str(caught.value)


@threads_of
def test_who_waits_for_room_is_told_what_was_lost(threads: int) -> None:
    fault = MessageFault("x", 0, "drop", reader="add_s")

    def use(stream: Stream) -> None:
        for _ in range(9):
            stream.put("y", pair(1), 300)
            stream.put("x", pair(1), 300)

    with (
        streaming(sums(), threads, fault) as stream,
        pytest.raises(Errors) as caught,
    ):
        use(stream)
    assert "'add_s' read 1 slots of register 'x', but told of 0" in str(caught.value)


@threads_of
@pytest.mark.parametrize("lost", [False, True])
def test_a_piece_that_was_made_up_is_never_given_to_anybody(
    threads: int, lost: bool
) -> None:
    # Also if the counts are right again, as a later message is lost.
    faults = [MessageFault("s", 2, "duplicate"), MessageFault("s", 5, "drop")]
    found: list[int] = []

    def use(stream: Stream) -> None:
        for i in range(8):
            stream.put("x", pair(i), 300)
            stream.put("y", pair(10 * i), 300)
            found.append(int(stream.take("s", 300)[0]))
        stream.finish(300)

    with (
        streaming(sums(), threads, *faults[: 1 + lost]) as stream,
        pytest.raises(MessageError) as caught,
    ):
        use(stream)
    assert found == [0, 11]
    told = "'add_s' filled 3 slots of register 's', but told of 4"
    assert list(caught.value.lines) == [told]


def test_counts_that_are_right_in_the_end_do_not_hide_what_was_made_up() -> None:
    faults = MessageFault("s", 1, "duplicate"), MessageFault("s", 3, "drop")
    with executor(sums(3)) as runner, inject(runner, *faults):
        with pytest.raises(MessageError) as caught:
            runner.run_many([{"x": pair(i), "y": pair(1)} for i in range(6)])
        line = "'add_s' told of slots of register 's' before it had filled them"
        assert list(caught.value.lines) == [line]


@threads_of
def test_a_free_slot_that_was_made_up_is_found(threads: int) -> None:
    fault = MessageFault("s", 1, "duplicate", reader="fetch_s")
    with streaming(sums(), threads, fault) as stream, pytest.raises(Errors):
        stream.run(pieces(SUMS, stream))


@threads_of
def test_late_messages_change_nothing(threads: int) -> None:
    faults = [
        MessageFault("s", 2, "late"),
        MessageFault("y", 3, "late", reader="add_s", by=2),
    ]
    text = Text()
    text.feed("x")
    text.feed("y", slots=4)
    text.add("s", "x", "y", slots=2)
    text.fetch("s")
    with executor(text, threads=threads) as runner:
        with inject(runner, *faults), runner.stream() as stream:
            for i in range(8):
                stream.put("x", pair(i), 300)
                stream.put("y", pair(10 * i), 300)
            assert values(stream.finish(300), "s") == [11 * i for i in range(8)]
        # Outside of the block there are none.
        with runner.stream() as stream:
            assert values(stream.run(pieces(SUMS, stream)), "s")[:2] == [0, 11]


# Special actors ----------------------------------------------------------------------


def rates() -> Text:
    """Each sum of four of x, twice: a slot of `sum` lasts for four acts and for two."""
    text = Text()
    text.feed("x")
    text.register("sum")
    steps = [
        'launch.copy @x to @sum {when = "first"}',
        'launch.call @add [@x, @sum] {when = "rest"}',
    ]
    text.actor("acc", ["x"], ["sum"], steps, every={"sum": 4})
    text.register("twice")
    steps = ["launch.copy @sum to @twice"]
    text.actor("repeat", ["sum"], ["twice"], steps, every={"sum": 2})
    text.fetch("twice")
    return text


def any_of() -> Text:
    text = Text()
    for port in "xyz":
        text.feed(port)
    text.register("who", NUMBER)
    text.actor("esac", list("xyz"), ["who"], kind='kind "esac"')
    text.control("a", 2)
    text.control("b", 2)
    text.control("c", 2)
    text.actor("case", ["who"], ["a", "b", "c"], kind='kind "case"')
    for branch, port in zip("abc", "xyz", strict=True):
        text.register(f"out_{port}")
        text.actor(f"branch_{branch}", [branch], [f"out_{port}"])
        text.fetch(f"out_{port}")
    return text


def counts_of(ending: Ending) -> dict[str, int]:
    return {name: len(found) for name, found in ending.outputs.items()}


PROGRAMS: list[tuple[Callable[[], Text], Mapping[str, list[int]], str]] = [
    (rates, {"x": [*range(16)]}, "x sum sum:repeat twice"),
    (
        any_of,
        {"x": [1] * 3, "y": [1] * 2, "z": [1]},
        "who who:case a b:branch_b x:esac",
    ),
    (
        main_job,
        {"job": [0, 1, 1, 0]},
        "job section section:lock granted granted:case begin_0 end_1 end_0:esac done "
        "done:lock out_2 begin_1:work_1",
    ),
]


@pytest.mark.parametrize(("make", "inputs", "messages"), PROGRAMS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_message_of_special_actors_is_missed(
    make: Callable[[], Text],
    inputs: Mapping[str, list[int]],
    messages: str,
    kind: Literal["drop", "duplicate", "late"],
) -> None:
    with executor(make(), threads=2) as runner:
        with runner.stream() as stream:
            expected = stream.run(pieces(inputs, stream))
        for text in messages.split():
            register, _, reader = text.partition(":")
            for act in (0, 1):
                fault = MessageFault(register, act, kind, reader or None)
                found = outcome(runner, inputs, fault)
                if found is not None:
                    assert kind != "drop"
                    assert counts_of(found) == counts_of(expected)
                    assert found.left_over == expected.left_over


def outcome(
    runner: Executor, inputs: Mapping[str, list[int]], *faults: Fault
) -> Ending | None:
    """The ending of a stream with faults, None if that is an error."""
    with inject(runner, *faults), runner.stream() as stream:
        try:
            return stream.run(pieces(inputs, stream))
        except Errors:
            return None


@pytest.mark.parametrize("seed", range(draws(8)))
def test_faults_of_random_programs_end_in_an_error_or_in_nothing(seed: int) -> None:
    text, inputs = random_program(seed)
    rng = random.Random(seed)
    with executor(text, threads=rng.randrange(1, 4)) as runner:
        with runner.stream() as stream:
            expected = stream.run(pieces(inputs, stream))
        image = runner.program.image
        messages = [(name, None) for actor in image.actors for name in actor.writes]
        messages += [(name, x.name) for x in image.actors for name in x.reads]
        for _ in range(12):
            faults = [random_fault(rng, messages) for _ in range(rng.randrange(1, 4))]
            found = outcome(runner, inputs, *faults)
            if found is not None:
                assert found.left_over == expected.left_over, faults
                for name in expected.outputs:
                    assert values(found, name) == values(expected, name), faults


def random_fault(
    rng: random.Random, messages: Sequence[tuple[str, str | None]]
) -> MessageFault:
    register, reader = rng.choice(messages)
    by = rng.randrange(1, 4)
    return MessageFault(register, rng.randrange(8), rng.choice(KINDS), reader, by)


@pytest.mark.parametrize("seed", range(draws(4)))
def test_faults_of_programs_with_rates_in_runs(seed: int) -> None:
    rng = random.Random(seed)
    messages = [(x, None) for x in ("x", "sum", "twice")]
    messages += [("x", "acc"), ("sum", "repeat"), ("twice", "fetch_twice")]
    with executor(rates(), threads=rng.randrange(1, 4)) as runner:
        x = [np.array([[i, -i] for i in range(4 * j, 4 * j + 4)]) for j in range(3)]
        expected = [int(piece[:, 0].sum()) for piece in x]
        for _ in range(8):
            faults = [random_fault(rng, messages) for _ in range(rng.randrange(1, 3))]
            with inject(runner, *faults):
                try:
                    found = runner.run_many([{"x": piece} for piece in x])
                except Errors:
                    continue
            for out, total in zip(found, expected, strict=True):
                assert out["twice"][:, 0].tolist() == [total, total], faults


# Refusals ----------------------------------------------------------------------------


def test_what_the_caller_fills_has_no_faults() -> None:
    text = Text()
    text.register("x")
    text.actor("feed", [], ["x"], ['launch.feed "port" to @x'])
    text.fetch("x")
    with executor(text) as runner:
        tables = Wiring(runner.program, 2).tables
        with pytest.raises(PenstockError) as caught:
            FaultyStreamCore([MessageFault("port", 0, "drop")], tables)
        assert str(caught.value) == "register 'port' is filled by the caller"
        # In the program of the executor there is none.
        with pytest.raises(PenstockError) as caught:
            FaultyCore(runner.program.tables, [MessageFault("port", 0, "drop")])
        assert str(caught.value) == "there is no register 'port'"


@threads_of
def test_who_gives_pieces_is_told_that_no_slot_gets_free(threads: int) -> None:
    text = Text()
    text.register("x")
    text.actor("feed", [], ["x"], ['launch.feed "port" to @x'])
    text.fetch("x")
    fault = MessageFault("port", 0, "drop", reader="feed")

    def make_core(tables: Tables, threads: int) -> FaultyStreamCore:
        return FaultyStreamCore([fault], tables, threads)

    with (
        executor(text, threads=threads) as runner,
        Stream(runner.program, capacity=1, make_core=make_core) as stream,
    ):
        stream.put("port", pair(1), 300)
        with pytest.raises(Errors) as caught:
            stream.put("port", pair(2), 300)
    line = "'feed' read 1 slots of register 'port', but told of 0"
    assert line in str(caught.value)


def test_an_output_that_ends_well_ends() -> None:
    with streaming(sums(), 1, MessageFault("s", 99, "drop")) as stream:
        stream.end()
        with pytest.raises(EndOfData):
            stream.take("s", 300)
