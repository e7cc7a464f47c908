"""
The source of stages whose threads share rows, see
`penstock.lowering.codegen.cuda.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation

from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp
from penstock.dialects.kernel.reference import loops_of
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.launch.schedules.cuda_matmul import WARP
from penstock.dialects.launch.schedules.cuda_rows import RowsAttr
from penstock.dialects.utils.hints import isa
from penstock.lowering.codegen.body.statements import Computation
from penstock.lowering.codegen.body.vector_loop import number_of
from penstock.lowering.codegen.cuda.fold_schedule import (
    fold_misfit,
    fold_stages_of,
    folding_of,
    unfit_of_grid,
)
from penstock.lowering.codegen.cuda.rows import (
    APART,
    BLOCK_THREADS,
    Fold,
    Place,
    RegionFold,
    RowLoop,
    Rows,
    dtype_of,
    has_regions,
    is_neutral,
    lie_apart,
    place_of,
    rows_of,
    unshared,
    widest,
)
from penstock.lowering.codegen.cuda.stage_printer import CudaStagePrinter
from penstock.lowering.codegen.cuda.statements import DevicePrinter


class RowStagePrinter(CudaStagePrinter):
    """Prints rows that the threads of a warp or a block share."""

    OP = RowOp
    SCHEDULES = (RowsAttr,)

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        assert isinstance(op, RowOp), "asked by its class"
        assert isinstance(schedule, RowsAttr), "asked by its class"
        if fold_stages_of(op) is not None:
            reason = fold_misfit(op, schedule)
            return reason and f"{schedule} is for other rows: {reason}"
        if (reason := _other_rows(op, schedule)) is not None:
            return f"{schedule} is for other rows: {reason}"
        if schedule.form == "grid":
            return None
        if (width := widest(op)) % schedule.width:
            return f"{schedule} moves {schedule.width} elements, but {width} lie so"
        return None

    def __init__(self, printer: DevicePrinter, op: StructuredOp):
        schedule = op.attributes[SCHEDULE]
        assert isinstance(op, RowOp), "asked by its class"
        assert isinstance(schedule, RowsAttr), "asked by its class"
        self._printer, self._op, self._schedule = printer, op, schedule
        self._stages = [*(fold_stages_of(op) or loops_of(op)).block.ops]

    def print(self) -> None:
        printer, name = self._printer, self._printer.next_stage
        *before, loops = self._stages
        if not isinstance(loops, scf.ParallelOp):
            for stage in self._stages:
                self._print_stage(stage)
            return
        for constant in before:
            printer.print_stage(constant)
        rows = rows_of(self._op, loops, self._schedule)
        bounds = [range(number_of(end) or 0) for end in loops.upperBound]
        entry = RowPrinter(printer, loops, rows).print(name, bounds)
        if rows.width > 1:
            plain = printer.print_iterations(f"{name}_plain", loops, bounds)
            entry += f", fallback={plain}"
        printer.add_stage(f"{entry})")

    def _print_stage(self, stage: Operation) -> None:
        """Print one of the stages that a fold stands for."""
        computation = folding_of(stage)
        if not isinstance(computation, Computation):
            self._printer.print_stage(stage)
            return
        self._printer.print_fold(computation, self._schedule)


def _other_rows(op: RowOp, schedule: RowsAttr) -> str | None:
    """The reason that threads cannot share rows in the form of a schedule, if any."""
    if (reason := unshared(op)) is not None:
        return reason
    if has_regions(op) and schedule.form != "warp":
        return "a warp joins folds by a region"
    if schedule.form == "grid":
        return unfit_of_grid(op, schedule.threads, schedule.width)
    return APART if lie_apart(op) else None


class RowPrinter:
    """Prints the rows of one stage."""

    def __init__(self, printer: DevicePrinter, op: scf.ParallelOp, rows: Rows):
        self._printer, self._op, self._rows = printer, op, rows
        self._call = printer.scalars.call
        self._kept = {place: f"kept_{n}" for n, place in enumerate(rows.places)}
        self._in_block = rows.beside if rows.warps > 1 else BLOCK_THREADS // WARP
        """The rows that a block has at once."""
        self._folds = 0

    def print(self, name: str, bounds: Sequence[range]) -> str:
        """Print the function of the stage; how it is listed, but for its fallback."""
        printer = self._printer
        extents = [len(indices) for indices in bounds]
        count = prod(extents)
        items = -(-count // self._in_block)
        with printer.stage_function(name):
            self._print_arrays()
            with printer.blocks(items):
                self._print_row(count)
                loops = [printer.new_loop() for _ in extents]
                printer.split("row", loops, extents)
                printer.name_places(self._op, loops, bounds)
                self._print_body(count)
                if self._rows.warps > 1:
                    printer.line("cuda.syncthreads()")
        threads = self._in_block * self._rows.threads
        return f"Stage({name}, {items}, {threads}, blockwise=True"

    def _print_arrays(self) -> None:
        rows, line = self._rows, self._printer.line
        call = self._call
        for place, name in self._kept.items():
            size = rows.width * (rows.turns if self._is_kept(place) else 1)
            self._printer.print_local_array(name, size, self._dtype(place))
        folds = [fold for loop in rows.loops for fold in loop.folds]
        if folds and rows.warps > 1:
            values = [fold.value for fold in folds if isinstance(fold, Fold)]
            types = {dtype_of(value.type) for value in values}
            size = len(folds) * rows.warps * rows.beside
            dtype = "f64" if "f64" in types else "f32"
            self._printer.print_shared_array("slots_0", size, dtype)
        thread = call("thread")
        line(f"warp = {call('i32', f'{thread} >> 5')}")
        if rows.beside > 1:
            line(f"lane = {call('i32', f'{thread} & {rows.beside - 1}')}")
            thread = call("quotient", thread, str(rows.beside))
        elif rows.warps == 1:
            thread = call("i32", f"{thread} & {WARP - 1}")
        line(f"at = {thread}")

    def _print_row(self, count: int) -> None:
        """Print which row a thread has; those that have none do what the last does."""
        printer = self._printer
        if self._in_block == 1:
            printer.line("row = e")
            return
        own = "warp" if self._rows.warps == 1 else "lane"
        printer.line(f"row = {printer.index(f'e * {self._in_block} + {own}')}")
        printer.print_edge("live", "row", count, self._in_block, count - 1)

    def _condition(self, *more: str, count: int) -> str:
        """Whether a thread writes; nothing if all do."""
        live = ["live"] if count % self._in_block else []
        return " & ".join((*live, *more))

    def _is_kept(self, place: Place) -> bool:
        return self._rows.are_kept and len(self._rows.users(place)) > 1

    def _dtype(self, place: Place) -> str:
        type = place[0].type
        assert isa(type, MemRefType), "checked by the verifier"
        return dtype_of(type.element_type)

    # Bodies

    def _print_body(self, count: int) -> None:
        loops = {loop.op: n for n, loop in enumerate(self._rows.loops)}
        for op in self._op.body.block.ops:
            match op:
                case scf.ForOp():
                    self._print_loop(loops[op], count)
                case memref.StoreOp():
                    self._print_uniform_store(op, count)
                case scf.ReduceOp():
                    pass
                case _:
                    self._printer.print_statement(op)

    def _print_uniform_store(self, op: memref.StoreOp, count: int) -> None:
        """Print that one thread of a row writes what all have computed."""
        printer = self._printer
        element = printer.element_at(op.memref, op.indices)
        condition = self._condition("(at == 0)", count=count)
        printer.store_if(condition, op.memref, element, printer.name(op.value))

    def _print_loop(self, number: int, count: int) -> None:
        printer, rows = self._printer, self._rows
        loop = rows.loops[number]
        names: list[str] = []
        for fold in loop.folds:
            if isinstance(fold, RegionFold):
                names += self._print_starts(fold)
                continue
            names.append(printer.new_value())
            type = dtype_of(fold.value.type)
            neutral = printer.scalars.float_constant(fold.neutral, type)
            printer.line(f"{names[-1]} = {neutral}")
            printer.set_loop(fold.value, names[-1])
        with printer.block(f"for j in range({rows.turns}):"):
            indices = self._print_indices()
            self._print_loads(number, indices)
            if rows.width > 1:
                with printer.block(f"for k in range({rows.width}):"):
                    self._print_element(loop, indices, names)
            else:
                self._print_element(loop, indices, names)
            self._print_stores(number, indices, count)
        rest = iter(names)
        for fold in loop.folds:
            if isinstance(fold, RegionFold):
                self._print_region_join(fold, [next(rest) for _ in fold.values])
            else:
                self._print_join(fold, next(rest))

    def _print_indices(self) -> list[str]:
        """Print the indices of the first point that a thread has in a turn."""
        rows, printer = self._rows, self._printer
        index = printer.new_loop()
        step = rows.threads * rows.width
        at = "at" if rows.width == 1 else f"at * {rows.width}"
        printer.line(f"{index} = {self._call('i32', f'{at} + j * {step}')}")
        printer.print_edge("inside", index, rows.extent, step)
        if len(rows.extents) == 1:
            return [index]
        loops = [printer.new_loop() for _ in rows.extents]
        printer.split(index, loops, rows.extents)
        return loops

    @property
    def _has_edge(self) -> bool:
        """Whether some threads have no elements in the last turn."""
        return bool(self._rows.extent % (self._rows.threads * self._rows.width))

    def _slot(self, place: Place, k: str) -> str:
        """Where a thread keeps an element of a vector."""
        width = self._rows.width
        if not self._is_kept(place):
            return f"{self._kept[place]}[{k}]"
        number = "j" if width == 1 else f"j * {width} + {k}"
        return f"{self._kept[place]}[{number}]"

    def _address(self, place: Place, loops: Sequence[str]) -> str:
        """The number of an element, given the names of the indices of a row's loops."""
        buffer, indices = place
        names = (
            loops[x] if isinstance(x, int) else self._printer.name(x) for x in indices
        )
        return self._printer.element_named(buffer, [*names])

    def _print_loads(self, number: int, indices: Sequence[str]) -> None:
        """Print how what a loop reads first comes from memory."""
        for place in self._rows.loops[number].loads:
            if self._is_kept(place) and self._rows.users(place)[0] != number:
                continue
            buffer, address = place[0], self._address(place, indices)
            width = self._rows.width
            if width == 1 or not self._rows.is_along(place):
                text = self._printer.loaded(buffer, address)
                slots = (self._slot(place, str(k)) for k in range(width))
                self._printer.line(f"{' = '.join(slots)} = {text}")
                continue
            vector = self._printer.new_value()
            load = self._call(f"load_{width}", self._printer.name(buffer), address)
            self._printer.line(f"{vector} = {load}")
            for k in range(width):
                self._printer.line(f"{self._slot(place, str(k))} = {vector}[{k}]")

    def _print_element(
        self, loop: RowLoop, indices: Sequence[str], names: Sequence[str]
    ) -> None:
        """Print what becomes of an element, which the thread has."""
        printer, variables = self._printer, loop.variables
        for variable, index in zip(variables, indices, strict=True):
            printer.set_loop(variable, index)
        is_number = any(_is_value(use.operation) for use in variables[-1].uses)
        if is_number and self._rows.width > 1:
            own = printer.new_loop()
            printer.line(f"{own} = {self._call('i32', f'{indices[-1]} + k')}")
            printer.set_loop(variables[-1], own)
        for op in loop.block.ops:
            match op:
                case memref.LoadOp():
                    place = place_of(op.memref, op.indices, variables)
                    slot = self._slot(place, self._k)
                    value = printer.new_value()
                    printer.line(f"{value} = {slot}")
                    printer.set_loop(op.res, value)
                case memref.StoreOp():
                    place = place_of(op.memref, op.indices, variables)
                    slot = self._slot(place, self._k)
                    printer.line(f"{slot} = {printer.name(op.value)}")
                case scf.YieldOp():
                    self._print_carried(names, [printer.name(v) for v in op.operands])
                case _:
                    printer.print_statement(op)

    @property
    def _k(self) -> str:
        """The number of an element in its vector."""
        return "k" if self._rows.width > 1 else "0"

    def _print_carried(self, names: Sequence[str], values: Sequence[str]) -> None:
        for name, value in zip(names, values, strict=True):
            if self._has_edge:
                value = self._call("select", "inside", value, name)
            self._printer.line(f"{name} = {value}")

    def _print_stores(self, number: int, indices: Sequence[str], count: int) -> None:
        """Print how what a loop writes last goes to memory."""
        printer, width = self._printer, self._rows.width
        for place in self._rows.loops[number].stores:
            later = (loop.stores for loop in self._rows.loops[number + 1 :])
            if self._rows.are_kept and any(place in stores for stores in later):
                continue
            address = self._address(place, indices)
            more = ["inside"] if self._has_edge else []
            condition = self._condition(*more, count=count)
            slots = [self._slot(place, str(k)) for k in range(width)]
            if width == 1:
                printer.store_if(condition, place[0], address, slots[0])
                continue
            printer.print_vector_store(condition, place[0], address, slots)

    # Folds

    def _print_join(self, fold: Fold, name: str) -> None:
        """Print how the threads of a row fold what each has."""
        printer, rows = self._printer, self._rows
        joined = partial(printer.folded, fold.op)
        printer.print_fold_of_lanes(name, joined, WARP, rows.beside)
        if rows.warps > 1:
            dtype = dtype_of(fold.value.type)
            first = self._folds * rows.warps * rows.beside
            self._folds += 1
            join = self._join_warps if rows.beside == 1 else self._join_beside
            join(name, dtype, first, joined)
        result = name
        if not is_neutral(fold):
            result = printer.new_value()
            initial = printer.name(fold.initial)
            printer.line(f"{result} = {joined(initial, name)}")
        printer.set_loop(fold.result, result)

    def _join_warps(
        self, name: str, dtype: str, first: int, joined: Callable[[str, str], str]
    ) -> None:
        """Print how the lanes of each warp fold what all warps have."""
        printer, warps = self._printer, self._rows.warps
        lane = self._call("i32", f"at & {WARP - 1}")
        slot = self._call("u64", f"warp + {first}")
        printer.line(self._call("store_if", f"{lane} == 0", "slots_0", slot, name))
        printer.line("cuda.syncthreads()")
        slot = self._call("u64", f"(at & {warps - 1}) + {first}")
        printer.line(f"{name} = {self._call(dtype, f'slots_0[{slot}]')}")
        printer.print_fold_of_lanes(name, joined, warps)

    def _join_beside(
        self, name: str, dtype: str, first: int, joined: Callable[[str, str], str]
    ) -> None:
        """Print how each thread folds what the warps have of its row."""
        printer, beside = self._printer, self._rows.beside

        def slot(warp: str) -> str:
            return self._call("u64", f"{warp} * {beside} + lane + {first}")

        def part(warp: str) -> str:
            return self._call(dtype, f"slots_0[{slot(warp)}]")

        lane = self._call("i32", f"at & {WARP // beside - 1}")
        own = f"{lane} == 0", "slots_0", slot("warp"), name
        printer.line(self._call("store_if", *own))
        printer.line("cuda.syncthreads()")
        printer.line(f"{name} = {part('0')}")
        with printer.block(f"for n in range(1, {self._rows.warps}):"):
            printer.line(f"{name} = {joined(name, part('n'))}")

    def _print_starts(self, fold: RegionFold) -> list[str]:
        """Print what a thread starts from; the names of it."""
        printer, names = self._printer, list[str]()
        for value, initial in zip(fold.values, fold.initials, strict=True):
            names.append(printer.new_value())
            first = self._call(dtype_of(value.type), printer.name(initial))
            printer.line(f"{names[-1]} = {first}")
            printer.set_loop(value, names[-1])
        return names

    def _print_region_join(self, fold: RegionFold, names: Sequence[str]) -> None:
        """Print how the lanes of a row combine what each has by a region."""
        printer, mask = self._printer, WARP // 2
        last = fold.combine.last_op
        assert last is not None, "a region ends in kernel.yield"
        while mask:
            others = [printer.new_value() for _ in names]
            for other, name in zip(others, names, strict=True):
                printer.line(f"{other} = {self._call('shuffle_xor', name, str(mask))}")
            for arg, name in zip(fold.combine.args, (*names, *others), strict=True):
                printer.set_loop(arg, name)
            for op in fold.combine.ops:
                if op is not last:
                    printer.print_statement(op)
            made = ", ".join(map(printer.name, last.operands))
            printer.line(f"{', '.join(names)}, = {made},")
            mask //= 2
        for result, name in zip(fold.results, names, strict=True):
            printer.set_loop(result, name)


def _is_value(op: object) -> bool:
    """Whether an op uses an index as a number."""
    return not isinstance(op, memref.LoadOp | memref.StoreOp)
