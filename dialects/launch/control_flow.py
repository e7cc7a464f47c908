"""
Loops and conditions among the steps of an actor, and the names of bytes that they have
of their own.

A *local name* stands for bytes of a register or variable, which may be others in each
iteration: steps after it in the same block, and in blocks among these, use it as they
use registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    FlatSymbolRefAttrConstr,
    IntAttr,
    IntegerAttr,
    MemRefType,
    SymbolNameConstraint,
    SymbolRefAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, Region
from xdsl.irdl import (
    IRDLOperation,
    base,
    eq,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    param_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import (
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.launch.memory import memref_bytes, verify_dense
from penstock.dialects.regst.ops import Bytes
from penstock.dialects.utils.assembly import Body
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.python_values import properties_of

Offset = IntegerAttr.constr(eq(i64))
"""A number of bytes, which may be negative."""


@irdl_attr_definition
class PlaceAttr(ParametrizedAttribute):
    """
    The bytes from `offset` on of a register, a variable or a local name. The text is
    `#launch.place<@x at 32>`.
    """

    name = "launch.place"

    source: SymbolRefAttr
    offset: IntAttr = param_def(converter=IntAttr.get)

    def __init__(self, source: str, offset: int = 0):
        super().__init__(SymbolRefAttr(source), IntAttr(offset))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return parse_place(parser).parameters

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_place(printer, self)


def parse_place(parser: AttrParser) -> PlaceAttr:
    """The text of a place without its brackets."""
    source = parser.parse_symbol_name().data
    parser.parse_keyword("at")
    return PlaceAttr(source, parser.parse_integer(allow_boolean=False))


def print_place(printer: Printer, place: PlaceAttr) -> None:
    """Print what `parse_place` reads."""
    printer.print_symbol_name(place.source.string_value())
    printer.print_string(f" at {place.offset.data}")


@irdl_custom_directive
class Places(CustomDirective):
    """The places of a carried value: `[@h at 0, @b at 64]`."""

    places: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        found = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parse_place(parser)
        )
        self.places.set(state, ArrayAttr(found))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        places = self.places.get(op)
        assert isa(places, ArrayAttr[PlaceAttr]), "checked by the verifier"
        state.print_whitespace(printer)
        with printer.in_square_brackets():
            printer.print_list(places, lambda place: print_place(printer, place))
        state.should_emit_space = True


@irdl_op_definition
class SubviewOp(IRDLOperation):
    """
    A local name for bytes of a register (of the slot that the actor has of it), of a
    variable, or of what has a local name: in iteration `number` of the loop around it
    those from `offset + number * step` on.

    ```mlir
    launch.subview @x of @xs at 0 step 8 : memref<2xf32>
    launch.subview @p of @"scan/body" at 64 : memref<2xf32>
    ```
    """

    name = "launch.subview"

    sym_name = prop_def(SymbolNameConstraint())
    source = prop_def(FlatSymbolRefAttrConstr)
    offset = prop_def(Offset)
    step = opt_prop_def(Offset)
    type = prop_def(base(MemRefType))

    # Effects, so that names stay: steps use them as symbols.
    traits = traits_def(
        KnownAttributes(), SymbolOpInterface(), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = (
        "$sym_name `of` $source `at` $offset (`step` $step^)? attr-dict `:` $type"
    )

    def __init__(
        self, sym_name: str, source: str, offset: int, type: MemRefType, step: int = 0
    ):
        super().__init__(
            properties=properties_of(
                SubviewOp,
                sym_name=sym_name,
                source=source,
                offset=IntegerAttr(offset, i64),
                step=IntegerAttr(step, i64) if step else None,
                type=type,
            )
        )

    @property
    def bytes_per_number(self) -> int:
        """The bytes from one iteration of the loop around it to the next."""
        return 0 if self.step is None else self.step.value.data

    def verify_(self) -> None:
        verify_dense(self.type)


@irdl_op_definition
class CarryOp(IRDLOperation):
    """
    Two local names for a value that each iteration of a loop hands on to the next:
    `before` for that of the iteration before, `after` for the one that it writes
    itself.

    It lies in one place or in two by turns. Of n iterations that are known, the one
    that runs as number k reads place `(n - k) mod places` and writes `(n - k - 1) mod
    places`: the initial value lies at place `n mod places`, the last one at place 0.
    Where n is known when it runs alone, the initial value lies at place 0, iterations
    read and write the places in turn, and the loop copies the last value to place 0.

    ```mlir
    launch.carry @h_in to @h_out in [@h at 0, @"scan/body" at 0] : memref<2xf32>
    ```
    """

    name = "launch.carry"

    before = prop_def(SymbolNameConstraint())
    after = prop_def(SymbolNameConstraint())
    places = prop_def(ArrayAttr[PlaceAttr])
    type = prop_def(base(MemRefType))

    # Effects, so that names stay: steps use them as symbols.
    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = (
        "$before `to` $after `in` custom<Places>($places) attr-dict `:` $type"
    )
    custom_directives = (Places,)

    def __init__(
        self, before: str, after: str, places: Sequence[PlaceAttr], type: MemRefType
    ):
        super().__init__(
            properties=properties_of(
                CarryOp,
                before=before,
                after=after,
                places=ArrayAttr(places),
                type=type,
            )
        )

    def verify_(self) -> None:
        verify_dense(self.type)
        if (count := len(self.places)) not in (1, 2):
            raise VerifyException(f"a carried value has one place or two, got {count}")
        first, *others = self.places
        for other in others:
            apart = abs(first.offset.data - other.offset.data)
            if first.source == other.source and apart < memref_bytes(self.type):
                raise VerifyException("the two places of a carried value share bytes")


@irdl_op_definition
class NumberOp(IRDLOperation):
    """
    Write the number of this iteration of the innermost loop, one `i64`.

    ```mlir
    launch.number @i
    ```
    """

    name = "launch.number"

    target = prop_def(FlatSymbolRefAttrConstr)

    traits = traits_def(KnownAttributes(), MemoryWriteEffect())

    assembly_format = "$target attr-dict"

    def __init__(self, target: str):
        super().__init__(properties=properties_of(NumberOp, target=target))


@irdl_custom_directive
class Times(CustomDirective):
    """
    The iterations of a loop: `20`, or `up to 100 count @n while @c made @m`, each of
    the last three if there is one.
    """

    times: AttributeVariable
    count: AttributeVariable
    condition: AttributeVariable
    made: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        is_bounded = parser.parse_optional_keyword("up") is not None
        if is_bounded:
            parser.parse_keyword("to")
        self.times.set(state, IntegerAttr(parser.parse_integer(), i64))
        if not is_bounded:
            return
        at = parser.pos
        names = ("count", self.count), ("while", self.condition), ("made", self.made)
        found = [_parse_name(parser, state, *name) for name in names]
        if not any(found[:2]):
            parser.raise_error("expected `count` or `while` after a maximum", at)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        assert isinstance(op, LoopOp), "the directive of loops"
        state.print_whitespace(printer)
        most = op.times.value.data
        printer.print_string(f"up to {most}" if op.is_bounded else f"{most}")
        for word, name in (
            ("count", op.count),
            ("while", op.condition),
            ("made", op.made),
        ):
            if name is not None:
                printer.print_string(f" {word} ")
                printer.print_symbol_name(name.string_value())
        state.should_emit_space = True


def _parse_name(
    parser: Parser, state: ParsingState, word: str, name: AttributeVariable
) -> bool:
    """Whether a name follows after a word, which it then sets."""
    if parser.parse_optional_keyword(word) is None:
        return False
    name.set(state, SymbolRefAttr(parser.parse_symbol_name()))
    return True


@irdl_op_definition
class LoopOp(IRDLOperation):
    """
    Do steps again and again, in iterations that are numbered from 0: `times`, or so
    many at most. `count` is then a number that is read before the first of them, and
    `while` a condition that is tested before each; what has no count may not be true
    after the maximum. `made` gets the number of iterations that it made. A loop that
    runs `backward` has the highest number first.

    ```mlir
    launch.loop 20 {
      launch.subview @x of @xs at 0 step 8 : memref<2xf32>
      launch.call @k [@x, @h]
    }
    launch.loop up to 100 count @n while @c made @m {
      launch.carry @c to @d in [@b at 0] : memref<i1>
      launch.call @step [@h, @d]
    }
    ```
    """

    name = "launch.loop"

    times = prop_def(Bytes)
    count = opt_prop_def(FlatSymbolRefAttrConstr)
    condition = opt_prop_def(FlatSymbolRefAttrConstr)
    made = opt_prop_def(FlatSymbolRefAttrConstr)
    backward = opt_prop_def(UnitAttr)
    body = region_def("single_block")

    traits = traits_def(
        KnownAttributes(), NoTerminator(), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = (
        "custom<Times>($times, $count, $condition, $made) (`backward` $backward^)? "
        "attr-dict-with-keyword custom<Body>($body)"
    )
    custom_directives = (Times, Body)

    def __init__(
        self,
        times: int,
        body: Region,
        *,
        count: str | None = None,
        condition: str | None = None,
        made: str | None = None,
        backward: bool = False,
    ):
        super().__init__(
            properties=properties_of(
                LoopOp,
                times=times,
                count=count,
                condition=condition,
                made=made,
                backward=backward,
            ),
            regions=[body],
        )

    @property
    def is_bounded(self) -> bool:
        """Whether its iterations are known when it runs alone: `times` is a maximum."""
        return self.count is not None or self.condition is not None

    @property
    def carried(self) -> list[CarryOp]:
        """The values that an iteration hands on to the next."""
        return [op for op in self.body.block.ops if isinstance(op, CarryOp)]

    def verify_(self) -> None:
        if self.made is not None and not self.is_bounded:
            raise VerifyException(
                "only a loop with a count or a condition says how many iterations it "
                "made"
            )
        if self.is_bounded and self.backward is not None and self.count is None:
            raise VerifyException(
                "a loop that runs backward needs its count before it starts"
            )


@irdl_op_definition
class IfOp(IRDLOperation):
    """
    Do some steps if a condition, one `i1`, is true, and others if it is not.

    ```mlir
    launch.if @c {
      launch.call @k0 [@x, @y]
    } else {
      launch.call @k1 [@x, @y]
    }
    ```
    """

    name = "launch.if"

    condition = prop_def(FlatSymbolRefAttrConstr)
    then = region_def("single_block")
    otherwise = region_def("single_block")

    traits = traits_def(
        KnownAttributes(), NoTerminator(), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = (
        "$condition attr-dict-with-keyword custom<Body>($then) "
        "`else` custom<Body>($otherwise)"
    )
    custom_directives = (Body,)

    def __init__(self, condition: str, then: Region, otherwise: Region):
        super().__init__(
            properties=properties_of(IfOp, condition=condition),
            regions=[then, otherwise],
        )


NAMING = CarryOp | SubviewOp
"""The steps that declare local names."""

CONTROL = IfOp | LoopOp
"""The steps with steps of their own."""


def local_names(step: Operation) -> Sequence[str]:
    """The local names that a step declares."""
    match step:
        case SubviewOp():
            return [step.sym_name.data]
        case CarryOp():
            return [step.before.data, step.after.data]
        case _:
            return ()


def sources_of(step: Operation) -> Sequence[str]:
    """The names of the bytes that the local names of a step stand for."""
    match step:
        case SubviewOp():
            return [step.source.string_value()]
        case CarryOp():
            return [place.source.string_value() for place in step.places]
        case _:
            return ()


def loop_around(step: Operation) -> LoopOp | None:
    """The innermost loop that a step is in, if it is in one."""
    parent = step.parent_op()
    while isinstance(parent, CONTROL):
        if isinstance(parent, LoopOp):
            return parent
        parent = parent.parent_op()
    return None


def steps_within(block: Block) -> Iterator[Operation]:
    """
    All steps of a block, and those within loops and conditions, in the text's order.

    A loop or condition comes before its own steps.
    """
    for step in block.ops:
        yield step
        if isinstance(step, CONTROL):
            for region in step.regions:
                yield from steps_within(region.block)


def roots_within(block: Block) -> Mapping[str, Sequence[str]]:
    """The registers and variables that each local name of an actor's steps is of."""
    found: dict[str, Sequence[str]] = {}
    for step in steps_within(block):
        if isinstance(step, NAMING):
            roots = [x for name in sources_of(step) for x in found.get(name, (name,))]
            found.update({x: [*dict.fromkeys(roots)] for x in local_names(step)})
    return found
