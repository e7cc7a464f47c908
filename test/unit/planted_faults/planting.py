"""Mutants of subjects, and how many of them become what."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xdsl.dialects.builtin import (
    ModuleOp,
)
from xdsl.ir import SSAValue

from penstock.dialects.launch import ActorOp, steps_within
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.lowering.analysis.body_plans import bodies_in
from planted_faults.body_faults import (
    BODY_FAULTS,
    parts_left_alone,
    values_left_alone,
    views_left_alone,
)
from planted_faults.judging import Verdict, broken_op, judge
from planted_faults.plan_faults import PLAN_FAULTS
from planted_faults.program_faults import PROGRAM_FAULTS
from planted_faults.subjects import Subject, random_subject


def traits_of(entry: Any) -> list[object]:
    """All that faults change of each op, and last of what these are in."""
    numbers: dict[SSAValue, int] = {}
    found: list[object] = []
    for op in entry.body.block.ops:
        numbers.update((value, len(numbers)) for value in op.results)
        operands = [(numbers.get(value), value.type) for value in op.operands]
        inner: list[object] = []
        if isinstance(op, ActorOp):
            steps = steps_within(op.body.block)
            inner += ((dict(x.properties), dict(x.attributes)) for x in steps)
        if isinstance(op, TaskOp):
            inner += [dict(op.op.properties), *map(traits_of, op.bodies)]
        found.append((operands, dict(op.properties), dict(op.attributes), inner))
    return [*found, entry.properties.get("exclusive")]


def faulty_part(subject: Subject, module: ModuleOp, rng: random.Random) -> Any:
    """The plan or program that gets a fault, rather the plan of a body."""
    entry = subject.entry(module)
    bodies = [*bodies_in(entry)] if isinstance(entry, PlanOp) else []
    return rng.choice(bodies) if bodies and rng.random() < 0.8 else entry


def faults_of(subject: Subject) -> Any:
    """The faults of plans or programs, and of bodies in programs that have some."""
    if subject.level == 3:
        return PLAN_FAULTS
    is_body = subject.kind == "bodies"
    return [*PROGRAM_FAULTS, *BODY_FAULTS, *BODY_FAULTS] if is_body else PROGRAM_FAULTS


def is_other_program(subject: Subject, module: ModuleOp) -> bool:
    """Whether a mutant is right, but means something else."""
    if subject.kind != "bodies" or subject.level == 3:
        return False
    one, other = subject.entry(subject.module), subject.entry(module)
    views = views_left_alone(other) - views_left_alone(one)
    left = values_left_alone(other, one) | parts_left_alone(other, one)
    return bool(views or left)


class Mutant(NamedTuple):
    """A subject with a fault, and what the verifier of an op has against it."""

    module: ModuleOp
    fault: str
    refusal: str | None


def planted(subject: Subject, rng: random.Random) -> Mutant:
    """
    A mutant of a subject, mostly of one fault. Most of those that an op's own verifier
    refuses are not taken.
    """
    faults = faults_of(subject)
    before = traits_of(subject.entry(subject.module))
    while True:
        module = subject.module.clone()
        names: list[str] = []
        for _ in range(1 if rng.random() < 0.85 else 2):
            fault = rng.choice(faults)
            # There may be nothing of the kind to be changed.
            with suppress(IndexError, ValueError):
                fault(faulty_part(subject, module, rng), rng)
                names.append(fault.__name__)
        after = traits_of(subject.entry(module))
        if not names or after == before or is_other_program(subject, module):
            continue
        same = len(after) == len(before)
        kept = {i for i, trait in enumerate(after) if same and trait == before[i]}
        if (
            why := broken_op(subject.entry(module), kept)
        ) is None or rng.random() < 0.2:
            return Mutant(module, " + ".join(names), why)


@dataclass
class Tally:
    """The number of mutants of each kind, and their verdicts."""

    results: Counter[str] = field(default_factory=Counter[str])
    kinds: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    subjects: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    holes: list[str] = field(default_factory=list[str])

    def extend(self, subject: Subject, mutants: Sequence[tuple[str, Verdict]]) -> None:
        """Count mutants of a subject."""
        for fault, verdict in mutants:
            self.add(subject, fault, verdict)
            if verdict.result in ("crash", "wrong"):
                self.holes.append(
                    f"{verdict.result}: {subject.title}, {fault}, {verdict.why}"
                )

    def add(self, subject: Subject, fault: str, verdict: Verdict) -> None:
        """Count a mutant."""
        self.results[verdict.result] += 1
        name = fault if " + " not in fault else "two faults"
        self.kinds.setdefault(f"{subject.level} {name}", Counter())[verdict.result] += 1
        of_kind = self.subjects.setdefault(
            f"{subject.level} {subject.title}", Counter()
        )
        of_kind[verdict.result] += 1

    def __str__(self) -> str:
        rows = [f"all: {dict(self.results)}"]
        for title, table in (("subjects", self.subjects), ("faults", self.kinds)):
            rows.append(f"{title}:")
            rows += [f"  {name}: {dict(table[name])}" for name in sorted(table)]
        return "\n".join([*rows, *self.holes])


def plant(
    seed: int, count: int, of_each: int = 20, kind: str | None = None
) -> Iterator[Tally]:
    """Plant so many faults, `of_each` subject of a kind some, and judge them all."""
    tally = Tally()
    for number in range(-(-count // of_each)):
        left = min(of_each, count - number * of_each)
        tally.extend(*planted_in(f"{seed}/{number}", left, kind))
        yield tally


def planted_in(
    seed: str, count: int, kind: str | None = None
) -> tuple[Subject, list[tuple[str, Verdict]]]:
    """A subject, and so many mutants of it: their faults, and what becomes of them."""
    subject = random_subject(random.Random(seed), kind)
    check_itself(subject, seed)
    found: list[tuple[str, Verdict]] = []
    for mutant in range(count):
        rng = random.Random(f"{seed}/{mutant}")
        module, fault, why = planted(subject, rng)
        verdict = Verdict("refused", why or "")
        try:
            if why is None:
                verdict = judge(subject, module, rng)
        except Exception as error:
            verdict = Verdict("crash", f"{type(error).__name__}: {error}")
        found.append((fault, verdict._replace(why=f"{seed}/{mutant}: {verdict.why}")))
    return subject, found


def check_itself(subject: Subject, seed: str) -> None:
    """A subject without a fault is right, or the machine is not."""
    verdict = judge(subject, subject.module.clone(), random.Random(seed))
    assert verdict.result == "right", f"subject {seed} ({subject.title}): {verdict}"
