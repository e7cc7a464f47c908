"""
The job dialect: what to compute, and where.

A *job* is a symbol with one block of ops on tensors. Values enter it by `job.input`
and `job.variable` and leave it by `job.output`; the ops between them are those of the
`op` dialect or of other packages. Where an op runs is its *placement*: its own
`placement` attribute where it has one, else that of its job. Job inputs and outputs
lie in the memory of the host. On several devices the attribute `sbp` of an op says how
its results lie on them.

    job.job  --job-place-->  job.job + job.copy
             --job-infer-sbp-->  job.job with sbp
             --job-insert-boxing-->  job.job + job.boxing
             --convert-job-to-plan-->  plan.plan
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import isfinite, prod
from typing import ClassVar, TypeAlias

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    f64,
    i1,
    i64,
)
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    ParametrizedAttribute,
    Region,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    param_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

AnyTensor = base(TensorType)
I64List = DenseArrayBase.constr(i64)

MAX_DEVICES = 65_536
"""What one placement holds at most; a slip of the pen is refused, not written out."""

################################################################################
# Attributes                                                                   #
################################################################################


@irdl_attr_definition
class DeviceAttr(ParametrizedAttribute):
    """
    One device of one rank (process), such as `#job.device<0, cuda:1>`.
    """

    name = "job.device"

    rank: IntAttr = param_def(converter=IntAttr.get)
    kind: StringAttr = param_def(converter=StringAttr.get)
    index: IntAttr = param_def(converter=IntAttr.get)

    def verify(self) -> None:
        if self.rank.data < 0:
            raise VerifyException(f"rank must not be negative, got {self.rank.data}")
        if self.index.data < 0:
            raise VerifyException(
                f"device index must not be negative, got {self.index.data}"
            )
        verify_device_kind(self.kind.data)

    @property
    def host(self) -> DeviceAttr:
        """The processor of the same rank, in whose memory the host buffers lie."""
        return DeviceAttr(self.rank, "cpu", 0)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            rank = parser.parse_integer(allow_boolean=False)
            parser.parse_punctuation(",")
            kind = parser.parse_identifier()
            parser.parse_punctuation(":")
            index = parser.parse_integer(allow_boolean=False)
        return IntAttr(rank), StringAttr(kind), IntAttr(index)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(
                f"{self.rank.data}, {self.kind.data}:{self.index.data}"
            )


def verify_device_kind(kind: str) -> None:
    """Raise `VerifyException` unless `kind` can stand for a device in the text."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", kind):
        raise VerifyException(f"a device kind is a lower case word, got '{kind}'")


