"""Groups with a contraction: ops on elements that follow its sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.groups.group_form import (
    GroupForm,
    build_scalars,
    refuse_others,
    verify_broadcast,
)
from penstock.dialects.op.tensor_op import (
    ContractionOp,
    Ending,
    InPlacePair,
    TensorOp,
)
from penstock.dialects.utils.diagnostics import LocatedVerifyException
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder


class ContractionForm(GroupForm):
    """
    A contraction, and the ops on elements that follow it and keep its type: on a CPU
    they are computed while the sums are in registers. Results are any of what is made
    of the sums, or these themselves. Where it `starts`, the sums start
    from the elements of an operand, which an `op.add` adds to them.
    """

    def __init__(self, block: Block, *, starts: bool) -> None:
        super().__init__(block)
        self.starts = starts

    @property
    def root(self) -> ContractionOp:
        """The contraction."""
        (root,) = (op for op in self.members if isinstance(op, ContractionOp))
        return root

    @property
    def added(self) -> AddOp | None:
        """The op that adds to the sums what they start from."""
        if not self.starts:
            return None
        uses = [use.operation for use in self.root.results[0].uses]
        return uses[0] if len(uses) == 1 and isinstance(uses[0], AddOp) else None

    @property
    def start(self) -> BlockArgument | None:
        """The argument of the body that sums start from."""
        if (added := self.added) is None:
            return None
        made = self.root.results[0]
        (start,) = (value for value in added.operands if value is not made)
        assert isinstance(start, BlockArgument), "checked by the verifier"
        return start

    def infer_types(self) -> Sequence[TensorType]:
        refuse_others(self.block, ContractionOp, "computed on the sums of a group")
        roots = [op for op in self.members if isinstance(op, ContractionOp)]
        for op in roots[1:]:
            text = f"a group has one contraction, got {op.name} besides {roots[0].name}"
            raise LocatedVerifyException([(op, text)])
        root, made = roots[0], roots[0].results[0]
        if any(value not in self.block.args for value in root.operands):
            text = f"{root.name} should read arguments of the body"
            raise LocatedVerifyException([(root, text)])
        type = tensor_type(made)
        made_of_sums = self._made_of_sums()
        for value in self.yielded:
            if value.type != type:
                raise VerifyException(f"results should be {type}, got {value.type}")
            if value not in made_of_sums:
                raise VerifyException(
                    f"results should be made of that of {root.name}, one is not"
                )
        for op in self.after:
            for value in op.operands:
                verify_broadcast(tensor_type(value), type)
        if self.starts:
            self._verify_start()
        return [type] * len(self.yielded)

    def _made_of_sums(self) -> set[SSAValue]:
        """The sums, and the values that depend on them."""
        made: set[SSAValue] = {self.root.results[0]}
        for op in self.after:
            if made.intersection(op.operands):
                made.update(op.results)
        return made

    def _verify_start(self) -> None:
        """
        Raise `VerifyException` unless sums can start from the tensor that is added to
        them.
        """
        root, made = self.root, self.root.results[0]
        if not root.can_start:
            raise VerifyException(f"the sums of {root.name} cannot start from others")
        added = self.added
        others = [] if added is None else [x for x in added.operands if x is not made]
        if len(others) != 1:
            raise VerifyException("only an op.add should read sums that start")
        (start,) = others
        if not isinstance(start, BlockArgument) or start.type != made.type:
            raise VerifyException(
                f"sums should start from an argument of their type {made.type}"
            )

    @property
    def after(self) -> list[TensorOp]:
        """The ops on elements, and constants."""
        return [op for op in self.members if not isinstance(op, ContractionOp)]

    def in_place_pairs(self, ins: Sequence[SSAValue]) -> Sequence[InPlacePair]:
        start = self.start
        if start is None or not start.has_one_use():
            return ()
        # A start that is a factor, too, would be overwritten too early.
        same = [value for value in ins if value is ins[start.index]]
        results = range(len(self.yielded)) if len(same) == 1 else ()
        return [InPlacePair(start.index, result) for result in results]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        buffers: dict[SSAValue, SSAValue] = dict(zip(self.block.args, ins, strict=True))
        start, after, made = self.start, self.after, self.root.results[0]
        if (added := self.added) is not None:
            after.remove(added)
            made = added.result
        read = dict.fromkeys(value for op in after for value in op.operands)
        addends = [value for value in read if value in buffers]

        def body(k: KernelBuilder, scalars: Sequence[SSAValue]) -> Sequence[SSAValue]:
            given = dict(zip((*addends, made), scalars, strict=True))
            values = build_scalars(k, after, given)
            return [values[value] for value in self.yielded]

        ending = Ending(
            None if start is None else buffers[start],
            [buffers[value] for value in addends],
            body if [*self.yielded] != [made] else None,
        )
        given = [buffers[value] for value in self.root.operands]
        self.root.build_sums(k, given, outs, ending)
