"""
From a launch program in IR to an executable, which is plain values.

The image of a program, the source of its kernels and the values of its constants are
made here, once for each program. The runtime runs them, and knows no IR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from os.path import basename
from pathlib import Path
from typing import TYPE_CHECKING, Self

from penstock.runtime.errors import KernelError
from penstock.runtime.program.executable import (
    ActorImage,
    Kernel,
    Memory,
    Panels,
    ProgramImage,
    Queue,
    Step,
    TensorKind,
    Variable,
    Work,
)
from penstock.runtime.program.output_cuts import OutputCut
from penstock.tools.session.control_export import control_of
from penstock.tools.session.executable import Executable
from penstock.tools.session.kernel_sources import (
    author_of,
    kernel_objections,
    kernel_sources,
    own_sources,
)
from penstock.tools.session.origin import Origin
from penstock.tools.session.report import Report, report_of

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from penstock.dialects.job import InitAttr
    from penstock.dialects.launch import (
        ActorOp,
        KernelOp,
        PanelsAttr,
        ProgramOp,
        VariableOp,
    )
    from penstock.dialects.regst import MemoryCaseAttr
    from penstock.runtime.loading.initializers import Array, Initializer, Start
    from penstock.tools.session.ranks import Share


class ExportedProgram(Executable):
    """
    The executable of a verified program in IR. `given` has the values of variables by
    name, which take the place of their initialisers; the files of these are looked up
    in `directory`. Each part is made when it is asked for first.
    """

    def __init__(
        self,
        program: ProgramOp,
        given: Mapping[str, Array] | None = None,
        directory: Path | None = None,
        origin: Callable[[], Origin] = Origin,
        threads: int = 1,
    ):
        self._program = program
        self._given = given or {}
        self._directory = directory or Path()
        self._share: Share | None = None
        self._origin = origin
        self._threads = threads

    @cached_property
    def program(self) -> ProgramOp:
        """The program."""
        return self._program

    @cached_property
    def image(self) -> ProgramImage:
        """The program in plain values."""
        return image_of(self._program)

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """The source of each kernel. Raises `Rejected` if one has none."""
        return kernel_sources(self._program)

    @property
    def own_sources(self) -> Sequence[str]:
        """The kernels with a source of their own, beside their body."""
        return [kernel.sym_name.data for kernel in own_sources(self._program)]

    @property
    def constants(self) -> Mapping[str, Array]:
        """The value of each constant by its name."""
        from penstock.dialects.utils.numpy_types import array_of

        ops = variables_of(self._program)
        return {
            op.sym_name.data: array_of(op.value) for op in ops if op.value is not None
        }

    @cached_property
    def report(self) -> Report:
        """The report for a person."""
        return report_of(self._program)

    @cached_property
    def origin(self) -> Origin:
        """The passes that made it; those of a program that was read are not known."""
        return self._origin()

    @property
    def threads(self) -> int:
        """The workers that it is meant for."""
        return self._threads

    @property
    def objections(self) -> Sequence[str]:
        """Why it is only run if that is allowed, with places in no folder."""
        from penstock.dialects.utils.diagnostics import place_of

        return [
            text
            if (place := place_of(op)) is None
            else f"{basename(str(place))}: {text}"
            for op, text in kernel_objections(self._program)
        ]

    @cached_property
    def text(self) -> str:
        """The program as text, with the places of its tasks."""
        from io import StringIO

        from penstock.tools.session.saved_plan.printing import PlanPrinter

        text = StringIO()
        PlanPrinter(text).print_op(self._program)
        return f"{text.getvalue()}\n"

    @property
    def given(self) -> Mapping[str, Array]:
        """The arrays that are given for variables, by name."""
        return self._given

    @property
    def starts(self) -> Mapping[str, Start]:
        """The starts of variables by name; given arrays take their place."""
        from penstock.dialects.utils.numpy_types import dtype_name_of
        from penstock.runtime.loading.initializers import Start

        return {
            op.port_name: Start(
                initializer_of(op.init),
                tuple(op.whole_shape),
                dtype_name_of(op.type.element_type),
            )
            for op in variables_of(self._program)
            if op.init is not None
        }

    @property
    def directory(self) -> Path:
        """The folder in which files of initialisers are looked up."""
        return self._directory

    @property
    def share(self) -> Share | None:
        """The share that the program is of what several ranks run, if it is one."""
        return self._share

    def as_share(self, share: Share) -> Self:
        """The same as the program of one of several ranks, with its own variables."""
        other = self.with_own_weights()
        other._share = share
        return other

    def with_own_weights(self) -> Self:
        """The same without weights of variables that it has not, but other ranks."""
        names = {op.port_name for op in variables_of(self._program)}
        other = copy(self)
        other._given = {name: x for name, x in self._given.items() if name in names}
        return other

    def without_weights(self) -> Self:
        """The same for a program that is loaded, without what was given for it."""
        other = copy(self)
        other._given = {}
        return other

    def locate(self, error: KernelError) -> None:
        """Raise `Rejected` at the kernel whose own source is wrong."""
        from penstock.dialects.utils.diagnostics import place_of
        from penstock.tools.driver.diagnostics import reject

        own = {kernel.sym_name.data: kernel for kernel in own_sources(self._program)}
        kernel = own[error.kernel]
        reject(f"{error}{author_of(kernel, error.line)}", place_of(kernel))


def variables_of(program: ProgramOp) -> list[VariableOp]:
    """The variables and constants of a program."""
    from penstock.dialects.launch import VariableOp

    return [op for op in program.body.block.ops if isinstance(op, VariableOp)]


def initializer_of(attribute: InitAttr) -> Initializer:
    """The initialiser that an attribute stands for."""
    from penstock.runtime.loading.initializers import Initializer

    names = attribute.options.data
    return Initializer(
        attribute.kind.data, {name: attribute.value(name, 0) for name in names}
    )


def image_of(program: ProgramOp) -> ProgramImage:
    """The image of a program that has been verified."""
    from penstock.dialects.launch import (
        ActorOp,
        ChunkOp,
        ControlOp,
        KernelOp,
        RegisterOp,
        VariableOp,
        frames_of,
        repetitions_of,
    )

    alignments: dict[str, int] = {}
    chunks: list[Memory] = []
    ops = list(program.body.block.ops)
    registers = {op.sym_name.data: op for op in ops if isinstance(op, RegisterOp)}
    repetitions = repetitions_of(program)
    numbers = _numbers_of(op.memory_case for op in ops if isinstance(op, ChunkOp))
    for op in ops:
        if isinstance(op, ChunkOp):
            case, name = op.memory_case, op.sym_name.data
            place = _place_of(case, numbers, op.size.value.data)
            said = op.memory_report or {}
            chunks.append(Memory(name, *place, said.get("peak"), said.get("bound")))
            alignments[name] = case.alignment

    def queue(op: RegisterOp | ControlOp) -> Queue:
        name, slots = op.sym_name.data, op.slots.value.data
        if isinstance(op, ControlOp):
            return Queue(name, None, 0, 0, slots, op.initial_slots, None)
        chunk = op.chunk.root_reference.data
        below = None if op.over is None else registers[op.over.root_reference.data]
        parts, step, stride = frames_of(op, below, alignments[chunk])
        kind = kind_of(op.type)
        offset = op.offset.value.data
        interface = None if op.interface is None else op.interface.data
        place = chunk, offset, stride, slots, 0, kind, interface
        return Queue(name, *place, parts, step)

    return ProgramImage(
        program.sym_name.data,
        tuple(map(tuple, program.exclusive_jobs)),
        tuple(chunks),
        tuple(queue(op) for op in ops if isinstance(op, RegisterOp | ControlOp)),
        tuple(_variable(op) for op in ops if isinstance(op, VariableOp)),
        tuple(kernel_image(op) for op in ops if isinstance(op, KernelOp)),
        tuple(
            _actor(op, repetitions[op.sym_name.data])
            for op in ops
            if isinstance(op, ActorOp)
        ),
        tuple(_cuts_of(program)),
        all(times == 1 for times in repetitions.values()) and _is_pointwise(program),
    )


def _is_pointwise(program: ProgramOp) -> bool:
    """
    Whether elements of programs whose actors act once depend on those at their places
    alone, and lie one by one.
    """
    from penstock.dialects.launch import ActorOp, KernelOp, RegisterOp, VariableOp
    from penstock.dialects.launch.actors import (
        CallOp,
        CopyOp,
        FeedOp,
        FetchOp,
        ReleaseOp,
    )

    # Callers of other ranks have arrays of their own, and subviews are of some places.
    of_places = CallOp | CopyOp | FeedOp | FetchOp | ReleaseOp
    ops = list(program.body.block.ops)
    # The elements of variables lie as they are written in files.
    variables = {op.type.get_shape() for op in ops if isinstance(op, VariableOp)}
    shapes = {op.type.get_shape() for op in ops if isinstance(op, RegisterOp)}
    return (
        len(shapes - {()}) == 1
        and not variables - {()}
        and all(is_pointwise(op) for op in ops if isinstance(op, KernelOp))
        and all(
            isinstance(step, of_places)
            for op in ops
            if isinstance(op, ActorOp)
            for step in op.body.block.ops
        )
        and not own_sources(program)
    )


def _cuts_of(program: ProgramOp) -> Iterator[OutputCut]:
    """The outputs that are cut to a count."""
    from penstock.dialects.launch import FetchOp

    for op in program.walk():
        if isinstance(op, FetchOp):
            for cut in op.cuts or ():
                yield OutputCut(op.port.data, cut.count.data, cut.axis.value.data)


def _numbers_of(cases: Iterable[MemoryCaseAttr]) -> dict[tuple[int, int], int]:
    """
    The number of each device in memory cases, by its rank and index: the index, or
    where they are of several ranks, which one process is to play, its place in order.
    """
    from penstock.dialects.job import DeviceAttr

    places = {
        (case.rank.data, case.device.index.data)
        for case in cases
        if isinstance(case.device, DeviceAttr)
    }
    if len({rank for rank, _ in places}) > 1:
        return {place: number for number, place in enumerate(sorted(places))}
    return {(rank, index): index for rank, index in places}


def _place_of(
    case: MemoryCaseAttr, numbers: Mapping[tuple[int, int], int], size: int
) -> tuple[str, int, int, str | None]:
    """
    The kind of memory of a chunk, its size, the number of its device, and the kind of
    device that host memory is pinned for.
    """
    from penstock.dialects.job import DeviceAttr

    kind = case.device_kind
    if not isinstance(case.device, DeviceAttr):
        return "cpu", size, 0, None
    number = numbers[case.rank.data, case.device.index.data]
    return ("cpu", size, number, kind) if case.is_host else (kind, size, number, None)


def kind_of(type: object) -> TensorKind:
    """The shape, dtype and bytes of a dense memref."""
    from xdsl.dialects.builtin import MemRefType

    from penstock.dialects.launch import memref_bytes
    from penstock.dialects.utils.hints import isa
    from penstock.dialects.utils.numpy_types import dtype_name_of

    assert isa(type, MemRefType), "checked by the verifier"
    name = dtype_name_of(type.element_type)
    return TensorKind(tuple(type.get_shape()), name, memref_bytes(type))


def _variable(op: VariableOp) -> Variable:
    kind = kind_of(op.type)
    return Variable(
        op.sym_name.data,
        None if op.init is None else op.port_name,
        op.chunk.root_reference.data,
        op.offset.value.data,
        kind,
        tuple(part.start for part in op.place),
        tuple(op.whole_shape),
        None if (found := op.panels) is None else panels_of(found),
        op.winograd is not None,
        tuple(op.other_names),
        tuple((cut.count.data, cut.axis.value.data) for cut in op.cuts or ()),
    )


def panels_of(attribute: PanelsAttr) -> Panels:
    """The packed layout that an attribute stands for."""
    axis, width, depth = attribute.axis, attribute.width, attribute.depth
    group = attribute.group.data
    return Panels(attribute.shape, axis.data, width.data, depth.data, group)


def kernel_image(op: KernelOp) -> Kernel:
    """The image of a kernel."""
    return Kernel(
        op.sym_name.data,
        op.target.data,
        tuple(kind_of(type) for type in op.arguments),
        tuple(op.failures),
        None if op.cost is None else Work._make(op.cost),
    )


def is_pointwise(kernel: KernelOp) -> bool:
    """
    Whether the stages of a kernel compute each element of some tensors of one shape
    from those at its place, and from scalars.
    """
    from xdsl.dialects import arith
    from xdsl.dialects.linalg.ops import FillOp, GenericOp

    def maps_to_places(stage: GenericOp) -> bool:
        maps = [attribute.data for attribute in stage.indexing_maps]
        read = len(stage.inputs)
        return all(
            map == map.identity(map.num_dims) or (number < read and not map.results)
            for number, map in enumerate(maps)
        ) and all(
            op.name.startswith(("arith.", "math.", "linalg.yield"))
            for op in stage.body.walk()
        )

    return all(
        maps_to_places(op)
        if isinstance(op, GenericOp)
        else isinstance(op, arith.ConstantOp | FillOp)
        for op in kernel.body.block.ops
    )


def _actor(op: ActorOp, repetitions: int) -> ActorImage:
    from penstock.dialects.launch import CommitOp, names_of, steps_within
    from penstock.dialects.launch.actors import DONE
    from penstock.dialects.utils.diagnostics import place_of

    steps = [*steps_within(op.body.block)]
    done = [step for step in steps if isinstance(step, DONE)]
    has_control = any(not isinstance(step, DONE | CommitOp) for step in steps)
    return ActorImage(
        op.sym_name.data,
        op.job_name,
        op.device.kind.data,
        op.stream.value.data,
        tuple(names_of(op.reads)),
        tuple(names_of(op.writes)),
        tuple(map(_step, done)),
        tuple(op.rates.items()),
        repetitions,
        op.kind_name,
        tuple(map(tuple, op.number_lists)),
        None if (place := place_of(op)) is None else str(place),
        any(isinstance(step, CommitOp) for step in steps),
        tuple(control_of(op.body.block, done)) if has_control else (),
        tuple(update.names for update in op.update_list),
    )


def _step(op: Operation) -> Step:
    from xdsl.dialects.builtin import StringAttr, SymbolRefAttr

    from penstock.dialects.launch.actors import ON, WHEN

    when, on = op.attributes.get(WHEN), op.attributes.get(ON)
    return _work(op)._replace(
        when=when.data if isinstance(when, StringAttr) else "always",
        on=on.root_reference.data if isinstance(on, SymbolRefAttr) else None,
    )


def _work(op: Operation) -> Step:
    from penstock.dialects.launch import (
        CallOp,
        CollectiveOp,
        CopyOp,
        FeedOp,
        FetchOp,
        ReceiveOp,
        ReleaseOp,
        SendOp,
        names_of,
    )

    match op:
        case CallOp():
            kernel = op.kernel.root_reference.data
            return Step("call", kernel, tuple(names_of(op.arguments)))
        case CopyOp():
            names = op.source.root_reference.data, op.target.root_reference.data
            return Step("copy", "", names)
        case FeedOp():
            return Step("feed", op.port.data, (op.target.root_reference.data,))
        case SendOp():
            message = f"{op.peer.value.data}/{op.tag.value.data}"
            return Step("send", message, (op.source.root_reference.data,))
        case CollectiveOp():
            ranks = "-".join(map(str, op.ranks.get_values()))
            words = op.kind.data, op.algorithm.data, ranks, str(op.tag.value.data)
            return Step("collective", "/".join(words), tuple(op.names))
        case ReceiveOp():
            message = f"{op.peer.value.data}/{op.tag.value.data}"
            return Step("receive", message, (op.target.root_reference.data,))
        case ReleaseOp():
            return Step("release", "", (op.register.root_reference.data,))
        case _:
            assert isinstance(op, FetchOp), "checked by the verifier"
            return Step("fetch", op.port.data, (op.source.root_reference.data,))