@irdl_attr_definition
class PlacementAttr(ParametrizedAttribute):
    """
    A group of devices of one kind: ranges of `rank:first-last` devices, kept as the
    least list of ranges in ascending order, and the hierarchy (the shape of the device
    mesh) over which SBP signatures of several dimensions are laid.

    `#job.placement<cuda, [0:0-3, 1:0-3], hierarchy = [2, 4]>`; the hierarchy is left
    out where the group is one row.
    """

    name = "job.placement"

    kind: StringAttr = param_def(converter=StringAttr.get)
    devices: DenseArrayBase[IntegerType]
    """Pairs of rank and device index, flattened, ascending."""
    hierarchy: DenseArrayBase[IntegerType]

    def __init__(
        self,
        kind: str,
        devices: Iterable[tuple[int, int]],
        hierarchy: Sequence[int] = (),
    ):
        pairs = sorted(set(devices))
        super().__init__(
            StringAttr(kind),
            DenseArrayBase.from_list(i64, list(chain.from_iterable(pairs))),
            DenseArrayBase.from_list(i64, list(hierarchy) or [len(pairs)]),
        )

    def verify(self) -> None:
        verify_device_kind(self.kind.data)
        pairs = self.pairs
        if not pairs:
            raise VerifyException("a placement needs at least one device")
        if len(pairs) > MAX_DEVICES:
            raise VerifyException(
                f"a placement has at most {MAX_DEVICES} devices, got {len(pairs)}"
            )
        if negative := [pair for pair in pairs if min(pair) < 0]:
            rank, index = negative[0]
            raise VerifyException(
                f"ranks and device indices must not be negative, got {rank}:{index}"
            )
        shape = self.shape
        if min(shape) < 1 or prod(shape) != len(pairs):
            raise VerifyException(
                f"the hierarchy {list(shape)} does not hold {len(pairs)} devices"
            )

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The (rank, device index) of each device, ascending."""
        flat = self.devices.get_values()
        return tuple(zip(flat[::2], flat[1::2], strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the hierarchy."""
        return self.hierarchy.get_values()

    @property
    def ranges(self) -> list[tuple[int, int, int]]:
        """The (rank, first, last) of each run of neighbouring devices."""
        runs: list[tuple[int, int, int]] = []
        for rank, index in self.pairs:
            if runs and runs[-1][0] == rank and runs[-1][2] == index - 1:
                runs[-1] = (rank, runs[-1][1], index)
            else:
                runs.append((rank, index, index))
        return runs

    def single_device(self) -> DeviceAttr | None:
        """The device of a placement that has just one, else None."""
        if len(self.pairs) != 1:
            return None
        rank, index = self.pairs[0]
        return DeviceAttr(rank, self.kind, index)

    @classmethod
    def on(cls, device: DeviceAttr) -> PlacementAttr:
        """The placement on just one device."""
        return cls(device.kind.data, [(device.rank.data, device.index.data)])

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            kind = parser.parse_identifier()
            parser.parse_punctuation(",")
            ranges = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parse_device_range(parser)
            )
            hierarchy: list[int] = []
            if parser.parse_optional_punctuation(","):
                parser.parse_keyword("hierarchy")
                parser.parse_punctuation("=")
                hierarchy = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE,
                    lambda: parser.parse_integer(allow_boolean=False),
                )
        attr = cls(kind, chain.from_iterable(ranges), hierarchy)
        return attr.kind, attr.devices, attr.hierarchy

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            ranges = ", ".join(
                f"{rank}:{first}" if first == last else f"{rank}:{first}-{last}"
                for rank, first, last in self.ranges
            )
            printer.print_string(f"{self.kind.data}, [{ranges}]")
            if len(self.shape) > 1:
                printer.print_string(f", hierarchy = {list(self.shape)}")


def parse_device_range(parser: AttrParser) -> list[tuple[int, int]]:
    """Read `rank:index` or `rank:first-last` as (rank, index) pairs."""
    position = parser.pos
    rank = parser.parse_integer(allow_boolean=False)
    parser.parse_punctuation(":")
    first = last = parser.parse_integer(allow_boolean=False)
    if parser.parse_optional_punctuation("-"):
        last = parser.parse_integer(allow_boolean=False)
    if last < first:
        parser.raise_error(f"the device range {rank}:{first}-{last} is empty", position)
    if (count := last - first + 1) > MAX_DEVICES:
        parser.raise_error(
            f"a placement has at most {MAX_DEVICES} devices, got {count}", position
        )
    return [(rank, index) for index in range(first, last + 1)]


