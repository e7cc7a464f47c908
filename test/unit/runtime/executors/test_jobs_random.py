"""Random jobs in one program against NumPy, and what `verify-program` finds in it."""

import random
import threading
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from draws import draws
from xdsl.dialects.builtin import ModuleOp

from penstock.dialects.launch import ChunkOp, RegisterOp, names_of
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.session.session import Model, Session, lower, program_of

Array: TypeAlias = npt.NDArray[np.float32]

SHAPE = (4, 6)
TYPE = "tensor<4x6xf32>"
UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, np.float32(0)),
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "mul": np.multiply,
    "maximum": np.maximum,
}


class RandomJobs:
    """
    Jobs with inputs, outputs and a variable under common names, as text and in NumPy.

    The outputs of one of them, `h0` and so on, may be inputs of later ones.
    """

    def __init__(self, seed: int):
        self._rng = random.Random(seed)
        self._made: list[str] = []
        self.jobs = {f"job{i}": self._job(i) for i in range(self._rng.randrange(2, 5))}
        self.text = "".join(
            f"job.job @{name} placement <cpu, [0:0]> {{\n" + "\n".join(lines) + "\n}\n"
            for name, (lines, _, _, _) in self.jobs.items()
        )

    def _job(
        self, number: int
    ) -> tuple[list[str], list[str], list[tuple[str, str, str]], dict[str, str]]:
        rng = self._rng
        names = rng.sample(["x0", "x1", "x2"], rng.randrange(1, 3))
        names += rng.sample(self._made, rng.randrange(0, len(self._made) + 1))
        lines = [f'%{name} = job.input "{name}" : {TYPE}' for name in names]
        values = list(names)
        if rng.random() < 0.5:
            lines.append(
                f'%w = job.variable "w" init <normal, seed = 2, std = 0.5> : {TYPE}'
            )
            values.append("w")
        steps: list[tuple[str, str, str]] = []
        for i in range(rng.randrange(2, 7)):
            op = rng.choice([*UNARY, *BINARY])
            # The later values, so that chains are long and memory is used again.
            one, other = rng.choice(values[-3:]), rng.choice(values)
            read = [one] if op in UNARY else [one, other]
            types = ", ".join([TYPE] * len(read))
            operands = ", ".join(f"%{name}" for name in read)
            lines.append(f"%v{i} = op.{op} {operands} : {types} -> {TYPE}")
            values.append(f"v{i}")
            steps.append((op, one, other))
        outputs = {f"y{rng.randrange(2)}": values[-1]}
        if rng.random() < 0.7:
            outputs[f"h{number}"] = rng.choice([v for v in values if v[0] == "v"])
        lines += [f'job.output "{k}", %{v} : {TYPE}' for k, v in outputs.items()]
        self._made += [name for name in outputs if name[0] == "h"]
        return lines, names, steps, outputs

    def evaluate(self, job: str, known: dict[str, Array]) -> dict[str, Array]:
        """The outputs of a job, given its inputs and `w`."""
        _, _, steps, outputs = self.jobs[job]
        # A variable that only dead code reads is none of the program's.
        values = {"w": np.zeros(SHAPE, np.float32), **known}
        for i, (op, one, other) in enumerate(steps):
            values[f"v{i}"] = (
                UNARY[op](values[one])
                if op in UNARY
                else BINARY[op](values[one], values[other])
            )
        return {name: values[value] for name, value in outputs.items()}


def model_of(text: str) -> Model:
    compiler = installed_compiler()[0]
    module = compiler.parse(text.encode(), "jobs.mlir")
    compiler.verify(module)
    return Model(module, {}, Path())


