"""
The ops of level 3, `regst.chunk`, `regst.block` and `regst.register`: allocations,
their parts, and buffers between tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AtLeast,
    AttrSizedOperandSegments,
    IRDLOperation,
    eq,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryAllocEffect
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.regst.types import (
    MAX_BYTES,
    BlockType,
    ChunkType,
    ControlType,
    DataType,
    MemoryCaseAttr,
)
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.counts import Count
from penstock.dialects.utils.diagnostics import refuse_if_any, verifying
from penstock.dialects.utils.python_values import properties_of
from penstock.dialects.utils.quick_accessors import quick_accessors

Bytes = IntegerAttr.constr(eq(i64), value=AtLeast(0))


@quick_accessors
@irdl_op_definition
class ChunkOp(IRDLOperation):
    """
    Reserve `size` bytes of one memory case, once, before the job starts.

    ```mlir
    %c = regst.chunk on <0, host> size 983040
    ```
    """

    name = "regst.chunk"

    memory_case = prop_def(MemoryCaseAttr)
    size = prop_def(Bytes)
    chunk = result_def(ChunkType())

    traits = traits_def(KnownAttributes(), MemoryAllocEffect())

    assembly_format = "`on` $memory_case `size` $size attr-dict"

    def __init__(self, memory_case: MemoryCaseAttr, size: int):
        super().__init__(
            properties=properties_of(ChunkOp, memory_case=memory_case, size=size),
            result_types=[ChunkType()],
        )

    def verify_(self) -> None:
        if (size := self.size.value.data) >= MAX_BYTES:
            raise VerifyException(
                f"a chunk must be smaller than 2^62 bytes, got {size}"
            )


@quick_accessors
@irdl_op_definition
class BlockOp(IRDLOperation):
    """
    The `size` bytes from offset `at` of a chunk on. The optional `bound` is the least
    size that any layout of its registers can have: their live bytes at the fullest
    moment; `sum` is what they would take side by side.

    ```mlir
    %b = regst.block in %c at 0 size 262144 sum 524288 bound 262144
    ```
    """

    name = "regst.block"

    chunk = operand_def(ChunkType())
    offset = prop_def(Bytes)
    size = prop_def(Bytes)
    sum = opt_prop_def(Bytes)
    bound = opt_prop_def(Bytes)
    block = result_def(BlockType())

    traits = traits_def(KnownAttributes(), MemoryAllocEffect())

    assembly_format = (
        "`in` $chunk `at` $offset `size` $size (`sum` $sum^)? (`bound` $bound^)? "
        "attr-dict"
    )

    def __init__(
        self,
        chunk: SSAValue | Operation,
        offset: int,
        size: int,
        sum: int | None = None,
        bound: int | None = None,
    ):
        super().__init__(
            operands=[chunk],
            properties=properties_of(
                BlockOp, offset=offset, size=size, sum=sum, bound=bound
            ),
            result_types=[BlockType()],
        )

    def verify_(self) -> None:
        if not isinstance(chunk := self.chunk.owner, ChunkOp):
            return
        offset, size = self.offset.value.data, self.size.value.data
        if offset + size > chunk.size.value.data:
            raise VerifyException(
                f"the block ends at byte {offset + size}, "
                f"past the chunk's {chunk.size.value.data}"
            )
        verify_alignment("block", offset, chunk.memory_case)


def verify_alignment(what: str, offset: int, case: MemoryCaseAttr) -> None:
    """Raise `VerifyException` unless `offset` is as aligned as the memory asks for."""
    if offset % case.alignment:
        raise VerifyException(
            f"the {what} starts at byte {offset}, not at a multiple of {case.alignment}"
        )


INPUT, OUTPUT = "in_", "out_"
"""The interfaces of a body, before the number of an argument or of a value yielded."""


def is_carried_on(after: StringAttr | None, before: str) -> bool:
    """
    Whether an interface of a body is the value that an iteration yields where another
    one, by name, is the value that the next iteration is given for it.
    """
    number = "" if after is None else after.data.removeprefix(OUTPUT)
    return number.isdecimal() and before == f"{INPUT}{int(number) + 1}"


LIES_ON = {
    (in_block, on_target): DenseArrayBase.from_list(i32, [in_block, on_target])
    for in_block in (False, True)
    for on_target in (False, True)
}
"""The sizes of the operands of registers, by whether they have a block and a target."""


@quick_accessors
@irdl_op_definition
class RegisterOp(IRDLOperation):
    """
    A queue of slots that one task fills and others read. It lies at byte `at` of a
    block, or of the register it is an alias of (of its first byte, if `at` is left
    out), or nowhere yet. An alias may have n slots for each of its target's, which are
    all of that one, or its n parts. `initial` slots of a control register are full when
    the job starts. An `interface` is what several jobs know by this name: it has bytes
    of its own, which their registers of this name share. A `header` holds the run-time
    shape of the register it is named for, slot by slot, in memory of the host that
    nothing else uses. Writers and readers of that register access its header, which no
    task names.

    ```mlir
    %x = regst.register "x" in %b at 0 slots 2 on <0, host> : !regst.data<tensor<4xf32>>
    %y = regst.register "y/out" alias %x : !regst.data<tensor<4xf32>>
      slots 2 on <0, host> : !regst.data<tensor<2x2xf32>>
    %z = regst.register "z/out" alias %x : !regst.data<tensor<4xf32>> at 8
      slots 2 on <0, host> : !regst.data<tensor<2xf32>>
    %p = regst.register "p/out" alias %x : !regst.data<tensor<4xf32>>
      slots 8 on <0, host> : !regst.data<tensor<1xf32>>
    %k = regst.register "turn" slots 1 initial 1 on <0, host> : !regst.control
    %d = regst.register "d" slots 1 on <0, host> : !regst.data<tensor<?xf32>, max [4]>
    %s = regst.register "d/header" slots 1 header "d" on <0, host>
      : !regst.data<tensor<1xi64>>
    %i = regst.register "i" slots 1 interface "i" on <0, host>
      : !regst.data<tensor<4xf32>>
    ```
    """

    name = "regst.register"

    register_name = prop_def(StringAttr)
    block = opt_operand_def(BlockType())
    offset = opt_prop_def(Bytes)
    target = opt_operand_def(DataType)
    slots = prop_def(Count)
    initial = opt_prop_def(Bytes)
    interface = opt_prop_def(StringAttr)
    header = opt_prop_def(StringAttr)
    memory_case = prop_def(MemoryCaseAttr)
    register = result_def(DataType | ControlType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(
        KnownAttributes("kept", "no_alias", "pieces", "rejected"), MemoryAllocEffect()
    )

    assembly_format = (
        "$register_name (`in` $block^)? (`alias` $target^ `:` type($target))? "
        "(`at` $offset^)? "
        "`slots` $slots (`initial` $initial^)? (`interface` $interface^)? "
        "(`header` $header^)? "
        "`on` $memory_case attr-dict `:` type($register)"
    )

    def __init__(
        self,
        register_name: str,
        memory_case: MemoryCaseAttr,
        type: DataType | ControlType,
        *,
        block: SSAValue | Operation | None = None,
        offset: int | None = None,
        target: SSAValue | Operation | None = None,
        slots: int = 1,
        initial: int | None = None,
        header: str | None = None,
    ):
        properties = properties_of(
            RegisterOp,
            register_name=register_name,
            offset=offset,
            slots=slots,
            initial=initial,
            header=header,
            memory_case=memory_case,
        )
        lies_on = block is not None, target is not None
        # That of `IRDLOperation` takes three times as long, and plans have many.
        Operation.__init__(
            self,
            operands=[SSAValue.get(x) for x in (block, target) if x is not None],
            properties={**properties, "operandSegmentSizes": LIES_ON[lies_on]},
            result_types=[type],
        )

    @property
    def stride(self) -> int:
        """The bytes from one slot to the next; 0 for a control register."""
        if not isinstance(type := self.register.type, DataType):
            return 0
        alignment = self.memory_case.alignment
        return -(-type.size // alignment) * alignment

    @property
    def size(self) -> int:
        """The bytes that all slots take together."""
        if not isinstance(type := self.register.type, DataType):
            return 0
        size, further = type.size, self.slots.value.data - 1
        return self.stride * further + size if further else size

    @property
    def frames(self) -> int:
        """The slots that an alias has for each of its target's; 1 for all others."""
        target = None if self.target is None else self.target.owner
        if not isinstance(target, RegisterOp):
            return 1
        return self.slots.value.data // target.slots.value.data

    def verify_(self) -> None:
        has_offset = self.offset is not None
        target, place = self.target, self.block
        if target is None and (place is not None) != has_offset:
            raise VerifyException("a register needs both a block and an offset in it")
        if isinstance(self.register.type, ControlType):
            self._verify_control()
        elif self.initial is not None:
            raise VerifyException("only a control register has initial slots")
        if self.interface is not None:
            self._verify_interface()
        if self.header is not None:
            self._verify_header()
        if target is not None:
            self._verify_alias(target)
        if place is not None and isinstance(block := place.owner, BlockOp):
            self._verify_place(block)

    def _verify_control(self) -> None:
        if self.block is not None or self.target is not None:
            raise VerifyException("a control register lies nowhere")
        slots = self.slots.value.data
        if self.initial is not None and self.initial.value.data > slots:
            raise VerifyException(
                f"{self.initial.value.data} slots are full at the start, "
                f"but there are only {slots}"
            )

    def _verify_interface(self) -> None:
        if isinstance(self.register.type, ControlType):
            raise VerifyException("a control register is no interface")
        root = None if self.target is None else alias_root(self.register).owner
        if isinstance(root, RegisterOp):
            # A value that a loop carries may be written over the one before.
            under = "" if root.interface is None else root.interface.data
            if not is_carried_on(self.interface, under):
                raise VerifyException(
                    "an interface has bytes of its own, so it is no alias"
                )
        if (slots := self.slots.value.data) > 1:
            raise VerifyException(f"an interface has one slot, got {slots}")

    def _verify_header(self) -> None:
        if self.register.uses:
            raise VerifyException("no task names a header, and it has no aliases")
        if self.target is not None or self.interface is not None:
            raise VerifyException("a header is neither an alias nor an interface")
        if not self.memory_case.is_host:
            raise VerifyException(
                f"a header lies in memory of the host, got {self.memory_case}"
            )

    def _verify_alias(self, target: SSAValue) -> None:
        if self.block is not None:
            raise VerifyException("an alias lies where its target lies, in no block")
        if not isinstance(owner := target.owner, RegisterOp):
            return
        own, others = self.slots.value.data, owner.slots.value.data
        if own % others:
            raise VerifyException(
                f"an alias has as many slots as its target, or n for each of them, got "
                f"{own} and {others}"
            )
        if owner.frames > 1:
            raise VerifyException(
                "an alias with more slots than its target is no target itself"
            )
        if self.memory_case != owner.memory_case:
            raise VerifyException(
                f"an alias is in its target's memory, got {self.memory_case} "
                f"and {owner.memory_case}"
            )
        if own > others:
            self._verify_frames(owner, own // others)
            return
        if own > 1 and self.stride != owner.stride:
            raise VerifyException(
                f"the slots of an alias start where those of its target do, got "
                f"one every {self.stride} and every {owner.stride} bytes"
            )
        self._verify_part(owner)

    def _verify_frames(self, whole: RegisterOp, count: int) -> None:
        """That so many slots are all of one of a target, or its parts."""
        own, other = self.register.type, whole.register.type
        assert isinstance(own, DataType), "a control register lies nowhere"
        assert isinstance(other, DataType), "checked with the operand"
        if whole.target is not None or self.offset is not None:
            raise VerifyException(
                "an alias with more slots than its target lies on all of one that is "
                "no alias"
            )
        if own.size != other.size and own.size * count != other.size:
            raise VerifyException(
                f"{count} slots in one of {other.size} bytes have all of them, or "
                f"{other.size // count} each, got {own.size}"
            )
        alignment = own.alignment(self.memory_case)
        if own.size < other.size and own.size % alignment:
            raise VerifyException(
                f"slots of an alias start at multiples of {alignment} bytes, got one "
                f"every {own.size}"
            )

    def _verify_part(self, whole: RegisterOp) -> None:
        offset = 0 if self.offset is None else self.offset.value.data
        own, other = self.register.type, whole.register.type
        assert isinstance(own, DataType), "a control register lies nowhere"
        assert isinstance(other, DataType), "checked with the operand"
        if own.size > other.size:
            raise VerifyException(
                f"an alias of {own.size} bytes is larger than its target of "
                f"{other.size}"
            )
        if offset + own.size > other.size:
            raise VerifyException(
                f"the alias ends at byte {offset + own.size}, "
                f"past its target's {other.size}"
            )
        alignment = own.alignment(self.memory_case)
        if offset % alignment:
            raise VerifyException(
                f"the alias starts at byte {offset}, not at a multiple of {alignment}"
            )

    def _verify_place(self, block: BlockOp) -> None:
        assert self.offset is not None, "checked with the block"
        end = self.offset.value.data + self.size
        if end > block.size.value.data:
            raise VerifyException(
                f"the register ends at byte {end}, "
                f"past the block's {block.size.value.data}"
            )
        verify_alignment("register", self.offset.value.data, self.memory_case)
        chunk = block.chunk.owner
        if isinstance(chunk, ChunkOp) and chunk.memory_case != self.memory_case:
            raise VerifyException(
                f"a register on {self.memory_case} lies in a chunk "
                f"on {chunk.memory_case}"
            )


def verify_headers(registers: Sequence[RegisterOp]) -> None:
    """
    Raise `VerifyException` unless each header among registers suits the register that
    it is named for, and each register of dynamic shape has one.
    """
    named = {register.register_name.data: register for register in registers}
    headers: dict[str, str] = {}
    for header in registers:
        if header.header is None:
            continue
        name, owner = header.register_name.data, header.header.data
        with verifying(header):
            if (other := headers.setdefault(owner, name)) != name:
                raise VerifyException(
                    f"'{owner}' has two headers, '{other}' and '{name}'"
                )
            verify_header(header, named.get(owner))
    refuse_if_any(
        (register, f"register '{name}' has a dynamic shape, but no header for it")
        for name, register in named.items()
        if is_dynamic(register) and name not in headers
    )


def is_dynamic(register: RegisterOp) -> bool:
    """Whether the shape of a register's tensor is known at run time only."""
    type = register.register.type
    return isinstance(type, DataType) and type.is_dynamic


def verify_header(header: RegisterOp, register: RegisterOp | None) -> None:
    """Raise `VerifyException` unless a header suits its register."""
    assert header.header is not None, "checked by the caller"
    name, owner = header.register_name.data, header.header.data
    if register is None or not is_dynamic(register):
        raise VerifyException(
            f"'{name}' is the header of '{owner}', which has no dynamic shape"
        )
    type = register.register.type
    assert isinstance(type, DataType), "only data has a shape"
    if header.register.type != type.header:
        raise VerifyException(
            f"the header of '{owner}' should be {type.header}, "
            f"got {header.register.type}"
        )
    if header.slots != register.slots:
        raise VerifyException(
            f"'{owner}' has {register.slots.value.data} slots, "
            f"but its header {header.slots.value.data}"
        )
    if header.memory_case != (expected := register.memory_case.of_header):
        raise VerifyException(
            f"the header of '{owner}' should be on {expected}, got {header.memory_case}"
        )


class Place(NamedTuple):
    """Where a register lies: from byte `offset` of the slots of `root` on."""

    root: SSAValue
    offset: int


def alias_place(register: SSAValue) -> Place:
    """Where a register lies in the one that its chain of aliases ends at."""
    offset = 0
    while isinstance(owner := register.owner, RegisterOp) and (on := owner.operands):
        # The one operand is a block or a target; to ask for either by name is slow.
        if isinstance(on[0].type, BlockType):
            break
        offset += 0 if owner.offset is None else owner.offset.value.data
        register = on[0]
    return Place(register, offset)


def alias_root(register: SSAValue) -> SSAValue:
    """The register that a chain of aliases ends at."""
    return alias_place(register).root
