"""
The choice of the alternative that computes a kernel, with its reason.

The rule: of the measured ones the fastest, unless it gains less than 2 % over the
choice without measurements; if nothing was, the one with the highest priority, of these
the one with the least modelled time, of these the first by name. An explicit priority
stands above a model, so that a plug-in can replace a built-in kernel, and a measurement
above both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from xdsl.utils.exceptions import DiagnosticException

from penstock.dialects.utils.diagnostics import told
from penstock.lowering.launch.autotune.alternatives import (
    Alternative,
    Request,
    Variant,
)
from penstock.plugins import PluginError

T = TypeVar("T")

NO_VARIANT = "has no variant for it"
"""The reason of what refuses nothing, and offers nothing."""
NOT_MEASURED = "was not measured"
"""The reason of what is only taken where it was."""
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
        """The name in the IR and in the kernel database."""
        return f"{self.alternative.name} {self.variant.label}".rstrip()

    @property
    def rank(self) -> tuple[int, float, str]:
        """The order of what was not measured."""
        cost = self.variant.modelled_ns
        modelled = float("inf") if cost is None else cost
        return -self.alternative.priority, modelled, self.name


@dataclass(frozen=True)
class Choice:
    """The candidate that is taken, and why."""

    candidate: Candidate
    reason: str

    def __str__(self) -> str:
        return f"{self.candidate.name}: {self.reason}"


def sorted_out(
    request: Request, alternatives: Iterable[Alternative]
) -> tuple[list[Alternative], dict[str, str]]:
    """
    The alternatives for a kernel by priority, then name; and why others refuse it.

    Raises `PluginError` if one fails.
    """
    taken: list[Alternative] = []
    refusals: dict[str, str] = {}
    for alternative in alternatives:
        reason = guarded(alternative, lambda a=alternative: a.refusal(request))
        if reason is None:
            taken.append(alternative)
        else:
            refusals[alternative.name] = reason
    return sorted(taken, key=lambda found: (-found.priority, found.name)), refusals


def variants_of(alternative: Alternative, request: Request) -> list[Candidate]:
    """
    The candidates that an alternative offers. Raises `PluginError` if it fails.
    """
    variants = guarded(alternative, lambda: [*alternative.variants(request)])
    return [Candidate(alternative, variant) for variant in variants]


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """
    Candidates, best first as long as nothing is measured. Raises `PluginError` if
    the model of one fails.
    """
    # Models may cost time, and a single candidate wins anyway.
    if len(candidates) < 2:
        return [*candidates]
    return sorted(candidates, key=lambda x: guarded(x.alternative, lambda: x.rank))


def candidates_for(
    request: Request, alternatives: Iterable[Alternative]
) -> tuple[list[Candidate], dict[str, str]]:
    """
    All that can compute a kernel, best first as long as nothing is measured; and the
    reason of each alternative that cannot.

    Raises `PluginError` if one fails.
    """
    taken, refusals = sorted_out(request, alternatives)
    found: list[Candidate] = []
    for alternative in taken:
        offered = variants_of(alternative, request)
        if not offered:
            refusals[alternative.name] = NO_VARIANT
        found += offered
    return ranked(found), refusals


def choose_unmeasured(
    request: Request, alternatives: Iterable[Alternative]
) -> tuple[Choice | None, dict[str, str]]:
    """
    The choice among `candidates_for` without times, if there is any; alternatives of
    lower priority are not asked for their variants.

    Raises `PluginError` if one fails.
    """
    fitting, refusals = sorted_out(request, alternatives)
    taken = [found for found in fitting if not found.has_to_be_measured]
    refusals |= {
        found.name: NOT_MEASURED for found in fitting if found.has_to_be_measured
    }
    for priority, group in groupby(taken, key=lambda found: found.priority):
        found: list[Candidate] = []
        for alternative in group:
            offered = variants_of(alternative, request)
            if not offered:
                refusals[alternative.name] = NO_VARIANT
            found += offered
        if found:
            best = ranked(found)
            lower = [other for other in taken if other.priority < priority]
            return Choice(best[0], reason_of_rank(best, lower)), refusals
    return None, refusals


def guarded(alternative: Alternative, action: Callable[[], T]) -> T:
    """
    The result of an action of an alternative. Raises `PluginError` if it raises
    any error that is no message for a person already.
    """
    try:
        return action()
    except DiagnosticException:
        raise
    except Exception as error:
        raise PluginError(
            f"the alternative '{alternative.name}' of {alternative.source} fails: "
            f"{told(error)}"
        ) from error


def choose(candidates: Sequence[Candidate], times: Mapping[str, float]) -> Candidate:
    """
    The candidate to take, given what the measured ones took, in nanoseconds, by name.

    `candidates` is not empty, and lies in the order of `candidates_for`.
    """
    return choose_measured(candidates, times).candidate


def choose_measured(
    candidates: Sequence[Candidate], times: Mapping[str, float]
) -> Choice:
    """The choice by measured times, with its reason."""
    usual = candidates[0]
    by_time = sorted(
        (candidate for candidate in candidates if candidate.name in times),
        key=lambda candidate: times[candidate.name],
    )
    if not by_time:
        return Choice(usual, "none of its times is known")
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


def reason_of_rank(
    candidates: Sequence[Candidate], lower: Sequence[Alternative]
) -> str:
    """
    Why the first candidate comes before others of its priority, or else before the
    alternatives of lower ones, where nothing was measured.
    """
    first = candidates[0]
    if len(candidates) == 1:
        if not lower:
            return "nothing else is offered"
        ours, theirs = first.alternative.priority, lower[0].priority
        return f"priority {ours}, {lower[0].name} has {theirs}"
    second = candidates[1]
    costs = [candidate.variant.modelled_ns for candidate in (first, second)]
    if costs[0] is not None and costs[0] != costs[1]:
        other = "is not modelled" if costs[1] is None else text_of(costs[1])
        return f"{text_of(costs[0])} modelled, {second.name} {other}"
    return f"before {second.name} by name"
