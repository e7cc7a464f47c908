"""
The repetition vector: the acts of each actor in one iteration, at different rates.

A producer makes a piece in every so many of its acts, and a consumer takes one for
every so many of its own (rates of synchronous data flow). An *iteration* is the
fewest acts of all that solve the balance equations, so that no piece is left over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

MOST_ACTS = 1 << 14
"""The most acts of an actor in an iteration that is unrolled."""


class Flow(NamedTuple):
    """
    One piece in every `made` acts of the source, for every `taken` of the target: in
    the mean, where pieces are not equally far apart.
    """

    source: int
    target: int
    made: Fraction | int = 1
    taken: Fraction | int = 1


class RateError(ValueError):
    """
    The source and the target of the flow with this `index` act `acts` and `others`
    times for one another by other flows, which does not suit this one.
    """

    def __init__(self, index: int, acts: int, others: int):
        super().__init__(index, acts, others)
        self.index = index
        self.acts = acts
        self.others = others


class TimesError(ValueError):
    """
    The actor with this `index` is said to act so many `times` in an iteration, which
    others that it is connected with cannot.
    """

    def __init__(self, index: int, times: int):
        super().__init__(index, times)
        self.index = index
        self.times = times


class TooManyActs(ValueError):
    """The actor with this `index` has more `acts` in an iteration than `MOST_ACTS`."""

    def __init__(self, index: int, acts: int):
        super().__init__(index, acts)
        self.index = index
        self.acts = acts

    @property
    def reason(self) -> str:
        """The acts of the actor, and the most that are allowed."""
        return f"{self.acts} times, which may be {MOST_ACTS} at most"


def repetition_vector(
    flows: Sequence[Flow], rounds: Sequence[int], times: Mapping[int, int] | None = None
) -> list[int]:
    """
    The acts of each actor in an iteration: multiples of its `rounds`, as few as can be,
    or as many `times` as are said of it.

    Those that are connected have an iteration of their own. Raises RateError,
    TimesError, or TooManyActs.
    """
    said = [*(times or {}).items()]
    # The iteration as one more actor, which acts once.
    whole, rounds = len(rounds), [*rounds, 1]
    counted = [Flow(whole, actor, 1, count) for actor, count in said]
    try:
        acts = _relative([*flows, *counted], len(rounds))
    except RateError as error:
        if error.index < len(flows):
            raise
        raise TimesError(*said[error.index - len(flows)]) from None
    groups: dict[int, list[int]] = {}
    for actor, (group, _) in enumerate(acts):
        groups.setdefault(group, []).append(actor)
    found = [1] * len(rounds)
    for members in groups.values():
        parts = [acts[actor][1] / rounds[actor] for actor in members]
        scale = Fraction(
            lcm(*(part.denominator for part in parts)),
            gcd(*(part.numerator for part in parts)),
        )
        # In lowest terms, so this leaves whole numbers without a common factor.
        for actor in members:
            found[actor] = int(acts[actor][1] * scale)
    if found.pop() > 1:
        raise TimesError(*said[0])
    for actor, count in enumerate(found):
        if count > MOST_ACTS:
            raise TooManyActs(actor, count)
    return found


def _relative(flows: Sequence[Flow], count: int) -> list[tuple[int, Fraction]]:
    """For each actor its group, and its acts for one of the group's first."""
    links: list[list[tuple[int, Fraction]]] = [[] for _ in range(count)]
    for flow in flows:
        ratio = Fraction(flow.taken, flow.made)
        links[flow.source].append((flow.target, ratio))
        links[flow.target].append((flow.source, 1 / ratio))
    found: dict[int, tuple[int, Fraction]] = {}
    for root in range(count):
        if root in found:
            continue
        found[root] = root, Fraction(1)
        pending = [root]
        while pending:
            actor = pending.pop()
            for other, ratio in links[actor]:
                if other not in found:
                    found[other] = root, found[actor][1] * ratio
                    pending.append(other)
    for index, flow in enumerate(flows):
        ratio = found[flow.target][1] / found[flow.source][1]
        if ratio != Fraction(flow.taken, flow.made):
            raise RateError(index, ratio.denominator, ratio.numerator)
    return [found[actor] for actor in range(count)]
