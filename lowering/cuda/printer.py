"""
The source of kernels for `cuda`: functions that a grid of threads runs.

A phase runs over its parallel elements with a stride of the whole grid; reductions run
inside, in a register. Buffers are indexed by one number of 32 bits, so that the text
works on pointers as on arrays with one dimension. Elements that follow each other are
moved 16 bytes at once (`penstock.lowering.cuda.vectors`), which asks for buffers
at multiples of 16 bytes; such a phase has a fallback for any others.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from math import prod

from xdsl.dialects import arith, linalg, memref, scf
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, MemRefType
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.utils.hints import isa

from penstock.dialects.kernel import memref_type
from penstock.dialects.launch import KernelOp
from penstock.lowering.cuda.vectors import (
    Vectors,
    element_type,
    vectors_of,
)
from penstock.lowering.numba.body import BodyPrinter, Computation
from penstock.lowering.numba.loops import Access
from penstock.lowering.numba.scalars import type_name

DTYPES = {
    **{"f16": "float16", "f32": "float32", "f64": "float64", "i1": "uint8"},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
}
MOST_ELEMENTS = (1 << 31) - (1 << 20)
"""An index, and one a stride of the grid further, have 32 bits."""


def cuda_source(kernel: KernelOp) -> str:
    """
    The module text of a kernel: functions `phase_<n>(<arguments>, status)`, the dtypes
    of the arguments as `PARAMETERS`, and a list `PHASES` of
    `penstock.runtime.cuda_phases.Phase`.

    Raises `LocatedPassFailure` with everything in the kernel that has no source.
    """
    return CudaPrinter(kernel).text()


class CudaPrinter(BodyPrinter):
    """Prints a kernel for `cuda`."""

    def __init__(self, kernel: KernelOp):
        super().__init__(kernel)
        self._functions: list[list[str]] = []
        self._phases: list[str] = []
        self._bodies = 0

    def text(self) -> str:
        """The module text."""
        self._check_sizes()
        self.print_phases()
        self.finish()
        names = ", ".join(sorted({"Phase", *self.scalars.names}))
        lines = [f"from penstock.runtime.cuda_support import {names}"]
        for function in self._functions:
            lines += ["", "", *function]
        types = [type_name(type.element_type) or "" for type in self.kernel.arguments]
        parameters = ", ".join(f'"{DTYPES[type]}"' for type in types)
        lines += ["", "", f"PARAMETERS = [{parameters}]", "PHASES = ["]
        return "\n".join(
            [*lines, *(f"    {phase}," for phase in self._phases), "]", ""]
        )

    def _check_sizes(self) -> None:
        for name, type in zip(self.arguments, self.kernel.arguments, strict=True):
            if type.element_count() > MOST_ELEMENTS:
                self.complain(
                    self.kernel,
                    f"{name} has more than {MOST_ELEMENTS} elements: {type}",
                )

    # Functions

    @contextmanager
    def function(self, header: str) -> Generator[None]:
        """Lines of a function of their own."""
        kept, self.lines = self.lines, list[str]()
        depth, self._depth = self._depth, 0
        with self.block(header):
            yield
        self._functions.append(self.lines)
        self.lines, self._depth = kept, depth

    @property
    def next_phase(self) -> str:
        """The name of the function of the next phase."""
        return f"phase_{len(self._phases)}"

    def add_phase(self, entry: str) -> None:
        """List a phase."""
        self._phases.append(entry)

    @contextmanager
    def phase_function(self, name: str) -> Generator[None]:
        """The function of a phase."""
        arguments = ", ".join([*self.arguments, "status"])
        with self.function(f"def {name}({arguments}):"):
            yield

    @contextmanager
    def items(self, count: int) -> Generator[None]:
        """A loop over the items `e` of a thread's work."""
        self.line(f"e = {self.scalars.call('first_item')}")
        with self.block(f"while e < {count}:"):
            yield
            step = self.scalars.call("item_step")
            self.line(f"e = {self.scalars.call('i32', f'e + {step}')}")

    @contextmanager
    def elements(
        self, name: str, loops: Sequence[str], extents: Sequence[int]
    ) -> Generator[None]:
        """The function of a phase, a thread for all indices of loops at a place."""
        with self.phase_function(name), self.items(prod(extents)):
            self.split("e", loops, extents)
            yield

    def split(self, item: str, loops: Sequence[str], extents: Sequence[int]) -> None:
        """Print the indices of loops in terms of the number of all of their turns."""
        for position, (loop, extent) in enumerate(zip(loops, extents, strict=True)):
            inner = prod(extents[position + 1 :])
            text = item
            if inner > 1:
                text = self.scalars.call("quotient", item, str(inner))
            if position:
                text = self.scalars.call("remainder", text, str(extent))
            self.line(f"{loop} = {text}")

    # Elements

    def index(self, text: str) -> str:
        """An index as an integer of 32 bits."""
        return self.scalars.call("i32", text) if " " in text else text

    def element(self, access: Access, loops: Sequence[str]) -> str:
        return self.index(super().element(access, loops))

    def element_at(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
        return self.index(super().element_at(buffer, indices))

    # Phases

    def print_failure(self, code: int) -> None:
        self.line(f"status[0] = {code}")
        self.line("return")

    def print_phase(self, op: Operation) -> None:
        if isinstance(op, memref.CopyOp):
            copying = as_computation(op)
            super().print_phase(copying)
            copying.erase()
        else:
            super().print_phase(op)

    def print_copy(self, source: str, target: str, elements: int) -> None:
        raise AssertionError("copies are printed as computations")

    def print_parallel(self, op: scf.ParallelOp) -> None:
        if (bounds := bounds_of(op)) is None:
            self.complain(op, "the bounds of scf.parallel should be constants")
            return
        loops, name = [self.new_loop() for _ in bounds], self.next_phase
        extents = [len(indices) for indices in bounds]
        with self.elements(name, loops, extents):
            self.name_places(op, loops, bounds)
            self.print_statements(op.body.block)
        self.add_phase(f"Phase({name}, {prod(extents)})")

    def name_places(
        self, op: scf.ParallelOp, loops: Sequence[str], bounds: Sequence[range]
    ) -> None:
        """Print the indices of parallel loops, given how often each has run."""
        for loop, variable, indices in zip(
            loops, op.body.block.args, bounds, strict=True
        ):
            if (indices.start, indices.step) == (0, 1):
                self.set_loop(variable, loop)
            else:
                index = self.new_value()
                text = self.index(f"{loop} * {indices.step} + {indices.start}")
                self.line(f"{index} = {text}")
                self.set_loop(variable, index)

    def print_computation(self, computation: Computation) -> None:
        name = self.next_phase
        vectors = vectors_of(computation)
        if vectors is None:
            self.add_phase(self._print_plain(name, computation))
            return
        body = self._define_body(computation)
        items = self._print_vectors(name, computation, vectors, body)
        fallback = self._print_plain(f"{name}_plain", computation)
        self.add_phase(f"Phase({name}, {items}, fallback={fallback})")

    def _print_plain(self, name: str, computation: Computation) -> str:
        """Print a phase that moves element by element; how it is listed."""
        nest = computation.nest
        loops = range(len(nest.extents))
        names = [self.new_loop() for _ in loops]
        outer = [loop for loop in loops if not nest.reductions[loop]]
        inner = [loop for loop in loops if nest.reductions[loop]]
        extents = [nest.extents[loop] for loop in outer]
        with self.elements(name, [names[loop] for loop in outer], extents):
            self.load_inputs(computation, names, set(outer))
            self.print_output(computation, names, [*outer, *inner], len(outer))
        self._forget(computation)
        return f"Phase({name}, {prod(extents)})"

    # Vectors

    def _forget(self, computation: Computation) -> None:
        """Let the inputs of a body be loaded anew."""
        for arg in computation.body.args:
            self._names.pop(arg, None)

    def _define_body(self, computation: Computation) -> str:
        """
        Print a function that computes an element of what a body uses; the name of it,
        or nothing if that is an argument as it is.
        """
        args = [arg for arg in computation.body.args if arg.uses]
        if isinstance(computation.body.first_op, linalg.ops.YieldOp):
            return ""
        name = f"body_{self._bodies}"
        self._bodies += 1
        with self.function(
            f"def {name}({', '.join(f'p{n}' for n in range(len(args)))}):"
        ):
            self._names |= {arg: f"p{n}" for n, arg in enumerate(args)}
            so_far = self._names.get(computation.body.args[-1])
            element = self.print_element(computation, (), so_far)
            self.line(f"return {element}")
        self._functions[-1].insert(0, f"@{self.support('on_device')}")
        self._forget(computation)
        return name

    def _print_vectors(
        self, name: str, computation: Computation, vectors: Vectors, body: str
    ) -> int:
        """Print a phase that moves vectors; the number of its items."""
        nest, width = computation.nest, vectors.width
        loops = [self.new_loop() for _ in nest.extents]
        extents = list(nest.extents)
        rest = extents[vectors.loop] % width
        extents[vectors.loop] //= width
        with self.phase_function(name):
            with self.items(prod(extents)):
                self.split("e", loops, extents)
                along = loops[vectors.loop]
                self.line(f"{along} = {self.index(f'{along} * {width}')}")
                self._print_vector(computation, vectors, loops, body)
            if rest:
                with self.items(rest):
                    start = nest.extents[vectors.loop] - rest
                    self.line(f"{loops[0]} = {self.index(f'e + {start}')}")
                    self.load_inputs(computation, loops, {0})
                    self.print_output(computation, loops, [0], 1)
                self._forget(computation)
        return prod(extents)

    def _print_vector(
        self,
        computation: Computation,
        vectors: Vectors,
        loops: Sequence[str],
        body: str,
    ) -> None:
        """Print how a vector is computed at given indices."""
        width, accesses = vectors.width, computation.nest.accesses
        names: list[tuple[str, bool]] = []
        for arg, operand, access, along in zip(
            computation.body.args,
            computation.op.operands,
            accesses,
            vectors.is_along,
            strict=True,
        ):
            if arg.uses:
                name = self._vector(operand, access, along, width, loops)
                names.append((name, along))
        assert computation.body.last_op is not None, (
            "a linalg body ends in linalg.yield"
        )
        yielded = computation.body.last_op.operands[0]
        parts: list[str] = []
        for part in range(width):
            given = [f"{name}[{part}]" if along else name for name, along in names]
            if body:
                parts.append(self.new_value())
                self.line(f"{parts[-1]} = {body}({', '.join(given)})")
            else:
                parts += given or [self.name(yielded)]
        output = computation.op.outputs[0]
        if type_name(element_type(output)) == "i1":
            parts = [self.scalars.call("u8", part) for part in parts]
        element = self.element(accesses[-1], loops)
        values = f"({', '.join(parts)})"
        store = self.scalars.call(f"store_{width}", self.name(output), element, values)
        self.line(store)

    def _vector(
        self,
        operand: SSAValue,
        access: Access,
        along: bool,
        width: int,
        loops: Sequence[str],
    ) -> str:
        """Print a load; the name of the vector, or of the element all share."""
        if not isa(operand.type, MemRefType):
            return self.name(operand)
        element, value = self.element(access, loops), self.new_value()
        if not along:
            self.line(f"{value} = {self.loaded(operand, element)}")
            return value
        load = self.scalars.call(f"load_{width}", self.name(operand), element)
        self.line(f"{value} = {load}")
        return value

    def support(self, name: str) -> str:
        """The name of a function of the support module, which the text imports."""
        self.scalars.names.add(name)
        return name


def as_computation(op: memref.CopyOp) -> linalg.ops.GenericOp:
    """A copy as an op on each element."""
    type = memref_type(op.source)
    block = Block(arg_types=[type.element_type] * 2)
    block.add_op(linalg.ops.YieldOp(block.args[0]))
    rank = type.get_num_dims()
    identity = AffineMapAttr(AffineMap.identity(rank))
    parallel = IteratorTypeAttr(IteratorType.PARALLEL)
    return linalg.ops.GenericOp(
        [op.source], [op.destination], Region(block), [identity] * 2, [parallel] * rank
    )


def bounds_of(op: scf.ParallelOp) -> list[range] | None:
    """The indices of each loop, or None if they are not constant."""
    found: list[range] = []
    for bounds in zip(op.lowerBound, op.upperBound, op.step, strict=True):
        lower, upper, step = map(number_of, bounds)
        if lower is None or upper is None or step is None:
            return None
        found.append(range(lower, upper, step))
    return found


def number_of(value: SSAValue) -> int | None:
    """The number that an index is, or None if it is not constant."""
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp):
        return None
    return owner.value.value.data if isinstance(owner.value, IntegerAttr) else None
