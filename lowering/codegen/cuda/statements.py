"""The printer of statements that all stages of kernels for `cuda` share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from math import prod

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.loops import Access, row_major
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cuda_rows import RowsAttr
from penstock.lowering.codegen.body import statements as body
from penstock.lowering.codegen.body.kernel_functions import cuda_functions
from penstock.lowering.codegen.body.scalars import type_name
from penstock.lowering.codegen.body.statements import BodyPrinter, Computation, sum_of

WORDS = """
    PARAMETERS at column decay first_column first_other first_own first_row from_a
    from_b from_d from_g from_k from_l from_o from_q from_v from_x from_y i inside j k
    lane largest line live n other own own_a own_b own_k own_q own_v pair part place
    product row score share slot taken term there total warp
"""
NAMES = frozenset(WORDS.split())
"""The names in texts besides those of all kernels."""


@cache
def reserved_names() -> frozenset[str]:
    """Names that no argument of a kernel for CUDA may have."""
    return body.reserved_names() | NAMES | cuda_functions().keys()


class DevicePrinter(BodyPrinter):
    """Prints functions of a grid of threads."""

    def __init__(self, kernel: KernelOp):
        super().__init__(kernel)
        self.functions: list[list[str]] = []
        """The lines of each function."""
        self.stages: list[str] = []
        """The list entry of each stage."""
        self.calls: list[str] = []
        """The list entry of each stage that a library computes."""

    @property
    def reserved(self) -> frozenset[str]:
        """Names that no argument may have."""
        return reserved_names()

    @abstractmethod
    def print_iterations(
        self, name: str, op: scf.ParallelOp, bounds: Sequence[range]
    ) -> str:
        """
        Print a stage, a thread for each turn of its loops; how it is listed.
        """

    # Functions

    @contextmanager
    def function(self, header: str) -> Generator[None]:
        """Lines of a function of their own."""
        kept, self.lines = self.lines, list[str]()
        depth, self._depth = self._depth, 0
        with self.block(header):
            yield
        self.functions.append(self.lines)
        self.lines, self._depth = kept, depth

    @property
    def next_stage(self) -> str:
        """The name of the function of the next stage."""
        return f"stage_{len(self.stages) + len(self.calls)}"

    def add_stage(self, entry: str) -> None:
        """List a stage."""
        self.stages.append(entry)

    @contextmanager
    def stage_function(self, name: str) -> Generator[None]:
        """The function of a stage."""
        arguments = ", ".join([*self.arguments, "status"])
        with self.function(f"def {name}({arguments}):"):
            yield

    @contextmanager
    def device_function(self, name: str, arguments: Sequence[str]) -> Generator[None]:
        """A function that functions of stages call."""
        with self.function(f"def {name}({', '.join(arguments)}):"):
            yield
        self.functions[-1].insert(0, f"@{self.support('on_device')}")

    @contextmanager
    def items(
        self, count: int, first: str = "first_item", step: str = "item_step"
    ) -> Generator[None]:
        """A loop over the items `e` of a thread's work, with the stride of the grid."""
        self.line(f"e = {self.scalars.call(first)}")
        with self.block(f"while e < {count}:"):
            yield
            self.line(f"e = {self.index(f'e + {self.scalars.call(step)}')}")

    def blocks(self, count: int) -> AbstractContextManager[None]:
        """A loop over the items `e` of a block's work, with the stride of the grid."""
        return self.items(count, "block", "blocks")

    @contextmanager
    def elements(
        self, name: str, loops: Sequence[str], extents: Sequence[int]
    ) -> Generator[None]:
        """The function of a stage, a thread for all indices of loops at a place."""
        with self.stage_function(name), self.items(prod(extents)):
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

    # Arrays

    def print_shared_array(self, name: str, size: int, dtype: str) -> None:
        """Print an array that the threads of a block share."""
        cuda = self.support("cuda")
        self.line(f"{name} = {cuda}.shared.array({size}, {self.support(dtype)})")

    def print_local_array(self, name: str, size: int, dtype: str) -> None:
        """Print an array of a thread: registers, if all its indices are constant."""
        cuda = self.support("cuda")
        self.line(f"{name} = {cuda}.local.array({size}, {self.support(dtype)})")

    # Lanes

    def folded(self, fold: Operation, a: str, b: str) -> str:
        """The fold of two values by an op."""
        text = self.scalars.expression(fold, [a, b])
        assert text is not None, "only ops that have a source fold"
        return text

    @abstractmethod
    def print_fold(self, computation: Computation, schedule: RowsAttr) -> None:
        """Print a stage of folds that threads share as a schedule says."""

    def print_fold_of_lanes(
        self, name: str, fold: Callable[[str, str], str], lanes: int, apart: int = 1
    ) -> None:
        """
        Print how so many lanes come to have the fold of what each has, with those that
        are a multiple of `apart` away.
        """
        mask = lanes // 2
        while mask >= apart:
            other = self.scalars.call("shuffle_xor", name, str(mask))
            self.line(f"{name} = {fold(name, other)}")
            mask //= 2

    # Elements

    def print_choice(self, name: str, condition: str, other: str) -> None:
        """Print that an index is another one where a condition does not hold."""
        chosen = self.scalars.call("select", condition, name, other)
        self.line(f"{name} = {self.index(chosen)}")

    def print_edge(
        self, condition: str, name: str, count: int, each: int, other: int = 0
    ) -> list[str]:
        """
        Print whether an index is below a count that may be no multiple of `each`, and
        that it is another one elsewhere: threads past an edge do in vain what is done
        there. The condition, if there is one.
        """
        if count % each == 0:
            return []
        self.line(f"{condition} = {name} < {count}")
        self.print_choice(name, condition, str(other))
        return [condition]

    def index(self, text: str) -> str:
        """An index as `i32`."""
        return self.scalars.call("i32", text) if " " in text else text

    def element(self, access: Access, loops: Sequence[str]) -> str:
        return self.index(super().element(access, loops))

    def element_at(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
        return self.index(super().element_at(buffer, indices))

    def element_named(self, buffer: SSAValue, indices: Sequence[str]) -> str:
        """The number of the element that indices of these names say."""
        weights = row_major(memref_type(buffer).get_shape())
        return self.index(sum_of(zip(indices, weights, strict=True)))

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

    def loaded(self, buffer: SSAValue, element: str) -> str:
        if is_bf16(buffer):
            return self.scalars.call("from_bf16", f"{self.name(buffer)}[{element}]")
        return super().loaded(buffer, element)

    def stored(self, buffer: SSAValue, value: str) -> str:
        """A number as the elements of a buffer are kept."""
        if is_bf16(buffer):
            return self.scalars.call("to_bf16", value)
        is_boolean = type_name(memref_type(buffer).element_type) == "i1"
        return self.scalars.call("u8", value) if is_boolean else value

    def store(self, buffer: SSAValue, element: str, value: str) -> None:
        text = self.stored(buffer, value)
        self.line(f"{self.name(buffer)}[{element}] = {text}")

    def store_if(
        self, condition: str, buffer: SSAValue, element: str, value: str
    ) -> None:
        """Print that an element is written where a condition holds, if there is one."""
        if not condition:
            self.store(buffer, element, value)
            return
        arguments = condition, self.name(buffer), element, self.stored(buffer, value)
        self.line(self.scalars.call("store_if", *arguments))

    def print_vector_store(
        self, condition: str, buffer: SSAValue, element: str, values: Sequence[str]
    ) -> None:
        """
        Print that contiguous elements are written at once, where a condition holds, if
        there is one.
        """
        arguments = self.name(buffer), element, f"({', '.join(values)})"
        function = f"store_{len(values)}"
        if condition:
            self.line(self.scalars.call(f"{function}_if", condition, *arguments))
        else:
            self.line(self.scalars.call(function, *arguments))

    def support(self, name: str) -> str:
        """The name of a function of the support module, which the text imports."""
        self.scalars.names.add(name)
        return name


def is_bf16(buffer: SSAValue) -> bool:
    """Whether elements are kept as the bits of `bfloat16`."""
    return type_name(memref_type(buffer).element_type) == "bf16"
