"""
Zero-copy I/O: registers in the caller's arrays in a run, and those that have to be
copied.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from loaded_programs import load_program

from penstock.dialects.launch import ProgramOp
from penstock.runtime.errors import TaskError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.loading.loader import LoadedProgram
from penstock.runtime.program.io_binding import bindings_of
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.kernel_sources import kernel_sources
from penstock.tools.session.program_export import image_of

Floats: TypeAlias = npt.NDArray[np.float32]

KERNELS = """
  launch.kernel @double target "cpu" (%x: memref<4xf32>, %y: memref<4xf32>) {
    linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]
    } ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %a : f32
      linalg.yield %c : f32
    }
  }
  launch.kernel @again target "cpu" (%y: memref<4xf32>) {
    linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]
    } ins(%y : memref<4xf32>) outs(%y : memref<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %a : f32
      linalg.yield %c : f32
    }
  }
  launch.kernel @positive target "cpu" (%x: memref<4xf32>, %y: memref<4xf32>) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %four = arith.constant 4 : index
    %least = arith.constant 0.0 : f32
    "scf.parallel"(%zero, %four, %one) <{
      operandSegmentSizes = array<i32: 1, 1, 1, 0>
    }> ({
    ^bb0(%i: index):
      %v = memref.load %x[%i] : memref<4xf32>
      %ok = arith.cmpf ogt, %v, %least : f32
      cf.assert %ok, "too small"
      memref.store %v, %y[%i] : memref<4xf32>
      scf.reduce
    }) : (index, index, index) -> ()
  }
"""

FEED = """
  launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
"""


def fetch(register: str, held: str = "") -> str:
    return f"""
  launch.actor @fetch on <0, cpu:0> stream 0 reads [@{register}{held}] writes [] {{
    launch.fetch "y" from @{register}
  }}