def check(found: dict[str, npt.NDArray[np.generic]], wanted: dict[str, Array]) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(
            found[name].astype(np.float64), array, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("seed", range(draws(4)))
def test_random_jobs_mean_what_they_mean_in_numpy(seed: int):
    """In any order, with what other jobs made last."""
    made = RandomJobs(seed)
    rng, arrays = random.Random(seed), np.random.default_rng(seed)
    with Session(model_of(made.text), threads=1 + seed % 2) as session:
        state = session.state()
        kept = {k: v.astype(np.float32) for k, v in state.items()}
        for job in [*made.jobs, *rng.choices(list(made.jobs), k=8)]:
            inputs = {
                name: arrays.standard_normal(SHAPE).astype(np.float32)
                for name in session.inputs(job)
            }
            wanted = made.evaluate(job, {**kept, **inputs})
            check(session.run(inputs, job), wanted)
            kept.update({k: v for k, v in wanted.items() if k[0] == "h"})


@pytest.mark.parametrize("seed", range(draws(2)))
def test_threads_get_the_results_of_their_own_inputs(seed: int):
    made = RandomJobs(100 + seed)
    with Session(model_of(made.text)) as session:
        w = {k: v.astype(np.float32) for k, v in session.state().items()}
        own = [j for j, (_, names, _, _) in made.jobs.items() if names[-1][0] == "x"]
        errors: list[BaseException] = []

        def work(number: int) -> None:
            rng, arrays = random.Random(number), np.random.default_rng(number)
            try:
                for job in rng.choices(own, k=20):
                    inputs = {
                        name: arrays.standard_normal(SHAPE).astype(np.float32)
                        for name in session.inputs(job)
                    }
                    wanted = made.evaluate(job, {**w, **inputs})
                    check(session.run(inputs, job), wanted)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        assert errors == []
        assert not any(thread.is_alive() for thread in threads)


# The verifier ------------------------------------------------------------------------


def lowered(seed: int) -> ModuleOp:
    model = model_of(RandomJobs(seed).text)
    lower(*installed_compiler(), model)
    return model.module


def verified(module: ModuleOp) -> bool:
    try:
        run_pipeline(*installed_compiler(), module, "verify-program")
    except Rejected:
        return False
    return True


def shared_by_jobs(module: ModuleOp) -> set[frozenset[str]]:
    """The pairs of jobs that write common bytes that are no common interface."""
    program = program_of(Model(module, {}, Path()))
    chunks = [op for op in program.walk() if isinstance(op, ChunkOp)]
    base = {chunk.sym_name.data: 10_000_000 * i for i, chunk in enumerate(chunks)}
    writer = {n: a.job_name or "" for a in program.actors for n in names_of(a.writes)}
    owners: dict[str, set[tuple[int, str]]] = {}
    for op in program.walk():
        if isinstance(op, RegisterOp) and op.sym_name.data in writer:
            start = base[op.chunk.root_reference.data] + op.offset.value.data
            name = "" if op.interface is None else op.interface.data
            used = {(byte, name) for byte in range(start, start + 4 * 4 * 6)}
            owners.setdefault(writer[op.sym_name.data], set()).update(used)
    plain = {job: {b for b, name in used if not name} for job, used in owners.items()}
    return {frozenset(p) for p in combinations(plain, 2) if plain[p[0]] & plain[p[1]]}


@pytest.mark.slow
def test_who_excludes_whom_has_to_be_said_where_bytes_are_shared():
    found = {True: 0, False: 0}
    for seed in range(200, 200 + draws(9)):
        module = lowered(seed)
        program = program_of(Model(module, {}, Path()))
        assert verified(module)
        program.exclusive = None
        shares = bool(shared_by_jobs(module))
        assert verified(module) == (not shares)
        found[shares] += 1
    assert found[True] > 1


@pytest.mark.slow
def test_interface_lies_at_one_place_and_nothing_lies_on_it():
    seen = 0
    for seed in range(300, 300 + draws(6)):
        rng, module = random.Random(seed), lowered(seed)
        program = program_of(Model(module, {}, Path()))
        registers = [op for op in program.walk() if isinstance(op, RegisterOp)]
        inner = [op for op in registers if op.interface is not None]
        if len(inner) < 2:
            continue
        seen += 1
        moved = rng.choice(inner)
        # Each interface lies in a chunk with nothing but what lasts.
        other = rng.choice(
            [op for op in inner if op.interface != moved.interface] or [0]
        )
        if isinstance(other, RegisterOp):
            moved.offset = other.offset
            assert not verified(module)
    assert seen > 1
