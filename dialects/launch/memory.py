"""The memory of a program: chunks, and the registers and variables in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FlatSymbolRefAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
)
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.traits import MemoryAllocEffect, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import (
    CutAttr,
    CutList,
    Cuts,
    I64List,
    InitAttr,
    Names,
    place_in_whole,
    verify_cuts,
    verify_names,
    verify_part,
    verify_winograd,
)
from penstock.dialects.launch.packed_layout import PanelsAttr
from penstock.dialects.regst import MemoryCaseAttr
from penstock.dialects.regst.ops import Bytes
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.counts import Count
from penstock.dialects.utils.python_values import properties_of, symbol
from penstock.dialects.utils.splat import Elements, SplatAttr
from penstock.dialects.utils.tensors import element_bytes

SymbolList = ArrayAttr.constr(FlatSymbolRefAttrConstr)
"""References to symbols of a program."""

MEMORY_REPORT = ("bound", "peak", "sum", "variables")
"""The entries of the attribute `memory` of a chunk."""


def memref_bytes(type: MemRefType) -> int:
    """The bytes of a dense memref of static shape. An `i1` takes a byte."""
    return type.element_count() * element_bytes(type)


def symbols(names: Sequence[str]) -> ArrayAttr[SymbolRefAttr]:
    """References to symbols of a program."""
    return ArrayAttr([symbol(name) for name in names])


def names_of(references: ArrayAttr[FlatSymbolRefAttr]) -> list[str]:
    """The names of the symbols that a list refers to."""
    return [reference.root_reference.data for reference in references]


@irdl_op_definition
class ChunkOp(IRDLOperation):
    """
    Memory that is allocated once, when the program is loaded.

    The optional attribute `memory` reports its use, in bytes: its `variables`, and for
    everything else the `peak` it takes, the `bound` that no layout of it can stay
    below, and the `sum` that it would take side by side.

    ```mlir
    launch.chunk @c0 on <0, host> size 983040
    ```
    """

    name = "launch.chunk"

    sym_name = prop_def(SymbolNameConstraint())
    memory_case = prop_def(MemoryCaseAttr)
    size = prop_def(Bytes)

    traits = traits_def(
        KnownAttributes("memory"), SymbolOpInterface(), MemoryAllocEffect()
    )

    assembly_format = "$sym_name `on` $memory_case `size` $size attr-dict"

    def __init__(self, sym_name: str, memory_case: MemoryCaseAttr, size: int):
        super().__init__(
            properties=properties_of(
                ChunkOp, sym_name=sym_name, memory_case=memory_case, size=size
            )
        )

    @property
    def memory_report(self) -> dict[str, int] | None:
        """The numbers of bytes of the attribute `memory`, if there is one."""
        if not isinstance(report := self.attributes.get("memory"), DictionaryAttr):
            return None
        return {
            key: number.value.data
            for key, number in report.data.items()
            if isinstance(number, IntegerAttr)
        }

    def verify_(self) -> None:
        if (report := self.attributes.get("memory")) is None:
            return
        if sorted(self.memory_report or ()) != list(MEMORY_REPORT):
            raise VerifyException(
                f"a memory report gives the bytes of {', '.join(MEMORY_REPORT)}"
                f", got {report}"
            )


@irdl_op_definition
class RegisterOp(IRDLOperation):
    """
    A queue of slots at a fixed place. Slots are contiguous, at multiples of the chunk's
    alignment. It may start at any of its elements, in the memory of a device at a
    multiple of 16 bytes. An `interface` is what several jobs know by this name: what
    one of them writes there, others read, so it has one slot. A register `over` another
    one has n slots in each of that one's, which are all of it, or its n parts of equal
    size.

    ```mlir
    launch.register @x in @c0 at 0 slots 2 : memref<64x784xf32>
    launch.register @"train/x" in @c0 at 0 slots 1 interface "x" : memref<64x784xf32>
    launch.register @row in @c0 at 0 slots 128 over @x : memref<1x784xf32>
    ```
    """

    name = "launch.register"

    sym_name = prop_def(SymbolNameConstraint())
    chunk = prop_def(FlatSymbolRefAttrConstr)
    offset = prop_def(Bytes)
    slots = prop_def(Count)
    interface = opt_prop_def(StringAttr)
    over = opt_prop_def(FlatSymbolRefAttrConstr)
    type = prop_def(base(MemRefType))

    traits = traits_def(KnownAttributes(), SymbolOpInterface(), MemoryAllocEffect())

    assembly_format = (
        "$sym_name `in` $chunk `at` $offset `slots` $slots "
        "(`interface` $interface^)? (`over` $over^)? attr-dict `:` $type"
    )

    def __init__(
        self,
        sym_name: str,
        chunk: str,
        offset: int,
        slots: int,
        type: MemRefType,
        interface: StringAttr | None = None,
        over: str | None = None,
    ):
        super().__init__(
            properties=properties_of(
                RegisterOp,
                sym_name=sym_name,
                chunk=chunk,
                offset=offset,
                slots=slots,
                interface=interface,
                over=over,
                type=type,
            )
        )

    def stride(self, alignment: int) -> int:
        """The bytes from one slot to the next, unless it lies over another register."""
        return -(-memref_bytes(self.type) // alignment) * alignment

    def verify_(self) -> None:
        verify_dense(self.type)
        if self.interface is not None and (slots := self.slots.value.data) > 1:
            raise VerifyException(f"an interface has one slot, got {slots}")
        if self.interface is not None and self.over is not None:
            raise VerifyException("an interface lies over no other register")


class Frames(NamedTuple):
    """
    The places of a register's slots: `parts` of them in each frame, `step` bytes from
    one to the next, and `stride` bytes from frame to frame.
    """

    parts: int
    step: int
    stride: int


def frames_of(register: RegisterOp, below: RegisterOp | None, alignment: int) -> Frames:
    """
    The places of a register's slots in a chunk, which may lie over the register
    `below`.
    """
    if below is None:
        return Frames(1, 0, register.stride(alignment))
    parts = register.slots.value.data // below.slots.value.data
    size = memref_bytes(register.type)
    step = size if memref_bytes(below.type) == parts * size else 0
    return Frames(parts, step, below.stride(alignment))


@irdl_op_definition
class ControlOp(IRDLOperation):
    """
    A queue of slots that hold nothing: it only orders actors. `initial` slots are full
    when the program starts.

    ```mlir
    launch.control @turn slots 1 initial 1
    ```
    """

    name = "launch.control"

    sym_name = prop_def(SymbolNameConstraint())
    slots = prop_def(Count)
    initial = opt_prop_def(Bytes)

    traits = traits_def(KnownAttributes(), SymbolOpInterface(), MemoryAllocEffect())

    assembly_format = "$sym_name `slots` $slots (`initial` $initial^)? attr-dict"

    def __init__(self, sym_name: str, slots: int, initial: int = 0):
        super().__init__(
            properties=properties_of(
                ControlOp, sym_name=sym_name, slots=slots, initial=initial or None
            )
        )

    @property
    def initial_slots(self) -> int:
        """The slots that are full when the program starts."""
        return self.initial.value.data if self.initial else 0

    def verify_(self) -> None:
        if self.initial_slots > self.slots.value.data:
            raise VerifyException(
                f"{self.initial_slots} slots are full at the start, "
                f"but there are only {self.slots.value.data}"
            )


@irdl_op_definition
class VariableOp(IRDLOperation):
    """
    Data that is written once, when the program is loaded: by an initialiser (or just
    this `part` of its values, from these places on, for a tensor of this shape), or as
    it is given. With `panels` its elements lie in that order; only kernels read it,
    which take them so. With `winograd` it is what `job.variable` says there, which says
    what it is `also`, too.

    ```mlir
    launch.variable @w in @c0 at 512 init <he_normal, seed = 7> : memref<784x256xf32>
    launch.variable @p in @c0 at 0 init <ones> part [2, 0] of [4, 8] : memref<2x8xf32>
    launch.variable @t in @c0 at 0 value dense<[1, 2]> : tensor<2xi64> : memref<2xi64>
    launch.variable @v in @c0 at 0 init <ones>
      panels <[1, 8, 4], axis 1, width 4, depth 4> : memref<8x4xf32>
    launch.variable @a also ["b"] in @c0 at 0 init <ones> : memref<4xf32>
    launch.variable @k cut by "n" axis 0 in @c0 at 0 init <zeros> : memref<9xf32>
    ```
    """

    name = "launch.variable"

    sym_name = prop_def(SymbolNameConstraint())
    chunk = prop_def(FlatSymbolRefAttrConstr)
    offset = prop_def(Bytes)
    init = opt_prop_def(InitAttr)
    offsets = opt_prop_def(I64List)
    whole = opt_prop_def(I64List)
    value: Elements | None = opt_prop_def(DenseIntOrFPElementsAttr | SplatAttr)
    port = opt_prop_def(StringAttr)
    also = opt_prop_def(Names)
    cuts = opt_prop_def(CutList)
    winograd = opt_prop_def(I64List)
    panels = opt_prop_def(PanelsAttr)
    type = prop_def(base(MemRefType))

    traits = traits_def(KnownAttributes(), SymbolOpInterface(), MemoryAllocEffect())

    assembly_format = (
        "$sym_name (`port` $port^)? (`also` $also^)? "
        "(`cut` `by` custom<Cuts>($cuts)^)? `in` $chunk `at` $offset "
        "(`init` $init^)? (`part` $offsets^ `of` $whole)? (`winograd` $winograd^)? "
        "(`value` $value^)? (`panels` $panels^)? attr-dict `:` $type"
    )
    custom_directives = (Cuts,)

    def __init__(
        self,
        sym_name: str,
        chunk: str,
        offset: int,
        type: MemRefType,
        *,
        init: InitAttr | None = None,
        offsets: DenseArrayBase[IntegerType] | None = None,
        whole: DenseArrayBase[IntegerType] | None = None,
        winograd: DenseArrayBase[IntegerType] | None = None,
        value: Elements | None = None,
        port: str | None = None,
        also: Names | None = None,
        cuts: ArrayAttr[CutAttr] | None = None,
    ):
        super().__init__(
            properties=properties_of(
                VariableOp,
                sym_name=sym_name,
                chunk=chunk,
                offset=offset,
                init=init,
                offsets=offsets,
                whole=whole,
                winograd=winograd,
                value=value,
                port=port,
                also=also,
                cuts=cuts,
                type=type,
            )
        )

    @property
    def is_state(self) -> bool:
        """
        Whether it is known to the program alone, as constants are: what actors write to
        it goes from one of their acts to the next.
        """
        return self.init is None

    @property
    def port_name(self) -> str:
        """The name that weights are given under: the port, else the symbol."""
        return self.port.data if self.port else self.sym_name.data

    @property
    def other_names(self) -> list[str]:
        """The names that it goes by besides that one."""
        return [] if self.also is None else [name.data for name in self.also]

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """The extents of what this is all or a part of, or made of."""
        given = self.whole or self.winograd
        return self.type.get_shape() if given is None else given.get_values()

    @property
    def place(self) -> tuple[slice, ...]:
        """The place of this, or of its source, in the whole."""
        if self.winograd is not None:
            return place_in_whole(None, self.winograd.get_values())
        return place_in_whole(self.offsets, self.type.get_shape())

    def verify_(self) -> None:
        verify_dense(self.type)
        verify_names(self.port_name, self.also)
        verify_cuts(self.cuts, len(self.whole_shape))
        verify_part(self.offsets, self.whole, self.type.get_shape())
        verify_winograd(self.winograd, self.offsets, self.type.get_shape())
        if self.value is not None and self.winograd is not None:
            raise VerifyException("a value is not made of weights for Winograd")
        if self.panels is not None:
            self.panels.verify_shape(self.type.get_shape())
        if (self.init is None) == (self.value is None):
            raise VerifyException("a variable needs either an initialiser or a value")
        if self.value is not None and self.whole is not None:
            raise VerifyException("a value is no part of a whole")
        if self.value is not None and (
            self.value.get_shape() != self.type.get_shape()
            or self.value.get_element_type() != self.type.element_type
        ):
            raise VerifyException(
                f"the value of a variable of type {self.type} "
                f"has type {self.value.type}"
            )


def verify_dense(type: MemRefType) -> None:
    """Raise `VerifyException` unless a memref is dense, static and of fixed size."""
    if not type.has_static_shape() or not isinstance(type.layout, NoneAttr):
        raise VerifyException(f"expected a dense memref of static shape, got {type}")
    element_bytes(type)
