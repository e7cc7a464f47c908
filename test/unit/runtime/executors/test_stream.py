"""Streams: actors of all kinds, and runs that end when there are no more pieces."""

import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import draws
from loaded_programs import load_program

from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.errors import DeadlockError, PenstockError, TaskError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.executors.stream import (
    UNTAKEN,
    Ending,
    EndOfData,
    NoRoom,
    Stream,
)
from penstock.tools.driver.compiler import installed_compiler

Start: TypeAlias = Callable[..., "Future[Any]"]

ADD = """
  launch.kernel @add target "cpu" (%a: memref<2xi64>, %o: memref<2xi64>) {
    linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]
    } ins(%a : memref<2xi64>) outs(%o : memref<2xi64>) {
    ^bb0(%x: i64, %y: i64):
      %z = arith.addi %x, %y : i64
      linalg.yield %z : i64
    }
  }
"""

DATA, NUMBER = "memref<2xi64>", "memref<i64>"
ENGINES = [("actors", 1), ("actors", 2), ("actors", 3), ("sequential", 1), ("sim", 1)]
engines = pytest.mark.parametrize(("engine", "threads"), ENGINES)


class Text:
    """Writes a program: registers at places of their own, and actors."""

    def __init__(self) -> None:
        self.end = 0
        self.lines: list[str] = []
        self.actors = 0

    def register(self, name: str, type: str = DATA, slots: int = 1) -> str:
        self.lines.append(
            f"launch.register @{name} in @memory at {self.end} slots {slots} : {type}"
        )
        self.end += 64 * slots
        return name

    def control(self, name: str, slots: int = 1, initial: int = 0) -> str:
        tokens = f" initial {initial}" if initial else ""
        self.lines.append(f"launch.control @{name} slots {slots}{tokens}")
        return name

    def actor(
        self,
        name: str,
        reads: Sequence[str],
        writes: Sequence[str],
        steps: Sequence[str] = (),
        *,
        kind: str = "",
        every: Mapping[str, int] | None = None,
    ) -> None:
        pairs = ", ".join(f"@{x} = {n}" for x, n in (every or {}).items())
        self.lines.append(
            f"launch.actor @{name} {kind} on <0, cpu:0> stream {self.actors} "
            f"reads [{', '.join('@' + x for x in reads)}] "
            f"writes [{', '.join('@' + x for x in writes)}] "
            f"{f'every [{pairs}]' if pairs else ''} {{ {' '.join(steps)} }}"
        )
        self.actors += 1

    def feed(self, port: str, type: str = DATA, slots: int = 1) -> str:
        name = self.register(port, type, slots)
        self.actor(f"feed_{port}", [], [name], [f'launch.feed "{port}" to @{name}'])
        return name

    def fetch(self, name: str) -> None:
        steps = [f'launch.fetch "{name}" from @{name}']
        self.actor(f"fetch_{name}", [name], [], steps)

    def add(self, result: str, *terms: str, slots: int = 1) -> str:
        self.register(result, slots=slots)
        first, *rest = terms
        steps = [f"launch.copy @{first} to @{result}"]
        steps += [f"launch.call @add [@{x}, @{result}]" for x in rest]
        self.actor(f"add_{result}", list(dict.fromkeys(terms)), [result], steps)
        return result

    def text(self) -> str:
        body = "\n".join(self.lines)
        return (
            f"launch.program @p rank 0 {{\n"
            f"launch.chunk @memory on <0, host> size {max(self.end, 64)}\n"
            f"{ADD}{body}\n}}"
        )


def executor(text: Text, engine: str = "actors", threads: int = 1) -> Executor:
    module = installed_compiler()[0].parse(text.text().encode(), "stream.mlir")
    module.verify()
    op = next(op for op in module.walk() if isinstance(op, ProgramOp))
    kernels = (x for x in op.body.block.ops if isinstance(x, KernelOp))
    sources = {kernel.sym_name.data: kernel_source(kernel) for kernel in kernels}
    return Executor(load_program(op, sources, threads=threads), engine)


