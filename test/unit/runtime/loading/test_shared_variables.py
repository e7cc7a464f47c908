"""Variables of programs that are loaded one by one, in one memory for all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.memory import PAGE
from penstock.runtime.loading.shared_variables import SharedVariables, moved
from penstock.runtime.loading.variables import read_variables, write_variables
from penstock.runtime.program.executable import (
    Memory,
    ProgramImage,
    Queue,
    TensorKind,
    Variable,
)
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

MULTIPLY = """
job.job @multiply placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x16xf32>
  %w = job.variable "w" init <normal, seed = 1> : tensor<16x4xf32>
  %m = op.matmul %x, %w : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  job.output "y", %m : tensor<8x4xf32>
}
"""
SHOW = """
job.job @show placement <cpu, [0:0]> {
  %v = job.variable "v" init <ones> : tensor<6xf32>
  %w = job.variable "w" init <normal, seed = 2> : tensor<16x4xf32>
  %r = op.reshape %w to [4, 16] : tensor<16x4xf32> -> tensor<4x16xf32>
  %c = op.constant dense<[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]> : tensor<6xf32>
  %s = op.mul %v, %c : tensor<6xf32>, tensor<6xf32> -> tensor<6xf32>
  job.output "r", %r : tensor<4x16xf32>
  job.output "s", %s : tensor<6xf32>
}
"""
STORE = """
job.job @store placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<16x4xf32>
  %w = job.variable "w" init <normal, seed = 3> : tensor<16x4xf32>
  job.output "same", %x : tensor<16x4xf32>
  job.assign %x to %w : tensor<16x4xf32>
}
"""


def opened(text: str, shared: SharedVariables) -> Session:
    front = installed_compiler()
    model = Model(front[0].parse(text.encode(), "job.mlir"), {}, Path())
    return Session(model, compiler=front, variables=shared)


def test_programs_have_one_copy_and_the_first_sets_the_values():
    shared = SharedVariables()
    x = np.eye(8, 16, dtype=np.float32)
    with opened(MULTIPLY, shared) as multiply:
        (place,) = shared.addresses("w")
        w = multiply.state()["w"]
        with opened(SHOW, shared) as show:
            # No new memory, and no other value.
            assert shared.addresses("w") == [place]
            assert shared.names == ["v", "w"]
            out = show.run({})
            assert (out["r"] == w.reshape(4, 16)).all()
            assert out["s"].tolist() == [1, 2, 4, 8, 16, 32]
            assert sorted(show.state()) == ["v", "w"]
        np.testing.assert_array_equal(multiply.run({"x": x})["y"], w[:8])


def test_what_one_program_assigns_the_others_read():
    shared = SharedVariables()
    x = np.eye(8, 16, dtype=np.float32)
    new = np.arange(64, dtype=np.float32).reshape(16, 4)
    with (
        opened(MULTIPLY, shared) as multiply,
        opened(SHOW, shared) as show,
        opened(STORE, shared) as store,
    ):
        for value in (new, new + 1):
            store.run({"x": value})
            assert (multiply.run({"x": x})["y"] == value[:8]).all()
            assert (show.run({})["r"] == value.reshape(4, 16)).all()
        show.load_state({"v": np.zeros(6, np.float32), "w": -new})
        assert (multiply.run({"x": x})["y"] == -new[:8]).all()


def test_variables_outlive_the_programs_and_can_be_read_and_written():
    shared = SharedVariables()
    with opened(MULTIPLY, shared) as multiply:
        w = multiply.state()["w"]
    assert (read_variables(shared)["w"] == w).all()
    write_variables(shared, {"w": np.add(w, w)})
    with opened(SHOW, shared) as show:
        assert (show.run({})["r"] == np.add(w, w).reshape(4, 16)).all()


def test_kernels_read_shared_memory_without_copies():
    shared = SharedVariables()
    with opened(MULTIPLY, shared) as session:
        (place,) = shared.addresses("w")
        tables = session.executor.program.tables
        rows = set(tables.rows.tolist())
        assert place in rows
        chunks = session.executor.program.chunks
        assert "variable 0" in chunks
        # What is left has no room for the variable.
        assert sum(x.size for x in session.executor.program.image.chunks) < 2 * 1024


def test_program_that_cannot_be_loaded_adopts_nothing():
    shared = SharedVariables()
    text = MULTIPLY.replace("<normal, seed = 1>", '<npz, file = "none.npz">')
    with pytest.raises(PenstockError):
        opened(text, shared)
    assert shared.names == []
    with opened(MULTIPLY, shared) as multiply:
        assert multiply.state()["w"].any()


def test_variable_that_nobody_has():
    with pytest.raises(PenstockError) as caught:
        SharedVariables().addresses("w")
    assert str(caught.value) == "there is no variable 'w', only none"


# Moving ------------------------------------------------------------------------------

FLOATS = TensorKind((4,), "float32", 16)


def variable(name: str, offset: int) -> Variable:
    return Variable(name, name, "c0", offset, FLOATS, (0,), (4,))


def queue(name: str, offset: int, chunk: str | None = "c0") -> Queue:
    kind = None if chunk is None else FLOATS._replace(size=8)
    return Queue(name, chunk, offset, 0, 1, 0, kind)


def image(variables: list[Variable], queues: list[Queue]) -> ProgramImage:
    memory = Memory("c0", "cpu", 3 * PAGE)
    return ProgramImage("p", (), (memory,), tuple(queues), tuple(variables), (), ())


def test_views_move_with_their_variables_and_the_rest_to_the_front():
    first, second = variable("a", 0), variable("b", 64)
    queues = [
        queue("over a", 8),
        queue("over b", 64),
        queue("free", PAGE + 16),
        queue("control", 0, None),
    ]
    homes = {"a": first._replace(chunk="A"), "b": second._replace(chunk="B", offset=0)}
    found = moved(image([first, second], queues), homes)
    assert [(x.chunk, x.offset) for x in found.queues] == [
        ("A", 8),
        ("B", 0),
        ("c0", 16),
        (None, 0),
    ]
    assert [(x.chunk, x.offset) for x in found.variables] == [("A", 0), ("B", 0)]
    assert found.chunks == (
        Memory("c0", "cpu", 2 * PAGE),
        Memory("A", "cpu", 16),
        Memory("B", "cpu", 16),
    )


def test_chunk_that_nothing_is_left_in_is_gone():
    only = variable("a", 0)
    found = moved(image([only], [queue("view", 0)]), {"a": only._replace(chunk="A")})
    assert found.chunks == (Memory("A", "cpu", 16),)


def test_what_has_no_home_stays():
    given = image([variable("a", 0), variable("b", 64)], [queue("view", 64)])
    assert moved(given, {}) == given
