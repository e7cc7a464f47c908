"""Programs whose pieces last for several acts, from text to results."""

from collections.abc import Callable

import numpy as np
import pytest
from loaded_programs import load_program

from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.executors.executor import Executor
from penstock.runtime.loading.loader import LoadedProgram
from penstock.runtime.program.executable import image_from_json
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.program_export import image_of

PROGRAM = (
    """
launch.program @acc rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @g in @c0 at 0 slots 2 : memref<1x4xf32>
  launch.register @sum in @c0 at 128 slots 1 : memref<1x4xf32>
  launch.register @batch in @c0 at 256 slots 2 : memref<4x4xf32>
  launch.register @row in @c0 at 256 slots 8 over @batch : memref<1x4xf32>
  launch.register @again in @c0 at 128 slots 3 over @sum : memref<1x4xf32>
  launch.kernel @add target "cpu" (%a: memref<1x4xf32>, %o: memref<1x4xf32>) {
    linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]
    } ins(%a : memref<1x4xf32>) outs(%o : memref<1x4xf32>) {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      linalg.yield %z : f32
    }
  }
  launch.actor @x on <0, cpu:0> stream 0 reads [] writes [@g] {
    launch.feed "x" to @g
  }
  launch.actor @acc on <0, cpu:0> stream 1 reads [@g] writes [@sum] every [@sum = 4] {
    launch.copy @g to @sum {when = "first"}
    launch.call @add [@g, @sum] {when = "rest"}
  }
  launch.actor @repeat on <0, cpu:0> stream 0 reads [@sum] writes [@again]
      every [@sum = 3] {
  }
  launch.actor @pack on <0, cpu:0> stream 0 reads [@g] writes [@batch]
      every [@batch = 4] {
    launch.copy @g to @batch
  }
  launch.actor @unpack on <0, cpu:0> stream 1 reads [@batch] writes [@row]
      every [@batch = 4] {
  }
  launch.actor @sum on <0, cpu:0> stream 0 reads [@again, @sum] writes []
      every [@sum = 3] {
    launch.fetch "sum" from @again
  }
  launch.actor @batch on <0, cpu:0> stream 0 reads [@batch] writes [] {
    launch.fetch "batch" from @batch
  }
  launch.actor @row on <0, cpu:0> stream 1 reads [@row, @batch] writes []
      every [@batch = 4] {
    launch.fetch "row" from @row
  }
}
""".replace("@sum on", "@s on")
    .replace("@batch on", "@b on")
    .replace("@row on", "@r on")
)


def program() -> ProgramOp:
    module = installed_compiler()[0].parse(PROGRAM.encode(), "program.mlir")
    return next(op for op in module.walk() if isinstance(op, ProgramOp))


@pytest.fixture(scope="module")
def load() -> Callable[[int], LoadedProgram]:
    op = program()
    kernels = (x for x in op.body.block.ops if isinstance(x, KernelOp))
    sources = {kernel.sym_name.data: kernel_source(kernel) for kernel in kernels}
    return lambda threads: load_program(op, sources, threads=threads)


@pytest.mark.parametrize("engine", ["actors", "sequential", "sim"])
@pytest.mark.parametrize("threads", [1, 2])
def test_ports_take_and_give_all_pieces_of_a_turn_as_one_array(
    load: Callable[[int], LoadedProgram], engine: str, threads: int
) -> None:
    random = np.random.default_rng(7)
    pieces = random.random((300, 4, 1, 4), dtype=np.float32)
    with Executor(load(threads), engine) as executor:
        found = executor.run_many([{"x": x} for x in pieces])
    assert len(found) == 300
    for x, outputs in zip(pieces, found, strict=True):
        total = x[0] + x[1] + x[2] + x[3]
        assert np.array_equal(outputs["sum"], [total] * 3)
        assert np.array_equal(outputs["batch"], x.reshape(4, 4))
        assert np.array_equal(outputs["row"], x)


def test_observers_see_each_act_of_a_turn(
    load: Callable[[int], LoadedProgram],
) -> None:
    from penstock.runtime.observe.observers import Event, Observer

    class Counter(Observer):
        def __init__(self) -> None:
            self.acts: dict[str, list[int]] = {}
            self.calls: dict[str, list[str]] = {}

        def stop(self, event: Event) -> None:
            if event.level == "task" and event.task is not None:
                self.acts.setdefault(event.task.name, []).append(event.act or 0)
            if event.level == "op" and event.task is not None and event.op is not None:
                self.calls.setdefault(event.task.name, []).append(event.op.verb)

    with Executor(load(1)) as executor:
        counter = executor.observers.attach(Counter())
        for _ in range(2):
            executor.run({"x": np.zeros((4, 1, 4), np.float32)})
    assert counter.acts["acc"] == [0, 1, 2, 3] * 2
    assert counter.acts["s"] == [0, 1, 2] * 2
    assert counter.acts["b"] == [0] * 2
    assert counter.calls["acc"] == ["copy", "call", "call", "call"] * 2


def test_the_image_of_a_program_is_kept_as_text() -> None:
    image = image_of(program())
    assert image_from_json(image.to_json()) == image
    assert image.port_repetitions == {"x": 4, "sum": 3, "batch": 1, "row": 4}
