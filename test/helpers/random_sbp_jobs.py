"""Random jobs whose ops ask for the SBPs that they can have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    UnitAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from penstock.dialects import op as ops
from penstock.dialects.job import (
    Entry,
    InitAttr,
    InputOp,
    JobOp,
    OutputOp,
    PlacementAttr,
    VariableOp,
    misfit,
)
from penstock.dialects.op.sbp import sbp_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.sbp_candidates import candidates_for


def ints(*numbers: int) -> DenseArrayBase:
    """A list of integers as a property."""
    return DenseArrayBase.from_list(i64, numbers)


class RandomJob:
    """A job of random ops, which ask at random for SBPs that they can have."""

    def __init__(
        self,
        seed: int,
        length: int,
        placement: PlacementAttr,
        others: Sequence[PlacementAttr] = (),
    ):
        self.rng = np.random.default_rng(seed)
        self.placement = placement
        self.others = others
        self.ops: list[Operation] = []
        self.matrices: list[SSAValue] = []
        """Tensors with two axes, of small extents."""
        self.matrices.append(self.add(InputOp("x", TensorType(f64, [6, 8]))))
        for _ in range(length):
            self.matrices.append(self.step())
        for index, value in enumerate(self.matrices[-3:]):
            self.ops.append(OutputOp(f"y{index}", value))

    def module(self) -> ModuleOp:
        """The job in a module of its own."""
        return ModuleOp([JobOp("random", self.placement, Region(Block(self.ops)))])

    def add(self, op: Operation) -> SSAValue:
        """The result of an op at the end of the job."""
        self.ops.append(op)
        if self.others and self.rng.random() < 0.2:
            other = self.others[int(self.rng.integers(len(self.others)))]
            op.attributes["placement"] = other
        if self.rng.random() < 0.5 and (sbp := self.hint(op)) is not None:
            op.attributes["sbp"] = sbp
        return op.results[0]

    def hint(self, op: Operation) -> Attribute | None:
        """The SBP of the results of an op, chosen among its signatures."""
        placement = op.attributes.get("placement", self.placement)
        assert isinstance(placement, PlacementAttr)
        values = (*op.operands, *op.results)
        if isinstance(op, ops.ConstantOp):
            return None
        entries: list[tuple[Entry, ...]] = [() for _ in values]
        for _ in placement.shape:
            candidates = candidates_for(op, len(placement.pairs))
            for index in self.rng.permutation(len(candidates)):
                chosen = candidates[int(index)]
                longer: list[tuple[Entry, ...]] = [
                    (*known, entry)
                    for known, entry in zip(
                        entries, (*chosen.operands, *chosen.results), strict=True
                    )
                ]
                if all(
                    misfit(tensor_type(value), found, placement.shape) is None
                    for value, found in zip(values, longer, strict=True)
                ):
                    entries = longer
                    break
        return sbp_of(*entries[len(op.operands)])

    def variable(self, *shape: int) -> SSAValue:
        """A variable of random values."""
        name, seed = f"w{len(self.ops)}", len(self.ops)
        init = InitAttr("uniform", {"seed": seed, "low": -0.5, "high": 0.5})
        return self.add(VariableOp(name, init, TensorType(f64, shape)))

    def step(self) -> SSAValue:
        """A tensor with two axes that random ops make of others."""
        recent = self.matrices[-3:]
        x = recent[self.rng.integers(len(recent))]
        steps: list[Callable[[SSAValue], SSAValue]] = [
            self.unary,
            self.binary,
            self.bias,
            self.scaled,
            self.product,
            self.reduced,
            self.softmax,
            self.normalized,
            self.transposed,
            self.reshaped,
            self.joined,
            self.cut,
            self.gathered,
            self.convolved,
        ]
        return steps[self.rng.integers(len(steps))](x)

    def shape(self, x: SSAValue) -> tuple[int, int]:
        """The extents of a tensor with two axes."""
        rows, columns = tensor_type(x).get_shape()
        return rows, columns

    def unary(self, x: SSAValue) -> SSAValue:
        kind = (ops.ReluOp, ops.NegOp, ops.TanhOp)[self.rng.integers(3)]
        return self.add(kind(x))

    def binary(self, x: SSAValue) -> SSAValue:
        same = [value for value in self.matrices if value.type == x.type]
        y = same[self.rng.integers(len(same))]
        kind = (ops.AddOp, ops.SubOp, ops.MaximumOp)[self.rng.integers(3)]
        return self.add(kind.inferred([x, y]))

    def bias(self, x: SSAValue) -> SSAValue:
        rows, columns = self.shape(x)
        shape = ((columns,), (rows, 1))[self.rng.integers(2)]
        return self.add(ops.AddOp.inferred([x, self.variable(*shape)]))

    def scaled(self, x: SSAValue) -> SSAValue:
        rows, columns = self.shape(x)
        shape = ([], [rows, columns])[self.rng.integers(2)]
        numbers = self.rng.uniform(-1, 1, int(np.prod(shape, dtype=int))).tolist()
        value = DenseIntOrFPElementsAttr.from_list(TensorType(f64, shape), numbers)
        return self.add(ops.MulOp.inferred([x, self.add(ops.ConstantOp(value))]))

    def product(self, x: SSAValue) -> SSAValue:
        _, inner = self.shape(x)
        columns = (4, 6, 8)[self.rng.integers(3)]
        if self.rng.random() < 0.5:
            w = self.variable(inner, columns)
            return self.add(ops.MatmulOp.inferred([x, w]))
        w, b = self.variable(columns, inner), self.variable(columns)
        return self.add(ops.GemmOp.inferred([x, w, b], {"transpose_b": UnitAttr()}))

    def reduced(self, x: SSAValue) -> SSAValue:
        kind = (ops.ReduceSumOp, ops.ReduceMaxOp, ops.ReduceMeanOp)[
            self.rng.integers(3)
        ]
        axes = ints(int(self.rng.integers(2)))
        total = self.add(kind.inferred([x], {"axes": axes, "keepdims": UnitAttr()}))
        return self.add(ops.SubOp.inferred([x, total]))

    def softmax(self, x: SSAValue) -> SSAValue:
        axis = IntegerAttr(int(self.rng.integers(2)), i64)
        return self.add(ops.SoftmaxOp.inferred([x], {"axis": axis}))

    def normalized(self, x: SSAValue) -> SSAValue:
        _, columns = self.shape(x)
        scale, bias = self.variable(columns), self.variable(columns)
        return self.add(ops.LayerNormOp.inferred([x, scale, bias]))

    def transposed(self, x: SSAValue) -> SSAValue:
        return self.add(ops.TransposeOp(x, [1, 0]))

    def reshaped(self, x: SSAValue) -> SSAValue:
        rows, columns = self.shape(x)
        middle = ([rows * columns], [rows, 2, columns // 2])[self.rng.integers(2)]
        if columns % 2:
            middle = [rows * columns]
        flat = self.add(ops.ReshapeOp(x, middle))
        # A scale between them, so that the two are not one.
        same = self.add(ops.TanhOp(flat))
        return self.add(ops.ReshapeOp(same, [rows, columns]))

    def joined(self, x: SSAValue) -> SSAValue:
        axis = int(self.rng.integers(2))
        both = self.add(ops.ConcatOp([x, self.unary(x)], axis))
        starts, ends = [0, 0], list(self.shape(both))
        starts[axis] = 1
        ends[axis] = 1 + self.shape(x)[axis]
        return self.add(ops.SliceOp(both, starts, ends, [1, 1]))

    def cut(self, x: SSAValue) -> SSAValue:
        padded = self.add(ops.PadOp(x, [0, 1], [0, 1]))
        rows, columns = self.shape(padded)
        return self.add(ops.SliceOp(padded, [0, 0], [rows, columns - 2], [1, 1]))

    def gathered(self, x: SSAValue) -> SSAValue:
        rows, _ = self.shape(x)
        numbers = self.rng.integers(0, rows, 6).tolist()
        value = DenseIntOrFPElementsAttr.from_list(TensorType(i64, [6]), numbers)
        indices = self.add(ops.ConstantOp(value))
        return self.add(ops.GatherOp(x, indices, 0))

    def convolved(self, x: SSAValue) -> SSAValue:
        rows, columns = self.shape(x)
        if columns % 2 or rows < 2:
            return self.unary(x)
        image = self.add(ops.ReshapeOp(x, [1, 2, rows, columns // 2]))
        operands = [image, self.variable(4, 2, 1, 1), self.variable(4)]
        image = self.add(ops.Conv2dOp.inferred(operands))
        pooled = self.add(ops.MaxPool2dOp.inferred([image], {"kernel": ints(2, 1)}))
        return self.add(ops.ReshapeOp(pooled, [4, (rows - 1) * (columns // 2)]))
