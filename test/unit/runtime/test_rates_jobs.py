"""Jobs whose values come at different rates, against NumPy."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from draws import draws, fresh

from penstock.runtime.executors.stream import Stream
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.errors import UsageError
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Model, Session

ENGINES = [("actors", 1), ("actors", 2), ("sequential", 1), ("sim", 1)]
engines = pytest.mark.parametrize(("engine", "threads"), ENGINES)


def model_of(text: str, weights: dict[str, np.ndarray] | None = None) -> Model:
    module = installed_compiler()[0].parse(text.encode(), "job.mlir")
    return Model(module, weights or {}, Path())


def session(
    text: str, engine: str, threads: int, weights: dict[str, np.ndarray] | None = None
) -> Session:
    front = installed_compiler()
    model = model_of(text, weights)
    return Session(model, threads=threads, engine=engine, compiler=front)


def assert_close(found: npt.ArrayLike, expected: npt.ArrayLike) -> None:
    arrays = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    np.testing.assert_allclose(*arrays, rtol=1e-4, atol=1e-5)


BATCHES = """
job.job @batches placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x8xf32>
  %w = job.variable "w" init <zeros> : tensor<8x4xf32>
  %b = op.pack %x by 4 : tensor<2x8xf32> -> tensor<8x8xf32>
  %h = op.matmul %b, %w : tensor<8x8xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %r = op.relu %h : tensor<8x4xf32> -> tensor<8x4xf32>
  %y = op.unpack %r by 4 : tensor<8x4xf32> -> tensor<2x4xf32>
  job.output "y", %y : tensor<2x4xf32>
}
"""


@engines
def test_pieces_become_a_batch_and_its_rows_pieces_again(
    engine: str, threads: int
) -> None:
    random = np.random.default_rng(1)
    w = random.random((8, 4), dtype=np.float32) - 0.5
    with session(BATCHES, engine, threads, {"w": w}) as ready:
        for _ in range(3):
            x = random.random((4, 2, 8), dtype=np.float32) - 0.5
            (y,) = ready.run({"x": x}).values()
            expected = np.maximum(x @ w, 0)
            assert_close(y, expected)


GRADIENTS = """
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %t = job.input "t" : tensor<4x1xf32>
  %w = job.variable "w" init <zeros> : tensor<8x1xf32>
  %y = op.matmul %x, %w : tensor<4x8xf32>, tensor<8x1xf32> -> tensor<4x1xf32>
  %d = op.sub %y, %t : tensor<4x1xf32>, tensor<4x1xf32> -> tensor<4x1xf32>
  %f = op.transpose %x by [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  %g = op.matmul %f, %d : tensor<8x4xf32>, tensor<4x1xf32> -> tensor<8x1xf32>
  %s = op.acc %g every 3 : tensor<8x1xf32> -> tensor<8x1xf32>
  %n = op.sub %w, %s : tensor<8x1xf32>, tensor<8x1xf32> -> tensor<8x1xf32>
  job.assign %n to %w : tensor<8x1xf32>
  job.output "g", %s : tensor<8x1xf32>
}
"""


@engines
def test_gradients_of_several_pieces_change_a_variable_once(
    engine: str, threads: int
) -> None:
    random = np.random.default_rng(2)
    w = random.random((8, 1)).astype(np.float32)
    with session(GRADIENTS, engine, threads, {"w": w}) as ready:
        for _ in range(4):
            x = (random.random((3, 4, 8)) - 0.5).astype(np.float32)
            t = random.random((3, 4, 1)).astype(np.float32)
            found = ready.run({"x": x, "t": t})["g"]
            # All of a launch reads the variable as it was before.
            gradient = sum(a.T @ (a @ w - b) for a, b in zip(x, t, strict=True))
            assert_close(found, gradient)
            w = w - gradient


def random_job(seed: int) -> str:
    """A job of ops that change rates, and of sums."""
    random = np.random.default_rng(seed)

    def draw(count: int) -> int:
        return int(random.integers(count))

    lines = ['%v0 = job.input "x" : tensor<8x4xf32>']
    # Rows, and how often each value comes.
    known: list[tuple[str, int, int]] = [("%v0", 8, 16)]
    for index in range(1, 2 + draw(7)):
        source, rows, pieces = known[draw(len(known))]
        n, name = (2, 4)[draw(2)], f"%v{index}"

        def typed(rows: int) -> str:
            return f"tensor<{rows}x4xf32>"

        match draw(5):
            case 0 if pieces % n == 0:
                op, made = f"op.acc {source} every {n}", (rows, pieces // n)
            case 1 if pieces * n <= 64:
                op, made = f"op.repeat {source} times {n}", (rows, pieces * n)
            case 2 if pieces % n == 0 and rows * n <= 64:
                op, made = f"op.pack {source} by {n}", (rows * n, pieces // n)
            case 3 if rows % n == 0 and pieces * n <= 64:
                op, made = f"op.unpack {source} by {n}", (rows // n, pieces * n)
            case _:
                fits = [x for x, r, p in known if (r, p) == (rows, pieces)]
                other = fits[draw(len(fits))]
                kind = typed(rows)
                lines.append(
                    f"{name} = op.add {source}, {other} : {kind}, {kind} -> {kind}"
                )
                known.append((name, rows, pieces))
                continue
        lines.append(f"{name} = {op} : {typed(rows)} -> {typed(made[0])}")
        known.append((name, *made))
    for index, (name, rows, _) in enumerate(known):
        lines.append(f'job.output "y{index}", {name} : tensor<{rows}x4xf32>')
    body = "\n".join(lines)
    return f"job.job @j placement <cpu, [0:0]> {{\n{body}\n}}"


@pytest.mark.parametrize("seed", range(draws(4)))
def test_random_jobs_are_as_numpy_says(seed: int) -> None:
    text = random_job(seed)
    random = np.random.default_rng(100 + seed)
    for engine, threads in ENGINES:
        with session(text, engine, threads) as ready:
            (port,) = ready.executor_of(ready.jobs[0]).program.inputs.values()
            x = random.random(port.shape, dtype=np.float32)
            found = ready.run({"x": x})
        expected = evaluate_model(model_of(text), {"x": x})
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_close(found[name], value)


def pieces_of(text: str, given: list[np.ndarray]) -> dict[str, list[np.ndarray]]:
    """The pieces of each value of a random job, by what its ops do to lists of them."""
    values = {"%v0": given}
    for line in text.splitlines():
        match line.split():
            case [name, "=", "op.add", left, right, *_]:
                pairs = zip(values[left.strip(",")], values[right], strict=False)
                values[name] = [a + b for a, b in pairs]
            case [name, "=", op, source, _, number, *_] if op.startswith("op."):
                values[name] = CHANGES[op](values[source], int(number))
            case _:
                pass
    return values


def grouped(pieces: list[np.ndarray], n: int) -> list[np.ndarray]:
    """Each n pieces behind each other; those that make no whole are left out."""
    whole = len(pieces) // n * n
    return [np.stack(pieces[i : i + n]) for i in range(0, whole, n)]


CHANGES: dict[str, Callable[[list[np.ndarray], int], list[np.ndarray]]] = {
    "op.acc": lambda x, n: [group.sum(0) for group in grouped(x, n)],
    "op.repeat": lambda x, n: [piece for piece in x for _ in range(n)],
    "op.pack": lambda x, n: [group.reshape(-1, 4) for group in grouped(x, n)],
    "op.unpack": lambda x, n: [part for piece in x for part in np.split(piece, n)],
}


@pytest.mark.parametrize("seed", range(draws(2)))
def test_random_jobs_are_streams_that_end_with_what_makes_no_whole(seed: int) -> None:
    text = random_job(200 + seed)
    random = np.random.default_rng(seed)
    given = [
        random.random((8, 4), np.float32) for _ in range(int(random.integers(20, 60)))
    ]
    expected = pieces_of(text, given)
    for threads, engines in ((1, ("actors", "sequential", "sim")), (3, ("actors",))):
        with session(text, "actors", threads) as ready:
            program = ready.executor.program
            for engine in engines:
                times = [1 for _ in program.tables.actors]
                with Stream(program, engine, 2, times) as stream:
                    outputs = stream.run({"x": given}).outputs
                for name, found in outputs.items():
                    wanted = expected[f"%v{name[1:]}"]
                    assert len(found) == len(wanted)
                    for ours, theirs in zip(found, wanted, strict=True):
                        assert_close(ours, theirs)


OF_A_VARIABLE = """
!t = tensor<2x4xf32>
job.job @j placement <cpu, [0:0]> {
  %xs = job.input "x" : tensor<8x4xf32>
  %x = op.unpack %xs by 4 : tensor<8x4xf32> -> !t
  %w = job.variable "w" init <zeros> : !t
  %each = op.repeat %w times 4 : !t -> !t
  %product = op.mul %x, %each : !t, !t -> !t
  %sum = op.acc %product every 4 : !t -> !t
  %row = op.unpack %w by 2 : !t -> tensor<1x4xf32>
  %rows = op.pack %row by 2 : tensor<1x4xf32> -> !t
  %y = op.add %sum, %rows : !t, !t -> !t
  job.output "y", %y : !t
}
"""


def test_numpy_reads_a_variable_as_often_as_an_op_takes_it() -> None:
    random = fresh()
    x, w = random.random((8, 4), np.float32), random.random((2, 4), np.float32)
    expected = (x.reshape(4, 2, 4) * w).sum(0) + w
    model = model_of(OF_A_VARIABLE)
    model.weights = {"w": w}
    assert_close(evaluate_model(model, {"x": x})["y"], expected)
    with session(OF_A_VARIABLE, "actors", 1, {"w": w}) as ready:
        assert_close(ready.run({"x": x})["y"], expected)


def test_numpy_does_not_say_what_a_plan_with_rates_means() -> None:
    model = model_of(
        """
plan.plan @p {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %s = plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>)
      -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %r = op.acc %v every 2 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
}
"""
    )
    with pytest.raises(UsageError) as raised:
        evaluate_model(model, {"x": np.zeros(4, np.float32)})
    assert str(raised.value) == "a plan with rates has no meaning in NumPy"
