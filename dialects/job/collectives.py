"""A rank's part in an exchange in which all ranks of a group take part at once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar, NamedTuple

from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job.ops import MOVED_LATER
from penstock.dialects.job.ports import AnyTensor, I64List
from penstock.dialects.job.transfers import ReceiveOp, SendOp, verify_tag
from penstock.dialects.utils.attributes import OF_VALUES, KnownAttributes
from penstock.dialects.utils.counts import Count
from penstock.dialects.utils.gradients import Differentiable
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.tensors import tensor_type

ALGORITHMS = ("ring", "mpi")
"""By which a collective is done: messages along a ring of the ranks, or the MPI."""
COLLECTIVES = ("all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter")
"""The kinds of collectives."""
SUMS = ("all_reduce", "reduce_scatter")
"""The kinds that add elements."""


class Exchange(NamedTuple):
    """A rank's part in a collective, whatever its level: types are of a shaped kind."""

    kind: str
    algorithm: str
    ranks: Sequence[int]
    """The ranks of the group, in the order of blocks."""
    sources: Sequence[TensorType | MemRefType]
    targets: Sequence[TensorType | MemRefType]

    def verify(self) -> None:
        """Raise `VerifyException` unless the types are those of such a collective."""
        if self.kind not in COLLECTIVES:
            raise VerifyException(
                f"a collective is one of {', '.join(COLLECTIVES)}, got '{self.kind}'"
            )
        if self.algorithm not in ALGORITHMS:
            raise VerifyException(
                f"a collective is done by {' or '.join(ALGORITHMS)}, "
                f"got '{self.algorithm}'"
            )
        if len(self.ranks) < 2 or len({*self.ranks}) < len(self.ranks):
            raise VerifyException(
                f"a collective is of several ranks, each once, got {[*self.ranks]}"
            )
        if min(self.ranks) < 0:
            raise VerifyException(f"ranks are not negative, got {min(self.ranks)}")
        self._verify_types()

    def _verify_types(self) -> None:
        ends = len(self.sources), len(self.targets)
        if ends not in self._ends:
            known = " or ".join(f"{a} and {b}" for a, b in self._ends)
            raise VerifyException(
                f"{self.kind} by {self.algorithm} reads and writes {known} tensors, "
                f"got {ends[0]} and {ends[1]}"
            )
        types = [*self.sources, *self.targets]
        if len({type.element_type for type in types}) > 1:
            texts = " and ".join(map(str, types))
            raise VerifyException(f"elements of a collective are alike, got {texts}")
        element = types[0].element_type
        if self.kind in SUMS and not can_add(element, self.algorithm):
            raise VerifyException(f"no {self.algorithm} adds elements of {element}")
        sizes = [prod(type.get_shape()) for type in types]
        if min(sizes) < 1:
            raise VerifyException(
                f"{self.kind} is of tensors with elements of a known number, "
                f"got {types[0]}"
            )
        ranks = len(self.ranks)
        if self.kind in ("all_to_all", "reduce_scatter") and sizes[0] % ranks:
            raise VerifyException(
                f"{self.kind} of {ranks} ranks cuts {sizes[0]} elements, which are not "
                "for each as many"
            )
        if self.kind != "broadcast" and sizes != self._wanted(sizes):
            raise VerifyException(
                f"{self.kind} of {ranks} ranks makes {sizes[0]} elements to "
                f"{self._wanted(sizes)[1]}, got {sizes[1]}"
            )

    @property
    def _ends(self) -> Sequence[tuple[int, int]]:
        """The numbers of tensors that a rank may read and write."""
        if self.kind == "broadcast":
            return (1, 0), (0, 1)
        # A ring has to put aside what it gets while it still sends.
        has_scratch = (self.kind, self.algorithm) == ("reduce_scatter", "ring")
        return ((1, 2),) if has_scratch else ((1, 1),)

    def _wanted(self, sizes: Sequence[int]) -> list[int]:
        """The elements of all tensors, by those of the first."""
        size, count = sizes[0], len(self.ranks)
        match self.kind:
            case "all_gather":
                return [size, size * count]
            case "reduce_scatter":
                return [size, *[size // count] * (len(sizes) - 1)]
            case _:
                return [size, size]


def can_add(element: Attribute, algorithm: str) -> bool:
    """Whether elements of a type are added by an algorithm of collectives."""
    if isa(element, IntegerType):
        return element.width.data > 1
    known = (Float32Type, Float64Type)
    return isinstance(element, known if algorithm == "mpi" else (Float16Type, *known))


@irdl_op_definition
class CollectiveOp(IRDLOperation, Differentiable):
    """
    The part of one rank in an exchange of all `ranks` of a group, which it is among.
    Blocks are of consecutive elements, whatever the shapes, one for each rank in the
    order of the group: `all_gather` gives each rank the block of each, `all_to_all`
    the own block of each, `all_reduce` the sums of all tensors, `reduce_scatter` the
    own block of the sums, and `broadcast` the tensor of the first rank, which alone
    has an operand, and no result. A `reduce_scatter` by `ring` has a second result of
    the type of the first, for blocks that are on their way. It comes as often in an
    iteration as the rates of its own rank say, or so many `times`.

    ```mlir
    %y = job.collective "all_reduce" by "ring" over [0, 1] tag 3
        ins(%x : tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "job.collective"
    NO_GRADIENT: ClassVar = MOVED_LATER

    kind = prop_def(StringAttr)
    algorithm = prop_def(StringAttr)
    ranks = prop_def(I64List)
    tag = prop_def(IntegerAttr.constr(i64))
    times = opt_prop_def(Count)
    sources = var_operand_def(AnyTensor)
    targets = var_result_def(AnyTensor)

    traits = traits_def(
        KnownAttributes(*OF_VALUES), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = (
        "$kind `by` $algorithm `over` $ranks `tag` $tag (`times` $times^)? "
        "`ins` `(` ($sources^ `:` type($sources))? `)` (`->` type($targets)^)? "
        "attr-dict"
    )

    def __init__(
        self,
        kind: str,
        algorithm: str,
        ranks: Sequence[int],
        tag: int,
        sources: Sequence[SSAValue | Operation],
        targets: Sequence[TensorType],
    ):
        super().__init__(
            operands=[[SSAValue.get(value) for value in sources]],
            properties={
                "kind": StringAttr(kind),
                "algorithm": StringAttr(algorithm),
                "ranks": DenseArrayBase.from_list(i64, list(ranks)),
                "tag": IntegerAttr(tag, i64),
            },
            result_types=[list(targets)],
        )

    @property
    def exchange(self) -> Exchange:
        """All that it says."""
        return Exchange(
            self.kind.data,
            self.algorithm.data,
            self.ranks.get_values(),
            [tensor_type(value) for value in self.sources],
            [tensor_type(value) for value in self.targets],
        )

    def verify_(self) -> None:
        verify_tag(self.tag)
        self.exchange.verify()


MESSAGES = CollectiveOp | ReceiveOp | SendOp
"""The ops that exchange something with other ranks."""