@contextmanager
def streaming(
    text: Text,
    engine: str = "actors",
    threads: int = 1,
    capacity: int = 2,
    untaken: int = UNTAKEN,
) -> Generator[Stream]:
    runner = executor(text, engine, threads)
    with runner, runner.stream(capacity, untaken) as stream:
        yield stream


def number(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def pair(value: int) -> np.ndarray:
    return np.array([value, -value], np.int64)


def values(ending: Ending, name: str) -> list[int]:
    return [int(piece.reshape(-1)[0]) for piece in ending.outputs[name]]


def run(
    text: Text,
    inputs: Mapping[str, Sequence[int]],
    engine: str = "actors",
    threads: int = 1,
) -> Ending:
    """All pieces of all inputs, each as soon as there is room, and what comes of it."""
    with streaming(text, engine, threads) as stream:
        rest = {name: list(pieces) for name, pieces in inputs.items()}
        last = time.monotonic() + 300
        while rest:
            assert time.monotonic() < last
            for name, pieces in list(rest.items()):
                if not pieces:
                    stream.end(name)
                    del rest[name]
                    continue
                make = pair if stream.shape_of(name) == (2,) else number
                with suppress(TimeoutError, NoRoom):
                    stream.put(name, make(pieces[0]), 0.002)
                    pieces.pop(0)
        return stream.finish(300)


# Counting rules, against state machines written here ---------------------------------


def cases(blocked: bool) -> Text:
    """A case of three branches; that of number 0 also waits for a gate."""
    text = Text()
    text.feed("which", NUMBER)
    text.feed("gate")
    for branch in "abc":
        text.control(branch)
    text.actor("case", ["which"], list("abc"), kind='kind "case"')
    for index, branch in enumerate("abc"):
        out = text.register(f"out_{branch}")
        waits = [branch, "gate"] if blocked and index == 0 else [branch]
        steps = [f"launch.copy @gate to @{out}"] if "gate" in waits else []
        text.actor(f"branch_{branch}", waits, [out], steps)
        text.fetch(out)
    if not blocked:
        text.add("sink", "gate")
        text.fetch("sink")
    return text


@engines
def test_case_hands_on_a_piece_for_each_number(engine: str, threads: int) -> None:
    random = np.random.default_rng(5)
    asked = [int(x) for x in random.integers(0, 3, 40)]
    ending = run(cases(False), {"which": asked, "gate": []}, engine, threads)
    found = [len(ending.outputs[f"out_{branch}"]) for branch in "abc"]
    assert found == [asked.count(i) for i in range(3)]
    assert ending.left_over == {}


@engines
def test_a_branch_without_room_does_not_keep_others_from_going_on(
    engine: str, threads: int
) -> None:
    with streaming(cases(True), engine, threads, capacity=1) as stream:
        for _ in range(20):
            stream.put("which", number(0), 300)
        for _ in range(5):
            stream.put("which", number(1), 300)
            stream.take("out_b", 300)
        for value in range(20):
            stream.put("gate", pair(value), 300)
        ending = stream.finish(300)
    assert values(ending, "out_a") == list(range(20))
    assert ending.outputs["out_b"] == []


@engines
def test_pieces_that_wait_in_a_case_are_thrown_away_with_their_branch(
    engine: str, threads: int
) -> None:
    inputs = {"which": [0] * 7 + [1], "gate": [1, 2, 3]}
    ending = run(cases(True), inputs, engine, threads)
    assert values(ending, "out_a") == [1, 2, 3]
    assert len(ending.outputs["out_b"]) == 1
    assert ending.left_over == {("branch_a", "a"): 4}


def esac() -> Text:
    text = Text()
    for port in "xyz":
        text.feed(port)
    text.register("who", NUMBER)
    text.actor("esac", list("xyz"), ["who"], kind='kind "esac"')
    text.fetch("who")
    return text


@engines
def test_esac_says_which_input_had_a_piece(engine: str, threads: int) -> None:
    with streaming(esac(), engine, threads) as stream:
        for name in "zxxyz":
            stream.put(name, pair(1))
            assert int(stream.take("who", 300)) == "xyz".index(name)
        for name in "xxxxyyyz":
            stream.put(name, pair(1), 300)
        ending = stream.finish(300)
    assert Counter(values(ending, "who")) == {0: 4, 1: 3, 2: 1}


@engines
def test_esac_ends_when_all_of_its_inputs_have(engine: str, threads: int) -> None:
    with streaming(esac(), engine, threads) as stream:
        stream.end("x", "y")
        for _ in range(5):
            stream.put("z", pair(0), 300)
            assert int(stream.take("who", 300)) == 2
        stream.end("z")
        with pytest.raises(EndOfData) as raised:
            stream.take("who", 300)
        assert str(raised.value) == "there are no more pieces of output 'who'"


def sum_of_any() -> Text:
    text = Text()
    for port in "xyz":
        text.feed(port)
    text.register("sum")
    steps = [
        f'launch.copy @{x} to @sum {{on = @{x}, when = "first"}} '
        f'launch.call @add [@{x}, @sum] {{on = @{x}, when = "rest"}}'
        for x in "xyz"
    ]
    text.actor("any", list("xyz"), ["sum"], steps, kind='kind "input_wise"')
    text.fetch("sum")
    return text


@engines
@pytest.mark.parametrize("order", ["xyz", "zyx", "yzx"])
def test_an_input_wise_actor_takes_its_inputs_in_any_order(
    engine: str, threads: int, order: str
) -> None:
    with streaming(sum_of_any(), engine, threads) as stream:
        for turn in range(6):
            for name in order:
                stream.put(name, pair(10**turn * (1 + "xyz".index(name))), 300)
            assert list(stream.take("sum", 300)) == [6 * 10**turn, -6 * 10**turn]
        assert stream.finish(300).left_over == {}


@engines
def test_an_input_wise_actor_gives_each_input_back_at_once(
    engine: str, threads: int
) -> None:
    # Of z one piece is in the sum, one in its register, and two in the buffer.
    with streaming(sum_of_any(), engine, threads) as stream:
        for value in range(4):
            stream.put("z", pair(value), 300)
        with pytest.raises((TimeoutError, NoRoom)):
            stream.put("z", pair(4), 0.2)
        for name in "xy":
            stream.put(name, pair(100), 300)
        assert int(stream.take("sum", 300)[0]) == 200
        ending = stream.finish(300)
    # What was begun counts as well.
    assert ending.left_over == {("any", "z"): 3}


def array_text(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers))
    return f"array<i64: {listed}>" if listed else "array<i64>"


