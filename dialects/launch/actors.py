"""Kernels, and the actors that call them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from math import lcm

from xdsl.dialects import arith, cf
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import (
    AtLeast,
    IRDLOperation,
    eq,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import (
    CutAttr,
    CutList,
    Cuts,
    DeviceAttr,
    I64List,
    verify_cuts,
)
from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.launch.actor_kinds import (
    CYCLIC,
    PLAIN,
    WITHOUT_STEPS,
    Every,
    verify_kind,
    verify_rates,
)
from penstock.dialects.launch.control_flow import (
    CarryOp,
    IfOp,
    LoopOp,
    NumberOp,
    SubviewOp,
    roots_within,
    steps_within,
)
from penstock.dialects.launch.memory import SymbolList, names_of, symbols, verify_dense
from penstock.dialects.launch.packed_layout import PANELS, PanelsAttr, panels_in
from penstock.dialects.launch.stages import verify_stage
from penstock.dialects.launch.views import Updates, ViewAttr, Views
from penstock.dialects.utils.assembly import Body
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.counts import Count
from penstock.dialects.utils.diagnostics import LocatedVerifyException, verifying
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.python_values import properties_of
from penstock.plugins import names_of as plugins

KERNEL_DIALECTS = frozenset(
    {"arith", "cf", "kernel", "linalg", "math", "memref", "scf"}
)
"""The dialects whose ops a kernel may hold."""

FURTHER_OPS = frozenset({"llvm.frem"})
"""
The ops of other dialects that a kernel may hold: the arith dialect of xDSL lacks
`remf`.
"""

KERNEL_COST = ("bytes", "flops", "op")
"""The entries of the attribute `cost` of a kernel."""

UNCHANGED = "unchanged"
"""The attribute of a call that lists arguments which it leaves as they are."""

SOURCE = "source"
"""The attribute of a kernel with a text that is compiled in place of its body."""

AUTHOR = "author"
"""The attribute of a kernel that says whose `source` it has, a text."""

PLAIN_LOOPS = "plain_loops"
"""The attribute of a kernel that lists its stages without a schedule, and why."""


@irdl_op_definition
class KernelOp(IRDLOperation):
    """
    A function on memrefs for one kind of device. Its body is a list of stages, see
    `penstock.dialects.kernel.builder`. The optional attribute `cost` tells those who
    measure it of which op it is made, and the `bytes` and `flops` of that, and which
    ops it `holds` if that one is a group. The
    attribute `panels`, if there is one, has for each argument the order in which its
    elements lie (`#launch.panels`), or `unit` for the usual one. The attribute
    `plain_loops` lists the stages that no schedule was found for, each with the reason.
    With the attribute `source`, a text in the form that the target asks for, this text
    is compiled, and the body is its meaning; `author` says which alternative wrote it.

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

    traits = traits_def(
        KnownAttributes(
            AUTHOR,
            "cost",
            "members",
            "panels",
            PLAIN_LOOPS,
            "refused",
            "selected",
            "source",
        ),
        NoTerminator(),
        IsolatedFromAbove(),
        SymbolOpInterface(),
    )

    @property
    def compiled_for(self) -> str:
        """
        The kind of device whose form of source it has: kernels for a device of a
        plug-in are those of the CPU, unless it has a code generator of its own.
        """
        target = self.target.data
        if target in ("cpu", "cuda") or target in plugins("code-generator"):
            return target
        return "cpu" if target in plugins("device") else target

    def __init__(self, sym_name: str, target: str, body: Region):
        super().__init__(
            properties=properties_of(KernelOp, sym_name=sym_name, target=target),
            regions=[body],
        )

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        sym_name = parser.parse_symbol_name().data
        parser.parse_keyword("target")
        target = parser.parse_str_literal()
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_argument(parser)
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

    @property
    def cost(self) -> tuple[str, int, int] | None:
        """The op of the attribute `cost`, its flops and its bytes, if they are told."""
        if not isinstance(cost := self.attributes.get("cost"), DictionaryAttr):
            return None
        match [cost.data.get(key) for key in KERNEL_COST]:
            case [IntegerAttr() as size, IntegerAttr() as flops, StringAttr() as op]:
                return op.data, flops.value.data, size.value.data
            case _:
                return None

    @property
    def computes(self) -> Sequence[str]:
        """The ops that it computes, as far as `cost` tells: of a group its members."""
        cost = self.attributes.get("cost")
        held = cost.data.get("holds") if isinstance(cost, DictionaryAttr) else None
        if isa(held, ArrayAttr[StringAttr]):
            return [name.data for name in held]
        return () if self.cost is None else (self.cost[0],)

    @property
    def panels(self) -> list[PanelsAttr | None]:
        """The panels in which each argument lies, None for the usual order."""
        return panels_in(self.attributes.get(PANELS), len(self.body.block.args))

    @property
    def can_fail(self) -> bool:
        """
        Whether a call of it may end in an error: it checks something, or has a source
        of its own, which may return any code.
        """
        return SOURCE in self.attributes or bool(self.failures)

    @property
    def failures(self) -> Sequence[str]:
        """
        The texts of the errors that its body may end in: the code of an error is the
        number of its text, from 1.
        """
        found: list[str] = []
        for op in self.body.walk():
            if isinstance(op, cf.AssertOp):
                found.append(op.msg.data)
            elif isinstance(op, StructuredOp):
                found += op.failures()
        return found

    @property
    def source(self) -> str | None:
        """The text that is compiled in place of the body, if one is given."""
        given = self.attributes.get(SOURCE)
        return given.data if isinstance(given, StringAttr) else None

    def verify_(self) -> None:
        if (source := self.attributes.get(SOURCE)) is not None and self.source is None:
            raise VerifyException(f"the source of a kernel is a text, got {source}")
        author = self.attributes.get(AUTHOR)
        if not isinstance(author, StringAttr | None):
            raise VerifyException(f"the author of a source is a text, got {author}")
        for panels, type in zip(self.panels, self.body.block.arg_types, strict=True):
            if panels is not None and isa(type, MemRefType):
                panels.verify_shape(type.get_shape())
        if (cost := self.attributes.get("cost")) is not None and self.cost is None:
            raise VerifyException(
                f"a cost gives {', '.join(KERNEL_COST)} of a kernel, got {cost}"
            )
        for arg in self.body.block.args:
            if not isa(arg.type, MemRefType):
                raise VerifyException(f"a kernel works on memrefs, got {arg.type}")
            verify_dense(arg.type)
        for op in self.body.walk():
            if not may_be_held(op):
                text = f"{op.name} is no op of a kernel"
                raise LocatedVerifyException([(op, text)])
            if isinstance(op, arith.ConstantOp) or op.attributes:
                with verifying(op):
                    verify_inner(op)


