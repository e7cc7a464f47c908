"""
The launch dialect: what the machine does.

A *program* is everything one rank runs: chunks of memory, registers and variables at
fixed places in them, kernels with bodies of upstream ops on memrefs, and actors that
call the kernels. Nothing in it is left to decide: the executor allocates the chunks,
the `numba` target turns kernels into source, and each actor acts when its registers
let it.

    plan.plan  --convert-plan-to-launch-->  launch.program
"""

from __future__ import annotations

from collections.abc import Sequence

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
    i64,
)
from xdsl.ir import Block, Dialect, Operation, Region
from xdsl.irdl import (
    AtLeast,
    IRDLOperation,
    base,
    eq,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    RegionVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    MemoryAllocEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from penstock.dialects.interfaces import element_bytes
from penstock.dialects.job import (
    DeviceAttr,
    I64List,
    InitAttr,
    place_in_whole,
    verify_part,
)
from penstock.dialects.regst import Bytes, Count, MemoryCaseAttr, part_alignment

SymbolList = ArrayAttr.constr(FlatSymbolRefAttrConstr)

MEMORY_REPORT = ("bound", "peak", "sum", "variables")
"""What the attribute `memory` of a chunk reports."""

KERNEL_DIALECTS = frozenset({"arith", "cf", "linalg", "math", "memref", "scf"})
"""The dialects whose ops a kernel may hold."""


def memref_bytes(type: MemRefType) -> int:
    """The bytes of a dense memref of static shape. An `i1` takes a byte."""
    return type.element_count() * element_bytes(type)


def symbols(names: Sequence[str]) -> ArrayAttr[SymbolRefAttr]:
    """References to symbols of a program."""
    return ArrayAttr([SymbolRefAttr(name) for name in names])


def names_of(references: ArrayAttr[FlatSymbolRefAttr]) -> list[str]:
    """The names of the symbols that a list refers to."""
    return [reference.root_reference.data for reference in references]


################################################################################
# Memory                                                                       #
################################################################################


@irdl_op_definition
class ChunkOp(IRDLOperation):
    """
    Memory that is allocated once, when the program is loaded.

    The optional attribute `memory` reports what it holds, in bytes: its `variables`,
    and for everything else the `peak` it takes, the `bound` that no layout of it can
    stay below, and the `sum` that it would take side by side.

    ```mlir
    launch.chunk @c0 on <0, host> size 983040
    ```
    """

    name = "launch.chunk"

    sym_name = prop_def(SymbolNameConstraint())
    memory_case = prop_def(MemoryCaseAttr)
    size = prop_def(Bytes)

    traits = traits_def(SymbolOpInterface(), MemoryAllocEffect())

    assembly_format = "$sym_name `on` $memory_case `size` $size attr-dict"

    def __init__(self, sym_name: str, memory_case: MemoryCaseAttr, size: int):
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "memory_case": memory_case,
                "size": IntegerAttr(size, i64),
            }
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
    A queue of slots at a fixed place. Slots follow each other at multiples of the
    chunk's alignment. It may start at any of its elements, in the memory of a device at
    a multiple of 16 bytes.

    ```mlir
    launch.register @x in @c0 at 0 slots 2 : memref<64x784xf32>
    ```
    """

    name = "launch.register"

    sym_name = prop_def(SymbolNameConstraint())
    chunk = prop_def(FlatSymbolRefAttrConstr)
    offset = prop_def(Bytes)
    slots = prop_def(Count)
    type = prop_def(base(MemRefType))

    traits = traits_def(SymbolOpInterface(), MemoryAllocEffect())

    assembly_format = (
        "$sym_name `in` $chunk `at` $offset `slots` $slots attr-dict `:` $type"
    )

    def __init__(
        self, sym_name: str, chunk: str, offset: int, slots: int, type: MemRefType
    ):
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "chunk": SymbolRefAttr(chunk),
                "offset": IntegerAttr(offset, i64),
                "slots": IntegerAttr(slots, i64),
                "type": type,
            }
        )

    def stride(self, alignment: int) -> int:
        """The bytes from one slot to the next."""
        return -(-memref_bytes(self.type) // alignment) * alignment

    def verify_(self) -> None:
        verify_dense(self.type)


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

    traits = traits_def(SymbolOpInterface(), MemoryAllocEffect())

    assembly_format = "$sym_name `slots` $slots (`initial` $initial^)? attr-dict"

    def __init__(self, sym_name: str, slots: int, initial: int = 0):
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "slots": IntegerAttr(slots, i64),
                "initial": IntegerAttr(initial, i64) if initial else None,
            }
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
    this `part` of what it gives, from these places on, for a tensor of this shape), or
    as it is given.

    ```mlir
    launch.variable @w in @c0 at 512 init <he_normal, seed = 7> : memref<784x256xf32>
    launch.variable @p in @c0 at 0 init <ones> part [2, 0] of [4, 8] : memref<2x8xf32>
    launch.variable @t in @c0 at 0 value dense<[1, 2]> : tensor<2xi64> : memref<2xi64>
    ```
    """

    name = "launch.variable"

    sym_name = prop_def(SymbolNameConstraint())
    chunk = prop_def(FlatSymbolRefAttrConstr)
    offset = prop_def(Bytes)
    init = opt_prop_def(InitAttr)
    offsets = opt_prop_def(I64List)
    whole = opt_prop_def(I64List)
    value = opt_prop_def(DenseIntOrFPElementsAttr)
    port = opt_prop_def(StringAttr)
    type = prop_def(base(MemRefType))

    traits = traits_def(SymbolOpInterface(), MemoryAllocEffect())

    assembly_format = (
        "$sym_name (`port` $port^)? `in` $chunk `at` $offset (`init` $init^)? "
        "(`part` $offsets^ `of` $whole)? (`value` $value^)? attr-dict `:` $type"
    )

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
        value: DenseIntOrFPElementsAttr | None = None,
        port: str | None = None,
    ):
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "chunk": SymbolRefAttr(chunk),
                "offset": IntegerAttr(offset, i64),
                "init": init,
                "offsets": offsets,
                "whole": whole,
                "value": value,
                "port": None if port is None else StringAttr(port),
                "type": type,
            }
        )

    @property
    def port_name(self) -> str:
        """The name that weights are given under: the port, else the symbol."""
        return self.port.data if self.port else self.sym_name.data

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """The extents of what this is all or a part of."""
        if self.whole is None:
            return self.type.get_shape()
        return self.whole.get_values()

    @property
    def place(self) -> tuple[slice, ...]:
        """Where this lies in the whole."""
        return place_in_whole(self.offsets, self.type.get_shape())

    def verify_(self) -> None:
        verify_dense(self.type)
        verify_part(self.offsets, self.whole, self.type.get_shape())
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


