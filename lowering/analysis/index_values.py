"""
The integers of a kernel as linear forms, see `penstock.lowering.analysis.index_ranges`.

Integers wrap around at the bits of their type, indices at 64: what may do so is any
number of its type. So is whatever no rule here speaks of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from penstock.dialects.utils.hints import isa
from penstock.lowering.analysis.index_ranges import Bound, Interval, Linear, Ranges

INDEX_BITS = 64

SIGNED_RELATIONS = {0: "eq", 1: "ne", 2: "lt", 3: "le", 4: "gt", 5: "ge"}
"""The relations of `arith.cmpi` by their numbers."""
UNSIGNED_RELATIONS = {6: "lt", 7: "le", 8: "gt", 9: "ge"}
CONTRARY = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}


def interval_of(type: Attribute) -> Interval | None:
    """The integers of a type, with a sign; None for booleans and all else."""
    bits = INDEX_BITS if isinstance(type, IndexType) else 0
    if isa(type, IntegerType) and type.width.data > 1:
        bits = type.width.data
    return Interval(-(1 << bits - 1), (1 << bits - 1) - 1) if bits else None


class IndexValues:
    """The forms of the values of a kernel."""

    def __init__(self) -> None:
        self.ranges = Ranges()
        self._forms: dict[SSAValue, Linear] = {}

    def form(self, value: SSAValue) -> Linear:
        """The form of an integer. Of one that is not known it is a new atom."""
        if value not in self._forms:
            interval = interval_of(value.type)
            assert interval is not None, "asked of integers only"
            self._forms[value] = self.ranges.atom(interval)
        return self._forms[value]

    def interval(self, value: SSAValue) -> Interval:
        """The interval that an integer lies in."""
        return self.ranges.interval(self.form(value))

    def set(self, value: SSAValue, form: Linear) -> None:
        """Say what an integer is, unless that does not fit into its type."""
        limits = interval_of(value.type)
        assert limits is not None, "said of integers only"
        fits = limits.has(self.ranges.interval(form))
        self._forms[value] = form if fits else self.ranges.atom(limits)

    def set_within(self, value: SSAValue, interval: Interval) -> None:
        """Say in which interval an integer lies."""
        self.set(value, self.ranges.atom(interval))

    def define(self, op: Operation) -> None:
        """Find the form of what a scalar op computes."""
        if len(op.results) != 1 or interval_of(op.results[0].type) is None:
            return
        if isinstance(op, arith.ConstantOp):
            self._define_constant(op)
            return
        if isinstance(op, arith.SelectOp):
            self._define_choice(op)
            return
        rule = RULES.get(op.name)
        is_known = all(interval_of(value.type) is not None for value in op.operands)
        if rule is None or not is_known:
            self._forms.pop(op.results[0], None)
            return
        form = rule(self.ranges, [self.form(value) for value in op.operands])
        if form is None:
            self._forms.pop(op.results[0], None)
        else:
            self.set(op.results[0], form)

    def _define_constant(self, op: arith.ConstantOp) -> None:
        if isa(op.value, IntegerAttr):
            self.set(op.result, Linear((), op.value.value.data))

    def _define_choice(self, op: arith.SelectOp) -> None:
        """Each side counts where the condition lets it be chosen."""
        sides: list[Interval] = []
        for value, holds in ((op.lhs, True), (op.rhs, False)):
            with self.ranges.scope():
                self.assume(op.cond, holds)
                sides.append(self.interval(value))
        self.set_within(op.result, sides[0].joined(sides[1]))

    # Conditions

    def assume(self, condition: SSAValue, holds: bool = True) -> None:
        """Let a boolean be true, or false, until the scope ends."""
        match condition.owner:
            case arith.AndIOp() as op if holds:
                self._assume_both(op, True)
            case arith.OrIOp() as op if not holds:
                self._assume_both(op, False)
            case arith.CmpiOp() as op if interval_of(op.lhs.type) is not None:
                self._assume_relation(op, holds)
            case _:
                pass

    def _assume_both(self, op: arith.AndIOp | arith.OrIOp, holds: bool) -> None:
        for operand in op.operands:
            self.assume(operand, holds)

    def _assume_relation(self, op: arith.CmpiOp, holds: bool) -> None:
        number, ranges = op.predicate.value.data, self.ranges
        a, b = self.form(op.lhs), self.form(op.rhs)
        relation = (SIGNED_RELATIONS | UNSIGNED_RELATIONS).get(number)
        if relation is None:
            return
        relation = relation if holds else CONTRARY[relation]
        if number in UNSIGNED_RELATIONS:
            less, more = (b, a) if relation in ("gt", "ge") else (a, b)
            if ranges.low(more) < 0:
                return
            # A number below zero would be a large one.
            ranges.assume_at_least(less, 0)
        self._assume_between(relation, a.minus(b))

    def _assume_between(self, relation: str, difference: Linear) -> None:
        ranges = self.ranges
        if relation in ("lt", "le", "eq"):
            ranges.assume_at_most(difference, -1 if relation == "lt" else 0)
        if relation in ("gt", "ge", "eq"):
            ranges.assume_at_least(difference, 1 if relation == "gt" else 0)
        if relation == "ne" and ranges.low(difference) == 0:
            ranges.assume_at_least(difference, 1)
        if relation == "ne" and ranges.high(difference) == 0:
            ranges.assume_at_most(difference, -1)


# Rules: the form of a result by those of its operands -------------------------------


def _constant(form: Linear) -> int | None:
    return None if form.terms else form.constant


def _sum(ranges: Ranges, forms: Sequence[Linear]) -> Linear:
    return forms[0].plus(forms[1])


def _difference(ranges: Ranges, forms: Sequence[Linear]) -> Linear:
    return forms[0].minus(forms[1])


def _product(ranges: Ranges, forms: Sequence[Linear]) -> Linear:
    for a, b in (forms, forms[::-1]):
        if (factor := _constant(b)) is not None:
            return a.times(factor)
    (a, b), (c, d) = map(ranges.interval, forms)
    corners = (a * c, a * d, b * c, b * d)
    return ranges.atom(Interval(min(corners), max(corners)))


def _same(ranges: Ranges, forms: Sequence[Linear]) -> Linear:
    return forms[0]


def _same_if_positive(ranges: Ranges, forms: Sequence[Linear]) -> Linear | None:
    return forms[0] if ranges.low(forms[0]) >= 0 else None


def _larger(ranges: Ranges, forms: Sequence[Linear]) -> Linear:
    a, b = map(ranges.interval, forms)
    # The larger of two is no less than their mean: so `max(x, -x)` is not negative.
    mean = -(-ranges.low(forms[0].plus(forms[1])) // 2)
    interval = Interval(max(a.low, b.low, mean), max(a.high, b.high))
    return ranges.atom(interval, below=map(Bound, forms))


def _smaller(ranges: Ranges, forms: Sequence[Linear]) -> Linear:
    a, b = map(ranges.interval, forms)
    mean = ranges.high(forms[0].plus(forms[1])) // 2
    interval = Interval(min(a.low, b.low), min(a.high, b.high, mean))
    return ranges.atom(interval, above=map(Bound, forms))


def _if_positive(
    rule: Callable[[Ranges, Sequence[Linear]], Linear | None],
) -> Callable[[Ranges, Sequence[Linear]], Linear | None]:
    """The rule of an op without signs where no operand is negative."""

    def checked(ranges: Ranges, forms: Sequence[Linear]) -> Linear | None:
        is_positive = all(ranges.low(form) >= 0 for form in forms)
        return rule(ranges, forms) if is_positive else None

    return checked


def _quotient(ranges: Ranges, forms: Sequence[Linear]) -> Linear | None:
    """Rounded toward zero: if it is positive, so is what is divided."""
    by = _constant(forms[1])
    if by is None or by < 1:
        return None
    low, high = ranges.interval(forms[0])
    spare = Linear((), by - 1)
    ends = (abs(x) // by * (1 if x >= 0 else -1) for x in (low, high))
    above = Bound(forms[0], by, None if low >= 0 else 1)
    below = Bound(forms[0].minus(spare), by)
    return ranges.atom(Interval(*ends), (above,), (below,))


def _floor(ranges: Ranges, forms: Sequence[Linear]) -> Linear | None:
    by = _constant(forms[1])
    if by is None or by < 1:
        return None
    low, high = ranges.interval(forms[0])
    below = Bound(forms[0].minus(Linear((), by - 1)), by)
    above = Bound(forms[0], by)
    return ranges.atom(Interval(low // by, high // by), (above,), (below,))


def _ceiling(ranges: Ranges, forms: Sequence[Linear]) -> Linear | None:
    by = _constant(forms[1])
    if by is None or by < 1:
        return None
    return _floor(ranges, [forms[0].plus(Linear((), by - 1)), forms[1]])


def _remainder(ranges: Ranges, forms: Sequence[Linear]) -> Linear | None:
    by = _constant(forms[1])
    if by is None or by < 1:
        return None
    low, high = ranges.interval(forms[0])
    if low < 0:
        return ranges.atom(Interval(1 - by, by - 1))
    return ranges.atom(Interval(0, min(high, by - 1)), (Bound(forms[0]),))


def _masked(ranges: Ranges, forms: Sequence[Linear]) -> Linear | None:
    ends = [ranges.high(form) for form in forms if ranges.low(form) >= 0]
    return ranges.atom(Interval(0, min(ends))) if ends else None


RULES: dict[str, Callable[[Ranges, Sequence[Linear]], Linear | None]] = {
    "arith.addi": _sum,
    "arith.andi": _masked,
    "arith.ceildivsi": _ceiling,
    "arith.ceildivui": _if_positive(_ceiling),
    "arith.divsi": _quotient,
    "arith.divui": _if_positive(_quotient),
    "arith.extsi": _same,
    "arith.extui": _same_if_positive,
    "arith.floordivsi": _floor,
    "arith.index_cast": _same,
    "arith.maxsi": _larger,
    "arith.maxui": _if_positive(_larger),
    "arith.minsi": _smaller,
    "arith.minui": _if_positive(_smaller),
    "arith.muli": _product,
    "arith.remsi": _remainder,
    "arith.remui": _if_positive(_remainder),
    "arith.subi": _difference,
    "arith.trunci": _same,
}