@engines
@pytest.mark.parametrize("seed", range(4))
def test_send_ids_hands_on_its_lists_one_number_an_act(
    engine: str, threads: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    lists = [list(map(int, random.integers(0, 99, n))) for n in (3, 0, 1, 5)]
    asked = [int(x) for x in random.integers(0, 4, 25)]
    text = Text()
    text.feed("id", NUMBER)
    text.register("next", NUMBER, 2)
    arrays = ", ".join(map(array_text, lists))
    text.actor("send", ["id"], ["next"], kind=f'kind "send_ids" lists [{arrays}]')
    text.fetch("next")
    ending = run(text, {"id": asked}, engine, threads)
    assert values(ending, "next") == [x for i in asked for x in lists[i]]


def lock(rivals: Sequence[Sequence[int]]) -> Text:
    text = Text()
    text.feed("want", NUMBER)
    text.feed("back", NUMBER)
    text.register("granted", NUMBER)
    arrays = ", ".join(map(array_text, rivals))
    kind = f'kind "lock" lists [{arrays}]'
    text.actor("lock", ["want", "back"], ["granted"], kind=kind)
    text.fetch("granted")
    return text


class Rule:
    """OneFlow's rule: a queue of numbered requests and a count for each section."""

    def __init__(self, rivals: Sequence[Sequence[int]]):
        self.rivals = rivals
        self.queues: list[list[int]] = [[] for _ in rivals]
        self.acquired = [0] * len(rivals)
        self.count = 0

    def request(self, section: int) -> list[int]:
        self.queues[section].append(self.count)
        self.count += 1
        return self.grants()

    def release(self, section: int) -> list[int]:
        self.acquired[section] -= 1
        return self.grants()

    def grants(self) -> list[int]:
        found: list[int] = []
        while True:
            ready = [i for i, queue in enumerate(self.queues) if queue and self.may(i)]
            if not ready:
                return found
            section = min(ready, key=lambda i: self.queues[i][0])
            self.queues[section].pop(0)
            self.acquired[section] += 1
            found.append(section)

    def may(self, section: int) -> bool:
        front = self.queues[section][0]
        return all(
            not self.acquired[other]
            and (not self.queues[other] or self.queues[other][0] > front)
            for other in self.rivals[section]
        )


@engines
@pytest.mark.parametrize("seed", range(5))
def test_a_lock_grants_what_the_rule_says(engine: str, threads: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 6))
    pairs = {(i, j) for i in range(count) for j in range(i) if random.random() < 0.5}
    rivals = [
        [j for j in range(count) if (i, j) in pairs or (j, i) in pairs]
        for i in range(count)
    ]
    rule, held = Rule(rivals), Counter[int]()
    with streaming(lock(rivals), engine, threads) as stream:
        for _ in range(60):
            owned = [x for x in held.elements()]
            if owned and random.random() < 0.5:
                section = owned[int(random.integers(len(owned)))]
                stream.put("back", number(section), 300)
                held[section] -= 1
                expected = rule.release(section)
            else:
                section = int(random.integers(count))
                stream.put("want", number(section), 300)
                expected = rule.request(section)
            found = [int(stream.take("granted", 300)) for _ in expected]
            assert found == expected
            held.update(found)
        # Those who wait for what is never given back end with the lock.
        stream.finish(300)


