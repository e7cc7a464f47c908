"""
Which alternative computes a kernel, and why.

The rule: of what was measured, the fastest, unless it gains less than 2 % over what
would be taken without measurements; if nothing was, the one with the highest
priority, of these the one with the least modelled time, of these the first by name.
An explicit priority stands above a model, so that a plug-in can replace what is built
in, and a measurement above both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from xdsl.utils.exceptions import DiagnosticException

from penstock.lowering.selection.alternatives import (
    Alternative,
    AlternativeError,
    Request,
    Variant,
)

T = TypeVar("T")

WORTH = 0.98
"""The share of the usual candidate's time that another one takes at most to be taken:
what differs by less is as likely to be noise."""


@dataclass(frozen=True)
class Candidate:
    """A variant of an alternative that can compute a kernel."""

    alternative: Alternative
    variant: Variant

    @property
    def name(self) -> str:
        """What it is called in the IR and in the kernel database."""
        return f"{self.alternative.name} {self.variant.label}".rstrip()

    @property
    def rank(self) -> tuple[int, float, str]:
        """The order of what was not measured."""
        cost = self.variant.cost_ns
        modelled = float("inf") if cost is None else cost
        return -self.alternative.priority, modelled, self.name


@dataclass(frozen=True)
class Choice:
    """The candidate that is taken, and why."""

    candidate: Candidate
    reason: str

    def __str__(self) -> str:
        return f"{self.candidate.name}: {self.reason}"


def candidates_for(
    request: Request, alternatives: Iterable[Alternative]
) -> tuple[list[Candidate], dict[str, str]]:
    """
    What can compute a kernel, best first as long as nothing is measured; and the
    reason of each alternative that cannot.

    Raises `AlternativeError` if one fails.
    """
    found: list[Candidate] = []
    refusals: dict[str, str] = {}
    for alternative in alternatives:
        reason = guarded(alternative, lambda a=alternative: a.refusal(request))
        if reason is not None:
            refusals[alternative.name] = reason
            continue
        variants = guarded(alternative, lambda a=alternative: [*a.variants(request)])
        if not variants:
            refusals[alternative.name] = "has no variant for it"
        found += [Candidate(alternative, variant) for variant in variants]
    return sorted(found, key=lambda candidate: candidate.rank), refusals


def guarded(alternative: Alternative, action: Callable[[], T]) -> T:
    """
    What an action of an alternative returns. Raises `AlternativeError` if it raises
    anything that is no message for a person already.
    """
    try:
        return action()
    except DiagnosticException:
        raise
    except Exception as error:
        raise AlternativeError(
            f"the alternative '{alternative.name}' of {alternative.source} fails: "
            f"{type(error).__name__}: {error}"
        ) from error


def choose(candidates: Sequence[Candidate], times: Mapping[str, float]) -> Choice:
    """
    The candidate to take, given what the measured ones took, in nanoseconds, by name.

    `candidates` is not empty, and lies in the order of `candidates_for`.
    """
    usual = candidates[0]
    by_time = sorted(
        (candidate for candidate in candidates if candidate.name in times),
        key=lambda candidate: times[candidate.name],
    )
    if not by_time:
        return Choice(usual, reason_of_rank(candidates))
    best = by_time[0]
    if len(by_time) == 1:
        return Choice(best, f"{text_of(times[best.name])} measured, nothing else was")
    rival = usual if usual.name in times and usual is not best else by_time[1]
    theirs = f"{rival.name} {text_of(times[rival.name])}"
    if rival is usual and times[best.name] > WORTH * times[usual.name]:
        ours, least = text_of(times[usual.name]), text_of(times[best.name])
        reason = f"{ours} measured, {best.name} {least}, which is not worth it"
        return Choice(usual, reason)
    return Choice(best, f"{text_of(times[best.name])} measured, {theirs}")


def text_of(nanoseconds: float) -> str:
    """A time for people."""
    return f"{nanoseconds:.0f} ns"


def reason_of_rank(candidates: Sequence[Candidate]) -> str:
    """Why the first candidate comes first where nothing was measured."""
    if len(candidates) == 1:
        return "nothing else is offered"
    first, second = candidates[:2]
    ours, theirs = first.alternative.priority, second.alternative.priority
    if ours != theirs:
        return f"priority {ours}, {second.alternative.name} has {theirs}"
    costs = [candidate.variant.cost_ns for candidate in (first, second)]
    if costs[0] is not None and costs[0] != costs[1]:
        other = "is not modelled" if costs[1] is None else f"{costs[1]:.0f} ns"
        return f"{costs[0]:.0f} ns modelled, {second.name} {other}"
    return f"before {second.name} by name"
