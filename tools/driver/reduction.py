"""
Reduction: the smallest IR, and the fewest passes, that still show a behaviour.

Parts are left out, in halves first and one by one in the end: passes, ops, the contents
of regions, attributes. The rest is tried, and kept if a test finds it interesting.
All is tried again until nothing more can go. A result that others use is replaced by an
earlier value of its type, or its users go with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from penstock.tools.driver.verifier import VerifierCrash, module_errors

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """A module, and the texts of the passes that are run over it."""

    module: ModuleOp
    passes: tuple[str, ...] = ()

    @property
    def ops(self) -> int:
        """The number of ops, without the module itself."""
        return len(_ops_of(self.module))


class Reduction:
    """
    A reduction of a case. `is_interesting` decides of what is left; it is not asked for
    IR that does not verify, unless the case did not.
    """

    def __init__(self, case: Case, is_interesting: Callable[[Case], bool]) -> None:
        self.case = case
        self.tests = 0
        """The number of cases that were tried."""
        self._is_interesting = is_interesting
        self._has_errors = not verifies(case.module)

    def run(self) -> Case:
        """The smallest case that was found."""
        steps = (
            self._leave_out_passes,
            self._leave_out_ops,
            self._empty_regions,
            self._leave_out_attributes,
        )
        # Each step may make room for the ones before it.
        while [step() for step in steps].count(True):
            pass
        return self.case

    def _accepts(self, case: Case) -> bool:
        if not self._has_errors and not verifies(case.module):
            return False
        self.tests += 1
        if not self._is_interesting(case):
            return False
        self.case = case
        return True

    def _leave_out_passes(self) -> bool:
        def keeps(passes: Sequence[str]) -> bool:
            return self._accepts(replace(self.case, passes=tuple(passes)))

        before = self.case.passes
        return len(kept(before, keeps)) < len(before)

    def _leave_out_ops(self) -> bool:
        count = before = self.case.ops
        while count:
            self._leave_out_ranges(count)
            count //= 2
        return self.case.ops < before

    def _leave_out_ranges(self, count: int) -> None:
        """Leave out ranges of so many ops, from the last ones on."""
        end = self.case.ops
        while end > 0:
            start = max(0, end - count)
            module = without_ops(self.case.module, range(start, end))
            is_less = len(_ops_of(module)) < self.case.ops
            if is_less and self._accepts(replace(self.case, module=module)):
                end = min(start, self.case.ops)
            else:
                end = start

    def _empty_regions(self) -> bool:
        return self._try_each(_emptied)

    def _leave_out_attributes(self) -> bool:
        return self._try_each(_without_attributes)

    def _try_each(
        self, variants: Callable[[Operation], Iterable[Callable[[Operation], None]]]
    ) -> bool:
        """Try changes of each op, the last ones first; whether one was accepted."""
        is_changed = False
        for index in reversed(range(self.case.ops)):
            ops = _ops_of(self.case.module)
            for change in variants(ops[index]) if index < len(ops) else ():
                module = self.case.module.clone()
                change(_ops_of(module)[index])
                is_changed |= self._accepts(replace(self.case, module=module))
        return is_changed


def kept(items: Sequence[T], keeps: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """
    The rest of items if parts are left out, halves first, as long as `keeps` says so of
    that rest.
    """
    count = len(items)
    while count:
        end = len(items)
        while end > 0:
            start = max(0, end - count)
            rest = [*items[:start], *items[end:]]
            if keeps(rest):
                items = rest
            end = start
        count //= 2
    return items


def without_ops(module: ModuleOp, indices: Iterable[int]) -> ModuleOp:
    """A copy of a module without the ops of these indices, and what needs them."""
    copy = module.clone()
    ops = _ops_of(copy)
    for op in reversed([ops[index] for index in indices]):
        _leave_out(op)
    return copy


def _ops_of(module: ModuleOp) -> list[Operation]:
    """All ops of a module but itself."""
    return [op for op in module.walk() if op is not module]


def _leave_out(op: Operation) -> None:
    if op.parent is None:
        return  # it has gone with another one
    for result in op.results:
        if not result.uses:
            continue
        if (other := _substitute(op, result)) is not None:
            result.replace_all_uses_with(other)
            continue
        for user in [use.operation for use in result.uses]:
            _leave_out(user)
    op.detach()
    op.erase(safe_erase=False)


def _substitute(op: Operation, result: SSAValue) -> SSAValue | None:
    """An operand of the type of a result, or an earlier value of the block."""
    values = (*op.operands, *_before(op))
    return next((value for value in values if value.type == result.type), None)


def _before(op: Operation) -> Iterator[SSAValue]:
    """The values of a block before an op, the latest first."""
    block, earlier = op.parent, op.prev_op
    assert isinstance(block, Block), "an op of a module is in a block"
    while earlier is not None:
        yield from earlier.results
        earlier = earlier.prev_op
    yield from block.args


def _emptied(op: Operation) -> Iterator[Callable[[Operation], None]]:
    """Changes that empty a region of an op."""
    for number, region in enumerate(op.regions):
        if region.blocks:
            yield lambda other, number=number: _empty(other, number)


def _empty(op: Operation, number: int) -> None:
    regions = [op.detach_region(region) for region in list(op.regions)]
    for index, region in enumerate(regions):
        op.add_region(Region() if index == number else region)


def _without_attributes(op: Operation) -> Iterator[Callable[[Operation], None]]:
    """Changes that remove an attribute of an op, or a property that it can lack."""
    for name in op.attributes:
        yield lambda other, name=name: other.attributes.pop(name, None) and None
    for name in op.properties:
        yield lambda other, name=name: other.properties.pop(name, None) and None


def verifies(module: ModuleOp) -> bool:
    """Whether a module is right, and so has a custom form."""
    try:
        return not module_errors(module)
    except VerifierCrash:
        return False
