"""Ports of a job: inputs, outputs, variables and foreign buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import (
    Attribute,
    Operation,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import (
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job.cuts import CutList, Cuts, cut_list, verify_cuts
from penstock.dialects.job.init import InitAttr
from penstock.dialects.utils.attributes import OF_VALUES, KnownAttributes
from penstock.dialects.utils.hints import isa

AnyTensor = base(TensorType)
I64List = DenseArrayBase.constr(i64)


def verify_name(what: str, name: StringAttr) -> None:
    """Raise `VerifyException` if a name is empty."""
    if not name.data:
        raise VerifyException(f"a {what} needs a name, got an empty one")


Names: TypeAlias = ArrayAttr[StringAttr]
"""The names that a variable goes by besides its own."""


def verify_names(name: str, others: Names | None) -> None:
    """Raise `VerifyException` if names of one variable are not all different."""
    if others is None:
        return
    if not others.data:
        raise VerifyException("a list of further names should not be empty")
    seen = {name}
    for other in others:
        verify_name("variable", other)
        if other.data in seen:
            raise VerifyException(f"the variable has the name '{other.data}' twice")
        seen.add(other.data)


def verify_whole(op: Operation) -> None:
    """Raise `VerifyException` if an output names a layout."""
    for key in ("operand_sbp", "sbp"):
        if key in op.attributes:
            raise VerifyException(f"an output is whole on the host, and takes no {key}")


@irdl_op_definition
class InputOp(IRDLOperation):
    """
    A tensor that the caller feeds at each launch, in the memory of the host. Where its
    extents are not all known, `max_shape` says how large it may be.

    ```mlir
    %x = job.input "x" : tensor<64x784xf32>
    %y = job.input "y" {max_shape = array<i64: 64, 784>} : tensor<?x784xf32>
    ```
    """

    name = "job.input"

    port = prop_def(StringAttr)
    result = result_def(AnyTensor)

    # Effects, so that an input stays where nothing uses it: the caller gives it.
    traits = traits_def(
        KnownAttributes(*OF_VALUES), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = "$port attr-dict `:` type($result)"

    def __init__(self, port: str, type: TensorType):
        super().__init__(properties={"port": StringAttr(port)}, result_types=[type])

    def verify_(self) -> None:
        verify_name("port", self.port)


@irdl_op_definition
class VariableOp(IRDLOperation):
    """
    A tensor that lives as long as the session: a weight. Or the `part` of one, from
    these places on, `of` a tensor of this shape: it has the values that this part of
    the whole would have. A job may have several that do not overlap. Or, with
    `winograd` and the shape [out channels, channels, 3, 3] of weights that go by the
    name, what `op.winograd_split` and `op.winograd_join` for tiles of 4 x 4 results
    multiply: G g G' of each, [36, out channels, channels].
    It is `also` known by the names of weights that were equal to it when a model was
    read; nothing assigns to it then, but what loads all of them. Of one that is `cut
    by` other variables, each an `i64`, states have as many elements along an axis as
    such a one says.

    ```mlir
    %w = job.variable "w1" init <xavier_uniform, seed = 7> : tensor<784x256xf32>
    %p = job.variable "w1" init <xavier_uniform, seed = 7>
      part [392, 0] of [784, 256] : tensor<392x256xf32>
    %u = job.variable "w2" init <ones> winograd [32, 64, 3, 3] : tensor<36x32x64xf32>
    %t = job.variable "w3" also ["w4"] init <ones> : tensor<4xf32>
    %k = job.variable "kept" cut by "number" axis 0 init <zeros> : tensor<9x4xf32>
    ```
    """

    name = "job.variable"

    port = prop_def(StringAttr)
    also = opt_prop_def(Names)
    cuts = opt_prop_def(CutList)
    init = prop_def(InitAttr)
    offsets = opt_prop_def(I64List)
    whole = opt_prop_def(I64List)
    winograd = opt_prop_def(I64List)
    result = result_def(AnyTensor)

    traits = traits_def(KnownAttributes(*OF_VALUES, "pass"), Pure())

    assembly_format = (
        "$port (`also` $also^)? (`cut` `by` custom<Cuts>($cuts)^)? `init` $init "
        "(`part` $offsets^ `of` $whole)? (`winograd` $winograd^)? attr-dict "
        "`:` type($result)"
    )
    custom_directives = (Cuts,)

    def __init__(self, port: str, init: InitAttr, type: TensorType):
        super().__init__(
            properties={"port": StringAttr(port), "init": init}, result_types=[type]
        )

    @property
    def other_names(self) -> list[str]:
        """The names that it goes by besides its port's."""
        return [] if self.also is None else [name.data for name in self.also]

    def add_names(self, names: Sequence[str]) -> None:
        """Let it go by further names."""
        found = [*self.other_names, *names]
        self.also = ArrayAttr([StringAttr(name) for name in found])

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the op's result."""
        type = self.result.type
        assert isa(type, TensorType), "checked by the constraint"
        return type.get_shape()

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """The extents of what this is all or a part of, or made of."""
        given = self.whole or self.winograd
        return self.shape if given is None else given.get_values()

    @property
    def place(self) -> tuple[slice, ...]:
        """The place of this, or of its source, in the whole."""
        shape = self.shape if self.winograd is None else self.winograd.get_values()
        return place_in_whole(self.offsets, shape)

    def verify_(self) -> None:
        verify_name("variable", self.port)
        verify_names(self.port.data, self.also)
        verify_cuts(self.cuts, len(self.whole_shape))
        verify_part(self.offsets, self.whole, self.shape)
        verify_winograd(self.winograd, self.offsets, self.shape)


