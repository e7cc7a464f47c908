"""
`TensorOp` and `ElementwiseOp`: the interface of ops that every pass and tool relies on.

An op is defined in one place. A class that derives from `TensorOp` gives its result
types, cost, in-place pairs, NumPy meaning and kernel body, whichever package it comes
from; a class that derives from `ElementwiseOp` gives its scalar meaning instead of a
kernel body, and may then be fused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeAlias,
    TypeGuard,
)

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, VarResultDef, traits_def
from xdsl.traits import is_speculatable
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.in_place import IN_PLACE, verify_hints
from penstock.dialects.op.sbp import Part, SbpSignature, broadcast_signatures, part_type
from penstock.dialects.utils.attributes import OF_VALUES, KnownAttributes
from penstock.dialects.utils.gradients import Differentiable
from penstock.dialects.utils.half_precision import is_half
from penstock.dialects.utils.python_values import properties_of
from penstock.dialects.utils.tensors import (
    are_compatible,
    byte_count,
    element_count,
    same_layout,
    tensor_type,
)

if TYPE_CHECKING:
    from xdsl.ir.affine import AffineMap

    from penstock.dialects.kernel.builder import KernelBuilder, ScalarsBody
    from penstock.dialects.kernel.finish_builder import Finish
    from penstock.dialects.utils.tensors import Array

Given: TypeAlias = "SSAValue | Operation | Sequence[SSAValue | Operation] | None"
"""An operand of a call: one value, a list of them, or none."""


class Cost(NamedTuple):
    """The cost of one execution of an op."""

    flops: int
    """Scalar operations; a multiply-add is two."""
    bytes: int
    """Bytes of all operands and results, each counted once."""


class InPlacePair(NamedTuple):
    """
    A result that may lie on an operand: it starts `offset` bytes after the operand does
    (before it, if that is negative). The one lies inside the other.

    The op writes an element of the result only after it has read what lies there for
    the last time. With `view` the result's bytes are those of the operand already:
    where all views of an op hold, there is nothing to do for it. A result that `must`
    lie there is an error where it cannot.
    """

    operand: int
    result: int
    offset: int = 0
    view: bool = False
    must: bool = False


def can_fail(op: Operation) -> bool:
    """
    Whether executing an op on tensors may end in an error: as in MLIR, whether it may
    not be executed speculatively. An op that says nothing of itself can fail.
    """
    return isinstance(op, TensorOp) and not is_speculatable(op)


class TensorOp(IRDLOperation, Differentiable, ABC):
    """
    An op on tensors without side effects: the same operands give the same results.

    Unless its traits (`Pure`, `AlwaysSpeculatable`...) say otherwise, it may end in an
    error, as one does whose kernel checks its operands (`KernelBuilder.check`).
    """

    traits = traits_def(
        KnownAttributes(
            *OF_VALUES,
            "in_place",
            "layouts",
            "no_attention",
            "no_pattern",
            "no_rows",
            "no_select",
            "not_fused",
            "pass",
            "segment",
        )
    )

    FLOPS: ClassVar[int] = 1
    """Scalar operations for one element of a result; a multiply-add is two."""

    PRECISION: ClassVar[Literal["white", "grey", "clear", "black"]] = "black"
    """
    The list of `job-cast-amp` that the op stands in: it gains by `f16` or `bf16`
    (white), bears them (grey), only moves elements (clear), or loses by them (black).
    """

    @abstractmethod
    def infer_types(self) -> Sequence[TensorType]:
        """
        The types of the results, from the operands' types and the properties.

        Unknown extents are `DYNAMIC_INDEX`. Raises `VerifyException` when the operands
        do not fit together.
        """

    @abstractmethod
    def evaluate(self, *operands: Array) -> Sequence[Array]:
        """
        The results in terms of NumPy: the meaning every kernel is tested against.

        The operands have the shapes and dtypes of the op's operand types.
        """

    def meaning(self, *operands: Array) -> Sequence[Array]:
        """
        The results in terms of NumPy, where `f16` and `bf16` are computed in `f32`, as
        in kernels, and rounded at the end.
        """
        import numpy as np

        halves = "float16", "bfloat16"
        wide = [a.astype(np.float32) if a.dtype.name in halves else a for a in operands]
        results = self.evaluate(*wide)
        if all(a is b for a, b in zip(wide, operands, strict=True)):
            return results
        return [
            rounded(array, tensor_type(value).element_type)
            for array, value in zip(results, self.results, strict=True)
        ]

    @property
    def label(self) -> str:
        """The name of the op in tables of kernels and tasks."""
        return self.name

    @property
    def computes(self) -> Sequence[str]:
        """The names of the ops that its kernel computes: of a group, its members'."""
        return (self.name,)

    @property
    def kernel_name(self) -> str:
        """The name that its kernels are numbered under."""
        return self.name.split(".", 1)[-1]

    @abstractmethod
    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        """
        Build the body of a kernel that reads the memrefs `ins`, one an operand, and
        writes the memrefs `outs`, one a result. All shapes are static; no two of the
        memrefs overlap, but an operand and a result of one type that `in_place_pairs`
        names may be the same.
        """

    def flops(self) -> int:
        """Scalar operations of one execution; a multiply-add is two."""
        if self.FLOPS == 0:
            return 0
        return self.FLOPS * sum(element_count(value.type) for value in self.results)

    def cost(self) -> Cost:
        """The cost of one execution. All shapes must be static."""
        values = dict.fromkeys((*self.operands, *self.results))
        return Cost(self.flops(), sum(byte_count(value.type) for value in values))

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        """The pairs of an operand and a result that may share their bytes."""
        return ()

    def views(self) -> Sequence[InPlacePair]:
        """Those pairs whose result has the operand's bytes."""
        return [pair for pair in self.in_place_pairs() if pair.view]

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        """
        The ways to run the op in parts on one dimension of a hierarchy of `devices`
        devices in all, besides that each of them does all of it; those that are liked
        best come first.

        Axes may be named whatever their extents. An op that says nothing runs whole.
        """
        return ()

    def part(self, operands: Sequence[SSAValue], parts: Sequence[Part]) -> Self:
        """
        The op that one device runs under a signature: its operands are parts of this
        op's, and its results are the given parts of this op's.
        """
        return self.remade(operands, parts, self.properties)

    def remade(
        self,
        operands: Sequence[SSAValue],
        parts: Sequence[Part],
        properties: Mapping[str, Attribute],
    ) -> Self:
        """The op on other operands, with other properties and parts of its results."""
        types = map(tensor_type, self.results)
        return self.create(
            operands=operands,
            result_types=[part_type(t, p) for t, p in zip(types, parts, strict=True)],
            properties=dict(properties),
            attributes={
                key: attr
                for key, attr in self.attributes.items()
                if key == IN_PLACE or "." in key
            },
            regions=[region.clone() for region in self.regions],
            location=self.location,
        )

    def verify_(self) -> None:
        inferred = self.infer_types()
        if len(inferred) != len(self.results):
            raise VerifyException(
                f"expected {len(inferred)} results, got {len(self.results)}"
            )
        for result, type in zip(self.results, inferred, strict=True):
            if not are_compatible(result.type, type):
                raise VerifyException(
                    f"the result's type should be {type}, got {result.type}"
                )
        if IN_PLACE in self.attributes:
            verify_hints(self, self._known_pairs())

    def _known_pairs(self) -> Sequence[tuple[int, int]]:
        """The pairs of operand and result that the kernel knows, once shapes are."""
        types = map(tensor_type, (*self.operands, *self.results))
        if not all(type.has_static_shape() for type in types):
            return ()
        return [(pair.operand, pair.result) for pair in self.in_place_pairs()]

    @classmethod
    def of(cls, *operands: Given, **values: object) -> Self:
        """
        Build the op from its operands and, as Python values, its properties, as in
        `GatherOp.of(x, indices, axis=1)`. A list is given for an operand that stands
        for any number of them; None leaves an operand or a property out, and so does
        False. The result types follow.

        Raises `VerifyException` when the operands do not fit together, or a value is
        not what its property may be; `TypeError` for a property that does not exist or
        is missing, and `ValueError` for another number of operands.
        """
        op = cls.__new__(cls)
        op.call(*operands, **values)
        return op

    def call(self, *operands: Given, **values: object) -> None:
        """Initialise the op as `of` does, in an `__init__` that names its values."""
        definition = self.get_irdl_definition()
        left_out = len(definition.operands) - len(operands)
        probe = self.build(
            operands=[*operands, *[None] * left_out],
            result_types=[
                [] if isinstance(result, VarResultDef) else [TensorType(i1, [])]
                for _, result in definition.results
            ],
            properties=properties_of(type(self), **values),
        )
        self._become(probe)

    @classmethod
    def inferred(
        cls,
        operands: Sequence[SSAValue | Operation],
        properties: Mapping[str, Attribute | None] | None = None,
    ) -> Self:
        """
        Build the op of all operands in one list and of properties that are attributes
        already, such as those of another op, with the result types that follow.

        Raises `VerifyException` when the operands do not fit together.
        """
        given = (properties or {}).items()
        probe = cls.create(
            operands=[SSAValue.get(operand) for operand in operands],
            properties={key: attr for key, attr in given if attr is not None},
        )
        op = cls.__new__(cls)
        op._become(probe)
        return op

    def _become(self, probe: Self) -> None:
        """Take the place of an op whose results are not known."""
        operands = tuple(probe.operands)
        try:
            types = probe.infer_types()
        finally:
            probe.drop_all_references()
        Operation.__init__(
            self,
            operands=operands,
            result_types=types,
            properties=probe.properties,
            attributes=probe.attributes,
        )