################################################################################
# Kernels                                                                      #
################################################################################


@irdl_op_definition
class KernelOp(IRDLOperation):
    """
    A function on memrefs for one kind of device. Its body is a list of phases of
    upstream ops, see `penstock.dialects.kernel`.

    ```mlir
    launch.kernel @zero target "cpu" (%o: memref<4xf32>) {
      %z = arith.constant 0.0 : f32
      linalg.fill ins(%z : f32) outs(%o : memref<4xf32>)
    }
    ```
    """

    name = "launch.kernel"

    sym_name = prop_def(SymbolNameConstraint())
    target = prop_def(StringAttr)
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolOpInterface())

    def __init__(self, sym_name: str, target: str, body: Region):
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "target": StringAttr(target),
            },
            regions=[body],
        )

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        sym_name = parser.parse_symbol_name().data
        parser.parse_keyword("target")
        target = parser.parse_str_literal()
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_argument
        )
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(sym_name, target, parser.parse_region(arguments))
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" target ")
        printer.print_string_literal(self.target.data)
        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(self.body.block.args, printer.print_block_argument)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(
            self.body, print_entry_block_args=False, print_empty_block=False
        )

    @property
    def arguments(self) -> list[MemRefType]:
        """The types of the arguments."""
        types = [arg.type for arg in self.body.block.args]
        assert isa(types, list[MemRefType]), "checked by the verifier"
        return types

    def verify_(self) -> None:
        for arg in self.body.block.args:
            if not isa(arg.type, MemRefType):
                raise VerifyException(f"a kernel works on memrefs, got {arg.type}")
            verify_dense(arg.type)
        for op in self.body.walk():
            if op.dialect_name() not in KERNEL_DIALECTS:
                raise VerifyException(f"{op.name} is no op of a kernel")