def may_be_held(op: Operation) -> bool:
    """Whether a kernel may hold an op: one of some dialects, or a plug-in."""
    is_ours = op.dialect_name() in KERNEL_DIALECTS or op.name in FURTHER_OPS
    return is_ours or op.name in plugins("kernel-form")


def verify_inner(op: Operation) -> None:
    """Raise VerifyException for what an op that a kernel may hold says wrong."""
    if isinstance(op, arith.ConstantOp):
        verify_index(op.value)
    if op.dialect_name() in KERNEL_DIALECTS or isinstance(op, StructuredOp):
        verify_stage(op)


def verify_index(value: Attribute) -> None:
    """Raise VerifyException for an index that has more than the 64 bits of a word."""
    if isa(value, IntegerAttr) and isinstance(value.type, IndexType):
        number = value.value.data
        if not -(1 << 63) <= number < 1 << 63:
            raise VerifyException(f"an index of a kernel has 64 bits, got {number}")


def parse_argument(parser: Parser) -> Parser.Argument:
    """An argument of a kernel, with a location if one is printed."""
    argument = parser.parse_argument()
    location = parser.parse_optional_location()
    return Parser.Argument(argument.name, argument.type, location)


@irdl_op_definition
class CallOp(IRDLOperation):
    """
    Run a kernel on registers and variables.

    Results share no bytes with other arguments, unless the optional attribute
    `unchanged` lists these: all that is written there is what lies there already, as
    views of the actor say.

    ```mlir
    launch.call @k3 [@x, @w1, @h]
    ```
    """

    name = "launch.call"

    kernel = prop_def(FlatSymbolRefAttrConstr)
    arguments = prop_def(SymbolList)

    traits = traits_def(
        KnownAttributes("no_wave", "on", "unchanged", "when"),
        MemoryReadEffect(),
        MemoryWriteEffect(),
    )

    assembly_format = "$kernel $arguments attr-dict"

    def __init__(self, kernel: str, arguments: Sequence[str]):
        names = symbols(arguments)
        super().__init__(
            properties=properties_of(CallOp, kernel=kernel, arguments=names)
        )

    @property
    def unchanged(self) -> Sequence[str]:
        """The arguments of which it writes nothing but what lies there already."""
        if (names := self.attributes.get(UNCHANGED)) is None:
            return ()
        return names_of(names) if isa(names, ArrayAttr[SymbolRefAttr]) else ()


