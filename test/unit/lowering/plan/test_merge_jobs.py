"""Plans of several jobs: who shares bytes with whom, against brute force."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from draws import draws
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser
from xdsl.passes import PassPipeline

from penstock.dialects import get_all_dialects
from penstock.dialects.job import InputOp, JobOp
from penstock.dialects.plan import PlanOp
from penstock.dialects.regst import (
    BlockOp,
    ChunkOp,
    ControlType,
    MemoryCaseAttr,
    RegisterOp,
    alias_place,
)
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering import get_all_passes
from penstock.lowering.algorithms.exclusion_groups import exclusion_groups, parse_groups
from penstock.lowering.plan.merge_jobs import PlanMergeJobsPass
from penstock.lowering.plan.merged_memory import sunk
from penstock.lowering.plan.select_job import PlanSelectJobPass
from penstock.lowering.verify.plan import VerifyPlanPass
from penstock.tools.driver.pass_pipeline import parse_passes
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Model, Session

TO_MEMORY = (
    "job-place,convert-job-to-plan,plan-assign-streams{streams=2},"
    "plan-create-registers,regst-mark-interfaces,regst-alias-registers,"
    "regst-plan-memory{algorithm=size-first}"
)

PORTS = {f"p{i}": 5 * i + 3 for i in range(6)}
"""Names of inputs and outputs, and their numbers of elements."""

VARIABLES = {f"w{i}": 7 * i + 2 for i in range(4)}


def run(module: ModuleOp, passes: str) -> None:
    """Run passes on a module."""
    PassPipeline(parse_passes(get_all_passes(), passes)).apply(context(), module)


def context() -> Context:
    """All dialects."""
    made = Context(allow_unregistered=True)
    made.load_dialect(Builtin)
    for name, factory in get_all_dialects().items():
        made.register_dialect(name, factory)
    return made


def job_text(
    rng: random.Random, name: str, ports: Sequence[str], devices: Sequence[str]
) -> str:
    """A job with some of these ports, half of them inputs, and some variables."""
    device = rng.choice(devices)
    own = rng.sample(ports, rng.randrange(len(ports) + 1))
    inputs, outputs = own[: len(own) // 2], own[len(own) // 2 :]
    values: list[tuple[str, int]] = []
    lines: list[str] = []

    def make(text: str, elements: int) -> None:
        value = f"%v{len(values)}"
        lines.append(f"  {value} = {text}")
        values.append((value, elements))

    make(f'job.input "{name}_in" : tensor<8xf32>', 8)
    for port in inputs:
        make(f'job.input "{port}" : tensor<{PORTS[port]}xf32>', PORTS[port])
    for variable in rng.sample(sorted(VARIABLES), rng.randrange(3)):
        size = VARIABLES[variable]
        init = f'"{variable}_{device}" init <uniform, seed = {size}>'
        make(f"job.variable {init} : tensor<{size}xf32>", size)
    for _ in range(rng.randrange(1, 12)):
        source, size = rng.choice(values)
        if rng.random() < 0.3:
            other, more = rng.choice(values)
            sizes = f"tensor<{size}xf32>, tensor<{more}xf32>"
            both = size + more
            made = f"op.concat {source}, {other} axis 0 : {sizes}"
            make(f"{made} -> tensor<{both}xf32>", both)
        else:
            type = f"tensor<{size}xf32>"
            make(f"op.relu {source} : {type} -> {type}", size)
    for port in outputs:
        fitting = [value for value, size in values if size == PORTS[port]]
        if fitting:
            value = rng.choice(fitting)
            lines.append(f'  job.output "{port}", {value} : tensor<{PORTS[port]}xf32>')
    value, size = values[-1]
    lines.append(f'  job.output "{name}_out", {value} : tensor<{size}xf32>')
    body = "\n".join(lines)
    return f"job.job @{name} placement <{device}, [0:0]> {{\n{body}\n}}\n"


def random_jobs(seed: int, devices: Sequence[str]) -> ModuleOp:
    """Random jobs, some of which share names, on devices of these kinds."""
    rng = random.Random(seed)
    ports = rng.sample(sorted(PORTS), rng.randrange(len(PORTS)))
    count = rng.randrange(2, 6)
    text = "".join(job_text(rng, f"j{i}", ports, devices) for i in range(count))
    return Parser(context(), text).parse_module()


def planned(seed: int) -> ModuleOp:
    """Random jobs as plans whose registers have places."""
    return _planned(seed).clone()


@cache
def _planned(seed: int) -> ModuleOp:
    module = random_jobs(seed, ["cpu", "cpu", "cuda"])
    run(module, TO_MEMORY)
    return module


def plans_in(module: ModuleOp) -> list[PlanOp]:
    """The plans of a module."""
    return [op for op in module.body.block.ops if isinstance(op, PlanOp)]


def names_in(plan: PlanOp) -> set[str]:
    """The names that a plan shares with others, if these have them too."""
    ports = (task.op.properties.get("port") for task in plan.tasks)
    return {str(port) for port in ports if port is not None}


def first_fit(together: Sequence[Sequence[bool]]) -> list[list[int]]:
    """The groups of the rule, word by word: `together[i][j]` if both may run."""
    groups: list[list[int]] = []
    for i in range(len(together)):
        for group in groups:
            if not any(together[i][j] for j in group):
                group.append(i)
                break
        else:
            groups.append([i])
    return groups


@pytest.mark.parametrize("seed", range(draws(10)))
def test_groups_are_those_of_the_rule(seed: int):
    rng = random.Random(seed)
    count = rng.randrange(8)
    together = [[False] * count for _ in range(count)]
    for i, j in combinations(range(count), 2):
        together[i][j] = together[j][i] = rng.random() < 0.5
    exclusive = [
        {j for j in range(count) if j != i and not together[i][j]} for i in range(count)
    ]
    assert exclusion_groups(exclusive) == first_fit(together)


def test_groups_of_names_are_read_from_text():
    assert parse_groups("train, eval;a,b") == [["train", "eval"], ["a", "b"]]
    assert parse_groups("a,b;;,") == [["a", "b"]]


@pytest.mark.parametrize("seed", range(draws(10)))
def test_what_sinks_stays_in_order(seed: int):
    rng = random.Random(seed)
    count = rng.randrange(12)
    starts = [4 * rng.randrange(12) for _ in range(count)]
    sizes = [rng.randrange(14) for _ in range(count)]
    offsets = sunk(starts, sizes, 4)
    for i in range(count):
        below = [
            j for j in range(count) if starts[j] + sizes[j] <= starts[i] and j != i
        ]
        # Nothing rests on itself: of two empty things on one byte either may be below.
        below = [j for j in below if sizes[i] or sizes[j]]
        floor = max((offsets[j] + sizes[j] for j in below), default=0)
        assert offsets[i] == -(-floor // 4) * 4


def aligned(size: int, case: MemoryCaseAttr) -> int:
    """The bytes from the start of something to that of the next."""
    return -(-size // case.alignment) * case.alignment


def side_by_side(sizes: Sequence[int], case: MemoryCaseAttr) -> int:
    """The bytes that things take one behind the other."""
    return sum(aligned(size, case) for size in sizes[:-1]) + sum(sizes[-1:])


def expected_chunks(
    plans: Sequence[PlanOp], groups: Sequence[Sequence[int]]
) -> list[tuple[str, int]]:
    """The memory case and the size of each chunk, from the plans before."""
    lasting: dict[MemoryCaseAttr, dict[str, int]] = {}
    variables: dict[MemoryCaseAttr, dict[int, list[int]]] = {}
    rest: dict[tuple[int, MemoryCaseAttr], list[int]] = {}
    known: set[str] = set()
    for number, plan in enumerate(plans):
        fixed = {
            value: str(
                task.op.properties.get("port", task.task_name.data + str(number))
            )
            for task in plan.tasks
            if task.kind == "variable"
            for value in task.outs
        }
        for op in plan.body.block.ops:
            if not isinstance(op, BlockOp):
                continue
            held = [use.operation for use in op.block.uses]
            held = [x for x in plan.registers if x in held]
            held.sort(key=lambda register: bytes_of(register)[1])
            case, left = held[0].memory_case, list[int]()
            for register in held:
                if (name := fixed.get(register.register)) is not None:
                    if name not in known:
                        of_case = variables.setdefault(case, {})
                        of_case.setdefault(number, []).append(register.size)
                    known.add(name)
                elif register.interface is not None:
                    lasting.setdefault(case, {})[str(register.interface)] = (
                        register.size
                    )
                else:
                    left.append(register.size)
            whole = len(left) == len(held)
            size = op.size.value.data if whole else side_by_side(left, case)
            if left:
                rest.setdefault((number, case), []).append(size)
    cases = dict.fromkeys((*variables, *lasting))
    found: list[tuple[str, int]] = []
    for case in cases:
        blocks = [
            side_by_side(sizes, case) for sizes in variables.get(case, {}).values()
        ]
        blocks += lasting.get(case, {}).values()
        found.append((str(case), side_by_side(blocks, case)))
    for group in groups:
        for case in dict.fromkeys(case for number, case in rest if number in group):
            needs = [side_by_side(rest.get((n, case), []), case) for n in group]
            found.append((str(case), max(needs)))
    return found


def chunks_of(plan: PlanOp) -> list[tuple[str, int]]:
    """The memory case and the size of each chunk of a plan."""
    chunks = [op for op in plan.body.block.ops if isinstance(op, ChunkOp)]
    return [(str(chunk.memory_case), chunk.size.value.data) for chunk in chunks]


def bytes_of(register: RegisterOp) -> tuple[ChunkOp, int, int]:
    """The chunk of a register, and the bytes there from the first on up to the last."""
    root, shift = alias_place(register.register)
    owner = root.owner
    assert isinstance(owner, RegisterOp)
    assert owner.block is not None
    assert owner.offset is not None
    block = owner.block.owner
    assert isinstance(block, BlockOp)
    chunk = block.chunk.owner
    assert isinstance(chunk, ChunkOp)
    start = block.offset.value.data + owner.offset.value.data + shift
    return chunk, start, start + register.size


def job_of(plan: PlanOp) -> dict[RegisterOp, str | None]:
    """The job whose task writes a register, if the task says one."""
    found: dict[RegisterOp, str | None] = {}
    for task in plan.tasks:
        for value in task.outs:
            if isinstance(register := value.owner, RegisterOp):
                found[register] = None if task.job is None else task.job.data
    return found


def sharing(plan: PlanOp) -> Iterator[tuple[RegisterOp, RegisterOp]]:
    """All pairs of registers of different jobs that have a byte in common."""
    jobs = job_of(plan)
    data = [r for r in plan.registers if not isinstance(r.register.type, ControlType)]
    for a, b in combinations(data, 2):
        (chunk, start, end), (other, begin, over) = bytes_of(a), bytes_of(b)
        overlap = chunk is other and max(start, begin) < min(end, over)
        if overlap and jobs[a] != jobs[b]:
            yield a, b


def is_interface(a: RegisterOp, b: RegisterOp) -> bool:
    """Whether two registers lie on one interface, or a variable of several jobs."""
    roots = [alias_place(register.register).root for register in (a, b)]
    names = {
        owner.interface.data if owner.interface else None
        for owner in (root.owner for root in roots)
        if isinstance(owner, RegisterOp)
    }
    return roots[0] == roots[1] or (len(names) == 1 and None not in names)


@pytest.mark.parametrize("strategy", ["parallelism", "memory"])
@pytest.mark.parametrize("seed", range(draws(8)))
def test_a_merged_plan_is_sound_and_as_small_as_the_rule_says(seed: int, strategy: str):
    module = planned(seed)
    plans = plans_in(module)
    names = [names_in(plan) for plan in plans]
    together = [[strategy != "memory" and not (a & b) for b in names] for a in names]
    groups = first_fit(together)
    expected = expected_chunks(plans, groups)
    count = sum(len(plan.tasks) for plan in plans)
    PlanMergeJobsPass(strategy=strategy).apply(context(), module)
    module.verify()
    (plan,) = plans_in(module)
    VerifyPlanPass().apply(context(), module)
    assert chunks_of(plan) == expected
    assert len(plan.tasks) <= count
    exclusive = [set(group) for group in plan.exclusive_jobs]
    assert exclusive == [{f"j{i}" for i in group} for group in groups if len(group) > 1]
    jobs = job_of(plan)
    for a, b in sharing(plan):
        pair = {jobs[a], jobs[b]}
        assert is_interface(a, b) or any(pair <= group for group in exclusive)


@pytest.mark.parametrize("seed", range(draws(8)))
def test_jobs_that_may_run_together_after_all_are_found(seed: int):
    module = planned(seed)
    PlanMergeJobsPass(strategy="memory").apply(context(), module)
    (plan,) = plans_in(module)
    plan.exclusive = None
    pairs = [pair for pair in sharing(plan) if not is_interface(*pair)]
    if not pairs:
        VerifyPlanPass().apply(context(), module)
        return
    with pytest.raises(LocatedPassFailure, match="may run at the same time") as error:
        VerifyPlanPass().apply(context(), module)
    found = {op for op, _ in error.value.findings}
    assert found <= {register for pair in pairs for register in pair}


@pytest.mark.parametrize("seed", range(draws(2)))
def test_each_job_of_a_merged_plan_computes_what_it_did_before(seed: int):
    module = random_jobs(seed, ["cpu"])
    jobs = [op for op in module.body.block.ops if isinstance(op, JobOp)]
    alone = [ModuleOp([job.clone()]) for job in jobs]
    run(module, f"{TO_MEMORY},plan-merge-jobs{{strategy=memory}}")
    random_numbers = np.random.default_rng(seed)
    for job, original in zip(jobs, alone, strict=True):
        selected = module.clone()
        PlanSelectJobPass(job.sym_name.data).apply(context(), selected)
        inputs = [op for op in original.walk() if isinstance(op, InputOp)]
        pieces = [
            {
                op.port.data: random_numbers.standard_normal(
                    tensor_type(op.result).get_shape(), dtype=np.float32
                )
                for op in inputs
            }
            for _ in range(3)
        ]
        with Session(Model(selected, {}, Path()), threads=2) as session:
            found = session.run_many(pieces)
        for piece, outputs in zip(pieces, found, strict=True):
            expected = evaluate_model(Model(original, {}, Path()), piece)
            assert outputs.keys() == expected.keys()
            for name, value in expected.items():
                np.testing.assert_array_equal(outputs[name], value)


@pytest.mark.slow
def test_a_merged_plan_is_the_same_under_any_hash_seed(tmp_path: Path):
    rng = random.Random(7)
    jobs = (job_text(rng, f"j{i}", sorted(PORTS), ["cpu"]) for i in range(4))
    text = "".join(jobs)
    source = tmp_path / "jobs.mlir"
    source.write_text(text)
    outputs = {
        subprocess.run(
            [
                sys.executable,
                "-m",
                "penstock.tools.cli.opt",
                str(source),
                "-p",
                f"{TO_MEMORY},plan-merge-jobs,verify-plan",
            ],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
            timeout=300,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
