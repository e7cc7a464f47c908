"""Loading programs: where things lie, what they start from, and who runs them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from loaded_programs import load_program

from penstock.dialects.launch import ProgramOp
from penstock.runtime.errors import PenstockError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.loading.devices import Cpu, Device
from penstock.runtime.loading.initializers import (
    Array,
    Initializer,
    WeightFiles,
    initial_value,
)
from penstock.runtime.loading.loader import LoadedProgram
from penstock.runtime.loading.memory import PAGE, allocation_count
from penstock.runtime.program.executable import Kernel
from penstock.runtime.program.tables import Argument, Call
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.kernel_sources import kernel_sources

DOUBLE = """
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
"""


def program(body: str) -> ProgramOp:
    compiler, _ = installed_compiler()
    text = f"launch.program @p rank 0 {{\n{body}\n}}"
    module = compiler.parse(text.encode(), "p.mlir")
    compiler.verify(module)
    op = module.body.block.first_op
    assert isinstance(op, ProgramOp)
    return op


def load(
    body: str,
    *,
    weights: Mapping[str, Array] | None = None,
    threads: int = 1,
    devices: Mapping[str, Device] | None = None,
) -> LoadedProgram:
    op = program(body)
    sources = kernel_sources(op, ["cpu"])
    return load_program(op, sources, weights=weights, threads=threads, devices=devices)


def refusal_of(body: str, threads: int = 1) -> str:
    with pytest.raises(PenstockError) as caught:
        load(body, threads=threads)
    return str(caught.value)


def run(loaded: LoadedProgram, inputs: Mapping[str, Array]) -> dict[str, Array]:
    with Executor(loaded) as executor:
        return executor.run(inputs)


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


# Memory ------------------------------------------------------------------------------


def test_registers_lie_at_their_offsets_in_aligned_chunks():
    # A slot of 20 bytes takes 64, so that each starts at a cache line.
    loaded = load("""
      launch.chunk @empty on <0, host> size 0
      launch.chunk @c on <0, host> size 1000
      launch.register @x in @c at 128 slots 3 : memref<5xf32>
      launch.register @y in @c at 64 slots 1 : memref<5xf32>
      launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@y, @x] {
      ^bb0:
      }
    """)
    assert all(chunk.address % PAGE == 0 for chunk in loaded.chunks.values())
    start = loaded.chunks["c"].address
    places = {r.name: (r.address - start, r.stride) for r in loaded.tables.registers}
    assert places == {"y": (64, 64), "x": (128, 64)}
    assert loaded.chunks["c"].read(0, 1000).tolist() == [0] * 1000


def test_each_chunk_is_one_allocation():
    before = allocation_count()
    load("""
      launch.chunk @c on <0, host> size 64
      launch.chunk @d on <0, pinned cuda:0> size 64
      launch.register @x in @d at 0 slots 1 : memref<4xf32>
    """)
    assert allocation_count() - before == 2


def test_chunk_larger_than_the_machine():
    refusal = refusal_of("launch.chunk @c on <0, host> size 1152921504606846976")
    text = (
        r"there is no memory for 1152921504606846976 bytes on the host, which has \d+"
    )
    assert re.fullmatch(text, refusal)


def test_register_that_no_actor_writes_is_left_out():
    loaded = load("""
      launch.chunk @c on <0, host> size 64
      launch.register @x in @c at 0 slots 1 : memref<4xf32>
      launch.control @k slots 1
    """)
    assert loaded.tables.registers == ()


# Variables ---------------------------------------------------------------------------

VARIABLES = """
  launch.chunk @c on <0, host> size 256
  launch.variable @w in @c at 64 init <constant, value = 2> : memref<3xf32>
  launch.variable @v port "bias" in @c at 0 init <ones> : memref<2xi64>
  launch.variable @t in @c at 128
    value dense<[true, false, true]> : tensor<3xi1> : memref<3xi1>