################################################################################
# Actors                                                                       #
################################################################################


@irdl_custom_directive
class Steps(CustomDirective):
    """The block of an actor, which may be empty: `{ }`."""

    body: RegionVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        region = parser.parse_region()
        if not region.blocks:
            region.add_block(Block())
        self.body.set(state, region)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        printer.print_region(self.body.get(op), print_empty_block=False)


@irdl_op_definition
class CallOp(IRDLOperation):
    """
    Run a kernel on registers and variables.

    Results share no bytes with other arguments, unless the optional attribute
    `unchanged` lists these: all that is written there is what lies there already.

    ```mlir
    launch.call @k3 [@x, @w1, @h]
    ```
    """

    name = "launch.call"

    kernel = prop_def(FlatSymbolRefAttrConstr)
    arguments = prop_def(SymbolList)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$kernel $arguments attr-dict"

    def __init__(self, kernel: str, arguments: Sequence[str]):
        super().__init__(
            properties={
                "kernel": SymbolRefAttr(kernel),
                "arguments": symbols(arguments),
            }
        )


@irdl_op_definition
class CopyOp(IRDLOperation):
    """
    Copy the bytes of one register or variable to a register, between any memories.

    ```mlir
    launch.copy @x to @"x/cuda"
    ```
    """

    name = "launch.copy"

    source = prop_def(FlatSymbolRefAttrConstr)
    target = prop_def(FlatSymbolRefAttrConstr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$source `to` $target attr-dict"

    def __init__(self, source: str, target: str):
        super().__init__(
            properties={
                "source": SymbolRefAttr(source),
                "target": SymbolRefAttr(target),
            }
        )


@irdl_op_definition
class FeedOp(IRDLOperation):
    """
    Take what the caller gives under a name.

    ```mlir
    launch.feed "x" to @x
    ```
    """

    name = "launch.feed"

    port = prop_def(StringAttr)
    target = prop_def(FlatSymbolRefAttrConstr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$port `to` $target attr-dict"

    def __init__(self, port: str, target: str):
        super().__init__(
            properties={"port": StringAttr(port), "target": SymbolRefAttr(target)}
        )


@irdl_op_definition
class FetchOp(IRDLOperation):
    """
    Give the caller a tensor under a name.

    ```mlir
    launch.fetch "y" from @y
    ```
    """

    name = "launch.fetch"

    port = prop_def(StringAttr)
    source = prop_def(FlatSymbolRefAttrConstr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$port `from` $source attr-dict"

    def __init__(self, port: str, source: str):
        super().__init__(
            properties={"port": StringAttr(port), "source": SymbolRefAttr(source)}
        )


@irdl_op_definition
class ActorOp(IRDLOperation):
    """
    Acts each time that all registers in `reads` have a full slot for it and all
    registers in `writes` a free one: runs its body in order, then frees the slots it
    read and fills those it wrote. What it has no steps for lies there already. The
    actors of one device and stream act one after the other.

    ```mlir
    launch.actor @matmul on <0, cpu:0> stream 0 reads [@x] writes [@h] {
      launch.call @k3 [@x, @w1, @h]
    }
    ```
    """

    name = "launch.actor"

    sym_name = prop_def(SymbolNameConstraint())
    device = prop_def(DeviceAttr)
    stream = prop_def(IntegerAttr.constr(eq(i64), value=AtLeast(0)))
    reads = prop_def(SymbolList)
    writes = prop_def(SymbolList)
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), SymbolOpInterface(), MemoryWriteEffect())

    assembly_format = (
        "$sym_name `on` $device `stream` $stream `reads` $reads `writes` $writes "
        "attr-dict-with-keyword custom<Steps>($body)"
    )
    custom_directives = (Steps,)

    def __init__(
        self,
        sym_name: str,
        device: DeviceAttr,
        stream: int,
        reads: Sequence[str],
        writes: Sequence[str],
        body: Region,
    ):
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "device": device,
                "stream": IntegerAttr(stream, i64),
                "reads": symbols(reads),
                "writes": symbols(writes),
            },
            regions=[body],
        )

    def verify_(self) -> None:
        for op in self.body.block.ops:
            if not isinstance(op, CallOp | CopyOp | FeedOp | FetchOp):
                raise VerifyException(f"{op.name} is no step of an actor")
        for what in (self.reads, self.writes):
            names = names_of(what)
            if len(set(names)) != len(names):
                raise VerifyException("an actor reads or writes a register twice")


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """
    Everything that one rank runs.

    ```mlir
    launch.program @empty rank 0 {
      launch.chunk @c0 on <0, host> size 64
    }
    ```
    """

    name = "launch.program"

    sym_name = prop_def(SymbolNameConstraint())
    rank = prop_def(Bytes)
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolOpInterface())

    assembly_format = "$sym_name `rank` $rank attr-dict-with-keyword $body"

    def __init__(self, sym_name: str, rank: int, body: Region):
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "rank": IntegerAttr(rank, i64),
            },
            regions=[body],
        )

    def symbol_table(self) -> dict[str, Operation]:
        """
        Every op of the program by its name. Raises `VerifyException` if two have one.
        """
        table: dict[str, Operation] = {}
        for op in self.body.block.ops:
            name = op.get_attr_or_prop("sym_name")
            if not isinstance(name, StringAttr):
                raise VerifyException(f"{op.name} is no op of a program")
            if name.data in table:
                raise VerifyException(f"two ops are named @{name.data}")
            table[name.data] = op
        return table

    def verify_(self) -> None:
        table = self.symbol_table()
        writers: dict[str, str] = {}
        for op in self.body.block.ops:
            match op:
                case RegisterOp() | VariableOp():
                    verify_place(op, table)
                case ActorOp():
                    verify_actor(op, table, writers)
                case _:
                    pass
        for op in self.body.block.ops:
            if isinstance(op, ActorOp):
                verify_fed(op, writers)