# The end of data ---------------------------------------------------------------------


@engines
@pytest.mark.parametrize("counts", [(5, 3), (3, 5), (0, 4), (4, 4)])
def test_unequal_inputs_end_and_what_is_left_over_is_counted(
    engine: str, threads: int, counts: tuple[int, int]
) -> None:
    text = Text()
    text.feed("x")
    text.feed("y", slots=2)
    text.add("s", "x", "y")
    text.add("t", "s", "x")
    text.fetch("t")
    inputs = {"x": list(range(counts[0])), "y": [10 * i for i in range(counts[1])]}
    ending = run(text, inputs, engine, threads)
    least = min(counts)
    assert values(ending, "t") == [12 * i for i in range(least)]
    more_x, more_y = counts[0] - least, counts[1] - least
    expected = {
        ("add_s", "x"): more_x,
        ("add_t", "x"): more_x,
        ("add_s", "y"): more_y,
    }
    assert ending.left_over == {edge: n for edge, n in expected.items() if n}


@engines
def test_what_was_begun_and_not_finished_is_left_over(
    engine: str, threads: int
) -> None:
    text = Text()
    text.feed("x")
    text.register("sum")
    steps = [
        'launch.copy @x to @sum {when = "first"}',
        'launch.call @add [@x, @sum] {when = "rest"}',
    ]
    text.actor("acc", ["x"], ["sum"], steps, every={"sum": 4})
    text.fetch("sum")
    ending = run(text, {"x": list(range(11))}, engine, threads)
    assert values(ending, "sum") == [0 + 1 + 2 + 3, 4 + 5 + 6 + 7]
    assert ending.left_over == {("acc", "x"): 3}


@engines
def test_actors_that_read_nothing_act_as_often_as_the_first_input_comes(
    engine: str, threads: int
) -> None:
    text = Text()
    text.feed("x")
    text.register("sum")
    steps = [
        'launch.copy @x to @sum {when = "first"}',
        'launch.call @add [@x, @sum] {when = "rest"}',
    ]
    text.actor("acc", ["x"], ["sum"], steps, every={"sum": 2})
    text.control("go")
    text.actor("source", [], ["go"])
    text.register("both")
    text.actor("take", ["sum", "go"], ["both"], ["launch.copy @sum to @both"])
    text.fetch("both")
    ending = run(text, {"x": list(range(6))}, engine, threads)
    assert values(ending, "both") == [1, 5, 9]
    assert ending.left_over == {}