"""


def variables(loaded: LoadedProgram) -> list[Array]:
    chunk = loaded.chunks["c"]
    return [
        chunk.read(64, 12).view(np.float32),
        chunk.read(0, 16).view(np.int64),
        chunk.read(128, 3).view(np.bool_),
    ]


def test_variables_start_from_initialisers_and_values():
    loaded = load(VARIABLES)
    assert [array.tolist() for array in variables(loaded)] == [
        [2, 2, 2],
        [1, 1],
        [True, False, True],
    ]
    assert {x.port: x.name for x in loaded.variables} == {"w": "w", "bias": "v"}


def test_weights_take_the_place_of_initialisers():
    # From the other end, and in the other byte order.
    weights = {"w": floats(3, 2, 1)[::-1], "bias": np.array([4, 5], ">i8")}
    w, v, _ = variables(load(VARIABLES, weights=weights))
    assert w.tolist() == [1, 2, 3]
    assert v.tolist() == [4, 5]


PARTS = """
  launch.chunk @c on <0, host> size 256
  launch.variable @a port "w" in @c at 0 init <normal, seed = 3>
    part [0, 0] of [4, 3] : memref<3x3xf32>
  launch.variable @b port "w" in @c at 64 init <normal, seed = 3>
    part [3, 1] of [4, 3] : memref<1x2xf32>
"""


@pytest.mark.parametrize("given", [False, True])
def test_parts_of_variables_hold_what_the_whole_would(given: bool):
    with WeightFiles(Path()) as files:
        init = Initializer("normal", {"seed": 3})
        value = initial_value(init, "w", [4, 3], np.dtype(np.float32), files)
    whole = np.asarray(value, np.float32)
    weights = {"w": -whole} if given else {}
    chunk = load(PARTS, weights=weights).chunks["c"]
    a = chunk.read(0, 36).view(np.float32).reshape(3, 3)
    b = chunk.read(64, 8).view(np.float32).reshape(1, 2)
    sign = -1 if given else 1
    assert (sign * a == whole[:3]).all()
    assert (sign * b == whole[3:, 1:]).all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        # Ports, not symbols; and a constant is no variable.
        (
            {"z": floats(1), "v": floats(1), "t": np.ones(3, np.bool_)},
            "the program has no variables t, v, z",
        ),
        (
            {"w": floats(1, 2)},
            "variable 'w' has shape (3,), got an array of shape (2,)",
        ),
        (
            {"w": np.ones(3)},
            "variable 'w' has dtype float32, got an array of dtype float64",
        ),
    ],
)
def test_weights_that_do_not_fit(weights: Mapping[str, Array], message: str):
    with pytest.raises(PenstockError) as caught:
        load(VARIABLES, weights=weights)
    assert str(caught.value) == message


def test_all_that_is_wrong_with_weights_is_said_at_once(tmp_path: Path):
    np.savez(tmp_path / "some.npz", a=floats(1, 2))
    op = program(
        """
        launch.chunk @c on <0, host> size 512
        launch.variable @a in @c at 0 init <npz, file = "some.npz"> : memref<2xf32>
        launch.variable @b in @c at 64 init <npz, file = "some.npz"> : memref<2xf32>
        launch.variable @d in @c at 128 init <npz, file = "none.npz"> : memref<2xf32>
        launch.variable @e in @c at 192 init <npz, file = "none.npz"> : memref<2xf32>
        launch.variable @w in @c at 256 init <zeros> : memref<2xf32>
        """
    )
    with pytest.raises(PenstockError) as caught:
        load_program(
            op, {}, directory=tmp_path, weights={"w": floats(1), "x": floats()}
        )
    missing = "no such file or directory"
    assert str(caught.value).splitlines() == [
        "4 things are wrong with the weights:",
        f"  {tmp_path / 'some.npz'} has no array 'b', which 'b' starts from",
        f"  cannot read weights from {tmp_path / 'none.npz'}: {missing}",
        "  variable 'w' has shape (2,), got an array of shape (1,)",
        "  the program has no variables x",
    ]


# Kernels -----------------------------------------------------------------------------


def test_kernels_that_nobody_calls_need_no_source():
    op = program(DOUBLE)
    assert load_program(op, {}).tables.actors == ()


def test_a_kernel_is_compiled_once_for_all_its_calls():
    calls = (
        load(
            DOUBLE
            + """
      launch.chunk @c on <0, host> size 256
      launch.register @x in @c at 0 slots 1 : memref<4xf32>
      launch.register @y in @c at 64 slots 1 : memref<4xf32>
      launch.register @z in @c at 128 slots 1 : memref<4xf32>
      launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
        launch.feed "x" to @x
      }
      launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [@y, @z] {
        launch.call @double [@x, @y]
        launch.call @double [@y, @z]
      }
    """
        )
        .tables.actors[1]
        .calls
    )
    assert calls[0].kernel == calls[1].kernel
    assert calls[0].args != calls[1].args


IN_PARTS = """
from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel, f32