class FusibleOp(TensorOp, ABC):
    """
    An op that may be computed element by element, in the kernel of a group: every
    elementwise op, and a group of such ops with one result.
    """

    @property
    def is_elementwise(self) -> bool:
        """Whether each element of its one result is made of one of each operand."""
        return True

    @abstractmethod
    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        """
        Build the scalar ops that compute one element of the result of an elementwise
        op.

        `operands` are scalars of the operands' element types; the value returned is
        one of the result's element type.
        """


def is_elementwise(op: object) -> TypeGuard[FusibleOp]:
    """Whether an op can be computed element by element."""
    return isinstance(op, FusibleOp) and op.is_elementwise


class ElementwiseOp(FusibleOp, ABC):
    """
    An op with one result whose every element depends on one element of each operand,
    where operands are broadcast as NumPy does.
    """

    PRECISION: ClassVar = "grey"

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        k.elementwise(ins, outs[0], lambda k, scalars: self.scalar(k, scalars))

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        result = tensor_type(self.results[0])
        return tuple(
            InPlacePair(index, 0)
            for index, operand in enumerate(self.operands)
            if same_layout(tensor_type(operand), result)
        )

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        shapes = [tensor_type(operand).get_shape() for operand in self.operands]
        result = tensor_type(self.results[0]).get_shape()
        return broadcast_signatures(shapes, result)


