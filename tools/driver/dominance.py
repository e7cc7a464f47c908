"""SSA dominance, which xDSL does not check: a value is defined before it is used."""

from collections.abc import Iterable
from operator import attrgetter

from xdsl.ir import Block, ErasedSSAValue, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove

from penstock.dialects.utils.diagnostics import Finding, place_of

# A view of the operands of each op would take half of the time.
_parts_of = attrgetter("_operands", "results", "regions", "_next_op")


def dominance_errors(top: Operation) -> list[Finding]:
    """
    The operations under `top` that use a value where it is not available, each with a
    message that names the value.

    A value is available after its definition in its block, in the regions of the
    operations there unless they are isolated from above, and in the blocks that its
    block dominates. Unreachable blocks may use all that is not kept out by an isolated
    operation around them.
    """
    checker = _Checker(top)
    for region in top.regions:
        checker.check_region(region)
    return checker.errors


class _Checker:
    """
    A dominance check: one walk over the operations, with the values that are available.
    """

    def __init__(self, top: Operation) -> None:
        self.errors: list[Finding] = []
        self._top = top
        self._available: set[int] = set()
        """The identities of the values, which are compared by these anyway."""

    def check_region(self, region: Region) -> None:
        if region.first_block is None:
            return
        children = _dominator_tree(region)
        stack: list[Block | list[int]] = [region.first_block]
        while stack:
            match stack.pop():
                case Block() as block:
                    stack.append(self._check_block(block))
                    stack.extend(children.get(block, ()))
                case leaving:
                    self._available.difference_update(leaving)
        for block in region.blocks if children else ():
            if block not in children:
                self._check_unreachable(block)

    def _check_unreachable(self, block: Block) -> None:
        for op in block.walk():
            for index, value in enumerate(op.operands):
                if isinstance(value, ErasedSSAValue):
                    continue  # which its verifier reports
                definition = _defining_op(value)
                if definition is not None and _isolating_op(op, definition, value):
                    self.errors.append((op, self._message(op, index, value)))

    def _check_block(self, block: Block) -> list[int]:
        """Check the operations of a block, and return the values that it defines."""
        defined: list[int] = [*map(id, block.args)]
        available = self._available
        available.update(defined)
        op = block.first_op
        while op is not None:
            operands, results, regions, after = _parts_of(op)
            if not available.issuperset(map(id, operands)):
                self._tell_operands(op)
            if regions:
                self._check_regions(op)
            results = [*map(id, results)]
            defined += results
            available.update(results)
            op = after
        return defined

    def _tell_operands(self, op: Operation) -> None:
        """List the operands of an op that are not available, each value once."""
        for index, value in enumerate(op.operands):
            is_told = value in op.operands[:index]
            if id(value) not in self._available and not is_told:
                self.errors.append((op, self._message(op, index, value)))

    def _check_regions(self, op: Operation) -> None:
        outer = self._available
        if op.has_trait(IsolatedFromAbove):
            self._available = set()
        for region in op.regions:
            self.check_region(region)
        self._available = outer

    def _message(self, op: Operation, index: int, value: SSAValue) -> str:
        name = f" (%{value.name_hint})" if value.name_hint else ""
        operand = f"operand #{index}{name}"
        if isinstance(value, ErasedSSAValue):
            return f"{operand} has been erased"
        definition = _defining_op(value)
        if definition is None or not self._top.is_ancestor(definition):
            return f"{operand} is defined outside of the module"
        if (isolating := _isolating_op(op, definition, value)) is not None:
            return (
                f"{operand} is defined outside of {isolating.name}, which is isolated "
                "from above"
            )
        place = place_of(definition)
        where = "" if place is None else f": it is defined at line {place.line}"
        return f"{operand} does not dominate this use{where}"


def _defining_op(value: SSAValue) -> Operation | None:
    owner = value.owner
    return owner.parent_op() if isinstance(owner, Block) else owner


def _isolating_op(
    op: Operation, definition: Operation, value: SSAValue
) -> Operation | None:
    """Return the operation around `op` that `value` may not enter, if there is one."""
    ancestor = op.parent_op()
    while ancestor is not None and not ancestor.has_trait(IsolatedFromAbove):
        ancestor = ancestor.parent_op()
    if ancestor is None or not ancestor.is_ancestor(definition):
        return ancestor
    is_own_result = definition is ancestor and not isinstance(value.owner, Block)
    return ancestor if is_own_result else None


def _dominator_tree(region: Region) -> dict[Block, list[Block]]:
    """Map each reachable block to the blocks that it immediately dominates."""
    entry = region.first_block
    if entry is None or entry is region.last_block:
        return {}
    order = _reverse_postorder(entry)
    parents = _immediate_dominators(order)
    children: dict[Block, list[Block]] = {block: [] for block in order}
    for block, parent in zip(order[1:], parents[1:], strict=True):
        children[order[parent]].append(block)
    return children


def _successors(block: Block) -> Iterable[Block]:
    return () if block.last_op is None else block.last_op.successors


def _reverse_postorder(entry: Block) -> list[Block]:
    postorder: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, successors = stack[-1]
        fresh = next((next_ for next_ in successors if next_ not in seen), None)
        if fresh is None:
            postorder.append(block)
            stack.pop()
            continue
        seen.add(fresh)
        stack.append((fresh, iter(_successors(fresh))))
    return postorder[::-1]


def _immediate_dominators(order: list[Block]) -> list[int]:
    """
    Give each block's immediate dominator, as an index into `order`, a reverse
    postorder: the iteration of Cooper, Harvey and Kennedy (2001).
    """
    number = {block: index for index, block in enumerate(order)}
    predecessors: list[list[int]] = [[] for _ in order]
    for index, block in enumerate(order):
        for successor in _successors(block):
            predecessors[number[successor]].append(index)

    dominators = [0] + [-1] * (len(order) - 1)
    changed = True
    while changed:
        changed = False
        for index in range(1, len(order)):
            known = [p for p in predecessors[index] if dominators[p] >= 0]
            new = known[0]
            for other in known[1:]:
                new = _common_dominator(dominators, new, other)
            changed |= dominators[index] != new
            dominators[index] = new
    return dominators


def _common_dominator(dominators: list[int], a: int, b: int) -> int:
    while a != b:
        if a > b:
            a = dominators[a]
        else:
            b = dominators[b]
    return a
