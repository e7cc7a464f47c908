"""
Facts about integers in a kernel: linear forms and the intervals they lie in.

An integer is a sum of multiples of *atoms*, which are loop variables, loaded values,
and results of ops that are not linear. Each atom has an interval, and may have bounds
that are linear in older atoms: a loop variable is less than its upper bound. The
largest value of a form is the least that follows when atoms, the newest first, are
replaced by their bounds or by the ends of their intervals. Conditions that hold in a
scope bound forms, and by that their atoms.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

Terms: TypeAlias = tuple[tuple[int, int], ...]
"""Atoms, by number, and the factor of each, which is not 0; the oldest first."""

MAX_STEPS = 400
"""
The number of forms that are looked at to bound one: programs may be made to need many.
"""
MAX_DEPTH = 4
"""
The depth to which a condition is followed from forms to their atoms, and on to their
bounds.
"""


class Interval(NamedTuple):
    """The integers from `low` to `high`; none, if `high` is less."""

    low: int
    high: int

    def joined(self, other: Interval) -> Interval:
        """The least interval around both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def has(self, other: Interval) -> bool:
        """Whether another interval lies inside."""
        return self.low <= other.low and other.high <= self.high


@dataclass(frozen=True)
class Linear:
    """A sum of multiples of atoms, and a constant."""

    terms: Terms = ()
    constant: int = 0

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """The sum with a multiple of another form."""
        factors = dict(self.terms)
        for atom, by in other.terms:
            factors[atom] = factors.get(atom, 0) + by * factor
        terms = tuple(sorted((atom, by) for atom, by in factors.items() if by))
        return Linear(terms, self.constant + other.constant * factor)

    def minus(self, other: Linear) -> Linear:
        """The difference to another form."""
        return self.plus(other, -1)

    def times(self, factor: int) -> Linear:
        """A multiple."""
        return Linear().plus(self, factor)


class Bound(NamedTuple):
    """
    An atom, `factor` times, is at most, or at least, `form`. It holds only where the
    atom is at least `needs`, if that is given.
    """

    form: Linear
    factor: int = 1
    needs: int | None = None


class Bounds(NamedTuple):
    """The bounds of an atom from above and from below, in older atoms."""

    above: tuple[Bound, ...] = ()
    below: tuple[Bound, ...] = ()


class Ranges:
    """The intervals of atoms and of forms, as far as they are known in a scope."""

    def __init__(self) -> None:
        self._bounds: list[Bounds] = []
        self._intervals: dict[Terms, Interval] = {}
        self._replaced: list[tuple[Terms, Interval | None]] = []

    def atom(
        self,
        interval: Interval,
        above: Iterable[Bound] = (),
        below: Iterable[Bound] = (),
    ) -> Linear:
        """A new atom, with bounds in forms that are older."""
        terms = ((len(self._bounds), 1),)
        self._bounds.append(Bounds(tuple(above), tuple(below)))
        self._intervals[terms] = interval
        return Linear(terms)

    @contextmanager
    def scope(self) -> Generator[None]:
        """A scope, at whose end all that was assumed there is forgotten."""
        start = len(self._replaced)
        yield
        while len(self._replaced) > start:
            terms, interval = self._replaced.pop()
            if interval is None:
                del self._intervals[terms]
            else:
                self._intervals[terms] = interval

    # Asking

    def interval(self, form: Linear) -> Interval:
        """The interval that a form lies in."""
        return Interval(self.low(form), self.high(form))

    def low(self, form: Linear) -> int:
        """The lower bound of a form."""
        return -self.high(form.times(-1))

    def high(self, form: Linear) -> int:
        """The upper bound of a form."""
        return self._high(form, [MAX_STEPS])

    def _high(self, form: Linear, steps: list[int]) -> int:
        best = self._plain_high(form)
        steps[0] -= 1
        if not form.terms or steps[0] < 0:
            return best
        atom, factor = form.terms[-1]
        rest = Linear(form.terms[:-1], form.constant)
        if rest.terms:
            most = self._term_high(atom, factor)
            best = min(best, self._high(rest.plus(Linear((), most)), steps))
        bounds = self._bounds[atom]
        for bound in bounds.above if factor > 0 else bounds.below:
            if factor % bound.factor == 0 and self._holds(bound, atom):
                replaced = rest.plus(bound.form, factor // bound.factor)
                best = min(best, self._high(replaced, steps))
        return best

    def _plain_high(self, form: Linear) -> int:
        """The sum of the ends of the atoms' intervals, or less if that is known."""
        most = sum(self._term_high(*term) for term in form.terms)
        if (known := self._intervals.get(form.terms)) is not None:
            most = min(most, known.high)
        negated = tuple((atom, -factor) for atom, factor in form.terms)
        if (known := self._intervals.get(negated)) is not None:
            most = min(most, -known.low)
        return most + form.constant

    def _term_high(self, atom: int, factor: int) -> int:
        interval = self._intervals[((atom, 1),)]
        return factor * (interval.high if factor > 0 else interval.low)

    def _holds(self, bound: Bound, atom: int) -> bool:
        low = self._intervals[((atom, 1),)].low
        return bound.needs is None or low >= bound.needs

    # Assuming

    def assume_at_most(self, form: Linear, most: int, depth: int = 0) -> None:
        """Let a form be no more than a number until the scope ends."""
        most -= form.constant
        form = Linear(form.terms)
        if depth > MAX_DEPTH or not form.terms or self._plain_high(form) <= most:
            return
        if len(form.terms) > 1:
            known = self._intervals.get(form.terms)
            low = -self._plain_high(form.times(-1)) if known is None else known.low
            self._set(form.terms, Interval(low, most))
        for atom, factor in form.terms:
            others = Linear(tuple(term for term in form.terms if term[0] != atom))
            spare = most + self._plain_high(others.times(-1))
            if factor > 0:
                self._lower_end(atom, spare // factor, depth)
            else:
                self._raise_end(atom, -(spare // -factor), depth)

    def assume_at_least(self, form: Linear, least: int, depth: int = 0) -> None:
        """Let a form be no less than a number until the scope ends."""
        self.assume_at_most(form.times(-1), -least, depth)

    def _lower_end(self, atom: int, high: int, depth: int) -> None:
        """Let an atom be at most a number, and with it what it is no less than."""
        interval = self._intervals[((atom, 1),)]
        if high >= interval.high:
            return
        self._set(((atom, 1),), Interval(interval.low, high))
        for bound in self._bounds[atom].below:
            if self._holds(bound, atom):
                self.assume_at_most(bound.form, high * bound.factor, depth + 1)

    def _raise_end(self, atom: int, low: int, depth: int) -> None:
        """Let an atom be at least a number, and with it what it is no more than."""
        interval = self._intervals[((atom, 1),)]
        if low <= interval.low:
            return
        self._set(((atom, 1),), Interval(low, interval.high))
        for bound in self._bounds[atom].above:
            if self._holds(bound, atom):
                self.assume_at_least(bound.form, low * bound.factor, depth + 1)

    def _set(self, terms: Terms, interval: Interval) -> None:
        self._replaced.append((terms, self._intervals.get(terms)))
        self._intervals[terms] = interval