"""


def actor(reads: str, writes: str, *steps: str) -> str:
    body = "\n".join(steps) or "^bb0:"
    name = f"@make_{writes}"
    head = f"{name} on <0, cpu:0> stream 0 can_fail reads [{reads}] writes [@{writes}]"
    return f"launch.actor {head} {{\n{body}\n}}\n"


def registers(**places: tuple[int, str]) -> str:
    lines = ["launch.chunk @c on <0, host> size 512"]
    for name, (offset, type) in places.items():
        at = f"in @c at {offset} slots 1"
        lines.append(f"launch.register @{name} {at} : memref<{type}>")
    return "\n".join(lines)


PLAIN = (
    registers(x=(0, "4xf32"), y=(64, "4xf32"))
    + FEED
    + actor("@x", "y", "launch.call @double [@x, @y]")
    + fetch("y")
)

# A part of what is fed, under another name and type.
VIEW = (
    registers(x=(0, "2x4xf32"), v=(16, "4xf32"), y=(64, "4xf32"))
    + FEED
    + actor("@x", "v")
    + actor("@v, @x", "y", "launch.call @double [@v, @y]")
    + fetch("y")
)

# What is fed is a part of what is fetched, and so is what is made of it.
CONCATENATION = (
    registers(x=(64, "4xf32"), d=(80, "4xf32"), y=(64, "8xf32"))
    + FEED
    + actor("@x", "d", "launch.call @double [@x, @d]")
    + actor("@x, @d", "y")
    + fetch("y", ", @x, @d")
)

# What is fed is overwritten, by a kernel that has one name for both.
OVERWRITTEN = (
    registers(x=(0, "4xf32"), y=(0, "4xf32"))
    + FEED
    + actor("@x", "y", "launch.call @again [@y]")
    + fetch("y")
)

# What shares bytes with what is fed at another time.
LATER = (
    registers(x=(0, "4xf32"), m=(64, "4xf32"), y=(0, "4xf32"))
    + FEED
    + actor("@x", "m", "launch.call @double [@x, @m]")
    + actor("@m", "y", "launch.call @double [@m, @y]")
    + fetch("y")
)

# What is fetched is a part of what is fed.
HANDED_ON = (
    registers(x=(0, "2x4xf32"), y=(16, "4xf32"))
    + FEED
    + actor("@x", "y")
    + fetch("y", ", @x")
)

# What is fetched is overwritten afterwards, by way of a view, for another output.
FETCHED_BEFORE = (
    registers(x=(0, "4xf32"), y=(64, "4xf32"), v=(64, "2x2xf32"), z=(64, "4xf32"))
    + FEED
    + actor("@x", "y", "launch.call @double [@x, @y]")
    + "launch.control @taken slots 1\n"
    + fetch("y").replace("writes []", "writes [@taken]")
    + actor("@y", "v")
    + actor("@v, @y, @taken", "z", "launch.call @again [@z]")
    + fetch("z").replace("@fetch", "@last").replace('"y"', '"z"')
)

# A view is fetched, and what it shows is overwritten afterwards, for nobody.
VIEW_FETCHED_BEFORE = (
    registers(x=(0, "4xf32"), m=(64, "4xf32"), v=(64, "4xf32"), z=(64, "4xf32"))
    + FEED
    + actor("@x", "m", "launch.call @double [@x, @m]")
    + actor("@m", "v")
    + "launch.control @taken slots 1\n"
    + fetch("v", ", @m").replace("writes []", "writes [@taken]")
    + actor("@m, @taken", "z", "launch.call @again [@z]")
)


def parse(body: str) -> ProgramOp:
    compiler, _ = installed_compiler()
    text = f"launch.program @p rank 0 {{\n{KERNELS}\n{body}\n}}"
    module = compiler.parse(text.encode(), "p.mlir")
    compiler.verify(module)
    op = module.body.block.first_op
    assert isinstance(op, ProgramOp)
    return op


def bound(body: str) -> dict[str, tuple[str, int]]:
    return {x.register: (x.port, x.shift) for x in bindings_of(image_of(parse(body)))}


@contextmanager
def opened(body: str) -> Generator[tuple[LoadedProgram, Executor]]:
    op = parse(body)
    loaded = load_program(op, kernel_sources(op, ["cpu"]))
    with Executor(loaded) as executor:
        yield loaded, executor


def bytes_used(loaded: LoadedProgram, start: int = 0, end: int = 512) -> bool:
    return bool(loaded.chunks["c"].read(start, end - start).any())


def floats(seed: int, *shape: int) -> Floats:
    random = np.random.default_rng(seed)
    return random.uniform(1, 2, shape).astype(np.float32)


# Registers that are bound -------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (PLAIN, {"x": ("x", 0), "y": ("y", 0)}),
        (VIEW, {"x": ("x", 0), "v": ("x", 16), "y": ("y", 0)}),
        (CONCATENATION, {"x": ("y", 0), "d": ("y", 16), "y": ("y", 0)}),
        (OVERWRITTEN, {"x": ("y", 0), "y": ("y", 0)}),
        (LATER, {"x": ("x", 0), "y": ("y", 0)}),
        (HANDED_ON, {"x": ("x", 0), "y": ("x", 16)}),
        (
            FETCHED_BEFORE,
            {"x": ("x", 0), "y": ("z", 0), "v": ("z", 0), "z": ("z", 0)},
        ),
        (VIEW_FETCHED_BEFORE, {"x": ("x", 0)}),
    ],
)
def test_families_of_registers_lie_in_arrays(
    body: str, expected: Mapping[str, tuple[str, int]]
):
    assert bound(body) == expected


def test_several_slots_are_where_they_are():
    body = PLAIN.replace("@x in @c at 0 slots 1", "@x in @c at 128 slots 2")
    assert bound(body) == {"y": ("y", 0)}


def test_a_part_of_a_register_is_not_fetched_in_place():
    # There are bytes before it that the array of the output has not.
    body = (
        registers(x=(0, "2x4xf32"), y=(16, "4xf32"))
        + "launch.variable @w in @c at 64 init <ones> : memref<2x4xf32>\n"
        + actor("", "x", "launch.copy @w to @x")
        + actor("@x", "y")
        + fetch("y")
    )
    assert bound(body) == {}


def test_what_shows_a_variable_is_where_that_is():
    body = (
        registers(y=(64, "4xf32"))
        + "launch.variable @w in @c at 64 init <ones> : memref<4xf32>\n"
        + actor("", "y")
        + fetch("y")
    )
    assert bound(body) == {}


def test_what_other_jobs_know_is_where_they_look():
    body = PLAIN.replace("at 0 slots 1", 'at 0 slots 1 interface "x"')
    assert bound(body) == {"y": ("y", 0)}


def test_registers_of_devices_are_where_they_are():
    body = PLAIN + "launch.chunk @far on <0, device toy:0> size 64\n"
    assert bound(body) == {}


# Runs --------------------------------------------------------------------------------


def twice(x: Floats) -> Floats:
    return 2 * x


def four_times(x: Floats) -> Floats:
    return 4 * x


def twice_the_second(x: Floats) -> Floats:
    return 2 * x[1]


def second(x: Floats) -> Floats:
    return x[1]


def and_twice(x: Floats) -> Floats:
    return np.concatenate([x, 2 * x])


@pytest.mark.parametrize(
    ("body", "shape", "expected"),
    [
        (PLAIN, (4,), twice),
        (VIEW, (2, 4), twice_the_second),
        (CONCATENATION, (4,), and_twice),
        (OVERWRITTEN, (4,), twice),
        (LATER, (4,), four_times),
        (HANDED_ON, (2, 4), second),
    ],
)
def test_runs_copy_nothing_and_leave_inputs_as_they_are(
    body: str, shape: tuple[int, ...], expected: Callable[[Floats], Floats]
):
    with opened(body) as (loaded, executor):
        found: list[npt.NDArray[np.generic]] = []
        wanted: list[Floats] = []
        for seed in range(3):
            x = floats(seed, *shape)
            given = x.copy()
            found.append(executor.run({"x": given})["y"])
            wanted.append(expected(x))
            assert given.tobytes() == x.tobytes()
        # All arrays at last: no run writes to what another has returned.
        assert [y.tolist() for y in found] == [y.tolist() for y in wanted]
        assert not bytes_used(loaded, 0, 64 if body is LATER else 512)


def test_several_pieces_at_once_are_copied():
    pieces = [{"x": floats(seed, 4)} for seed in range(3)]
    with opened(CONCATENATION) as (loaded, executor):
        single = [executor.run(piece)["y"].tolist() for piece in pieces]
        assert not bytes_used(loaded)
        many = [found["y"].tolist() for found in executor.run_many(pieces)]
        assert bytes_used(loaded)
        assert many == single
        assert executor.run(pieces[0])["y"].tolist() == single[0]


def test_arrays_between_the_places_of_elements_are_copied():
    words = np.zeros(17, np.uint8)
    x = words[1:].view(np.float32)
    x[:] = floats(4, 4)
    with opened(PLAIN) as (loaded, executor):
        assert executor.run({"x": x})["y"].tolist() == (2 * x).tolist()
        assert bytes_used(loaded, 0, 64)
        assert not bytes_used(loaded, 64, 512)


def test_a_run_after_one_that_failed():
    body = PLAIN.replace("call @double", "call @positive")
    with opened(body) as (loaded, executor):
        x = floats(5, 4)
        assert executor.run({"x": x})["y"].tolist() == x.tolist()
        with pytest.raises(TaskError, match="too small"):
            executor.run({"x": -x})
        assert executor.run({"x": 2 * x})["y"].tolist() == (2 * x).tolist()
        assert not bytes_used(loaded)


def test_an_output_that_is_overwritten_after_it_was_taken():
    x = floats(7, 4)
    with opened(FETCHED_BEFORE) as (_, executor):
        found = executor.run({"x": x})
    assert found["y"].tolist() == (2 * x).tolist()
    assert found["z"].tolist() == (4 * x).tolist()


def test_an_output_that_is_taken_twice():
    body = PLAIN + actor("@y", "z", "launch.call @double [@y, @z]")
    body = body.replace(
        "512", "512\nlaunch.register @z in @c at 128 slots 1 : memref<4xf32>"
    )
    body += fetch("y").replace("@fetch", "@more").replace('"y"', '"same"')
    body += fetch("z").replace("@fetch", "@last").replace('"y"', '"z"')
    x = floats(6, 4)
    with opened(body) as (_, executor):
        found = executor.run({"x": x})
    assert found["y"].tolist() == found["same"].tolist() == (2 * x).tolist()
    assert found["z"].tolist() == (4 * x).tolist()
