"""Groups with several results: updates of an optimizer as one kernel, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.parser import Parser

from penstock.dialects import get_all_dialects
from penstock.dialects.launch import KernelOp
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[np.generic]
Wide: TypeAlias = NDArray[np.float64]

ADAM = """
!t = tensor<{extent}x{type}>
!n = tensor<{type}>
job.job @adam placement <cpu, [0:0]> {{
  %p0 = job.variable "p" init <zeros> : !t
  %m0 = job.variable "m" init <zeros> : !t
  %v0 = job.variable "v" init <zeros> : !t
  %g = job.input "g" : !t
  %old = op.constant dense<0.75> : !n
  %new = op.constant dense<0.25> : !n
  %rate = op.constant dense<0.125> : !n
  %eps = op.constant dense<0.015625> : !n
  %a = op.mul %m0, %old : !t, !n -> !t
  %b = op.mul %g, %new : !t, !n -> !t
  %m = op.add %a, %b : !t, !t -> !t
  job.assign %m to %m0 : !t
  %c = op.mul %v0, %old : !t, !n -> !t
  %q = op.mul %g, %g : !t, !t -> !t
  %d = op.mul %q, %new : !t, !n -> !t
  %v = op.add %c, %d : !t, !t -> !t
  job.assign %v to %v0 : !t
  %r = op.sqrt %v : !t -> !t
  %s = op.add %r, %eps : !t, !n -> !t
  %f = op.div %m, %s : !t, !t -> !t
  %h = op.mul %f, %rate : !t, !n -> !t
  %p = op.sub %p0, %h : !t, !t -> !t
  job.assign %p to %p0 : !t
  job.output "p", %p : !t
  job.output "m", %m : !t
  job.output "v", %v : !t
}}"""

ERRORS = {"f16": 4e-3, "f32": 1e-6, "f64": 1e-14}


def model_of(extent: int, type: str) -> Model:
    """The job of an Adam step."""
    text = ADAM.format(extent=extent, type=type)
    context = Context()
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    return Model(Parser(context, text).parse_module(), {}, Path())


def step(state: list[Wide], gradient: Wide) -> list[Wide]:
    """The parameter, the mean and the mean of squares after a step, in `f64`."""
    p, m, v = state
    m = 0.75 * m + 0.25 * gradient
    v = 0.75 * v + 0.25 * gradient * gradient
    return [p - 0.125 * m / (np.sqrt(v) + 0.015625), m, v]


@pytest.mark.parametrize(
    ("extent", "type", "threads"),
    [(1, "f32", 1), (77, "f64", 1), (8193, "f16", 3), (100_003, "f32", 3)],
)
def test_an_adam_step_is_one_kernel(extent: int, type: str, threads: int) -> None:
    seed = 11
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    state = [np.zeros(extent)] * 3
    with Session(model_of(extent, type), threads=threads) as session:
        kernels = [op for op in session.program.walk() if isinstance(op, KernelOp)]
        names = [op.sym_name.data for op in kernels]
        assert [name for name in names if "fused" in name] == ["fused_0"], names
        for _ in range(3):
            dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[type]
            gradient = random.normal(size=extent).astype(dtype)
            found = session.run({"g": gradient})
            state = step(state, gradient.astype(np.float64))
            for name, wanted in zip("pmv", state, strict=True):
                error = np.abs(found[name].astype(np.float64) - wanted).max(initial=0)
                assert error <= ERRORS[type] * np.abs(wanted).max(initial=1)


def test_numbers_that_are_none_stay_in_their_place() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 0, 1] * 5, np.float32)
    with Session(model_of(odd.size, "f32")) as session:
        found = session.run({"g": odd})
    with np.errstate(all="ignore"):
        wanted = step([np.zeros(odd.size)] * 3, odd.astype(np.float64))
    for name, array in zip("pmv", wanted, strict=True):
        made = found[name].astype(np.float64)
        np.testing.assert_allclose(made, array, 1e-6)
