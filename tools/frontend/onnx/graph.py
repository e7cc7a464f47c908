"""
The builder of a job from an ONNX graph, and the nodes that converters read.

A value is an array while it is known (an initializer, or what follows from known
values alone) and becomes part of the job when an op needs it as a tensor: a short one
as `op.constant`, one that is a triangle of two numbers as `op.triangle`, any other as
`job.variable`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper
from xdsl.dialects.builtin import (
    AnyFloat,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from penstock.dialects.job import InitAttr, InputOp, OutputOp, VariableOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.triangle import TriangleOp, triangle_of
from penstock.dialects.op.verify import normal_axis
from penstock.dialects.utils.numpy_types import dense_of, element_type_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.onnx.extents import CannotFollow, RunTimeExtents
from penstock.tools.frontend.onnx.ops import Array, Ops, Tensors, Value
from penstock.tools.frontend.onnx.sizes import Size

Item: TypeAlias = Value | list[Value] | None
"""
A value of a graph: a tensor, a sequence in stacks of tensors of one shape, or an
optional without an element. One that has an element is that.
"""

LONGEST_CONSTANT = 8
"""Elements; longer arrays are data beside the IR, not text in it."""


class Unsupported(Exception):
    """A node asks for something that the op dialect lacks."""


class AlreadyReported(Exception):
    """A node lacks what could not be read before."""


class Declined(Exception):
    """A node is left to what ONNX says that its op is made of."""


class NotKnown(Unsupported):
    """
    A node can only be converted if the value of this name is known, or if the inputs
    are that its counts follow from.
    """

    def __init__(self, message: str, value: str, inputs: Collection[str] = ()):
        super().__init__(message)
        self.value = value
        self.inputs = inputs


@dataclass(frozen=True)
class Dequantized:
    """Bytes that a value of floats was made of: less a zero point, times a scale."""

    value: Value
    scale: Value
    zero: Value | None
    axis: int
    """Along which scales and zero points lie, if there are several."""


class JobBuilder:
    """
    The block of a job, the ONNX values it has so far, and the weights it needs.

    `weights_file` is where its variables are said to start from.
    """

    def __init__(self, weights_file: str):
        self.block = Block()
        """The block that ops are added to: that of the job, or of a body in it."""
        self.weights: dict[str, Array] = {}
        self.values: dict[str, Value] = {}
        self.sequences: dict[str, list[Value] | None] = {}
        """Those that are no tensors: sequences, and optionals without an element."""
        self.dequantized: dict[str, Dequantized] = {}
        """Dequantized values: floats that are bytes in the model."""
        self.node: str | None = None
        """The name of the node that is read, which its ops have as their location."""
        self.names: Collection[str] = ()
        """The names of values of the model, which no other variable is given."""
        self.maxima: Mapping[str, int] = {}
        """The most elements that data may make of nodes, by the names of these."""
        self.output = ""
        """The first output of the node that is read."""
        self.ops = Ops(self)
        self.extents = RunTimeExtents(self.ops)
        self._home = self.block
        self._weights_file = weights_file
        self._tensors: dict[str, SSAValue] = {}
        self._known: dict[int, tuple[Array, SSAValue]] = {}
        """Arrays of no name by identity; they are kept, so that no other has it."""
        self._unnamed: dict[tuple[Hashable, ...], SSAValue] = {}
        """Their tensors, by type, shape and digest of the elements."""
        self._numbered = 0
        """The number of tensors of no name."""

    def item(self, name: str) -> Item:
        """A value that is a tensor or none."""
        return self.values[name] if name in self.values else self.sequences[name]

    def give(self, name: str, item: Item) -> None:
        """Let a name stand for a tensor or for what is none."""
        self.values.pop(name, None)
        self.sequences.pop(name, None)
        if isinstance(item, list) or item is None:
            self.sequences[name] = item
        else:
            self.values[name] = item

    def add_input(self, name: str, type: TensorType) -> None:
        """Add a tensor that the caller feeds."""
        self.values[name] = self._insert(InputOp(name, type), [name])[0]

    def add_output(self, name: str) -> None:
        """
        Add a tensor that the caller fetches. Raises `VerifyException` if the op
        dialect has no tensors of its element type.
        """
        tensor = self.tensor(name)
        counts = sorted(self.extents.of(tensor).items())
        # No value of a graph has such a name.
        names = {axis: f"{name}//count {axis}" for axis, _ in counts}
        self.block.add_op(OutputOp(name, tensor, names))
        for axis, count in counts:
            self.block.add_op(OutputOp(names[axis], count))

    def tensor(self, name: str) -> SSAValue:
        """
        A value as a tensor of the job. Raises `VerifyException` if the op dialect has
        no tensors of its element type.
        """
        value = self.values[name]
        if isinstance(value, SSAValue):
            return value
        if name not in self._tensors:
            self._tensors[name] = self._materialize(name, value)
        return self._tensors[name]

    def _materialize(self, name: str, array: Array) -> SSAValue:
        if array.size <= LONGEST_CONSTANT:
            return self._keep(ConstantOp(dense_of(array)), name)
        if (triangle := self._triangle(name, array)) is not None:
            return triangle
        type = TensorType(element_type_of(array.dtype), array.shape)
        self.weights[name] = np.asarray(array, order="C")
        init = InitAttr("npz", {"file": self._weights_file})
        return self._keep(VariableOp(name, init, type), name)

    def _triangle(self, name: str, array: Array) -> SSAValue | None:
        """A mask that says what comes after what, without its elements."""
        is_mask = isinstance(type := element_type_of(array.dtype), AnyFloat)
        if not (is_mask or type == i1) or (found := triangle_of(array)) is None:
            return None
        numbers = (
            ConstantOp(dense_of(np.asarray(number, array.dtype)))
            for number in (found.inside, found.outside)
        )
        operands = [self._keep(number, "") for number in numbers]
        made = TriangleOp.of(*operands, shape=array.shape, offset=found.offset)
        return self._keep(self._located(made), name)

    def add(
        self, op: type[TensorOp], *operands: Tensors, **values: object
    ) -> Sequence[SSAValue]:
        """
        Add an op that is called as by `TensorOp.of`; its results have no names. Raises
        `VerifyException` if the operands do not fit.
        """
        return self.insert(op.of(*operands, **values))

    def _located(self, op: TensorOp) -> TensorOp:
        if self.node is not None:
            op.location = NameLoc(StringAttr(self.node), NoneAttr())
        return op

    def as_tensor(self, value: Value) -> SSAValue:
        """A value of no name as a tensor of the job, one for all that are equal."""
        if isinstance(value, SSAValue):
            return value
        if id(value) not in self._known:
            self._known[id(value)] = value, self._tensor_of(value)
        return self._known[id(value)][1]

    def _tensor_of(self, array: Array) -> SSAValue:
        key = array.dtype, array.shape, sha256(array.tobytes()).digest()
        if key not in self._unnamed:
            self._unnamed[key] = self.new_tensor(array)
        return self._unnamed[key]

    def new_tensor(self, array: Array) -> SSAValue:
        """An array of no name as a tensor of its own, which may be moved and erased."""
        self._numbered += 1
        while (name := f"known_{self._numbered}") in self.names:
            self._numbered += 1
        return self._materialize(name, array)

    @contextmanager
    def body(self) -> Generator[Block]:
        """
        Let ops be added to a new block. They read values of the job as they are, and
        known ones are kept there, for all bodies.
        """
        outer, self.block = self.block, Block()
        try:
            yield self.block
        except Exception:
            self.block.drop_all_references()
            raise
        finally:
            self.block = outer

    @contextmanager
    def trial(self) -> Generator[None]:
        """Take back all that has been added if an exception is raised."""
        ends = {block: block.last_op for block in (self._home, self.block)}
        tables: list[dict[Any, Any]] = [self.values, self.weights, self.dequantized]
        tables += [self.sequences, self._tensors, self._known, self._unnamed]
        kept, numbered = [dict(table) for table in tables], self._numbered
        try:
            yield
        except Exception:
            for block, last in ends.items():
                erase_after(block, last)
            self._numbered = numbered
            for table, entries in zip(tables, kept, strict=True):
                table.clear()
                table.update(entries)
            raise

    def insert(self, op: TensorOp) -> Sequence[SSAValue]:
        """
        Add an op that is made already; its results. Raises `NotKnown` if it needs all
        of an operand whose extent is only known at run time.
        """
        try:
            if (others := self.extents.instead(op)) is not None:
                op.drop_all_references()
                return [self.as_tensor(value) for value in others]
            self.extents.follow(op, self.extents.prepare(op))
        except CannotFollow as error:
            inputs = self.inputs_of_counts(op.operands)
            op.drop_all_references()
            raise NotKnown(str(error), self.output, inputs) from None
        return self._insert(self._located(op), [""] * len(op.results))

    def inputs_of_counts(self, values: Sequence[Value]) -> Collection[str]:
        """
        The inputs that the counts of values follow from; none if these are made in a
        body, of which that is not known.
        """
        found: set[str] = set()
        left = [count for value in values for count in self.extents.of(value).values()]
        seen = {*left}
        while left:
            op = left.pop().owner
            if isinstance(op, Block):
                return ()
            if isinstance(op, InputOp):
                found.add(op.port.data)
            left += (new := {*op.operands} - seen)
            seen |= new
        return found

    def _keep(self, op: Operation, name: str) -> SSAValue:
        """Let a known value be part of the job; a body may be left again."""
        self._home.add_op(op)
        op.results[0].name_hint = hint(name)
        return op.results[0]

    def _insert(self, op: Operation, names: Sequence[str]) -> Sequence[SSAValue]:
        self.block.add_op(op)
        for result, name in zip(op.results, names, strict=True):
            result.name_hint = hint(name)
        return op.results


def erase_after(block: Block, last: Operation | None) -> None:
    """Erase the ops of a block after one of them; all of them without one."""
    while (op := block.last_op) is not last:
        assert op is not None, "it was part of the block"
        block.erase_op(op)


def hint(name: str) -> str | None:
    """The name of an ONNX value as that of an SSA value, or None if nothing is left."""
    text = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    return text if text and not text[0].isdigit() else f"v{text}" if text else None


class Node:
    """
    One node of a graph, as its converter sees it.

    Input names that are empty stand for operands that are left out. Attributes and
    operands that the op dialect cannot express raise `Unsupported`.
    """

    def __init__(self, proto: NodeProto, builder: JobBuilder):
        self.builder = builder
        self.ops = builder.ops
        self.op_type = proto.op_type
        self.inputs = list(proto.input)
        self.outputs = list(proto.output)
        self._names = proto.name, *proto.output
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}

    @property
    def maximum(self) -> int | None:
        """The most elements that data may make of it, where that was said."""
        maxima = self.builder.maxima
        return next((maxima[name] for name in self._names if name in maxima), None)

    def has(self, index: int) -> bool:
        """Whether an operand is given."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def value(self, index: int = 0) -> Value:
        """An operand, known or not."""
        return self.builder.values[self.inputs[index]]

    def tensor(self, index: int = 0) -> SSAValue:
        """An operand as a tensor of the job."""
        return self.builder.tensor(self.inputs[index])

    def tensors(self) -> list[SSAValue]:
        """All operands that are given, as tensors of the job."""
        return [self.builder.tensor(name) for name in self.inputs if name]

    def stacks(self, index: int = 0) -> list[Value]:
        """An operand that is a sequence: stacks of its tensors."""
        if not isinstance(stacks := self.item(index), list):
            raise Unsupported(f"its operand '{self.inputs[index]}' is no sequence")
        return stacks

    def item(self, index: int = 0) -> Item:
        """An operand that is a tensor or none."""
        return self.builder.item(self.inputs[index])

    def give_item(self, item: Item, index: int = 0) -> None:
        """Let a tensor, or what is none, be an output of this node."""
        if isinstance(item, list) or item is None:
            if self.wants(index):
                self.builder.give(self.outputs[index], item)
        else:
            self.give_value(item, index)

    def dequantized(self, index: int) -> Dequantized | None:
        """The bytes that an operand of floats is dequantized from, if that is known."""
        return self.builder.dequantized.get(self.inputs[index])

    def shape(self, index: int = 0) -> list[int]:
        """The shape of an operand."""
        value = self.value(index)
        if isinstance(value, SSAValue):
            return list(tensor_type(value).get_shape())
        return list(value.shape)

    def known(self, index: int, what: str) -> Array:
        """The value of an operand, which must be known."""
        value = self.value(index)
        if isinstance(value, SSAValue):
            raise NotKnown(f"{what} is only known at run time", self.inputs[index])
        return value

    def known_ints(self, index: int, what: str) -> list[int]:
        """The integers of an operand that is known."""
        return [int(value) for value in self.known(index, what).reshape(-1)]

    def sizes(self, index: int, what: str) -> list[Size]:
        """The integers of an operand, each known or a value of its own."""
        bounds = self.builder.extents.bounds
        if (found := bounds.sizes_of(self.value(index))) is None:
            raise NotKnown(f"{what} is only known at run time", self.inputs[index])
        return list(found)

    def room(self, size: Size, index: int, what: str) -> int:
        """The largest that one of these integers may be."""
        if (most := self.builder.extents.bounds.of(size)) is None:
            raise NotKnown(f"{what} has no maximum", self.inputs[index])
        return most

    def known_number(self, index: int, what: str) -> float:
        """The number that is all of an operand that is known."""
        value = self.known(index, what)
        if value.size != 1:
            raise Unsupported(f"{what} should be one number, got {value.size}")
        return value.item()

    def int(self, name: str, default: int) -> int:
        """An integer attribute."""
        return self._attributes[name].i if name in self._attributes else default

    def float(self, name: str, default: float) -> float:
        """A float attribute."""
        return self._attributes[name].f if name in self._attributes else default

    def flag(self, name: str) -> bool:
        """An integer attribute that is 0, the default, or another number."""
        return self.int(name, 0) != 0

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        if name not in self._attributes:
            return default
        return self._attributes[name].s.decode()

    def array(self, name: str, default: Array) -> Array:
        """A tensor attribute."""
        if name not in self._attributes:
            return default
        return numpy_helper.to_array(self._attributes[name].t)

    def floats(self, name: str) -> list[float] | None:
        """A list of floats, or None where it is left out."""
        return list(self._attributes[name].floats) if name in self._attributes else None

    def texts(self, name: str) -> list[str] | None:
        """A list of strings, or None where it is left out."""
        if name not in self._attributes:
            return None
        return [text.decode() for text in self._attributes[name].strings]

    @property
    def attribute_names(self) -> set[str]:
        """The attributes that are given."""
        return set(self._attributes)

    def given(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self._attributes

    def optional(self, index: int) -> Value | None:
        """An operand, or None where it is left out."""
        return self.value(index) if self.has(index) else None

    def element(self, index: int = 0) -> Attribute:
        """
        The element type of an operand. Raises `VerifyException` if the op dialect has
        no tensors of it.
        """
        return self.ops.element(self.value(index))

    def ints(self, name: str) -> list[int] | None:
        """A list of integers, or None where it is left out."""
        return list(self._attributes[name].ints) if name in self._attributes else None

    def ints_or_operand(self, name: str, index: int) -> list[int] | None:
        """Integers that newer versions give as an operand, older as an attribute."""
        if self.has(index):
            return self.known_ints(index, f"'{name}'")
        return self.ints(name)

    def axis(self, default: int) -> int:
        """The attribute `axis` of the first operand, counted from its first axis."""
        return normal_axis(self.int("axis", default), len(self.shape()))

    def give(self, op: type[TensorOp], *operands: Tensors, **values: object) -> None:
        """Let the results of a new op be the first outputs of this node."""
        results = self.builder.add(op, *operands, **values)
        for name, result in zip(self.outputs, results, strict=False):
            result.name_hint = hint(name)
            self.builder.values[name] = result

    def give_value(self, value: Value, index: int = 0) -> None:
        """Let a value be an output of this node, the first one by default."""
        if not self.wants(index):
            return
        name = self.outputs[index]
        self.builder.values[name] = value
        if isinstance(value, SSAValue) and value.name_hint is None:
            value.name_hint = hint(name)

    def wants(self, index: int) -> bool:
        """Whether an output has a name."""
        return index < len(self.outputs) and bool(self.outputs[index])


def tensors_of(items: Sequence[Item]) -> list[Value]:
    """Values that are all tensors. Raises `Unsupported` if one is none."""
    tensors = [x for x in items if not (isinstance(x, list) or x is None)]
    if len(tensors) < len(items):
        raise Unsupported("a sequence or an optional stands where a tensor should")
    return tensors


Converter: TypeAlias = Callable[[Node], None]
"""Makes ops of a node, and gives the node's outputs."""


def element_type_of_onnx(element: int) -> Attribute:
    """
    The element type of a number of ONNX's enumeration. Raises `VerifyException` if the
    op dialect has no tensors of it.
    """
    return element_type_of(onnx.helper.tensor_dtype_to_np_dtype(element))
