"""
New values of variables that kernels write over the old ones: where they do, the arrays
that they move, and the numbers of steps, against NumPy in f64.
"""

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from penstock.dialects.launch import CallOp, CopyOp, KernelOp, names_of, steps_within
from penstock.lowering.codegen.target import kernel_source
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Array = npt.NDArray[np.generic]

STEP = """
job.job @step placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<8x16xf32>
  %t = job.input "t" : tensor<8x4xf32>
  %bad = job.input "bad" : tensor<i1>
  %w = job.variable "w" init <normal, seed = 1, std = 0.1> : tensor<16x4xf32>
  %b = job.variable "b" init <zeros> : tensor<4xf32>
  %h = op.matmul %x, %w : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %y = op.add %h, %b : tensor<8x4xf32>, tensor<4xf32> -> tensor<8x4xf32>
  %d = op.sub %y, %t : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %q = op.mul %d, %d : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %loss = op.reduce_mean %q axes [0, 1] : tensor<8x4xf32> -> tensor<f32>
  job.output "loss", %loss : tensor<f32>
  job.output "w_before", %w : tensor<16x4xf32>
  %gw, %gb = job.gradients of %loss by %w, %b
    : tensor<f32>, tensor<16x4xf32>, tensor<4xf32>
  job.update %w by %gw with <{optimizer}> skip %bad : tensor<16x4xf32>
  job.update %b by %gb with <{optimizer}> skip %bad : tensor<4xf32>
}}
"""
MOMENTUM = "momentum, rate = 0.1, momentum = 0.9"
ADAMW = "adamw, rate = 0.01, weight_decay = 0.1"
STATES = {MOMENTUM: 1, ADAMW: 2}


def opened(optimizer: str, engine: str = "actors", threads: int = 1) -> Session:
    compiler = installed_compiler()
    module = compiler[0].parse(STEP.format(optimizer=optimizer).encode(), "step.mlir")
    compiler[0].verify(module)
    return Session(
        Model(module, {}, Path()), threads=threads, engine=engine, compiler=compiler
    )


def pieces(count: int) -> list[dict[str, Array]]:
    """Random pieces, every third one to be skipped."""
    rng = np.random.default_rng(5)
    return [
        {
            "x": rng.standard_normal((8, 16)).astype(np.float32),
            "t": rng.standard_normal((8, 4)).astype(np.float32),
            "bad": np.array(number % 3 == 2),
        }
        for number in range(count)
    ]


def numpy_steps(
    optimizer: str, start: npt.NDArray[np.float64], given: list[dict[str, Array]]
) -> dict[str, npt.NDArray[np.float64]]:
    """The variables after some steps, from the formulas of the optimizers."""
    values = {"w": start.copy(), "b": np.zeros(4)}
    first = {name: np.zeros_like(value) for name, value in values.items()}
    second = {name: np.zeros_like(value) for name, value in values.items()}
    kept = [piece for piece in given if not piece["bad"]]
    for number, piece in enumerate(kept):
        x, t = piece["x"].astype(np.float64), piece["t"].astype(np.float64)
        d = 2 * (x @ values["w"] + values["b"] - t) / t.size
        gradients = {"w": x.T @ d, "b": d.sum(axis=0)}
        for name, g in gradients.items():
            if optimizer is MOMENTUM:
                # The first step takes the gradient itself, as zeros do here.
                first[name] = 0.9 * first[name] + g
                values[name] -= 0.1 * first[name]
                continue
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.999 * second[name] + 0.001 * g * g
            m = first[name] / (1 - 0.9 ** (number + 1))
            v = second[name] / (1 - 0.999 ** (number + 1))
            values[name] *= 1 - 0.01 * 0.1
            values[name] -= 0.01 * m / (np.sqrt(v) + 1e-8)
    return values


@pytest.mark.parametrize("optimizer", STATES)
def test_all_new_values_lie_on_their_variables(optimizer: str):
    with opened(optimizer) as session:
        program = session.program
        updated = [x.names[0] for actor in program.actors for x in actor.update_list]
        steps = [x for actor in program.actors for x in steps_within(actor.body.block)]
        copies = [x.target.string_value() for x in steps if isinstance(x, CopyOp)]
        assert len(set(updated)) >= 2 + 2 * STATES[optimizer]
        assert not {*copies} & {*updated}


def test_adamw_reads_four_arrays_and_writes_three():
    with opened(ADAMW) as session:
        program = session.program
        (actor,) = (x for x in program.actors if x.sym_name.data == "w_next")
        (call,) = actor.body.block.ops
        assert isinstance(call, CallOp)
        kernel = program.symbol_table()[call.kernel.root_reference.data]
        assert isinstance(kernel, KernelOp)
        arguments = dict(zip(names_of(call.arguments), kernel.arguments, strict=True))
        arrays = [x for x, type in arguments.items() if type.get_shape() == (16, 4)]
        assert len(arrays) == 4
        assert [x.names[0] for x in actor.update_list] == arrays[1:]
        scalars = len(arguments) - len(arrays)
        assert kernel.cost is not None
        assert 7 * 16 * 4 * 4 <= kernel.cost[2] <= 7 * 16 * 4 * 4 + 8 * scalars
        source = kernel_source(kernel)
        assert len(re.findall(r"= (in|out)\d+\[i0\]", source)) == 4
        assert len(re.findall(r"out\d+\[i0\] = ", source)) == 3


@pytest.mark.parametrize("optimizer", STATES)
@pytest.mark.parametrize(
    ("engine", "threads", "way"),
    [
        ("sequential", 1, "stream"),
        ("sim", 1, "many"),
        ("actors", 1, "run"),
        ("actors", 1, "stream"),
        ("actors", 2, "many"),
    ],
)
def test_steps_are_those_of_numpy(optimizer: str, engine: str, threads: int, way: str):
    given = pieces(7)
    with opened(optimizer, engine, threads) as session:
        before = session.state()["w"].copy()
        if way == "run":
            found = [session.run(piece)["w_before"].copy() for piece in given]
        elif way == "many":
            made = session.executor.run_many(given)
            found = [piece["w_before"].copy() for piece in made]
        else:
            with session.stream() as stream:
                names = given[0].keys()
                listed = {name: [piece[name] for piece in given] for name in names}
                found = [*stream.run(listed).outputs["w_before"]]
        state = session.state()
    start = before.astype(np.float64)
    for number, seen in enumerate(found):
        # All that a step reads is what the one before has left.
        wanted = numpy_steps(optimizer, start, given[:number])["w"]
        assert np.allclose(seen, wanted, rtol=2e-5, atol=2e-6), number
    for name, value in numpy_steps(optimizer, start, given).items():
        assert np.allclose(state[name], value, rtol=2e-5, atol=2e-6), name


def test_a_step_that_is_skipped_changes_no_bit():
    (piece, *_) = pieces(1)
    with opened(ADAMW) as session:
        session.run(piece)
        before = {name: value.tobytes() for name, value in session.state().items()}
        session.run({**piece, "bad": np.array(True)})
        after = {name: value.tobytes() for name, value in session.state().items()}
        assert after == before
