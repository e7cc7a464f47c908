"""
Every op on CUDA devices: what its kernel computes in the emulator of lanes, and what it
takes of a device as machine code. Operands and oracles are those of the audit of ops.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from itertools import count, takewhile
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp

from penstock.dialects.job import JobOp
from penstock.runtime.cuda import device as cuda
from penstock.runtime.jit.cubin import compile_kernels
from penstock.runtime.testing.cuda_recording_driver import RecordedDriver
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]


class NotingDriver(RecordedDriver):
    """A driver that knows the sources of all kernels by their names."""

    def __init__(self) -> None:
        super().__init__(captures=False)
        self.sources: dict[str, str] = {}

    def prepare(self, sources: Mapping[str, str]) -> None:
        """Keep the sources."""
        self.sources.update(sources)


@dataclass
class Audit:
    """Cases of ops as one job, what it made of them, and the sources of its kernels."""

    cases: list[Any]
    outputs: Arrays = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def audit() -> Iterator[Audit]:
    with pytest.MonkeyPatch.context() as patch:
        audits = Path(__file__).parents[3] / "dialects" / "op"
        patch.setattr(sys, "path", [str(audits), *sys.path])
        of_ops: Any = import_module("test_op_audit")
        made, driver = Audit(of_ops.COMPILED), NotingDriver()
        patch.setattr(cuda, "open_cuda", lambda: cuda.Cuda(driver))
        job: JobOp
        job, arrays = of_ops.job_of(made.cases, "cuda")
        model = Model(ModuleOp([job]), {}, Path())
        front = installed_compiler()
        with Session(model, engine="sequential", compiler=front) as session:
            made.outputs = session.run(arrays)
        made.sources = driver.sources
        yield made


@pytest.mark.slow
def test_every_op_is_computed_on_devices(audit: Audit) -> None:
    for number, case in enumerate(audit.cases):
        names = (f"y{number}_{result}" for result in count())
        found = takewhile(audit.outputs.__contains__, names)
        case.check([audit.outputs[name] for name in found])


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("numba_cuda") is None,
    reason="kernels for CUDA cannot be compiled: numba-cuda is not installed",
)
def test_every_op_becomes_lean_machine_code(audit: Audit) -> None:
    # The first kernel of each op: its others are the same with other extents.
    sources = {n: text for n, text in audit.sources.items() if n.endswith("_0")}
    made = compile_kernels(sources, (9, 0))
    for name, stages in made.items():
        for stage in stages:
            assert not any((stage.spill_stores, stage.spill_loads, stage.stack)), stage
            is_wide = ".f64" in stage.ptx
            assert not is_wide or '"float64"' in sources[name], stage