def main_job() -> Text:
    """Ids of jobs to sections, of which some exclude each other, and back."""
    text = Text()
    text.feed("job", NUMBER, 2)
    text.register("section", NUMBER, 2)
    text.register("granted", NUMBER)
    text.register("done", NUMBER)
    jobs = "[array<i64: 0>, array<i64: 1, 2>]"
    rivals = "[array<i64: 1>, array<i64: 0>, array<i64>]"
    text.actor("send", ["job"], ["section"], kind=f'kind "send_ids" lists {jobs}')
    for index in range(3):
        text.control(f"begin_{index}", 2)
        text.control(f"end_{index}", 2)
    kind = f'kind "lock" lists {rivals}'
    text.actor("lock", ["section", "done"], ["granted"], kind=kind)
    begins = [f"begin_{index}" for index in range(3)]
    text.actor("case", ["granted"], begins, kind='kind "case"')
    for index in range(3):
        text.register(f"out_{index}")
        text.actor(f"work_{index}", [begins[index]], [f"end_{index}", f"out_{index}"])
        text.fetch(f"out_{index}")
    ends = [f"end_{index}" for index in range(3)]
    text.actor("esac", ends, ["done"], kind='kind "esac"')
    return text


@engines
def test_jobs_are_launched_by_their_ids_section_by_section(
    engine: str, threads: int
) -> None:
    random = np.random.default_rng(3)
    asked = [int(x) for x in random.integers(0, 2, 50)]
    ending = run(main_job(), {"job": asked}, engine, threads)
    found = [len(ending.outputs[f"out_{index}"]) for index in range(3)]
    assert found == [asked.count(0), asked.count(1), asked.count(1)]
    assert ending.left_over == {}


def test_sections_that_exclude_each_other_never_overlap_on_the_clock() -> None:
    with executor(main_job(), "sim") as runner:
        names = [actor.name for actor in runner.program.tables.actors]
        work = {"work_0": 50, "work_1": 30, "work_2": 40}
        times = [work.get(name, 1) for name in names]
        program = runner.program
        with Stream(program, "sim", 2, times) as stream:
            for job in (0, 1, 0, 1, 1, 0):
                stream.put("job", number(job))
            stream.finish()
            simulation = stream.simulation
    assert simulation is not None
    spans = {
        name: [(a.start, a.end) for a in simulation.acts if names[a.actor] == name]
        for name in work
    }

    def meet(first: str, second: str) -> bool:
        return any(a < d and c < b for a, b in spans[first] for c, d in spans[second])

    assert not meet("work_0", "work_1")
    assert sum(end - start == 50 for start, end in spans["work_0"]) == 3


# Random programs ---------------------------------------------------------------------


def random_program(seed: int) -> tuple[Text, dict[str, list[int]]]:
    """Sums, accumulations, orders and choices over inputs of unequal numbers."""
    random = np.random.default_rng(seed)

    def draw(count: int) -> int:
        return int(random.integers(count))

    text = Text()
    inputs: dict[str, list[int]] = {}
    free: list[str] = []
    for index in range(1 + draw(3)):
        name = text.feed(f"x{index}", slots=1 + draw(2))
        inputs[name] = [draw(1000) for _ in range(draw(30))]
        free.append(name)
    for index in range(draw(8)):
        name = f"v{index}"
        picked = [free[draw(len(free))] for _ in range(1 + draw(3))]
        picked = list(dict.fromkeys(picked))
        match draw(3):
            case 0:
                text.add(name, *picked, slots=1 + draw(2))
            case 1:
                text.register(name)
                first = 'when = "first"'
                steps = [
                    f"launch.copy @{x} to @{name} {{on = @{x}, {first}}} "
                    f'launch.call @add [@{x}, @{name}] {{on = @{x}, when = "rest"}}'
                    for x in picked
                ]
                kind = 'kind "input_wise"'
                text.actor(f"any_{name}", picked, [name], steps, kind=kind)
            case _:
                which = f"n{index}"
                inputs[text.feed(which, NUMBER)] = [draw(2) for _ in range(draw(30))]
                text.control(f"{name}_a")
                text.control(f"{name}_b")
                branches = [f"{name}_a", f"{name}_b"]
                text.actor(f"case_{name}", [which], branches, kind='kind "case"')
                text.register(name)
                steps = [f"launch.copy @{picked[0]} to @{name}"]
                text.actor(f"if_{name}", [picked[0], branches[0]], [name], steps)
                # The other branch is just taken.
                text.register(f"{name}_who", NUMBER)
                kind = 'kind "esac"'
                text.actor(f"esac_{name}", [branches[1]], [f"{name}_who"], kind=kind)
                text.fetch(f"{name}_who")
        free.append(name)
    for name in free:
        text.fetch(name)
    return text, inputs


