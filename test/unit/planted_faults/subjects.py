"""Plans and programs of random jobs that are right, and what they mean in NumPy."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from random_flow import RandomJob
from xdsl.dialects.builtin import (
    ModuleOp,
)

from penstock.dialects.launch import (
    ProgramOp,
)
from penstock.dialects.op.wave import WaveOp
from penstock.dialects.plan import PlanOp
from penstock.tools.session.model import Model
from penstock.tools.session.oracle import evaluate_model
from planted_faults.compiling import only, parsed, run_passes
from planted_faults.jobs import (
    JobText,
    dynamic_job,
    rated_job,
    several_jobs,
    with_most_rows,
)
from planted_faults.machine import (
    Array,
    Outputs,
    Works,
)
from planted_faults.works import (
    chained_works,
    waves_as_printed,
    works_by_kernel,
    works_of,
)


class Run(NamedTuple):
    """Some acts of a job, what it is given, and what it makes of it."""

    job: str | None
    acts: int
    inputs: Mapping[str, Sequence[Array]]
    outputs: Outputs
    variables: Mapping[str, Array]
    """The values of variables after it, by port."""


@dataclass
class Subject:
    """A plan, or a program, that is right, and what its runs mean."""

    kind: str
    module: ModuleOp
    level: int
    runs: Sequence[Run]
    works: Works
    """The work of actors, if it is a program."""
    names: Mapping[str, tuple[frozenset[str], frozenset[str]]]
    """The names that each job reads and writes, and that others may use, too."""
    joined: str = ""
    """The op that some of its tasks have become together."""

    @property
    def title(self) -> str:
        """The kind, and what some of its tasks have become together."""
        return ", ".join(filter(None, (self.kind, self.joined)))

    def entry(self, module: ModuleOp) -> Any:
        """The plan or program in a copy of the module."""
        return only(module, PlanOp if self.level == 3 else ProgramOp)


def numpy_runs(
    texts: Mapping[str, str], rng: random.Random, *, is_alone: bool
) -> list[Run]:
    """The results of jobs for random inputs in a random order, by NumPy alone."""
    arrays = np.random.default_rng(rng.randrange(1 << 32))
    known: dict[str, Array] = {}
    state: dict[str, Array] = {}
    runs: list[Run] = []
    order = [*texts, *rng.choices(list(texts), k=3)]
    for job in order:
        module = parsed(with_new_value(texts[job], job))
        entry = module.body.block.first_op
        assert entry is not None, "it has a job"
        acts = rng.choice((1, 2, 4)) if is_alone else 1
        inputs: dict[str, list[Array]] = {}
        outputs: Outputs = {}
        for _ in range(acts):
            given: dict[str, Array] = {}
            for name, shape in ports_of(module):
                value = arrays.standard_normal(shape).astype(np.float32)
                value = given[name] = known.get(name, value)
                pieces = [value] if value.ndim == 2 else list(value)
                inputs.setdefault(name, []).extend(pieces)
            used = {k: v for k, v in state.items() if f'"{k}"' in texts[job]}
            made = evaluate_model(Model(module, used, Path()), given)
            for name, value in made.items():
                pieces = [value] if value.ndim == 2 else list(value)
                outputs.setdefault(name, []).extend(map(np.asarray, pieces))
            if f"{job}_new" in made:
                state["w"] = made[f"{job}_new"]
                if f'"{job}_new"' not in texts[job]:
                    del outputs[f"{job}_new"]
            known.update({k: v for k, v in made.items() if k[0] == "h"})
        name = None if is_alone else job
        runs.append(Run(name, acts, inputs, outputs, dict(state)))
    return runs


def body_runs(made: RandomJob, text: str, rng: random.Random) -> list[Run]:
    """The results of a job with loops and conditions for random inputs, by NumPy."""
    model, runs = Model(parsed(text), {}, Path()), list[Run]()
    for _ in range(2):
        acts = rng.choice((1, 2, 3))
        inputs: dict[str, list[Array]] = {}
        outputs: Outputs = {}
        for _ in range(acts):
            given = made.inputs()
            for name, value in given.items():
                inputs.setdefault(name, []).append(value)
            for name, value in evaluate_model(model, given).items():
                outputs.setdefault(name, []).append(np.asarray(value))
        runs.append(Run(None, acts, inputs, outputs, {}))
    return runs


def with_new_value(text: str, job: str) -> str:
    """The text of a job with an output of what it assigns."""
    found = re.search(r"job\.assign (%\w+) to %\w+ : (.*)", text)
    if found is None or f'"{job}_new"' in text:
        return text
    output = f'job.output "{job}_new", {found[1]} : {found[2]}'
    return f"{text.rstrip().removesuffix('}')}{output}\n}}\n"


def ports_of(module: ModuleOp) -> list[tuple[str, tuple[int, ...]]]:
    """The inputs of the job in a module, and the shape of what is given."""
    from penstock.dialects.job import InputOp, JobOp
    from penstock.dialects.utils.tensors import tensor_type
    from penstock.lowering.analysis.repetitions import job_repetitions

    job = only(module, JobOp)
    turns = job_repetitions(job)
    found: list[tuple[str, tuple[int, ...]]] = []
    for op, count in turns.items():
        if isinstance(op, InputOp):
            shape = tuple(tensor_type(op.result).get_shape())
            found.append((op.port.data, shape if count == 1 else (count, *shape)))
    return found


PLANNED = (
    "{first}convert-job-to-plan,plan-order-updates,plan-order-tasks{{in-place=true}},"
    "{waves}plan-assign-streams{{streams={streams}}},plan-create-registers,"
    "regst-mark-interfaces{ticks}{alias},regst-plan-memory{{guard={guard}}}{events}"
    "{merge}"
)

DEVICES = {"cuda": "cuda, [0:0]", "ranks": "cpu, [1:0]"}
"""Where some ops of a job run, by the kinds of subjects."""

FIRST = {
    "cuda": "job-place,",
    "ranks": "job-place,",
    "main": "verify-jobs,job-add-sections,",
}
"""Passes that subjects of a kind need before there is a plan."""


def planned(rng: random.Random, kind: str) -> str:
    """Passes from the jobs of a subject to a plan with places."""
    strategy = rng.choice(("parallelism", "memory", "writers"))
    merge = f",plan-merge-jobs{{strategy={strategy}}}" * (kind == "jobs")
    linked = ",plan-merge-jobs{alone=true},plan-link-main,verify-ticks"
    return PLANNED.format(
        first=FIRST.get(kind, rng.choice(("", "op-fuse-elementwise,"))),
        waves="plan-form-waves," * (rng.random() < 0.35),
        streams=rng.choice((1, 2, 3)),
        ticks=",plan-add-ticks" * (kind == "main"),
        alias=",regst-alias-registers" * (rng.random() < 0.85),
        guard=rng.choice(("stream", "stream", "all", "none")),
        events=",plan-reduce-events" * (rng.random() < 0.6),
        merge=linked if kind == "main" else merge,
    )


KINDS = (
    *("bodies", "cuda", "headers", "jobs", "jobs", "main"),
    *("plain", "ranks", "rates", "slots", "updates"),
)
"""The kinds that are drawn, some more often than others."""


def random_subject(rng: random.Random, kind: str | None = None) -> Subject:
    """A plan or program of random jobs that is right, of some kind."""
    kind = kind or rng.choice(KINDS)
    if kind == "bodies":
        made = RandomJob(np.random.default_rng(rng.randrange(1 << 32)))
        texts = {"random": made.text(depth=2, size=3).decode()}
        runs = body_runs(made, texts["random"], rng)
    else:
        texts = random_texts(rng, kind)
        meant = {job: with_most_rows(text) for job, text in texts.items()}
        runs = numpy_runs(meant, rng, is_alone=kind not in ("jobs", "main"))
    module = parsed("".join(texts.values()))
    passes = planned(rng, kind)
    run_passes(module, f"{passes},verify-plan")
    names = {job: shared_by(job, text) for job, text in texts.items()}
    works = works_of(only(module, PlanOp))
    joined = "waves" * any(isinstance(op, WaveOp) for op in module.walk())
    if kind == "headers" or rng.random() < 0.5:
        return Subject(kind, module, 3, runs, works, names, joined)
    run_passes(module, "convert-plan-to-launch{simulate-ranks=true},verify-program")
    works = works_by_kernel(only(module, ProgramOp), works)
    if joined and rng.random() < 0.6:
        before = only(module.clone(), ProgramOp)
        run_passes(module, "launch-form-waves,verify-program")
        works = waves_as_printed(before, only(module, ProgramOp), works)
        joined = "printed waves"
    elif kind in ("plain", "updates", "jobs") and rng.random() < 0.4:
        before = only(module.clone(), ProgramOp)
        run_passes(module, "launch-form-chains,verify-program")
        works = chained_works(before, only(module, ProgramOp), works)
        joined = "chains"
    return Subject(kind, module, 4, runs, works, names, joined)


def random_texts(rng: random.Random, kind: str) -> dict[str, str]:
    """The texts of random jobs without bodies, by their names."""
    if kind == "rates":
        return {"j": rated_job(rng, rng.randrange(4, 9))}
    if kind == "headers":
        return {"j": dynamic_job(rng, rng.randrange(4, 9))}
    if kind in ("jobs", "main"):
        return several_jobs(rng)
    shape = [("x", 4)] + [("z", rng.choice((1, 2, 4)))] * (rng.random() < 0.5)
    job = JobText("j", rng, shape, DEVICES.get(kind), kind != "plain")
    job.updates = kind == "updates"
    job.grow(rng.randrange(7, 13))
    return {"j": job.finish()}


def shared_by(job: str, text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a job reads and writes, and that others may use, too."""
    reads = {name for name in ("h0", "h1", "h2") if f'input "{name}"' in text}
    writes = {name for name in ("h0", "h1", "h2") if f'output "{name}"' in text}
    (writes if "job.assign" in text else reads).add("w")
    return frozenset(reads), frozenset(writes)