WINOGRAD_PRODUCTS = 36
"""The numbers that 3 x 3 weights become for tiles of 4 x 4 results."""


def verify_winograd(
    given: DenseArrayBase[IntegerType] | None,
    offsets: DenseArrayBase[IntegerType] | None,
    shape: Sequence[int],
) -> None:
    """Raise `VerifyException` unless a shape is what weights, if any, become."""
    if given is None:
        return
    if offsets is not None:
        raise VerifyException("what is made of weights for Winograd is no part")
    extents = [*given.get_values()]
    if extents[2:] != [3, 3] or list(shape) != [WINOGRAD_PRODUCTS, *extents[:2]]:
        raise VerifyException(
            f"weights of shape {extents} do not become {list(shape)} for Winograd"
        )


def place_in_whole(
    offsets: DenseArrayBase[IntegerType] | None, shape: Sequence[int]
) -> tuple[slice, ...]:
    """Where a part of this shape lies, if it is one; else the whole."""
    starts = (0,) * len(shape) if offsets is None else offsets.get_values()
    return tuple(
        slice(start, start + size) for start, size in zip(starts, shape, strict=True)
    )


def verify_part(
    offsets: DenseArrayBase[IntegerType] | None,
    whole: DenseArrayBase[IntegerType] | None,
    shape: Sequence[int],
) -> None:
    """Raise `VerifyException` unless a part, if it is one, lies inside the whole."""
    if offsets is None and whole is None:
        return
    if offsets is None or whole is None:
        raise VerifyException("a part needs both where it starts and the whole's shape")
    starts, extents = list(offsets.iter_values()), list(whole.iter_values())
    inside = len(starts) == len(extents) == len(shape) and all(
        start >= 0 and start + size <= extent
        for start, size, extent in zip(starts, shape, extents, strict=True)
    )
    if not inside:
        raise VerifyException(
            f"a part of shape {list(shape)} from {starts} on is not inside {extents}"
        )


@irdl_op_definition
class StateOp(IRDLOperation):
    """
    A tensor that goes from one act of a job's ops to the next: what reads it finds what
    `job.assign` has put there in the act before. No other job knows it, and neither
    does the session. It is zeros at first, and what a run that failed has left later:
    the first act of a launch has to do without it.

    ```mlir
    %s = job.state : tensor<4xf32>
    job.assign %next to %s : tensor<4xf32>
    ```
    """

    name = "job.state"

    result = result_def(AnyTensor)

    # Effects, so that no two states are one.
    traits = traits_def(
        KnownAttributes(*OF_VALUES), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type: TensorType):
        super().__init__(result_types=[type])