@pytest.mark.parametrize("seed", range(draws(10)))
def test_random_programs_do_the_same_in_all_engines(seed: int) -> None:
    text, inputs = random_program(seed)
    endings = [run(text, inputs, *options) for options in ENGINES]
    for ending in endings:
        assert ending.left_over == endings[0].left_over
        for name in ending.outputs:
            assert values(ending, name) == values(endings[0], name)


# The caller --------------------------------------------------------------------------


def test_several_threads_use_one_stream(start: Start) -> None:
    text = Text()
    text.feed("x")
    text.feed("y")
    text.add("sum", "x", "y")
    text.fetch("sum")
    for threads in (1, 2):
        with streaming(text, threads=threads) as stream:

            def give(name: str, stream: Stream = stream) -> None:
                for value in range(200):
                    stream.put(name, pair(value), 300)

            givers = [start(give, x) for x in "xy"]
            found = [int(stream.take("sum", 300)[0]) for _ in range(200)]
            for giver in givers:
                giver.result(300)
            assert found == [2 * value for value in range(200)]
            assert stream.finish(300).left_over == {}


def test_an_idle_stream_takes_no_time_of_the_processor(
    until_at_rest: Callable[[], None],
) -> None:
    text = Text()
    text.feed("x")
    text.fetch("x")
    with streaming(text, threads=2) as stream:
        stream.put("x", pair(1))
        stream.take("x", 300)
        until_at_rest()
        stream.put("x", pair(2))
        assert int(stream.take("x", 300)[0]) == 2


@engines
def test_a_function_is_called_with_each_piece(engine: str, threads: int) -> None:
    seen: list[int] = []
    with streaming(esac(), engine, threads) as stream:
        stream.notify("who", lambda piece: seen.append(int(piece)))
        for name in "xyzzy":
            stream.put(name, pair(0), 300)
        assert stream.finish(300).outputs == {"who": []}
    assert Counter(seen) == {0: 1, 1: 2, 2: 2}


def test_what_a_function_raises_is_raised_in_the_end() -> None:
    def fail(piece: object) -> None:
        raise ValueError("no")

    with streaming(esac()) as stream:
        stream.notify("who", fail)
        stream.put("x", pair(0))
        with pytest.raises(ValueError, match="no"):
            stream.finish(300)


# Outputs that nobody takes -----------------------------------------------------------


def one_to_two() -> Text:
    """Two outputs of one input."""
    text = Text()
    text.feed("x")
    for name in ("y", "z"):
        text.add(name, "x")
        text.fetch(name)
    return text


MOST = 3 + 20
"""The pieces that may wait, and a bound of those in slots of registers."""


def fill(stream: Stream) -> int:
    """Give pieces until both outputs have no room; how many were given."""
    given = 0
    while (refusal := put_or_refusal(stream, given)) is None or "'z'" not in refusal:
        given += refusal is None
        assert given < MOST, "outputs grow without an end"
    return given


def put_or_refusal(stream: Stream, value: int) -> str | None:
    """Why a piece cannot be given now; None if it was."""
    try:
        stream.put("x", pair(value), 0.02)
    except (TimeoutError, NoRoom) as error:
        return str(error)
    return None


