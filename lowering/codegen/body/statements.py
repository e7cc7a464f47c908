"""
The printer of kernel bodies as Python statements, as far as all targets agree.

Names in the text: arguments have their SSA names, values are `v0`, `v1`..., loops `i0`,
`i1`...; constants stand where they are used. No name is used for two things.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from keyword import iskeyword
from typing import ClassVar

from xdsl.dialects import arith, cf, linalg, memref, scf
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, SSAValue

from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.kernel.loops import Access, Nest, merged, row_major
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.contraction import ContractionSchedule
from penstock.dialects.launch.stages import NO_RAISE
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.hints import isa
from penstock.lowering.codegen.body.contraction import nest_of
from penstock.lowering.codegen.body.kernel_functions import cpu_functions
from penstock.lowering.codegen.body.numbers import LEAST
from penstock.lowering.codegen.body.scalars import Scalars, type_name

OWN_NAMES = frozenset(
    (
        *("PARTS", "STAGES", "args", "cuda", "e", "kernel", "min", "part", "parts"),
        *("range", "status", "unknown"),
    )
)
"""The names in texts besides the functions that they import."""


@cache
def reserved_names() -> frozenset[str]:
    """Names that no argument of a kernel for the CPU may have."""
    return OWN_NAMES | cpu_functions().keys()


NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
NUMBERED = re.compile(
    r"[npvi][0-9]+"
    r"|(body|cell|columns?|finish|from|join|kept|line|load|pack|panel|stage|slots|store|micro_kernel"
    r"|turn)_[0-9]+(_tail|_plain)?"
)


@dataclass(frozen=True)
class Computation:
    """A `linalg` op as a nest of loops around a body of scalar ops."""

    op: LinalgStructuredOperation
    nest: Nest

    @property
    def body(self) -> Block:
        """The scalar ops, from one argument an operand to what is yielded."""
        return self.op.body.block

    @property
    def has_reductions(self) -> bool:
        """Whether an element of the output is written more than once."""
        return any(self.nest.reductions)


class BodyPrinter(ABC):
    """Prints the stages of a kernel, and gathers what has no source."""

    reorders_sums: ClassVar[bool] = False
    """Whether the terms of sums are added in any order, where the ops allow it."""
    schedules: ClassVar[tuple[type[Attribute], ...]] = ()
    """The schedules of ops of `linalg` that the target knows."""

    def __init__(self, kernel: KernelOp):
        self.kernel = kernel
        self.scalars = Scalars()
        self.lines: list[str] = []
        self.findings: list[Finding] = []
        self._depth = 0
        self._names: dict[SSAValue, str] = {}
        self._values = count()
        # Some numbers would make the name of a type: `i8`.
        loops = (f"i{number}" for number in count())
        self._loops = (name for name in loops if name not in self.reserved)
        asserts = (op for op in kernel.body.walk() if isinstance(op, cf.AssertOp))
        self._codes = {op: code for code, op in enumerate(asserts, start=1)}
        self.arguments = self._name_arguments()

    # Methods that targets override

    @property
    def reserved(self) -> frozenset[str]:
        """Names that no argument may have."""
        return reserved_names()

    @abstractmethod
    def print_computation(self, computation: Computation) -> None:
        """Print a stage that is a `linalg` op."""

    @abstractmethod
    def print_parallel(self, op: scf.ParallelOp) -> None:
        """Print a stage that is an `scf.parallel` without results."""

    @abstractmethod
    def print_copy(self, source: str, target: str, elements: int) -> None:
        """Print a stage that copies the elements of a buffer."""

    @abstractmethod
    def print_failure(self, code: int) -> None:
        """Print that the kernel ends with an error code."""

    # Text

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Generator[None]:
        """Lines inside a compound statement."""
        with self.restoring_depth():
            self.open(header)
            with self.or_pass():
                yield

    @contextmanager
    def or_pass(self) -> Generator[None]:
        """Lines, or `pass` where there are none."""
        start = len(self.lines)
        yield
        if len(self.lines) == start:
            self.line("pass")

    @contextmanager
    def restoring_depth(self) -> Generator[None]:
        """Lines after which all statements that `open` began are at their end."""
        depth = self._depth
        yield
        self._depth = depth

    def open(self, header: str) -> None:
        """Begin a compound statement that has lines inside."""
        self.line(header)
        self._depth += 1

    def new_value(self) -> str:
        """A name for a value."""
        return f"v{next(self._values)}"

    def new_loop(self) -> str:
        """A name for the variable of a loop."""
        return next(self._loops)

    def new_sequential_loop(self) -> str:
        """A name for the variable of a loop whose turns are scalar and in order."""
        return self.new_loop()

    def name(self, value: SSAValue) -> str:
        """The name of a value in the text."""
        return self._names.get(value, "unknown")

    def _name_arguments(self) -> list[str]:
        names: list[str] = []
        for index, arg in enumerate(self.kernel.body.block.args):
            hint = arg.name_hint or ""
            usable = NAME.fullmatch(hint) and not NUMBERED.fullmatch(hint)
            if not usable or iskeyword(hint) or hint in self.reserved:
                hint = f"a{index}"
            while hint in names:
                hint += "_"
            names.append(hint)
            self._names[arg] = hint
        return names

    # Numbers

    def number(self, value: int, *role: Hashable, least: int = LEAST) -> str:
        """
        The text of an extent, stride or offset in some role: its digits, or the name of
        an argument that it is, if it is not less than the least one of these.
        """
        return str(value)

    @contextmanager
    def taking_numbers(self) -> Generator[None]:
        """The text of a stage in which numbers may be arguments."""
        yield

    def step(self, loop: str, value: int) -> str:
        """The text of the stride of a loop, or of another index, in a buffer."""
        return str(value)

    # Findings

    def complain(self, op: Operation, what: str) -> None:
        """Note that an op has no source, once for each reason."""
        finding = op, f"kernel @{self.kernel.sym_name.data}: {what}"
        if finding not in self.findings:
            self.findings.append(finding)

    def finish(self) -> None:
        """Raise `LocatedPassFailure` if anything has no source."""
        for arg in self.kernel.body.block.args:
            assert isa(arg.type, MemRefType), "checked by the verifier"
            element = arg.type.element_type
            if type_name(element) in (None, "index"):
                self.complain(self.kernel, f"elements of {element} have no source")
        fail_if_any(self.findings)

    # Stages

    def print_stages(self) -> None:
        """Print all stages of the kernel."""
        for op in self.kernel.body.block.ops:
            self.print_stage(op)

    def print_stage(self, op: Operation) -> None:
        """Print a stage, or name what stands between stages."""
        match op:
            case arith.ConstantOp():
                self._print_scalar(op)
            case memref.CollapseShapeOp() | memref.ExpandShapeOp() | PaddedOp():
                self._names[op.result] = self.name(op.operands[0])
            case memref.CopyOp():
                type = op.source.type
                assert isa(type, MemRefType), "checked by the verifier"
                names = self.name(op.source), self.name(op.destination)
                self.print_copy(*names, type.element_count())
            case LinalgStructuredOperation():
                if (computation := self._computation(op)) is not None:
                    self.print_computation(computation)
            case scf.ParallelOp() if not op.initVals:
                self.print_parallel(op)
            case scf.ParallelOp():
                self.complain(op, "scf.parallel with reductions has no source")
            case _:
                self.complain(op, f"{op.name} is no stage")

    def _computation(self, op: LinalgStructuredOperation) -> Computation | None:
        """The nest of a `linalg` op, or None after a finding."""
        if not op.outputs or op.res:
            self.complain(op, f"{op.name} should write memrefs")
            return None
        schedule = op.attributes.get(SCHEDULE)
        if schedule is not None and not isinstance(schedule, self.schedules):
            self.complain(op, _misfit(op, schedule))
            return None
        nest = nest_of(op)
        if isinstance(nest, str):
            self.complain(op, nest)
            return None
        if len(op.outputs) > 1 and any(nest.reductions):
            text = f"{op.name} with reductions should write one memref"
            self.complain(op, text)
            return None
        if any(isinstance(inner, linalg.ops.IndexOp) for inner in op.body.walk()):
            return Computation(op, nest)
        return Computation(op, merged(nest))

    # Computations

    def open_loops(
        self,
        computation: Computation,
        names: Sequence[str],
        outer: Sequence[int],
        opened: Sequence[int],
    ) -> None:
        """Open loops inside of those that are open, and load what each allows."""
        self.load_inputs(computation, names, set(outer))
        for position, loop in enumerate(opened, start=1):
            extent = computation.nest.extents[loop]
            ends = self.range_over(computation.op, loop, extent)
            self.open(f"for {names[loop]} in {ends}:")
            self.load_inputs(computation, names, {*outer, *opened[:position]})

    def range_over(
        self, op: Operation, loop: int, extent: int, least: int = LEAST
    ) -> str:
        """
        The range of a stage's loop, which is known by its number; from the least one
        on, the extent may be an argument.
        """
        return f"range({self.number(extent, op, loop, least=least)})"

    def print_output(
        self,
        computation: Computation,
        names: Sequence[str],
        order: Sequence[int],
        split: int,
    ) -> None:
        """
        Print how an element of the output is computed and written. The loops
        `order[:split]` are open, the others run while it is in a register.
        """
        if len(computation.op.outputs) > 1:
            self._print_outputs(computation, names)
            return
        output = computation.op.outputs[0]
        element = self.element(computation.nest.accesses[-1], names)
        so_far = None
        if split < len(order) or computation.body.args[-1].uses:
            so_far = self.new_value()
            self.line(f"{so_far} = {self.loaded(output, element)}")
        value = so_far
        if split == len(order):
            value = self.print_element(computation, names, so_far)
        else:
            with self.restoring_depth():
                self.open_loops(computation, names, order[:split], order[split:])
                new = self.print_element(computation, names, so_far, self.reorders_sums)
                self.line(f"{so_far} = {new}")
        self.store(output, element, value or "")

    def _print_outputs(self, computation: Computation, names: Sequence[str]) -> None:
        """Print how elements of several outputs are computed, and then written."""
        outputs = [*computation.op.outputs]
        places = [self.element(access, names) for access in computation.nest.written]
        args = computation.body.args[-len(outputs) :]
        for arg, output, place in zip(args, outputs, places, strict=True):
            if arg.uses:
                self._names[arg] = self.new_value()
                self.line(f"{self.name(arg)} = {self.loaded(output, place)}")
        values = self.print_elements(computation, names)
        for output, place, value in zip(outputs, places, values, strict=True):
            self.store(output, place, value)

    def print_elements(
        self, computation: Computation, loops: Sequence[str]
    ) -> Sequence[str]:
        """Print the ops of a body without reductions; the names of what it yields."""
        for op in computation.body.ops:
            match op:
                case linalg.ops.IndexOp():
                    self._names[op.result] = loops[op.dim.value.data]
                case linalg.ops.YieldOp():
                    return [self.name(value) for value in op.operands]
                case _:
                    self.print_statement(op)
        raise AssertionError("a linalg body ends in linalg.yield")

    def load_inputs(
        self, computation: Computation, loops: Sequence[str], ready: set[int]
    ) -> None:
        """
        Print the loads of inputs whose loops are all among those that are `ready`,
        unless they are loaded already. Loads from the output come last.
        """
        op, accesses = computation.op, computation.nest.accesses
        written = {self.name(output) for output in op.outputs}
        for operand, arg, access in zip(
            op.inputs, computation.body.args, accesses, strict=False
        ):
            needed = access.loops
            if self.name(operand) in written:
                needed = set(range(len(loops)))
            if arg in self._names or not arg.uses or not needed <= ready:
                continue
            if isa(operand.type, MemRefType):
                self._names[arg] = self.new_value()
                text = self.loaded(operand, self.element(access, loops))
                if access.bounds:
                    text = self._within(text, arg.type, access, loops)
                self.line(f"{self.name(arg)} = {text}")
            else:
                self._names[arg] = self.name(operand)

    def print_element(
        self,
        computation: Computation,
        loops: Sequence[str],
        so_far: str | None,
        reordered: bool = False,
    ) -> str:
        """
        Print the ops that compute one element and return what they yield. `so_far` is
        the value of the output's element before, if it is known; with `reordered`,
        what a reduction adds to it may be added in any order.
        """
        body = computation.body
        output = body.args[-1]
        if output.uses:
            assert so_far is not None, "loaded by the target"
            self._names[output] = so_far
        total = running_sum(computation)
        product = None if total is None else product_in(total)
        for op in body.ops:
            match op:
                case linalg.ops.IndexOp():
                    self._names[op.result] = loops[op.dim.value.data]
                case linalg.ops.YieldOp():
                    return self.name(op.operands[0])
                case arith.MulfOp() if op is product:
                    pass
                case arith.AddfOp() if op is total and (product or reordered):
                    self._print_running_sum(op, product, output, reordered)
                case _:
                    self.print_statement(op)
        raise AssertionError("a linalg body ends in linalg.yield")

    def _print_running_sum(
        self,
        total: arith.AddfOp,
        product: arith.MulfOp | None,
        output: SSAValue,
        reordered: bool,
    ) -> None:
        """A product that is added to a running sum is rounded once with it."""
        suffix = "_reordered" if reordered else ""
        if product is None:
            term = total.rhs if total.lhs is output else total.lhs
            arguments, function = (output, term), f"add{suffix}"
        else:
            arguments, function = (product.lhs, product.rhs, output), f"fma{suffix}"
        text = self.scalars.call(function, *map(self.name, arguments))
        self._assign(total.result, self.scalars.wrapped(total.result.type, text))

    # Elements

    def element(self, access: Access, loops: Sequence[str]) -> str:
        """The number of the element that loops of these names touch."""
        terms = list(zip(loops, access.strides, strict=True))
        terms.sort(key=lambda term: -abs(term[1]))
        return self.place_of(terms, access.offset)

    def place_of(self, terms: Iterable[tuple[str, int]], offset: int = 0) -> str:
        """The number of the element that so many steps of indices lead to."""
        return sum_of(terms, offset, self.step)

    def _within(
        self, text: str, type: Attribute, access: Access, loops: Sequence[str]
    ) -> str:
        """The load of an access, or the number that is out of bounds."""
        conditions = (
            f"0 <= {self.element(Access(b.strides, b.offset), loops)} < {b.extent}"
            for b in access.bounds
        )
        name = type_name(type)
        if name in ("bf16", "f16", "f32", "f64"):
            wide = "f64" if name == "f64" else "f32"
            other = self.scalars.float_constant(access.outside, wide)
        else:
            other = self.scalars.integer_constant(int(access.outside), type)
        return f"{text} if {' and '.join(conditions)} else {other}"

    def loaded(self, buffer: SSAValue, element: str) -> str:
        """An element of a buffer as an expression of the element's type."""
        assert isa(buffer.type, MemRefType), "checked by the verifier"
        text = f"{self.name(buffer)}[{element}]"
        match type_name(buffer.type.element_type):
            case "i1":
                return f"{text} != 0"
            case "bf16" | "f16":
                return self.scalars.call("f32", text)
            case _:
                return text

    def store(self, buffer: SSAValue, element: str, value: str) -> None:
        """Print that an element of a buffer is written."""
        assert isa(buffer.type, MemRefType), "checked by the verifier"
        if type_name(buffer.type.element_type) == "i1":
            value = self.scalars.call("u8", value)
        self.line(f"{self.name(buffer)}[{element}] = {value}")

    # Statements

    def print_statements(self, block: Block) -> Sequence[str]:
        """Print the ops of a block; the names of what its terminator passes on."""
        for op in block.ops:
            if isinstance(op, scf.YieldOp | scf.ReduceOp):
                return [self.name(operand) for operand in op.operands]
            self.print_statement(op)
        return ()

    def print_statement(self, op: Operation) -> None:
        """Print an op inside a stage."""
        match op:
            case memref.LoadOp():
                text = self.loaded(op.memref, self.element_at(op.memref, op.indices))
                self._assign(op.res, text)
            case memref.StoreOp():
                element = self.element_at(op.memref, op.indices)
                self.store(op.memref, element, self.name(op.value))
            case scf.ForOp():
                self.print_for(op)
            case scf.IfOp():
                self._print_if(op)
            case cf.AssertOp():
                with self.block(f"if not {self.name(op.arg)}:"):
                    self.print_failure(self._codes[op])
            case arith.AddfOp() if self.reorders_sums and may_reorder(op):
                operands = [self.name(operand) for operand in op.operands]
                text = self.scalars.call("add_reordered", *operands)
                self._assign(op.result, self.scalars.wrapped(op.result.type, text))
            case _:
                self._print_scalar(op)

    def element_at(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
        """The number of the element that indices say."""
        assert isa(buffer.type, MemRefType), "checked by the verifier"
        names = (self.name(index) for index in indices)
        strides = row_major(buffer.type.get_shape())
        return self.place_of(zip(names, strides, strict=True))

    def operand(self, op: Operation, index: int) -> str:
        """The text of an operand of a scalar op."""
        return self.name(op.operands[index])

    def _print_scalar(self, op: Operation) -> None:
        operands = [self.operand(op, index) for index in range(len(op.operands))]
        text = self.scalars.expression(op, operands)
        if text is None:
            self.complain(op, f"{signature(op)} has no source")
        elif isinstance(op, arith.ConstantOp):
            self._names[op.result] = text
        else:
            self._assign(op.results[0], text)

    def _assign(self, value: SSAValue, text: str) -> None:
        self._names[value] = self.new_value()
        self.line(f"{self.name(value)} = {text}")

    def set_loop(self, variable: SSAValue, name: str) -> None:
        """Name the variable of a loop."""
        self._names[variable] = name

    def print_for(self, op: scf.ForOp) -> None:
        """Print a sequential loop."""
        carried = [self.new_value() for _ in op.iter_args]
        self._assign_all(carried, [self.name(value) for value in op.iter_args])
        variable, *arguments = op.body.block.args
        self._name_all([*arguments, *op.results], [*carried, *carried])
        bounds = (self.name(value) for value in (op.lb, op.ub, op.step))
        self._names[variable] = self.new_sequential_loop()
        with self.block(f"for {self.name(variable)} in {range_of(*bounds)}:"):
            self._assign_all(carried, self.print_statements(op.body.block))

    def _print_if(self, op: scf.IfOp) -> None:
        results = [self.new_value() for _ in op.results]
        self._name_all(op.results, results)
        with self.block(f"if {self.name(op.cond)}:"):
            self._assign_all(results, self.print_statements(op.true_region.block))
        if op.false_region.blocks:
            with self.block("else:"):
                self._assign_all(results, self.print_statements(op.false_region.block))

    def _name_all(self, values: Sequence[SSAValue], names: Sequence[str]) -> None:
        self._names.update(zip(values, names, strict=True))

    def _assign_all(self, names: Sequence[str], values: Sequence[str]) -> None:
        """Print that names get values, all at once."""
        if names:
            self.line(f"{', '.join(names)} = {', '.join(values)}")


def running_sum(computation: Computation) -> arith.AddfOp | None:
    """The op that adds to the output of a reduction, if that is all it does."""
    body = computation.body
    output, last = body.args[-1], body.last_op
    if not computation.has_reductions or last is None or len(list(output.uses)) != 1:
        return None
    total = last.operands[0].owner
    if not isinstance(total, arith.AddfOp) or output not in total.operands:
        return None
    return total if len(list(total.result.uses)) == 1 else None


def product_in(total: arith.AddfOp) -> arith.MulfOp | None:
    """The product that a sum adds, if it is used for nothing else."""
    for operand in total.operands:
        owner = operand.owner
        if isinstance(owner, arith.MulfOp) and len(list(operand.uses)) == 1:
            return owner if owner.parent is total.parent else None
    return None


def may_reorder(op: arith.AddfOp) -> bool:
    """Whether a sum says that its terms may be added in another order."""
    return FastMathFlag.REASSOC in op.fastmath.data


def signature(op: Operation) -> str:
    """An op's name and types, as in `arith.addi (i3, i3) -> i3`."""
    operands = ", ".join(str(value.type) for value in op.operands)
    results = ", ".join(str(value.type) for value in op.results)
    return f"{op.name} ({operands}) -> ({results})"


def range_of(lower: str, upper: str, step: str) -> str:
    """The shortest call of `range`."""
    if step != "1":
        return f"range({lower}, {upper}, {step})"
    return f"range({upper})" if lower == "0" else f"range({lower}, {upper})"


def _digits(name: str, value: int) -> str:
    return str(value)


def sum_of(
    terms: Iterable[tuple[str, int]],
    offset: int = 0,
    text: Callable[[str, int], str] = _digits,
) -> str:
    """
    The sum of `name * factor` and an offset, with numbers added up. `text` gives that
    of the factor of a name, or of the offset, whose name is empty.
    """
    parts: list[str] = []
    for name, factor in terms:
        if name.lstrip("-").isdigit():
            offset += int(name) * factor
        elif factor:
            parts.append(name if factor == 1 else f"{name} * {text(name, factor)}")
    if offset or not parts:
        parts.append(text("", offset))
    return " + ".join(parts).replace("+ -", "- ")


def _misfit(op: LinalgStructuredOperation, schedule: Attribute) -> str:
    """Why a target does not compute an op of `linalg` by its schedule."""
    text = f"{op.name} cannot be computed by {schedule} here"
    if not isinstance(schedule, ContractionSchedule):
        return text
    refusal = op.attributes.get(NO_RAISE)
    is_told = isinstance(refusal, StringAttr)
    why = refusal.data if is_told else "raise-linalg-to-kernel has not run"
    return f"{text}, as it is no kernel.contract: {why}"
