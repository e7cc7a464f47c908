"""
The source of vectorized inner loops: calls in a kernel, and the called functions.

`penstock.lowering.codegen.body.vector_loop` decides which loops these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from penstock.dialects.kernel.loops import Order
from penstock.dialects.utils.hints import isa
from penstock.lowering.codegen.body.epilogue import VectorScalars
from penstock.lowering.codegen.body.numbers import (
    LEAST_FOLDED,
    LEAST_LINE,
    LONG,
    WHOLE,
    is_digits,
)
from penstock.lowering.codegen.body.statements import (
    BodyPrinter,
    Computation,
)
from penstock.lowering.codegen.body.vector_loop import (
    BLOCK,
    BOOLEAN_OPS,
    BYTES,
    FOLDS,
    PREDICATES,
    VectorLoop,
    is_cut,
    number_of,
    only_read_before,
    rows_ahead,
    shape_of,
    stored_as,
    vector_loop_of_for,
    vector_loop_of_nest,
)
from penstock.lowering.codegen.cpu.streaming import is_streamed


class InnerLoopScalars(VectorScalars):
    """Prints scalar ops as methods of `x`, of the class `InnerLoopLanes`."""

    def expression(self, op: Operation, operands: Sequence[str]) -> str | None:
        if isinstance(op, arith.CmpfOp):
            relation = f'"{PREDICATES[op.predicate.value.data]}"'
            return self.call("compared", relation, *operands)
        if (name := BOOLEAN_OPS.get(op.name)) is not None:
            return self.call(name, *operands)
        return super().expression(op, operands)


class InnerLoopPrinter:
    """Prints lines: calls in the kernel, and the definitions of what they call."""

    body_name: ClassVar[str] = "body"
    """The start of the names of functions that compute elements."""

    def __init__(self, printer: BodyPrinter):
        self.printer = printer
        self.definitions: list[str] = []
        self.count = 0
        self.has_streams = False
        """Whether a line writes past the caches."""

    @property
    def names(self) -> frozenset[str]:
        """The functions of `penstock.runtime.kernels.cpu.vector_loop` that are used."""
        names = ("line",) if self.count else ()
        return frozenset((*names, *(("end_streams",) if self.has_streams else ())))

    def print_for(self, op: scf.ForOp) -> bool:
        """Print a loop if it is a line; whether it is."""
        line = vector_loop_of_for(op)
        if line is None:
            return self._print_nest(op)
        out = self.printer
        out.set_loop(op.body.block.args[0], str(number_of(op.lb)))
        for once in (*line.places, *line.once):
            out.print_statement(once)
        loads = [self._place(load) for _, load in line.loads if load is not None]
        stores = [self._place(store) for _, store in line.stores if store is not None]
        starts = [out.name(value) for value in op.iter_args]
        line.ahead = [rows_ahead(op, load) for _, load in line.loads]
        for load in only_read_before(op):
            # Nobody uses it, so that all that is left of it is to fetch the next row.
            line.loads.append((load.res, load))
            line.steps.append(1)
            line.ahead.append(shape_of(load)[-1])
            loads.append(self._place(load))
        call = self.call(line, loads, stores, starts, str(line.extent))
        self._assign(op.results, call)
        return True

    def _print_nest(self, op: scf.ForOp) -> bool:
        """Print loops whose elements are all of one line; whether they are."""
        found = vector_loop_of_nest(op)
        if found is None:
            return False
        line, nest = found
        out = self.printer
        for loop in nest:
            out.set_loop(loop.body.block.args[0], "0")
        for once in (*line.places, *line.once):
            out.print_statement(once)
        loads = [self._place(load) for _, load in line.loads if load is not None]
        stores = [self._place(store) for _, store in line.stores if store is not None]
        starts = [out.name(value) for value in op.iter_args]
        call = self.call(line, loads, stores, starts, str(line.extent))
        self._assign(op.results, call)
        return True

    def print_computation(
        self, computation: Computation, order: Order, line: VectorLoop
    ) -> None:
        """Print a `linalg` op whose innermost loop is a line."""
        out, nest = self.printer, computation.nest
        loops = [out.new_loop() for _ in nest.extents]
        outer, inner = order.loops[: -line.loops], order.loops[-line.loops :]
        if is_cut(order, line):
            self._print_blocks(computation, line, loops)
            return
        for loop in inner:
            loops[loop] = "0"
        kept = [
            loop for loop in outer if not (order.in_register and nest.reductions[loop])
        ]
        with out.restoring_depth():
            out.open_loops(computation, loops, (), kept)
            count = self._count(computation, inner[-1], line)
            if not line.folds:
                call = self._call_of(computation, line, loops, (), count)
                self.print_call((), call)
                return
            output = computation.op.outputs[0]
            element = out.element(nest.accesses[-1], loops)
            total = out.new_value()
            out.line(f"{total} = {out.loaded(output, element)}")
            with out.restoring_depth():
                out.open_loops(computation, loops, kept, outer[len(kept) :])
                call = self._call_of(computation, line, loops, (total,), count)
                self.print_call((total,), call)
            out.store(output, element, total)

    def _print_blocks(
        self, computation: Computation, line: VectorLoop, loops: list[str]
    ) -> None:
        """Print the only loop as lines of `BLOCK` elements, and one of what is left."""
        out, block = self.printer, loops[0]
        out.load_inputs(computation, loops, set())
        whole, rest = divmod(line.extent, BLOCK)
        with out.restoring_depth():
            extent = whole + bool(rest)
            count = self._count(computation, 0, line)
            least = 0 if not is_digits(count) else extent + 1
            ends = out.range_over(computation.op, 0, extent, least)
            out.open(f"for {block} in {ends}:")
            repeat = max(line.repeats, default=1)
            place = [f"{block} * {BLOCK // repeat}", *["0"] * (line.loops - 1)]
            if not is_digits(count):
                left = f"min({BLOCK}, {count} - {block} * {BLOCK})"
                out.line(self._call_of(computation, line, place, (), left))
                return
            lines = [replace(line, extent=n) for n in (BLOCK, rest) if n]
            calls = [
                self._call_of(computation, one, place, (), str(one.extent))
                for one in lines
            ]
            if len(calls) == 1:
                out.line(calls[0])
                return
            with out.block(f"if {block} < {whole}:"):
                out.line(calls[0])
            with out.block("else:"):
                out.line(calls[1])

    def _call_of(
        self,
        computation: Computation,
        line: VectorLoop,
        loops: Sequence[str],
        starts: Sequence[str],
        count: str,
    ) -> str:
        """The call for so many elements where loops of these names are."""
        op = computation.op
        places: dict[SSAValue, str] = {
            arg: self.address(operand, self.printer.element(access, loops))
            for operand, arg, access in zip(
                op.operands,
                computation.body.args,
                computation.nest.accesses,
                strict=True,
            )
            if isa(operand.type, MemRefType)
        }
        loads = [places[value] for value, _ in line.loads]
        outputs = computation.body.args[-computation.nest.outputs :]
        stores = [places[arg] for arg, _ in zip(outputs, line.stores, strict=False)]
        streamed = not is_digits(count) and len(stores) == 1 and not line.folds
        streamed = streamed and stored_as(line.stores[0][0].type) == line.element
        streamed = streamed and line.loops == 1
        if streamed and is_streamed(computation):
            self.has_streams = True
            return self.call(line, loads, stores, starts, count, streamed=True)
        return self.call(line, loads, stores, starts, count)

    def _count(self, computation: Computation, loop: int, line: VectorLoop) -> str:
        """The text of the extent of a line."""
        least = LEAST_FOLDED if line.folds else LEAST_LINE
        return self.printer.number(line.extent, computation.op, loop, least=least)

    def _place(self, op: memref.LoadOp | memref.StoreOp) -> str:
        """The address of the element of the first turn."""
        return self.address(op.memref, self.printer.element_at(op.memref, op.indices))

    def address(self, buffer: SSAValue, element: str) -> str:
        """The address of an element as an expression."""
        assert isa(buffer.type, MemRefType), "checked by the verifier"
        size = BYTES[stored_as(buffer.type.element_type)]
        start = f"address_of({self.printer.name(buffer)})"
        if element == "0":
            return start
        if element.isdigit():
            return f"{start} + {int(element) * size}"
        return f"{start} + ({element}) * {size}"

    def _assign(self, results: Sequence[SSAValue], call: str) -> None:
        names = [self.printer.new_value() for _ in results]
        for value, name in zip(results, names, strict=True):
            self.printer.set_loop(value, name)
        self.print_call(names, call)

    def print_call(self, names: Sequence[str], call: str) -> None:
        """Print a call that gives some numbers."""
        self.printer.line(f"{', '.join(names)}, = {call}" if names else call)

    def call(
        self,
        line: VectorLoop,
        loads: Sequence[str],
        stores: Sequence[str],
        starts: Sequence[str],
        count: str,
        *,
        streamed: bool = False,
    ) -> str:
        """The call of a line that is defined here, of so many elements."""
        numbers, body = self.body(line)
        is_known = is_digits(count)
        extent = count if is_known else "None"
        facts = [f'"{line.element}"', extent, f"{self.body_name}_{self.count}"]
        if not is_known and line.extent % WHOLE == 0:
            facts.append(f"multiple={WHOLE}")
        elif not is_known and line.extent < LONG:
            facts.append("short=True")
        if loads:
            facts.append(f"loads={len(loads)}")
        if any(step != 1 for step in line.steps):
            facts.append(f"steps={line.steps}")
        if any(count != 1 for count in line.repeats):
            facts.append(f"repeats={line.repeats}")
        if any(line.ahead):
            facts.append(f"ahead={line.ahead}")
        if stores:
            facts.append(f"stores={len(stores)}")
        types = [stored_as(value.type) for value, _ in (*line.loads, *line.stores)]
        if any(type != line.element for type in types):
            facts.append(f"memory={types}")
        if streamed:
            facts.append("streamed=True")
        if line.folds:
            folds = ", ".join(f'"{FOLDS[op.name]}"' for op in line.folds)
            facts.append(f"folds=[{folds}]")
        name = f"line_{self.count}"
        self.definitions += [
            *("", "", *body, "", ""),
            f"{name} = line({', '.join(facts)})",
        ]
        self.count += 1
        further = () if is_known else (count,)
        given = ", ".join((*loads, *stores, *numbers, *starts, *further))
        return f"{name}(({given},))"

    def body(self, line: VectorLoop) -> tuple[list[str], list[str]]:
        """The numbers that a line is given, and the function of what it computes."""
        scalars = InnerLoopScalars()
        names = {value: f"p{n}" for n, (value, _) in enumerate(line.loads)}
        outside = dict.fromkeys(
            value for value in self._used(line) if not self._is_made(value, line)
        )
        numbers: list[str] = []
        for value in outside:
            owner = value.owner
            if isinstance(owner, arith.ConstantOp):
                names[value] = scalars.constant(owner.value) or ""
            else:
                names[value] = f"p{len(line.loads) + len(numbers)}"
                numbers.append(self.printer.name(value))
        lines = self._computed(line, names, scalars)
        stored = _tuple(names[value] for value, _ in line.stores)
        terms = _tuple(
            self._term(op, so_far, names)
            for op, so_far in zip(line.folds, line.carried, strict=True)
        )
        self.printer.scalars.names |= scalars.names
        count = len(line.loads) + len(numbers)
        header = ", ".join(("x", *(f"p{n}" for n in range(count))))
        return numbers, [
            f"def {self.body_name}_{self.count}({header}):",
            *(f"    {text}" for text in lines),
            f"    return {stored}, {terms}",
        ]

    @staticmethod
    def _used(line: VectorLoop) -> Iterable[SSAValue]:
        for op in (*line.ops, *line.folds):
            yield from op.operands
        for value, _ in line.stores:
            yield value

    @staticmethod
    def _is_made(value: SSAValue, line: VectorLoop) -> bool:
        """Whether a value is made anew in each turn."""
        if any(value is loaded for loaded, _ in line.loads) or value in line.carried:
            return True
        return value.owner in line.ops and not isinstance(value.owner, arith.ConstantOp)

    def _computed(
        self, line: VectorLoop, names: dict[SSAValue, str], scalars: InnerLoopScalars
    ) -> list[str]:
        lines: list[str] = []
        added = {_product_of(op, line.carried) for op in line.folds}
        for op in line.ops:
            if isinstance(op, arith.ConstantOp) or op is line.product:
                continue
            if isinstance(op, arith.ExtFOp):
                # Loads extend, and rounded values stay as wide.
                names[op.result] = names[op.input]
                continue
            text = self._text(op, line.product, names, scalars)
            if op in added:
                text = scalars.call("times", *(names[value] for value in op.operands))
            assert text is not None, "only ops that have a source are in lines"
            names[op.results[0]] = name = f"v{len(lines)}"
            lines.append(f"{name} = {text}")
        return lines

    @staticmethod
    def _text(
        op: Operation,
        product: arith.MulfOp | None,
        names: dict[SSAValue, str],
        scalars: InnerLoopScalars,
    ) -> str | None:
        if product is None or product.result not in op.operands:
            return scalars.expression(op, [names[value] for value in op.operands])
        (addend,) = (value for value in op.operands if value is not product.result)
        values = (*product.operands, addend)
        return scalars.call("fma", *(names[value] for value in values))

    @staticmethod
    def _term(op: Operation, so_far: SSAValue, names: dict[SSAValue, str]) -> str:
        (term,) = (value for value in op.operands if value is not so_far)
        return names[term]


def _product_of(op: Operation, carried: Sequence[SSAValue]) -> Operation | None:
    """The product that a sum takes in, if it is used for nothing else."""
    (term,) = (value for value in op.operands if value not in carried)
    owner = term.owner
    if op.name != "arith.addf" or not isinstance(owner, arith.MulfOp):
        return None
    return owner if len(list(term.uses)) == 1 else None


def _tuple(texts: Iterable[str]) -> str:
    return f"[{', '.join(texts)}]"