PARTS = 3


@c_kernel
def kernel(args, part, parts):
    y = buffer_f32(args, 0, 1)
    y[part] = f32(10 * parts + part)
    return 0
"""


@pytest.mark.parametrize(
    ("threads", "y"), [(1, [10]), (2, [20, 21]), (3, [30, 31, 32])]
)
def test_kernels_run_in_equal_numbers_of_parts_for_each_thread(
    threads: int, y: Sequence[float]
):
    op = program("""
      launch.chunk @c on <0, host> size 64
      launch.register @y in @c at 0 slots 1 : memref<4xf32>
      launch.kernel @k target "cpu" (%y: memref<4xf32>) {
      }
      launch.actor @k0 on <0, cpu:0> stream 0 reads [] writes [@y] {
        launch.call @k [@y]
      }
      launch.actor @fetch on <0, cpu:0> stream 0 reads [@y] writes [] {
        launch.fetch "y" from @y
      }
    """)
    loaded = load_program(op, {"k": IN_PARTS}, threads=threads)
    assert run(loaded, {})["y"].tolist()[: len(y)] == y


# Workers -----------------------------------------------------------------------------


class Toy(Cpu):
    """A device of a kind of its own, whose memory is that of the host."""

    def __init__(self) -> None:
        super().__init__()
        self.copies = 0

    def call(self, kernel: Kernel, source: str, args: Sequence[Argument]) -> Call:
        raise AssertionError("there are no kernels for it")

    def copy(self, size: int, source: Argument, target: Argument) -> Call:
        self.copies += 1
        return super().copy(size, source, target)


def streams_of(count: int) -> str:
    return "".join(
        f"launch.actor @a{i} on <0, cpu:0> stream {i} reads [] writes [] {{\n"
        "^bb0:\n}\n"
        for i in range(count)
    )


@pytest.mark.parametrize(
    ("threads", "workers"), [(1, [0] * 5), (2, [0, 1, 0, 1, 0]), (8, [0, 1, 2, 3, 4])]
)
def test_streams_are_spread_over_workers(threads: int, workers: list[int]):
    loaded = load(streams_of(5), threads=threads)
    assert [actor.worker for actor in loaded.tables.actors] == workers


THROUGH_A_DEVICE = """
  launch.chunk @host on <0, pinned toy:0> size 128
  launch.chunk @far on <0, device toy:0> size 512
  launch.register @x in @host at 0 slots 1 : memref<4xf32>
  launch.register @there in @far at 0 slots 1 : memref<4xf32>
  launch.register @y in @host at 64 slots 1 : memref<4xf32>
  launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @up on <0, toy:0> stream 1 reads [@x] writes [@there] {
    launch.copy @x to @there
  }
  launch.actor @down on <0, toy:0> stream 2 reads [@there] writes [@y] {
    launch.copy @there to @y
  }
  launch.actor @fetch on <0, cpu:0> stream 0 reads [@y] writes [] {
    launch.fetch "y" from @y
  }
