"""Random jobs over shared variables and interfaces, linked to a main job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest
from draws import draws
from loaded_programs import load_program
from numpy.random import Generator
from xdsl.dialects.builtin import DictionaryAttr

from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.pipelines import PipelineOptions, pipeline
from penstock.runtime.executors.executor import Executor
from penstock.tools.driver.compiler import installed_compiler, run_pipeline

Array = npt.NDArray[np.float32]
ENGINES = [("sequential", 1), ("sim", 1), ("actors", 1), ("actors", 3)]
TYPE = "tensor<4xf32>"
VARIABLES = ("u", "v", "w")
INTERFACES = ("s", "h")
"""
The inputs that are pushed to all jobs that read them, and the interfaces that one job
makes for others.
"""
PUSH = "System-Push-s"


@dataclass
class Recipe:
    """A job that adds up what it reads, and writes the mean of that and its input."""

    number: int
    reads: list[str] = field(default_factory=list[str])
    """Variables and interfaces."""
    writes: list[str] = field(default_factory=list[str])

    @property
    def name(self) -> str:
        return f"job{self.number}"

    def text(self) -> str:
        """The job; its result also is an output of its own."""
        lines = [f'%x = job.input "x{self.number}" : {TYPE}']
        variables = dict.fromkeys((*self.reads, *self.writes))
        for name in (name for name in variables if name in VARIABLES):
            lines.append(f'%{name} = job.variable "{name}" init <ones> : {TYPE}')
        last = "%x"
        for at, name in enumerate(self.reads):
            if name in INTERFACES:
                lines.append(f'%{name} = job.input "{name}" : {TYPE}')
            lines.append(f"%a{at} = op.add {last}, %{name} : {TYPE}, {TYPE} -> {TYPE}")
            last = f"%a{at}"
        lines.append(f"%half = op.constant dense<0.5> : {TYPE}")
        lines.append(f"%r = op.mul {last}, %half : {TYPE}, {TYPE} -> {TYPE}")
        for name in self.writes:
            target = f"%r to %{name}" if name in VARIABLES else f'"{name}", %r'
            verb = "assign" if name in VARIABLES else "output"
            lines.append(f"job.{verb} {target} : {TYPE}")
        lines.append(f'job.output "y{self.number}", %r : {TYPE}')
        body = "\n  ".join(lines)
        return f"job.job @{self.name} placement <cpu, [0:0]> {{\n  {body}\n}}"

    def run(self, state: dict[str, Array], x: Array) -> Array:
        """The result of a launch, as NumPy has it; the state is updated."""
        total = x.copy()
        for name in self.reads:
            total = total + state[name]
        result = total * np.float32(0.5)
        state.update({name: result for name in self.writes})
        return result


def random_jobs(random: Generator) -> list[Recipe]:
    """Two to five jobs, of which the first alone makes `h`."""
    jobs: list[Recipe] = []
    for number in range(int(random.integers(2, 6))):
        known = ["s", *VARIABLES] + (["h"] if number else [])
        reads = [x for x in known if random.random() < 0.4]
        writes = [x for x in VARIABLES if random.random() < 0.3]
        jobs.append(Recipe(number, reads, writes if number else [*writes, "h"]))
    return jobs


def compiled(
    jobs: Sequence[Recipe], strategy: str
) -> tuple[ProgramOp, Mapping[str, str]]:
    """The linked program of some jobs, and the sources of its kernels."""
    compiler, known = installed_compiler()
    text = "\n".join(job.text() for job in jobs)
    module = compiler.parse(text.encode(), "jobs.mlir")
    passes = pipeline(PipelineOptions(merge=True, main=True, strategy=strategy))
    run_pipeline(compiler, known, module, passes)
    (program,) = (op for op in module.body.block.ops if isinstance(op, ProgramOp))
    kernels = (x for x in program.body.block.ops if isinstance(x, KernelOp))
    return program, {x.sym_name.data: kernel_source(x) for x in kernels}


class Launches:
    """Random launches of jobs: what to put, and what NumPy says comes out."""

    def __init__(
        self, jobs: Sequence[Recipe], numbers: Mapping[str, int], random: Generator
    ) -> None:
        self.inputs: dict[str, list[np.ndarray]] = {"System-Launch": []}
        self.expected: dict[str, list[Array]] = {f"y{x.number}": [] for x in jobs}
        self._jobs = {job.name: job for job in jobs}
        self._numbers = numbers
        self._random = random
        self._state = {name: np.ones(4, np.float32) for name in VARIABLES}
        self._state |= {name: np.zeros(4, np.float32) for name in INTERFACES}

    def add(self, name: str) -> None:
        """Launch a job, or push."""
        self.inputs["System-Launch"].append(np.array(self._numbers[name]))
        if name == PUSH:
            self._state["s"] = self._feed(f"ForeignInput-{PUSH}")
            return
        job = self._jobs[name]
        if "s" in job.reads and PUSH not in self._numbers:
            # It is the only one, which is fed itself.
            self._state["s"] = self._feed("s")
        x = self._feed(f"x{job.number}")
        self.expected[f"y{job.number}"].append(job.run(self._state, x))

    def _feed(self, port: str) -> Array:
        piece = self._random.random(4, np.float32)
        self.inputs.setdefault(port, []).append(piece)
        return piece


@pytest.mark.parametrize("strategy", ["parallelism", "writers", "memory"])
@pytest.mark.parametrize("seed", range(draws(1)))
def test_launches_do_what_they_would_one_after_the_other(
    seed: int, strategy: str
) -> None:
    random = np.random.default_rng(seed)
    jobs = random_jobs(random)
    program, sources = compiled(jobs, strategy)
    listed = program.attributes["jobs"]
    assert isinstance(listed, DictionaryAttr)
    numbers = {name: i for i, name in enumerate(listed.data)}
    launches = Launches(jobs, numbers, random)
    pushed = [PUSH] * (PUSH in numbers)
    names = [*(job.name for job in jobs), *pushed]
    # What is read as `s` and `h` has been made then.
    drawn = (names[int(random.integers(len(names)))] for _ in range(60))
    for name in (*pushed, "job0", *drawn):
        launches.add(name)
    for engine, threads in ENGINES:
        loaded = load_program(program, sources, threads=threads)
        with Executor(loaded, engine) as runner, runner.stream() as stream:
            ending = stream.run(launches.inputs)
        assert ending.left_over == {}
        for name, pieces in launches.expected.items():
            found = [piece.tolist() for piece in ending.outputs[name]]
            assert found == [piece.tolist() for piece in pieces], (engine, name)