@irdl_op_definition
class AssignOp(IRDLOperation):
    """
    From the end of the run on, the variable that made `target` holds `value`. All that
    reads the variable in the run reads what it held before. It runs where the variable
    is. A `job.state` holds the value from the next act on, in the same run, too.

    With `in_place` the task that makes `value`, which nothing else reads, may write it
    over the variable: it comes after all that reads what the variable held, and after
    all that can fail (`plan-order-updates`).

    ```mlir
    job.assign %next to %w : tensor<784x256xf32>
    ```
    """

    name = "job.assign"

    T: ClassVar = VarConstraint("T", AnyTensor)

    value = operand_def(T)
    target = operand_def(T)
    in_place = opt_prop_def(UnitAttr)

    traits = traits_def(
        KnownAttributes(*OF_VALUES, "pass"), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = (
        "$value `to` $target (`in_place` $in_place^)? attr-dict `:` type($target)"
    )

    def __init__(self, value: SSAValue | Operation, target: SSAValue | Operation):
        super().__init__(operands=[value, target])


@irdl_op_definition
class OutputOp(IRDLOperation):
    """
    A tensor that the caller fetches after each launch, in the memory of the host. Of
    one that is `cut by` other outputs, each an `i64`, the caller gets as many elements
    along an axis as such a one says, and not that one.

    ```mlir
    job.output "y", %y : tensor<64x256xf32>
    job.output "places", %places cut by "count" axis 1 : tensor<2x32xi64>
    job.output "pairs", %pairs cut by "rows" axis 0, "columns" axis 1 : tensor<9x9xf32>
    ```
    """

    name = "job.output"

    port = prop_def(StringAttr)
    cuts = opt_prop_def(CutList)
    value = operand_def(AnyTensor)

    traits = traits_def(KnownAttributes(*OF_VALUES), MemoryWriteEffect())

    assembly_format = (
        "$port `,` $value (`cut` `by` custom<Cuts>($cuts)^)? attr-dict `:` type($value)"
    )
    custom_directives = (Cuts,)

    def __init__(
        self,
        port: str,
        value: SSAValue | Operation,
        counts: Mapping[int, str] | None = None,
    ):
        """An output of which the outputs `counts` count axes."""
        properties: dict[str, Attribute] = {"port": StringAttr(port)}
        if counts:
            properties["cuts"] = cut_list(counts)
        super().__init__(operands=[value], properties=properties)

    def verify_(self) -> None:
        verify_name("port", self.port)
        verify_whole(self)
        type = self.value.type
        assert isa(type, TensorType), "checked by the constraint"
        verify_cuts(self.cuts, type.get_num_dims())


@irdl_op_definition
class ForeignInputOp(IRDLOperation):
    """
    An input that the host puts into a buffer of this name, in host memory: the first op
    of a job that pushes an input of other jobs.

    ```mlir
    %x = job.foreign_input "ForeignInput-System-Push-x" : tensor<64x784xf32>
    ```
    """

    name = "job.foreign_input"

    buffer = prop_def(StringAttr)
    result = result_def(AnyTensor)

    traits = traits_def(
        KnownAttributes(*OF_VALUES), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = "$buffer attr-dict `:` type($result)"

    def __init__(self, buffer: str, type: TensorType):
        super().__init__(properties={"buffer": StringAttr(buffer)}, result_types=[type])

    def verify_(self) -> None:
        verify_name("buffer", self.buffer)


@irdl_op_definition
class ForeignOutputOp(IRDLOperation):
    """
    An output that the host takes from a buffer of this name, in host memory: the last
    op of a job that pulls an output of other jobs.

    ```mlir
    job.foreign_output "ForeignOutput-System-Pull-y", %y : tensor<64x256xf32>
    ```
    """

    name = "job.foreign_output"

    buffer = prop_def(StringAttr)
    value = operand_def(AnyTensor)

    traits = traits_def(KnownAttributes(*OF_VALUES), MemoryWriteEffect())

    assembly_format = "$buffer `,` $value attr-dict `:` type($value)"

    def __init__(self, buffer: str, value: SSAValue | Operation):
        super().__init__(operands=[value], properties={"buffer": StringAttr(buffer)})

    def verify_(self) -> None:
        verify_name("buffer", self.buffer)
        verify_whole(self)