def verify_place(op: RegisterOp | VariableOp, table: dict[str, Operation]) -> None:
    """Raise `VerifyException` unless a register or variable lies inside its chunk."""
    name = op.sym_name.data
    chunk = table.get(chunk_name := op.chunk.root_reference.data)
    if not isinstance(chunk, ChunkOp):
        raise VerifyException(f"@{name} lies in @{chunk_name}, which is no chunk")
    size = memref_bytes(op.type)
    if isinstance(op, RegisterOp):
        stride = op.stride(chunk.memory_case.alignment)
        size += stride * (op.slots.value.data - 1)
    end = op.offset.value.data + size
    if end > chunk.size.value.data:
        raise VerifyException(
            f"@{name} ends at byte {end}, past the {chunk.size.value.data} "
            f"of @{chunk_name}"
        )
    alignment = part_alignment(element_bytes(op.type), chunk.memory_case)
    if op.offset.value.data % alignment:
        raise VerifyException(
            f"the memory of @{name} starts at byte {op.offset.value.data}, "
            f"not at a multiple of {alignment}"
        )


def verify_actor(
    actor: ActorOp, table: dict[str, Operation], writers: dict[str, str]
) -> None:
    """Raise `VerifyException` unless what an actor refers to exists and fits."""
    name = actor.sym_name.data
    for register in (*names_of(actor.reads), *names_of(actor.writes)):
        if not isinstance(table.get(register), RegisterOp | ControlOp):
            raise VerifyException(f"@{name} uses @{register}, which is no register")
    for register in dict.fromkeys(names_of(actor.writes)):
        if (other := writers.get(register)) is not None:
            raise VerifyException(
                f"@{register} is written by both @{other} and @{name}"
            )
        writers[register] = name
    for step in actor.body.block.ops:
        verify_step(step, actor, table)