@engines
def test_outputs_that_nobody_takes_are_bounded(engine: str, threads: int) -> None:
    with streaming(one_to_two(), engine, threads, untaken=3) as stream:
        given = fill(stream)
        assert given >= 3
        # Each piece that is taken of all outputs makes room for one that is given.
        for value in range(given, given + 30):
            for name in ("y", "z"):
                assert int(stream.take(name, 300)[0]) == value - given
            stream.put("x", pair(value), 300)
        # All that is left is asked for in the end.
        ending = stream.finish(300)
        for name in ("y", "z"):
            assert values(ending, name) == list(range(30, given + 30))


def test_giving_waits_until_another_thread_takes(start: Start) -> None:
    with streaming(one_to_two(), untaken=1) as stream:

        def give() -> None:
            for value in range(100):
                stream.put("x", pair(value))

        giver = start(give)
        for name in ("y", "z") * 100:
            stream.take(name, 300)
        giver.result(300)
        assert values(stream.finish(300), "y") == []


def test_taking_one_output_makes_room_in_others() -> None:
    with streaming(one_to_two()) as stream:
        for value in range(20):
            stream.put("x", pair(value), 300)
        assert [int(stream.take("y", 300)[0]) for _ in range(20)] == list(range(20))
        assert values(stream.finish(300), "z") == list(range(20))


@engines
def test_a_run_of_all_pieces_keeps_all_outputs(engine: str, threads: int) -> None:
    with streaming(one_to_two(), engine, threads, untaken=1) as stream:
        ending = stream.run({"x": map(pair, range(30))})
        assert values(ending, "z") == list(range(30))


@engines
def test_functions_of_outputs_are_called_without_a_bound(
    engine: str, threads: int
) -> None:
    seen: dict[str, list[int]] = {"y": [], "z": []}
    with streaming(one_to_two(), engine, threads, untaken=1) as stream:
        for name, pieces in seen.items():
            stream.notify(name, lambda x, pieces=pieces: pieces.append(int(x[0])))
        for value in range(30):
            stream.put("x", pair(value), 300)
        stream.finish(300)
    assert seen == {"y": list(range(30)), "z": list(range(30))}


def test_outputs_without_room_are_named() -> None:
    messages = {
        "actors": "the stream did not go on in time: 2 pieces of output 'y', 'z' wait "
        "to be taken",
        "sequential": "there is no room for another piece of input 'x' before pieces "
        "of output 'y', 'z' are taken",
    }
    for engine, message in messages.items():
        with streaming(one_to_two(), engine, untaken=2) as stream:
            fill(stream)
            assert put_or_refusal(stream, 0) == message
    with executor(one_to_two()) as runner, pytest.raises(PenstockError) as raised:
        runner.stream(untaken=0)
    assert str(raised.value) == "untaken must be at least 1, got 0"


# Errors ------------------------------------------------------------------------------


@engines
def test_a_number_that_nothing_has_names_the_actor(engine: str, threads: int) -> None:
    def give(stream: Stream) -> None:
        stream.put("which", number(1), 300)
        stream.put("which", number(5), 300)
        stream.finish(300)

    with streaming(cases(False), engine, threads) as stream:
        with pytest.raises(TaskError) as raised:
            give(stream)
        assert raised.value.task == "case"
        assert raised.value.code == 5
        assert "got number 5, but there are 3 branches" in str(raised.value)


@engines
def test_a_section_that_nobody_has_is_not_given_back(engine: str, threads: int) -> None:
    with streaming(lock([[1], [0]]), engine, threads) as stream:
        stream.put("want", number(1), 300)
        assert int(stream.take("granted", 300)) == 1
        stream.put("back", number(1), 300)
        with pytest.raises(TaskError) as raised:
            give_back_and_wait(stream, 1)
    assert (raised.value.task, raised.value.code) == ("lock", 1)
    assert "got back section 1, which nobody has" in str(raised.value)


def without_places(lines: Sequence[str]) -> list[str]:
    """Lines on actors, each of which says where the actor was written."""
    found = [re.fullmatch(r"stream\.mlir:\d+:\d+: (.+)", line) for line in lines]
    assert all(found), lines
    return [line[1] for line in found if line is not None]