@irdl_attr_definition
class SplitAttr(ParametrizedAttribute):
    """
    The tensor is cut along one axis, such as `#job.split<0>`.
    """

    name = "job.split"

    axis: IntAttr = param_def(converter=IntAttr.get)

    def verify(self) -> None:
        if self.axis.data < 0:
            raise VerifyException(
                f"a split axis must not be negative, got {self.axis.data}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (IntAttr(parser.parse_integer(allow_boolean=False)),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_int(self.axis.data)


@irdl_attr_definition
class BroadcastAttr(ParametrizedAttribute):
    """
    Every device holds the whole tensor.
    """

    name = "job.broadcast"


@irdl_attr_definition
class PartialAttr(ParametrizedAttribute):
    """
    The tensor is the sum of what the devices hold.
    """

    name = "job.partial"


Entry: TypeAlias = SplitAttr | BroadcastAttr | PartialAttr
"""How a tensor lies along one dimension of a hierarchy of devices."""


@irdl_attr_definition
class SbpAttr(ParametrizedAttribute):
    """
    How a tensor lies on the devices of a placement, one entry for each dimension of
    its hierarchy: `S(axis)` split, `B` broadcast or `P` partial sum, such as
    `#job.sbp<S(0), B>`.
    """

    name = "job.sbp"

    dims: ArrayAttr[Entry]

    def verify(self) -> None:
        if not self.dims.data:
            raise VerifyException("an SBP needs at least one entry")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        dims = parser.parse_comma_separated_list(
            parser.Delimiter.ANGLE, lambda: parse_sbp_entry(parser)
        )
        return (ArrayAttr(dims),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(", ".join(sbp_entry_text(dim) for dim in self.dims))


def parse_sbp_entry(parser: AttrParser) -> Entry:
    """Read one of `S(axis)`, `B` and `P`."""
    if parser.parse_optional_keyword("B"):
        return BroadcastAttr()
    if parser.parse_optional_keyword("P"):
        return PartialAttr()
    if not parser.parse_optional_keyword("S"):
        parser.raise_error("expected one of S(axis), B and P")
    with parser.in_parens():
        return SplitAttr(parser.parse_integer(allow_boolean=False))


def sbp_entry_text(entry: Entry) -> str:
    """The text of one entry of an SBP."""
    match entry:
        case SplitAttr():
            return f"S({entry.axis.data})"
        case BroadcastAttr():
            return "B"
        case PartialAttr():
            return "P"


INITIALIZERS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "constant": (frozenset({"value"}), frozenset()),
    "he_normal": (frozenset({"seed"}), frozenset()),
    "he_uniform": (frozenset({"seed"}), frozenset()),
    "normal": (frozenset({"seed"}), frozenset({"mean", "std"})),
    "npz": (frozenset({"file"}), frozenset({"name"})),
    "ones": (frozenset(), frozenset()),
    "uniform": (frozenset({"seed"}), frozenset({"low", "high"})),
    "xavier_normal": (frozenset({"seed"}), frozenset()),
    "xavier_uniform": (frozenset({"seed"}), frozenset()),
    "zeros": (frozenset(), frozenset()),
}
"""The required and the optional parameters of each initialiser."""


@irdl_attr_definition
class InitAttr(ParametrizedAttribute):
    """
    How a variable gets its first value, such as `#job.init<xavier_uniform, seed = 7>`
    or `#job.init<npz, file = "weights.npz", name = "w1">`.

    Random values depend on the seed and the variable's name alone. The fans of
    `xavier_*` and `he_*` are those of a matrix `[in, out]` or of a convolution's
    weights `[out, in, h, w]`. A file is looked up beside the file of the IR; `name` is
    the variable's own where it is left out.
    """

    name = "job.init"

    kind: StringAttr = param_def(converter=StringAttr.get)
    options: DictionaryAttr

    def __init__(
        self, kind: str, parameters: Mapping[str, int | float | str | Attribute]
    ):
        attrs = {key: init_parameter(value) for key, value in parameters.items()}
        super().__init__(StringAttr(kind), DictionaryAttr(attrs))

    def verify(self) -> None:
        if (known := INITIALIZERS.get(self.kind.data)) is None:
            raise VerifyException(
                f"unknown initialiser '{self.kind.data}', "
                f"expected one of {', '.join(INITIALIZERS)}"
            )
        required, optional = known
        given = set(self.options.data)
        if missing := sorted(required - given):
            raise VerifyException(
                f"initialiser '{self.kind.data}' needs {', '.join(missing)}"
            )
        if extra := sorted(given - required - optional):
            raise VerifyException(
                f"initialiser '{self.kind.data}' does not take {', '.join(extra)}"
            )
        for key, value in self.options.data.items():
            verify_init_parameter(key, value)
        self._verify_distribution()

    def _verify_distribution(self) -> None:
        if (std := self._number("std", 1.0)) < 0:
            raise VerifyException(f"'std' must not be negative, got {std}")
        low, high = self._number("low", 0.0), self._number("high", 1.0)
        if self.kind.data == "uniform" and low > high:
            raise VerifyException(f"'low' must not be above 'high', got {low} > {high}")

    def _number(self, key: str, default: float) -> float:
        value = self.value(key, default)
        assert not isinstance(value, str), "checked with the parameter"
        return value

    def value(self, key: str, default: float | str) -> int | float | str:
        """The Python value of a parameter, or `default` where it is left out."""
        match self.options.data.get(key):
            case IntegerAttr(value=value) | FloatAttr(value=value):
                return value.data
            case StringAttr(data=text):
                return text
            case _:
                return default

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            kind = parser.parse_identifier()
            parameters: dict[str, Attribute] = {}
            while parser.parse_optional_punctuation(","):
                key = parser.parse_identifier()
                parser.parse_punctuation("=")
                parameters[key] = parse_init_parameter(parser)
        return StringAttr(kind), DictionaryAttr(parameters)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.kind.data)
            for key, value in self.options.data.items():
                printer.print_string(f", {key} = ")
                match value:
                    case IntegerAttr():
                        printer.print_int(value.value.data)
                    case FloatAttr():
                        printer.print_string(float_text(value.value.data))
                    case _:
                        printer.print_attribute(value)