class Ending(NamedTuple):
    """The start and the end that a group gives the sums of its contraction."""

    start: SSAValue | None = None
    """
    A memref of the type of the result, from whose elements sums start; it may be the
    first result.
    """
    addends: Sequence[SSAValue] = ()
    """Memrefs that are broadcast to the result."""
    body: ScalarsBody | None = None
    """
    Builds an element of each result of the kernel, of one of each addend and of the
    result of the op; without it this is the one result.
    """

    def build(self, finish: Finish, result: AffineMap) -> None:
        """Add it to what ends sums; `result` is the index of the op's result."""
        from penstock.dialects.kernel.finish_builder import broadcast_operand

        if self.body is not None:
            operands = [broadcast_operand(value, result) for value in self.addends]
            finish.then(operands, self.body)


ALONE = Ending()
"""That an op is the only one of its kernel."""


class ContractionOp(TensorOp, ABC):
    """
    A contraction: each element of its one result is a sum of products. Elementwise ops
    that follow can be computed in the same kernel (`op.fused`).
    """

    PRECISION: ClassVar = "white"

    @abstractmethod
    def build_sums(
        self,
        k: KernelBuilder,
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        ending: Ending,
    ) -> None:
        """
        Build a kernel like `build_kernel`, with what starts and ends its sums. Without
        `can_start` nothing starts them.
        """

    @property
    def can_start(self) -> bool:
        """Whether sums of this op, with its properties, may start from a tensor."""
        return False

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        self.build_sums(k, ins, outs, ALONE)


def rounded(array: Array, element: Attribute) -> Array:
    """An array, rounded to an element type of fewer bits."""
    import numpy as np

    from penstock.dialects.utils.numpy_types import dtype_of

    if not is_half(element):
        return array
    with np.errstate(over="ignore"):
        return array.astype(dtype_of(element))