def give_back_and_wait(stream: Stream, section: int) -> None:
    stream.put("back", number(section), 300)
    stream.take("granted", 300)


@engines
def test_actors_that_wait_for_each_other_are_named(engine: str, threads: int) -> None:
    text = Text()
    text.feed("x")
    text.register("n", NUMBER)
    text.control("k")
    text.register("m", NUMBER)
    text.actor("p", ["x", "k"], ["n"])
    text.actor("c", ["n"], ["k"], kind='kind "case"')
    with streaming(text, engine, threads) as stream:
        stream.put("x", pair(1))
        with pytest.raises(DeadlockError) as raised:
            stream.finish(300)
    assert without_places(raised.value.stuck) == [
        "'p' at act 0: no piece in register 'k' from 'c'",
        "'c' at act 0: no piece in register 'n' from 'p'",
    ]


def simple() -> Text:
    text = Text()
    text.feed("x")
    text.fetch("x")
    return text


USES: list[tuple[Callable[[Stream], object], str]] = [
    (lambda s: s.put("z", pair(1)), "there is no input 'z', the program has x"),
    (lambda s: s.take("z"), "there is no output 'z', the program has x"),
    (lambda s: s.end("z"), "there is no input 'z', the program has x"),
    (
        lambda s: s.notify("z", print),
        "there is no output 'z', the program has x",
    ),
    (
        lambda s: s.put("x", number(1)),
        "input 'x' has shape (2,), got an array of shape ()",
    ),
    (
        lambda s: (s.end("x"), s.put("x", pair(1))),
        "no more pieces of input 'x' were to come",
    ),
    (lambda s: (s.close(), s.take("x")), "the stream is closed"),
]


@pytest.mark.parametrize(("use", "message"), USES)
def test_a_stream_refuses_what_cannot_be(
    use: Callable[[Stream], object], message: str
) -> None:
    with streaming(simple()) as stream, pytest.raises(PenstockError) as raised:
        use(stream)
    assert str(raised.value) == message


def test_who_waits_for_too_long_is_told() -> None:
    with streaming(simple()) as stream, pytest.raises(TimeoutError) as raised:
        stream.take("x", 0.05)
    assert str(raised.value) == "the stream did not go on in time"


def test_the_reference_executor_cannot_wait_for_others() -> None:
    with streaming(simple(), "sequential") as stream, pytest.raises(NoRoom) as raised:
        stream.take("x")
    expected = "there is no piece of output 'x' before there are more of x"
    assert str(raised.value) == expected


def test_streams_and_runs_take_turns() -> None:
    with executor(simple()) as runner:
        x = {"x": pair(3)}
        assert runner.run(x)["x"][0] == 3
        with runner.stream() as stream:
            message = r"^a stream of the executor is open$"
            with pytest.raises(PenstockError, match=message):
                runner.run(x)
            with pytest.raises(PenstockError, match=message):
                runner.stream()
            stream.put("x", pair(4))
            assert int(stream.take("x")[0]) == 4
        assert runner.run(x)["x"][0] == 3
    with pytest.raises(PenstockError, match=r"^the executor is closed$"):
        runner.stream()


def test_what_is_no_stream_is_refused() -> None:
    text = Text()
    text.register("x")
    text.actor("source", [], ["x"])
    text.fetch("x")
    with executor(text) as runner:
        with pytest.raises(PenstockError) as raised:
            runner.stream()
        assert str(raised.value) == (
            "a program without inputs is no stream: it has no end"
        )
        with pytest.raises(PenstockError) as raised:
            runner.stream(0)
        assert str(raised.value) == "a stream needs room for a piece, got 0"


def test_a_program_that_numbers_rule_is_only_a_stream() -> None:
    with executor(esac()) as runner, pytest.raises(PenstockError) as raised:
        runner.run({name: pair(1) for name in "xyz"})
    assert str(raised.value) == (
        "numbers say how often actors of the program act, so it runs as a stream"
    )