def init_parameter(value: float | str | Attribute) -> Attribute:
    """The attribute that stands for a Python value in an initialiser."""
    match value:
        case Attribute():
            return value
        case int():
            return IntegerAttr(value, i64)
        case float():
            return FloatAttr(value, f64)
        case str():
            return StringAttr(value)


def parse_init_parameter(parser: AttrParser) -> Attribute:
    """Read a string, an integer or a float as an initialiser's parameter."""
    if (text := parser.parse_optional_str_literal()) is not None:
        return StringAttr(text)
    return init_parameter(parser.parse_number(allow_boolean=False))


def float_text(value: float) -> str:
    """The shortest text that is read as just this finite number, and as a float."""
    mantissa, e, exponent = repr(value).partition("e")
    return (mantissa if "." in mantissa else f"{mantissa}.0") + e + exponent


def verify_init_parameter(key: str, value: Attribute) -> None:
    """Raise `VerifyException` unless the value has the type that `key` asks for."""
    if key in ("file", "name"):
        if not isinstance(value, StringAttr):
            raise VerifyException(f"'{key}' must be a string, got {value}")
    elif key == "seed":
        if not isinstance(value, IntegerAttr) or value.value.data < 0:
            raise VerifyException(f"'seed' must be an integer from 0 on, got {value}")
    elif not isinstance(value, IntegerAttr | FloatAttr):
        raise VerifyException(f"'{key}' must be a number, got {value}")
    elif not isfinite(value.value.data):
        raise VerifyException(f"'{key}' must be finite, got {value.value.data}")


################################################################################
# Operations                                                                   #
################################################################################


@irdl_op_definition
class JobOp(IRDLOperation):
    """
    A computation that is compiled and launched as one.

    ```mlir
    job.job @square placement <cpu, [0:0]> {
      %x = job.input "x" : tensor<4xf32>
      %y = op.mul %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
      job.output "y", %y : tensor<4xf32>
    }
    ```
    """

    name = "job.job"

    sym_name = prop_def(SymbolNameConstraint())
    placement = prop_def(PlacementAttr)
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolOpInterface())

    assembly_format = "$sym_name `placement` $placement attr-dict-with-keyword $body"

    def __init__(self, sym_name: str, placement: PlacementAttr, body: Region):
        super().__init__(
            properties={"sym_name": StringAttr(sym_name), "placement": placement},
            regions=[body],
        )

    def verify_(self) -> None:
        if self.body.block.args:
            raise VerifyException("the block of a job takes no arguments")
        seen: set[tuple[type[Operation], str]] = set()
        for op in self.body.block.ops:
            placement = op.attributes.get("placement", self.placement)
            if not isinstance(placement, PlacementAttr):
                raise VerifyException(
                    f"the placement of {op.name} should be a #job.placement, "
                    f"got {placement}"
                )
            if isinstance(op, ForeignInputOp | ForeignOutputOp):
                if (key := (type(op), op.buffer.data)) in seen:
                    raise VerifyException(f"two buffers are named '{op.buffer.data}'")
                seen.add(key)
            if not isinstance(op, InputOp | OutputOp | VariableOp):
                continue
            side = OutputOp if isinstance(op, OutputOp) else InputOp
            if (key := (side, op.port.data)) in seen:
                what = "outputs" if side is OutputOp else "inputs or variables"
                raise VerifyException(f"two {what} are named '{op.port.data}'")
            seen.add(key)