def verify_fed(actor: ActorOp, writers: dict[str, str]) -> None:
    """Raise `VerifyException` if an actor reads a register that nobody writes."""
    for register in names_of(actor.reads):
        if register not in writers:
            raise VerifyException(
                f"@{actor.sym_name.data} reads @{register}, which no actor writes"
            )


def verify_step(step: Operation, actor: ActorOp, table: dict[str, Operation]) -> None:
    """Raise `VerifyException` unless a step's arguments are the actor's and fit."""
    match step:
        case CallOp():
            verify_call(step, actor, table)
        case CopyOp():
            source = argument_type(step.source, actor, table)
            target = argument_type(step.target, actor, table)
            if source != target:
                raise VerifyException(
                    f"@{actor.sym_name.data} copies {source} to {target}"
                )
        case FeedOp():
            argument_type(step.target, actor, table)
            verify_reach("cpu", step.target, actor, table)
        case FetchOp():
            argument_type(step.source, actor, table)
            verify_reach("cpu", step.source, actor, table)
        case _:
            pass


def verify_call(call: CallOp, actor: ActorOp, table: dict[str, Operation]) -> None:
    """Raise `VerifyException` unless a call's arguments are those of its kernel."""
    name, kernel_name = actor.sym_name.data, call.kernel.root_reference.data
    if not isinstance(kernel := table.get(kernel_name), KernelOp):
        raise VerifyException(f"@{name} calls @{kernel_name}, which is no kernel")
    if kernel.target.data != actor.device.kind.data:
        raise VerifyException(
            f"@{name} on {actor.device.kind.data} calls @{kernel_name} "
            f"for {kernel.target.data}"
        )
    given = [argument_type(arg, actor, table) for arg in call.arguments]
    expected = [arg.type for arg in kernel.body.block.args]
    if given != expected:
        raise VerifyException(
            f"@{name} calls @{kernel_name} with ({', '.join(map(str, given))}), "
            f"but it takes ({', '.join(map(str, expected))})"
        )
    for argument in call.arguments:
        verify_reach(kernel.target.data, argument, actor, table)


def verify_reach(
    kind: str, reference: SymbolRefAttr, actor: ActorOp, table: dict[str, Operation]
) -> None:
    """
    Raise `VerifyException` unless a register or variable lies in the memory that
    devices of a kind work in. For the processor it is all memory of the host.
    """
    name = reference.root_reference.data
    op = table[name]
    assert isinstance(op, RegisterOp | VariableOp), "checked with its type"
    if not isinstance(chunk := table.get(op.chunk.root_reference.data), ChunkOp):
        return
    owner = "cpu" if chunk.memory_case.is_host else chunk.memory_case.device_kind
    if owner != kind:
        raise VerifyException(
            f"@{actor.sym_name.data} works on {kind} with @{name}, "
            f"which lies in the memory of {owner}"
        )


def argument_type(
    reference: SymbolRefAttr, actor: ActorOp, table: dict[str, Operation]
) -> MemRefType:
    """
    The type of what a step of an actor refers to. Raises `VerifyException` unless it is
    a variable or one of the actor's registers.
    """
    name = reference.root_reference.data
    op = table.get(name)
    if isinstance(op, VariableOp):
        return op.type
    own = (*names_of(actor.reads), *names_of(actor.writes))
    if not isinstance(op, RegisterOp) or name not in own:
        raise VerifyException(
            f"@{actor.sym_name.data} works on @{name}, which is neither a variable "
            "nor a data register it reads or writes"
        )
    return op.type


Launch = Dialect(
    "launch",
    [
        ActorOp,
        CallOp,
        ChunkOp,
        ControlOp,
        CopyOp,
        FeedOp,
        FetchOp,
        KernelOp,
        ProgramOp,
        RegisterOp,
        VariableOp,
    ],
    [],
)
