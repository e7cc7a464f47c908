"""SSA dominance, which xDSL does not check: a value is defined before it is used."""

from collections.abc import Iterable

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove

from penstock.dialects.diagnostics import place_of


def dominance_errors(top: Operation) -> list[tuple[Operation, str]]:
    """
    Pair each operation under `top` that uses a value where that value is not
    available with a message that says which one.

    A value is available after its definition in its block, in the regions of the
    operations there, and in the blocks that its block dominates. Unreachable blocks
    may use anything. A use that leaves an operation isolated from above is not
    reported here: the verifier of that operation does so.
    """
    checker = _Checker(top)
    for region in top.regions:
        checker.check_region(region)
    return checker.errors


class _Checker:
    """One walk over the operations, with the values that are available."""

    def __init__(self, top: Operation) -> None:
        self.errors: list[tuple[Operation, str]] = []
        self._top = top
        self._available: set[SSAValue] = set()

    def check_region(self, region: Region) -> None:
        if region.first_block is None:
            return
        children = _dominator_tree(region)
        stack: list[Block | list[SSAValue]] = [region.first_block]
        while stack:
            match stack.pop():
                case Block() as block:
                    stack.append(self._check_block(block))
                    stack.extend(children.get(block, ()))
                case leaving:
                    self._available.difference_update(leaving)

    def _check_block(self, block: Block) -> list[SSAValue]:
        """Check the operations of a block, and return what it defines."""
        defined: list[SSAValue] = list(block.args)
        self._available.update(block.args)
        for op in block.ops:
            self._check_operands(op)
            if op.regions:
                self._check_regions(op)
            defined += op.results
            self._available.update(op.results)
        return defined

    def _check_operands(self, op: Operation) -> None:
        for index, value in enumerate(op.operands):
            if value in self._available or value in op.operands[:index]:
                continue
            if not _crosses_isolation(op, value):
                self.errors.append((op, self._message(index, value)))

    def _check_regions(self, op: Operation) -> None:
        outer = self._available
        if op.has_trait(IsolatedFromAbove):
            self._available = set()
        for region in op.regions:
            self.check_region(region)
        self._available = outer

    def _message(self, index: int, value: SSAValue) -> str:
        name = f" (%{value.name_hint})" if value.name_hint else ""
        definition = _defining_op(value)
        if definition is None or not self._top.is_ancestor(definition):
            return f"operand #{index}{name} is defined outside of the module"
        message = f"operand #{index}{name} does not dominate this use"
        if (place := place_of(definition)) is None:
            return message
        return f"{message}: it is defined at line {place.line}"


def _defining_op(value: SSAValue) -> Operation | None:
    owner = value.owner
    return owner.parent_op() if isinstance(owner, Block) else owner


def _crosses_isolation(op: Operation, value: SSAValue) -> bool:
    ancestor = op.parent_op()
    while ancestor is not None and not ancestor.has_trait(IsolatedFromAbove):
        ancestor = ancestor.parent_op()
    definition = _defining_op(value)
    if ancestor is None or definition is None:
        return False
    is_argument = isinstance(value.owner, Block)
    if definition is ancestor:
        return not is_argument
    return definition.get_toplevel_object() is ancestor.get_toplevel_object() and (
        not ancestor.is_ancestor(definition)
    )


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