"""


def test_all_actors_on_a_device_share_a_worker_of_their_own():
    toy = Toy()
    loaded = load(THROUGH_A_DEVICE, threads=2, devices={"toy": toy})
    workers = {actor.name: actor.worker for actor in loaded.tables.actors}
    assert workers == {"feed": 0, "up": 2, "down": 2, "fetch": 0}
    assert toy.copies == 2
    x = floats(1, 2, 3, 4)
    assert run(loaded, {"x": x})["y"].tolist() == x.tolist()


def test_device_that_is_not_there():
    expected = (
        "the program needs a device of kind 'toy', which no plug-in here opens: load "
        "its file, with --load FILE.py or load=['FILE.py']"
    )
    assert refusal_of(THROUGH_A_DEVICE) == expected


def test_copy_between_kinds_of_devices():
    with pytest.raises(PenstockError) as caught:
        load(
            """
          launch.chunk @far on <0, device toy:0> size 64
          launch.chunk @away on <0, device other:0> size 64
          launch.register @x in @far at 0 slots 1 : memref<4xf32>
          launch.register @y in @away at 0 slots 1 : memref<4xf32>
          launch.actor @a on <0, toy:0> stream 0 reads [] writes [@x, @y] {
            launch.copy @x to @y
          }
        """,
            devices={"toy": Toy(), "other": Toy()},
        )
    expected = "cannot copy between devices of kinds other, toy"
    assert str(caught.value) == expected


# Ports -------------------------------------------------------------------------------


def test_variables_and_registers_are_fetched_more_than_once():
    loaded = load("""
      launch.chunk @c on <0, host> size 256
      launch.register @x in @c at 0 slots 1 : memref<4xf32>
      launch.variable @w in @c at 64 init <ones> : memref<2xi1>
      launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
        launch.feed "x" to @x
      }
      launch.actor @fetch on <0, cpu:0> stream 0 reads [@x] writes [] {
        launch.fetch "y" from @x
        launch.fetch "z" from @x
      }
      launch.actor @again on <0, cpu:0> stream 0 reads [@x] writes [] {
        launch.fetch "a" from @x
        launch.fetch "w" from @w
      }
    """)
    x = floats(1, 2, 3, 4)
    outputs = run(loaded, {"x": x})
    assert {name: array.tolist() for name, array in outputs.items()} == {
        "y": x.tolist(),
        "z": x.tolist(),
        "a": x.tolist(),
        "w": [True, True],
    }
    assert outputs["w"].dtype == np.bool_


def test_port_has_one_actor():
    feed = """
      launch.chunk @c on <0, host> size 256
      launch.register @x in @c at 0 slots 1 : memref<4xf32>
      launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] {
        launch.feed "p" to @x
    """
    twice = feed + 'launch.feed "p" to @x\n}'
    at_the_second = "p.mlir:7:5: launch.feed: "
    assert refusal_of(twice) == f"{at_the_second}two actors serve the port 'p'"
    # An input and an output may have one name.
    loaded = load(feed + 'launch.fetch "p" from @x\n}')
    x = floats(1, 2, 3, 4)
    assert run(loaded, {"p": x})["p"].tolist() == x.tolist()


# Whole programs ----------------------------------------------------------------------


def test_at_least_one_thread():
    expected = "there must be at least one thread, got 0"
    assert refusal_of(streams_of(1), threads=0) == expected


def test_actors_that_wait_for_each_other():
    cycle = """
      launch.control @k slots 1 {}
      launch.control @l slots 2
      launch.actor @a on <0, cpu:0> stream 0 reads [@l] writes [@k] {{
      ^bb0:
      }}
      launch.actor @b on <0, cpu:0> stream 0 reads [@k] writes [@l] {{
      ^bb0:
      }}
    """
    assert refusal_of(cycle.format("")) == "actors wait for each other: a -> b"
    run(load(cycle.format("initial 1")), {})