@irdl_op_definition
class CopyOp(IRDLOperation):
    """
    Copy the bytes of one register or variable to a register, between any memories. Of a
    register of which a piece lasts for n acts of n times the rows, it is the part that
    is as far as the act is in these n.

    ```mlir
    launch.copy @x to @"x/cuda"
    ```
    """

    name = "launch.copy"

    source = prop_def(FlatSymbolRefAttrConstr)
    target = prop_def(FlatSymbolRefAttrConstr)

    traits = traits_def(
        KnownAttributes("on", "when"), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = "$source `to` $target attr-dict"

    def __init__(self, source: str, target: str):
        super().__init__(properties=properties_of(CopyOp, source=source, target=target))


@irdl_op_definition
class FeedOp(IRDLOperation):
    """
    Take the array that the caller gives under a name.

    ```mlir
    launch.feed "x" to @x
    ```
    """

    name = "launch.feed"

    port = prop_def(StringAttr)
    target = prop_def(FlatSymbolRefAttrConstr)

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$port `to` $target attr-dict"

    def __init__(self, port: str, target: str):
        super().__init__(properties=properties_of(FeedOp, port=port, target=target))


@irdl_op_definition
class FetchOp(IRDLOperation):
    """
    Give the caller a tensor under a name. Of one that is `cut by` other outputs the
    caller gets as many elements along an axis as such a one says, and not that one.

    ```mlir
    launch.fetch "y" from @y
    launch.fetch "boxes" from @boxes cut by "count" axis 0
    ```
    """

    name = "launch.fetch"

    port = prop_def(StringAttr)
    source = prop_def(FlatSymbolRefAttrConstr)
    cuts = opt_prop_def(CutList)

    traits = traits_def(
        KnownAttributes("on", "when"), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = (
        "$port `from` $source (`cut` `by` custom<Cuts>($cuts)^)? attr-dict"
    )
    custom_directives = (Cuts,)

    def __init__(self, port: str, source: str, cuts: ArrayAttr[CutAttr] | None = None):
        properties = properties_of(FetchOp, port=port, source=source)
        if cuts is not None:
            properties["cuts"] = cuts
        super().__init__(properties=properties)

    def verify_(self) -> None:
        verify_cuts(self.cuts)


@irdl_op_definition
class ReleaseOp(IRDLOperation):
    """
    Let other jobs use an interface that this job only reads, before it has ended: it
    reads it no more in this run.

    ```mlir
    launch.release @"train/x"
    ```
    """

    name = "launch.release"

    register = prop_def(FlatSymbolRefAttrConstr)

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$register attr-dict"

    def __init__(self, register: str):
        super().__init__(properties=properties_of(ReleaseOp, register=register))


@irdl_op_definition
class CommitOp(IRDLOperation):
    """
    From here on the turn can no longer fail: all actors that can have acted, and those
    that write variables have not. On devices, all that they were asked to check has
    come out well.

    ```mlir
    launch.commit
    ```
    """

    name = "launch.commit"

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class SendOp(IRDLOperation):
    """
    Send the bytes of a register or variable to the program of another rank. The act
    ends when that one has taken them. It is all that its actor does, which acts as
    often in an iteration as the rates of the program say, or so many `times`.

    ```mlir
    launch.send @x to 1 tag 3
    launch.send @x to 1 tag 4 times 2
    ```
    """

    name = "launch.send"

    source = prop_def(FlatSymbolRefAttrConstr)
    peer = prop_def(IntegerAttr.constr(i64))
    tag = prop_def(IntegerAttr.constr(i64))
    times = opt_prop_def(Count)

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$source `to` $peer `tag` $tag (`times` $times^)? attr-dict"

    def __init__(
        self, source: str, peer: int, tag: int, times: IntegerAttr | None = None
    ):
        numbers = {"peer": IntegerAttr(peer, i64), "tag": IntegerAttr(tag, i64)}
        super().__init__(
            properties=properties_of(SendOp, source=source, times=times, **numbers)
        )


@irdl_op_definition
class ReceiveOp(IRDLOperation):
    """
    Take the bytes that the program of another rank sends into a register. It is all
    that its actor does, which acts as often as `launch.send` says; a message may arrive
    as soon as the actor could act.

    ```mlir
    launch.receive @x from 0 tag 3
    launch.receive @x from 0 tag 4 times 2
    ```
    """

    name = "launch.receive"

    target = prop_def(FlatSymbolRefAttrConstr)
    peer = prop_def(IntegerAttr.constr(i64))
    tag = prop_def(IntegerAttr.constr(i64))
    times = opt_prop_def(Count)

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$target `from` $peer `tag` $tag (`times` $times^)? attr-dict"

    def __init__(
        self, target: str, peer: int, tag: int, times: IntegerAttr | None = None
    ):
        numbers = {"peer": IntegerAttr(peer, i64), "tag": IntegerAttr(tag, i64)}
        super().__init__(
            properties=properties_of(ReceiveOp, target=target, times=times, **numbers)
        )


@irdl_op_definition
class CollectiveOp(IRDLOperation):
    """
    The part of this rank in a collective of the programs of several ranks
    (`job.collective` says which there are): it reads the bytes of at most one register
    or variable, and writes registers. It is all that its actor does, which acts as
    often as `launch.send` says.

    ```mlir
    launch.collective "all_reduce" by "ring" over [0, 1] tag 3
        [@x] into [@sum]
    ```
    """

    name = "launch.collective"

    kind = prop_def(StringAttr)
    algorithm = prop_def(StringAttr)
    ranks = prop_def(I64List)
    tag = prop_def(IntegerAttr.constr(i64))
    times = opt_prop_def(Count)
    sources = prop_def(SymbolList)
    targets = prop_def(SymbolList)

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = (
        "$kind `by` $algorithm `over` $ranks `tag` $tag (`times` $times^)? "
        "$sources `into` $targets attr-dict"
    )

    def __init__(
        self,
        kind: StringAttr,
        algorithm: StringAttr,
        ranks: DenseArrayBase[IntegerType],
        tag: IntegerAttr,
        sources: Sequence[str],
        targets: Sequence[str],
        times: IntegerAttr | None = None,
    ):
        super().__init__(
            properties=properties_of(
                CollectiveOp,
                kind=kind,
                algorithm=algorithm,
                ranks=ranks,
                tag=tag,
                times=times,
                sources=symbols(sources),
                targets=symbols(targets),
            )
        )

    @property
    def names(self) -> list[str]:
        """The names of all that it reads and writes."""
        return [*names_of(self.sources), *names_of(self.targets)]


MESSAGES = CollectiveOp | ReceiveOp | SendOp
"""The steps that exchange something with programs of other ranks."""

WHEN = "when"
"""The attribute of a step that is done in the first act of a round, or in the rest."""
ON = "on"
"""The attribute of a step that is done for a piece of one register alone."""

DONE = (
    CallOp | CollectiveOp | CopyOp | FeedOp | FetchOp | ReceiveOp | ReleaseOp | SendOp
)
"""The steps that are done by calls."""

STEPS = (
    CallOp
    | CarryOp
    | CollectiveOp
    | CommitOp
    | CopyOp
    | FeedOp
    | FetchOp
    | IfOp
    | LoopOp
    | NumberOp
    | ReceiveOp
    | ReleaseOp
    | SendOp
    | SubviewOp
)
"""The steps of an actor."""


def written_by(step: Operation) -> Sequence[str]:
    """
    The registers that a step may write, by name, but for those that a loop or condition
    writes by its own steps; one that a local name is of goes by that.
    """
    match step:
        case CallOp():
            return names_of(step.arguments)
        case CollectiveOp():
            return names_of(step.targets)
        case CopyOp() | FeedOp() | NumberOp() | ReceiveOp():
            return [step.target.string_value()]
        case LoopOp() if step.made is not None:
            return [step.made.string_value()]
        case _:
            return ()


def symbols_in(step: Operation) -> list[str]:
    """The symbols that a step names, other than what it is on."""
    found: list[Attribute] = []
    for attribute in step.properties.values():
        found += attribute if isa(attribute, ArrayAttr[Attribute]) else [attribute]
    return [each.string_value() for each in found if isinstance(each, SymbolRefAttr)]


def is_step_on(step: Operation, used: Collection[str]) -> bool:
    """Whether a step of a cycle is done in an act that uses such registers."""
    on = step.attributes.get(ON)
    return not isinstance(on, SymbolRefAttr) or on.string_value() in used


@irdl_op_definition
class ActorOp(IRDLOperation):
    """
    Acts each time that all registers in `reads` have a full slot for it and all
    registers in `writes` a free one: runs its body in order, then frees the slots it
    read and fills those it wrote. The actors of one device and stream act one after the
    other. In a program of several jobs it says its `job`: an actor acts in the runs of
    that one. One that calls a kernel which may end in an error says that it
    `can_fail`.

    `views` say which bytes lie in registers that it writes before it does any step:
    those of a register that it reads, or of a variable, `at` so many bytes from the
    start of that one. They are all that a register without a step shows, and all that a
    kernel may read of its results.

    `updates` name the variables that its kernels write over, which they may read before
    that. Each has a control that it writes: it tells others of the new value.

    A piece of a register may last for n acts, `every` n: it is there before the first
    of them, and produced after the last. A *round* are the acts for one piece that is
    written, in the first of which steps `when = "first"` are done, those `when =
    "rest"` in the others.

    An actor of another `kind` needs less than all of its registers
    (`penstock.runtime.program.actor_kinds`): `case`, `esac`, `lock` and `send_ids` have
    no steps, and the latter two `lists` of numbers; `input_wise` does steps `on = @x`
    when there is a piece of that register. The `lists` of a `cyclic` one are the acts
    of a cycle, each with the places of the registers that it uses, those that are read
    first; it does steps `on = @x` in acts that use that register. A kind of a plug-in
    becomes cyclic by `launch-expand-kinds`.

    ```mlir
    launch.actor @matmul on <0, cpu:0> stream 0 reads [@x] writes [@h] {
      launch.call @k3 [@x, @w1, @h]
    }
    launch.actor @half on <0, cpu:0> stream 0 reads [@x] writes [@y]
        views [@x at 32 as @y] {
    }
    launch.actor @next on <0, cpu:0> stream 0 reads [@g] writes [@"next/out"]
        updates [@w as @"next/out"] {
      launch.call @k4 [@g, @w]
    }
    launch.actor @acc on <0, cpu:0> stream 0 reads [@g] writes [@sum] every [@sum = 4] {
      launch.copy @g to @sum {when = "first"}
      launch.call @add [@g, @sum] {when = "rest"}
    }
    launch.actor @case kind "case" on <0, cpu:0> stream 0 reads [@i] writes [@a, @b] {
    }
    launch.actor @by_turns kind "cyclic" lists [array<i64: 0, 2>, array<i64: 1, 2>]
        on <0, cpu:0> stream 0 reads [@x, @y] writes [@z] {
      launch.copy @x to @z {on = @x}
      launch.copy @y to @z {on = @y}
    }
    ```
    """

    name = "launch.actor"

    sym_name = prop_def(SymbolNameConstraint())
    job = opt_prop_def(StringAttr)
    kind = opt_prop_def(StringAttr)
    lists = opt_prop_def(ArrayAttr.constr(I64List))
    device = prop_def(DeviceAttr)
    stream = prop_def(IntegerAttr.constr(eq(i64), value=AtLeast(0)))
    can_fail = opt_prop_def(UnitAttr)
    reads = prop_def(SymbolList)
    writes = prop_def(SymbolList)
    every = opt_prop_def(DictionaryAttr)
    views = opt_prop_def(ArrayAttr[ViewAttr])
    updates = opt_prop_def(ArrayAttr[ViewAttr])
    body = region_def("single_block")

    traits = traits_def(
        KnownAttributes("chain", "no_chain", "no_wave", "rule", "wave"),
        NoTerminator(),
        SymbolOpInterface(),
        MemoryWriteEffect(),
    )

    assembly_format = (
        "$sym_name (`job` $job^)? (`kind` $kind^)? (`lists` $lists^)? "
        "`on` $device `stream` $stream (`can_fail` $can_fail^)? "
        "`reads` $reads `writes` $writes "
        "custom<Every>($every) custom<Views>($views) custom<Updates>($updates) "
        "attr-dict-with-keyword custom<Body>($body)"
    )
    custom_directives = (Every, Views, Updates, Body)

    def __init__(
        self,
        sym_name: str,
        device: DeviceAttr,
        stream: int,
        reads: Sequence[str],
        writes: Sequence[str],
        body: Region,
        job: StringAttr | None = None,
        *,
        kind: str | None = None,
        lists: Sequence[Sequence[int]] | None = None,
        every: Mapping[str, int] | None = None,
        views: Sequence[ViewAttr] = (),
        updates: Sequence[ViewAttr] = (),
        can_fail: bool = False,
    ):
        numbers = [DenseArrayBase.from_list(i64, x) for x in lists or ()]
        counts = {name: IntegerAttr(n, i64) for name, n in (every or {}).items()}
        super().__init__(
            properties=properties_of(
                ActorOp,
                sym_name=sym_name,
                job=job,
                kind=kind,
                lists=None if lists is None else ArrayAttr(numbers),
                every=DictionaryAttr(counts) if counts else None,
                views=ArrayAttr(views) if views else None,
                updates=ArrayAttr(updates) if updates else None,
                device=device,
                stream=stream,
                can_fail=can_fail,
                reads=symbols(reads),
                writes=symbols(writes),
            ),
            regions=[body],
        )

    @property
    def job_name(self) -> str | None:
        """The job that it belongs to, if it says one."""
        return None if self.job is None else self.job.data

    @property
    def kind_name(self) -> str:
        """Its kind; that of most is `plain`."""
        return "plain" if self.kind is None else self.kind.data

    @property
    def number_lists(self) -> list[list[int]]:
        """The registers, variables and ports that it numbers."""
        lists = () if self.lists is None else self.lists
        return [list(numbers.get_values()) for numbers in lists]

    @property
    def rates(self) -> dict[str, int]:
        """The acts that a piece lasts for, for registers where that is not one."""
        if self.every is None:
            return {}
        return {
            name: count.value.data
            for name, count in self.every.data.items()
            if isinstance(count, IntegerAttr)
        }

    @property
    def is_cyclic(self) -> bool:
        """Whether each act uses the registers that a cycle says."""
        return self.kind_name == CYCLIC

    @property
    def registers(self) -> Sequence[SymbolRefAttr]:
        """The registers that it reads, and then those that it writes."""
        return (*self.reads.data, *self.writes.data)

    def acts_with(self, name: str) -> list[int]:
        """The acts of the cycle of a cyclic actor in which it uses a register."""
        place = [x.root_reference.data for x in self.registers].index(name)
        return [n for n, used in enumerate(self.number_lists) if place in used]

    def acts_for(self, name: str) -> Fraction:
        """The acts for each piece of a register, in the mean of a cycle."""
        if self.is_cyclic:
            return Fraction(len(self.number_lists), len(self.acts_with(name)))
        return Fraction(self.rates.get(name, 1))

    @property
    def times(self) -> int | None:
        """The acts in an iteration, if a message says how often it comes."""
        step = self.body.block.first_op
        if not isinstance(step, MESSAGES) or step.times is None:
            return None
        return step.times.value.data

    @property
    def acts_of_cycle(self) -> int:
        """The fewest acts after which no piece is begun, as before."""
        return len(self.number_lists) if self.is_cyclic else lcm(*self.rates.values())

    @property
    def view_list(self) -> Sequence[ViewAttr]:
        """The views among the registers that it writes."""
        return () if self.views is None else self.views.data

    @property
    def update_list(self) -> Sequence[ViewAttr]:
        """The variables that its kernels write over, each with a control."""
        return () if self.updates is None else self.updates.data

    @property
    def round(self) -> int:
        """The acts for one piece that is written: by steps, if there are any."""
        rates = self.rates
        every = (rates.get(name, 1) for name in names_of(self.writes))
        return max(self.rounds or every, default=1)

    @property
    def rounds(self) -> list[int]:
        """The acts for a piece of each register that steps write."""
        steps = [*steps_within(self.body.block)]
        roots = roots_within(self.body.block)
        named = {x for step in steps for x in written_by(step)}
        used = {root for x in named for root in roots.get(x, (x,))}
        rates = self.rates
        return [rates.get(name, 1) for name in names_of(self.writes) if name in used]

    def verify_(self) -> None:
        for op in steps_within(self.body.block):
            with verifying(op):
                if not isinstance(op, STEPS):
                    raise VerifyException(f"{op.name} is no step of an actor")
                self._verify_when(op)
        reads, writes = names_of(self.reads), names_of(self.writes)
        verify_kind(self.kind_name, reads, writes, self.number_lists)
        if self.kind_name in WITHOUT_STEPS and self.body.block.first_op is not None:
            raise VerifyException(f"an actor of kind '{self.kind_name}' has no steps")
        verify_rates(self.kind_name, reads, writes, self.rates, self.rounds)
        if self.is_cyclic:
            self._verify_cycle()
        for what in (self.reads, self.writes):
            names = names_of(what)
            if len(set(names)) != len(names):
                raise VerifyException("an actor reads or writes a register twice")

    def _verify_when(self, step: Operation) -> None:
        when, on = step.attributes.get(WHEN), step.attributes.get(ON)
        if when is not None and when not in (StringAttr("first"), StringAttr("rest")):
            raise VerifyException(
                f'a step is done when = "first" or "rest", got {when}'
            )
        if when is not None and self.is_cyclic:
            raise VerifyException(
                "a step of a cycle is on a register, where it is not done in all acts, "
                f"got when = {when}"
            )
        if on is None:
            return
        if self.kind_name == PLAIN:
            raise VerifyException(
                f"only steps of actors of other kinds are on a register, got {on}"
            )
        of = self.reads.data if self.kind_name == "input_wise" else self.registers
        if not isinstance(on, SymbolRefAttr) or on not in of:
            used = "read" if self.kind_name == "input_wise" else "read or written"
            raise VerifyException(f"a step is on a register that is {used}, got {on}")

    def _verify_cycle(self) -> None:
        """
        Raise `VerifyException` unless each step of a cycle names registers that all
        acts use in which it is done, and each act writes what it hands on.
        """
        if self.views is not None:
            raise VerifyException("an actor with a cycle has no views")
        for op in self.body.block.ops:
            if isinstance(op, CarryOp | IfOp | LoopOp | NumberOp | SubviewOp):
                text = "a cycle has no loops or conditions"
                raise LocatedVerifyException([(op, text)])
            if isinstance(op, CommitOp):
                text = "a cycle has no commits, as acts follow that may fail"
                raise LocatedVerifyException([(op, text)])
        steps = [(op, symbols_in(op), written_by(op)) for op in self.body.block.ops]
        names = [x.root_reference.data for x in self.registers]
        own = {*names_of(self.writes)}
        writes = {name for _, _, written in steps for name in written if name in own}
        for number, used in enumerate(self.number_lists):
            uses = {names[place] for place in used}
            left = writes & uses
            for op, named, written in steps:
                if not is_step_on(op, uses):
                    continue
                for name in named:
                    if name in names and name not in uses:
                        text = f"act {number} of the cycle does not use @{name}"
                        raise LocatedVerifyException([(op, text)])
                left -= {*written}
            if left:
                raise VerifyException(
                    f"no step writes @{min(left)} in act {number} of the cycle"
                )