@irdl_op_definition
class InputOp(IRDLOperation):
    """
    A tensor that the caller feeds at each launch, in the memory of the host.

    ```mlir
    %x = job.input "x" : tensor<64x784xf32>
    ```
    """

    name = "job.input"

    port = prop_def(StringAttr)
    result = result_def(AnyTensor)

    # What the caller gives is taken even where nothing uses it.
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$port attr-dict `:` type($result)"

    def __init__(self, port: str, type: TensorType):
        super().__init__(properties={"port": StringAttr(port)}, result_types=[type])


@irdl_op_definition
class VariableOp(IRDLOperation):
    """
    A tensor that lives as long as the session: a weight. Or the `part` of one, from
    these places on, `of` a tensor of this shape: it has the values that this part of
    the whole would have.

    ```mlir
    %w = job.variable "w1" init <xavier_uniform, seed = 7> : tensor<784x256xf32>
    %p = job.variable "w1" init <xavier_uniform, seed = 7>
      part [392, 0] of [784, 256] : tensor<392x256xf32>
    ```
    """

    name = "job.variable"

    port = prop_def(StringAttr)
    init = prop_def(InitAttr)
    offsets = opt_prop_def(I64List)
    whole = opt_prop_def(I64List)
    result = result_def(AnyTensor)

    traits = traits_def(Pure())

    assembly_format = (
        "$port `init` $init (`part` $offsets^ `of` $whole)? attr-dict `:` type($result)"
    )

    def __init__(self, port: str, init: InitAttr, type: TensorType):
        super().__init__(
            properties={"port": StringAttr(port), "init": init}, result_types=[type]
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of what the op makes."""
        type = self.result.type
        assert isa(type, TensorType), "checked by the constraint"
        return type.get_shape()

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """The extents of what this is all or a part of."""
        return self.shape if self.whole is None else self.whole.get_values()

    @property
    def place(self) -> tuple[slice, ...]:
        """Where this lies in the whole."""
        return place_in_whole(self.offsets, self.shape)

    def verify_(self) -> None:
        verify_part(self.offsets, self.whole, self.shape)


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
class OutputOp(IRDLOperation):
    """
    A tensor that the caller fetches after each launch, in the memory of the host.

    ```mlir
    job.output "y", %y : tensor<64x256xf32>
    ```
    """

    name = "job.output"

    port = prop_def(StringAttr)
    value = operand_def(AnyTensor)

    traits = traits_def(MemoryWriteEffect())

    assembly_format = "$port `,` $value attr-dict `:` type($value)"

    def __init__(self, port: str, value: SSAValue | Operation):
        super().__init__(operands=[value], properties={"port": StringAttr(port)})


@irdl_op_definition
class ForeignInputOp(IRDLOperation):
    """
    What comes from outside by a buffer of this name, in the memory of the host: what a
    job begins with that pushes an input of other jobs.

    ```mlir
    %x = job.foreign_input "ForeignInput-System-Push-x" : tensor<64x784xf32>
    ```
    """

    name = "job.foreign_input"

    buffer = prop_def(StringAttr)
    result = result_def(AnyTensor)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$buffer attr-dict `:` type($result)"

    def __init__(self, buffer: str, type: TensorType):
        super().__init__(properties={"buffer": StringAttr(buffer)}, result_types=[type])


@irdl_op_definition
class ForeignOutputOp(IRDLOperation):
    """
    What goes outside by a buffer of this name, from the memory of the host: what a job
    ends with that pulls an output of other jobs.

    ```mlir
    job.foreign_output "ForeignOutput-System-Pull-y", %y : tensor<64x256xf32>
    ```
    """

    name = "job.foreign_output"

    buffer = prop_def(StringAttr)
    value = operand_def(AnyTensor)

    traits = traits_def(MemoryWriteEffect())

    assembly_format = "$buffer `,` $value attr-dict `:` type($value)"

    def __init__(self, buffer: str, value: SSAValue | Operation):
        super().__init__(operands=[value], properties={"buffer": StringAttr(buffer)})


@irdl_op_definition
class CopyOp(IRDLOperation):
    """
    The same tensor in the memory of another device.

    ```mlir
    %d = job.copy %h to <0, cuda:0> : tensor<4xf32>
    ```
    """

    name = "job.copy"

    T: ClassVar = VarConstraint("T", AnyTensor)

    source = operand_def(T)
    device = prop_def(DeviceAttr)
    result = result_def(T)

    traits = traits_def(Pure())

    assembly_format = "$source `to` $device attr-dict `:` type($source)"

    def __init__(self, source: SSAValue | Operation, device: DeviceAttr):
        source = SSAValue.get(source)
        super().__init__(
            operands=[source],
            properties={"device": device},
            result_types=[source.type],
        )


@irdl_op_definition
class BoxingOp(IRDLOperation):
    """
    The same tensor laid in another way, on the same devices or on others.

    ```mlir
    %b = job.boxing %a from <S(0)> on <cpu, [0:0-1]> to <B> on <cuda, [0:0]>
      : tensor<4x8xf32>
    ```
    """

    name = "job.boxing"

    T: ClassVar = VarConstraint("T", AnyTensor)

    source = operand_def(T)
    source_sbp = prop_def(SbpAttr)
    source_placement = prop_def(PlacementAttr)
    target_sbp = prop_def(SbpAttr)
    target_placement = prop_def(PlacementAttr)
    result = result_def(T)

    traits = traits_def(Pure())

    assembly_format = (
        "$source `from` $source_sbp `on` $source_placement "
        "`to` $target_sbp `on` $target_placement attr-dict `:` type($source)"
    )

    def __init__(
        self,
        source: SSAValue | Operation,
        source_sbp: SbpAttr,
        source_placement: PlacementAttr,
        target_sbp: SbpAttr,
        target_placement: PlacementAttr,
    ):
        source = SSAValue.get(source)
        super().__init__(
            operands=[source],
            properties={
                "source_sbp": source_sbp,
                "source_placement": source_placement,
                "target_sbp": target_sbp,
                "target_placement": target_placement,
            },
            result_types=[source.type],
        )

    def verify_(self) -> None:
        type = self.source.type
        assert isa(type, TensorType), "checked by the constraint"
        verify_layout(type, self.source_sbp, self.source_placement)
        verify_layout(type, self.target_sbp, self.target_placement)


def verify_layout(type: TensorType, sbp: SbpAttr, placement: PlacementAttr) -> None:
    """Raise `VerifyException` unless a tensor can be laid like this on devices."""
    if len(sbp.dims) != (count := len(placement.shape)):
        raise VerifyException(
            f"{sbp} should have one entry for each of the {count} dimensions of "
            f"{placement}"
        )
    if (reason := misfit(type, sbp.dims.data, placement.shape)) is not None:
        raise VerifyException(f"{type} cannot be {sbp} on {placement}: {reason}")


def misfit(
    type: TensorType, entries: Sequence[Entry], hierarchy: Sequence[int]
) -> str | None:
    """
    Why a tensor cannot be laid like this on the first dimensions of a hierarchy, if it
    cannot: every device gets at least one element of each axis that is cut, and only
    numbers have sums.
    """
    shape = type.get_shape()
    least = list(shape)
    for entry, parts in zip(entries, hierarchy, strict=False):
        if isinstance(entry, PartialAttr) and type.element_type == i1:
            return "booleans have no sums"
        if not isinstance(entry, SplitAttr):
            continue
        if (axis := entry.axis.data) >= len(shape):
            return f"it has no axis {axis}"
        if shape[axis] == DYNAMIC_INDEX:
            return f"the extent of its axis {axis} is not known"
        if least[axis] < parts:
            return f"its axis {axis} of {least[axis]} has no {parts} parts"
        least[axis] //= parts
    return None


def placement_of(op: Operation, job: JobOp) -> PlacementAttr:
    """Where an op of a job runs: its own `placement`, else the job's."""
    own = op.attributes.get("placement")
    return own if isinstance(own, PlacementAttr) else job.placement


Job = Dialect(
    "job",
    [
        BoxingOp,
        CopyOp,
        ForeignInputOp,
        ForeignOutputOp,
        InputOp,
        JobOp,
        OutputOp,
        VariableOp,
    ],
    [
        BroadcastAttr,
        DeviceAttr,
        InitAttr,
        PartialAttr,
        PlacementAttr,
        SbpAttr,
        SplitAttr,
    ],
)
