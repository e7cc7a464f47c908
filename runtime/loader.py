"""
From a launch program to what the executors run: memory, compiled kernels, tables.

Everything a program needs is allocated here, once. Chunks come first, then variables
get their values, then actors become rows of calls. The actors of one stream share a
worker; those that work in the memory of a device other than the processor share one
worker of their own, because a device is driven from one thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import MemRefType, SymbolRefAttr
from xdsl.dialects.cf import AssertOp
from xdsl.ir import Operation

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    ChunkOp,
    ControlOp,
    CopyOp,
    FeedOp,
    FetchOp,
    KernelOp,
    ProgramOp,
    RegisterOp,
    VariableOp,
    memref_bytes,
    names_of,
)
from penstock.dialects.numpy_types import array_of, dtype_of
from penstock.runtime.devices import Chunk, Cpu, Device
from penstock.runtime.edges import FEED, FETCH
from penstock.runtime.errors import PenstockError, find_deadlock
from penstock.runtime.initializers import Array, WeightFiles, initial_value
from penstock.runtime.tables import (
    Actor,
    Argument,
    Call,
    Fixed,
    Register,
    Slot,
    Tables,
)

BATCH = 256
"""Pieces that one run of the core feeds and fetches at most."""


@dataclass(frozen=True)
class Port:
    """
    A tensor that the caller gives or takes, piece by piece.

    `table` is what FEED and FETCH read: a cursor, the bytes of a piece, and the
    address of each of at most BATCH pieces.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    table: npt.NDArray[np.int64]

    def takes(self, array: Array) -> bool:
        """Whether an array can be read as it is: a quick check of what most are."""
        return (
            type(array) is np.ndarray
            and array.shape == self.shape
            and array.dtype == self.dtype
            and array.flags.c_contiguous
        )

    def point_to(self, pieces: Sequence[Array]) -> None:
        """Let the next run read or write these contiguous arrays, one in each act."""
        self.table[0] = 0
        self.table[2 : 2 + len(pieces)] = [piece.ctypes.data for piece in pieces]


@dataclass(frozen=True)
class LoadedProgram:
    """A program in memory: its tables, its ports, and what must live as long."""

    tables: Tables
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    chunks: Mapping[str, Chunk]
    variables: Mapping[str, VariableOp]
    devices: Mapping[str, Device]
    threads: int
    """How many threads run its kernels on the processor."""


def load_program(
    program: ProgramOp,
    sources: Mapping[str, str],
    *,
    weights: Mapping[str, Array] | None = None,
    directory: Path | None = None,
    threads: int = 1,
    devices: Mapping[str, Device] | None = None,
) -> LoadedProgram:
    """
    Allocate, initialise and compile everything that a program needs.

    `sources` has the text of each kernel that is called by name; `weights` are values
    of variables by port, which take the place of their initialisers; files of
    initialisers are looked up in `directory`. Streams are spread over `threads`
    workers, and kernels that can be done in parts over as many threads. The program has
    been verified. Raises PenstockError if weights are missing
    or do not fit, if there is no such device or not enough memory, or if the program
    cannot run to its end.
    """
    if threads < 1:
        raise PenstockError(f"there must be at least one thread, got {threads}")
    loader = _Loader(program, sources, threads, {"cpu": Cpu(), **(devices or {})})
    loader.allocate()
    with WeightFiles(directory or Path()) as files:
        loader.initialize(weights or {}, files)
    return loader.finish()


@dataclass
class _Loader:
    program: ProgramOp
    sources: Mapping[str, str]
    threads: int
    devices: Mapping[str, Device]
    chunks: dict[str, Chunk] = field(default_factory=dict[str, Chunk])
    inputs: dict[str, Port] = field(default_factory=dict[str, Port])
    outputs: dict[str, Port] = field(default_factory=dict[str, Port])

    def __post_init__(self) -> None:
        self.symbols = self.program.symbol_table()
        self.actors = [op for op in self.symbols.values() if isinstance(op, ActorOp)]
        self.producers = {
            name: index
            for index, actor in enumerate(self.actors)
            for name in names_of(actor.writes)
        }
        # Nobody reads a register that has no producer.
        self.registers = {name: index for index, name in enumerate(self.producers)}

    # Memory

    def allocate(self) -> None:
        for name, op in self.symbols.items():
            if isinstance(op, ChunkOp):
                self.chunks[name] = self._device_of(op).allocate(op.size.value.data)

    def _device_of(self, chunk: ChunkOp) -> Device:
        if chunk.memory_case.is_host:
            return self.devices["cpu"]
        return self._device(chunk.memory_case.device_kind)

    def _device(self, kind: str) -> Device:
        if (device := self.devices.get(kind)) is None:
            raise PenstockError(f"the program needs a device of kind '{kind}'")
        return device

    def initialize(self, weights: Mapping[str, Array], files: WeightFiles) -> None:
        unused = set(weights)
        problems: list[str] = []
        for op in self.symbols.values():
            if not isinstance(op, VariableOp):
                continue
            if op.init is not None:
                unused.discard(op.port_name)
            try:
                value = self._value(op, weights, files)
            except PenstockError as error:
                problems.append(str(error))
                continue
            chunk = self.chunks[op.chunk.root_reference.data]
            chunk.write(op.offset.value.data, value)
        if unused:
            names = ", ".join(sorted(unused))
            problems.append(f"the program has no variables {names}")
        raise_if_any(problems)

    def _value(
        self, op: VariableOp, weights: Mapping[str, Array], files: WeightFiles
    ) -> Array:
        if op.value is not None:
            return array_of(op.value)
        assert op.init is not None, "checked by the verifier"
        shape, dtype = op.whole_shape, dtype_of(op.type.element_type)
        if (given := weights.get(op.port_name)) is not None:
            value = fitting(f"variable '{op.port_name}'", given, shape, dtype)
        else:
            value = initial_value(op.init, op.port_name, shape, dtype, files)
        return value[(*op.place, ...)]

    # Actors

    def finish(self) -> LoadedProgram:
        tables = Tables(
            [self._register(name) for name in self.registers],
            [self._actor(actor) for actor in self.actors],
            [call for device in self.devices.values() for call in device.callbacks],
        )
        if (cycle := find_deadlock(tables)) is not None:
            raise PenstockError(f"actors wait for each other: {' -> '.join(cycle)}")
        return LoadedProgram(
            tables,
            self.inputs,
            self.outputs,
            self.chunks,
            {
                op.port_name: op
                for op in self.symbols.values()
                if isinstance(op, VariableOp) and op.init is not None
            },
            self.devices,
            self.threads,
        )

    def _register(self, name: str) -> Register:
        op, producer = self.symbols[name], self.producers[name]
        if isinstance(op, ControlOp):
            return Register(name, producer, op.slots.value.data, op.initial_slots)
        assert isinstance(op, RegisterOp), "only registers have indices"
        chunk = self.symbols[op.chunk.root_reference.data]
        assert isinstance(chunk, ChunkOp), "checked by the verifier"
        stride = op.stride(chunk.memory_case.alignment)
        return Register(
            name, producer, op.slots.value.data, 0, self._address(op), stride
        )

    def _address(self, op: RegisterOp | VariableOp) -> int:
        return self.chunks[op.chunk.root_reference.data].address + op.offset.value.data

    def _actor(self, op: ActorOp) -> Actor:
        return Actor(
            op.sym_name.data,
            self._worker(op),
            tuple(self.registers[name] for name in names_of(op.reads)),
            tuple(self.registers[name] for name in names_of(op.writes)),
            tuple(self._step(step, op) for step in op.body.block.ops),
        )

    def _worker(self, op: ActorOp) -> int:
        on_device = any(
            self._memory_kind(name) != "cpu"
            for name in (*names_of(op.reads), *names_of(op.writes))
        )
        return self.threads if on_device else op.stream.value.data % self.threads

    def _memory_kind(self, name: str) -> str:
        """The device whose kernels work in the memory of a register or variable."""
        op = self.symbols[name]
        if not isinstance(op, RegisterOp | VariableOp):
            return "cpu"
        chunk = self.symbols[op.chunk.root_reference.data]
        assert isinstance(chunk, ChunkOp), "checked by the verifier"
        return "cpu" if chunk.memory_case.is_host else chunk.memory_case.device_kind

    def _step(self, step: Operation, actor: ActorOp) -> Call:
        match step:
            case CallOp():
                return self._call(step, actor)
            case CopyOp():
                return self._copy(step)
            case FeedOp():
                return self._edge(FEED, step.port.data, step.target, self.inputs)
            case _:
                assert isinstance(step, FetchOp), "checked by the verifier"
                return self._edge(FETCH, step.port.data, step.source, self.outputs)

    def _call(self, step: CallOp, actor: ActorOp) -> Call:
        kernel = self.symbols[step.kernel.root_reference.data]
        assert isinstance(kernel, KernelOp), "checked by the verifier"
        args = [self._argument(reference) for reference in step.arguments]
        device = self._device(actor.device.kind.data)
        call = device.call(kernel, self.sources[kernel.sym_name.data], args)
        return replace(call, messages=assertions(kernel))

    def _copy(self, step: CopyOp) -> Call:
        names = (step.source.root_reference.data, step.target.root_reference.data)
        kinds = {self._memory_kind(name) for name in names} - {"cpu"}
        if len(kinds) > 1:
            raise PenstockError(
                f"cannot copy between devices of kinds {', '.join(sorted(kinds))}"
            )
        device = self._device(kinds.pop() if kinds else "cpu")
        size = memref_bytes(self._type(names[0]))
        return device.copy(
            size, self._argument(step.source), self._argument(step.target)
        )

    def _edge(
        self, kernel: int, port: str, place: SymbolRefAttr, ports: dict[str, Port]
    ) -> Call:
        if port in ports:
            raise PenstockError(f"two actors serve the port '{port}'")
        type = self._type(place.root_reference.data)
        table = np.zeros(2 + BATCH, np.int64)
        table[1] = memref_bytes(type)
        ports[port] = Port(port, type.get_shape(), dtype_of(type.element_type), table)
        return Call(kernel, (Fixed(table.ctypes.data), self._argument(place)))

    def _type(self, name: str) -> MemRefType:
        op = self.symbols[name]
        assert isinstance(op, RegisterOp | VariableOp), "checked by the verifier"
        return op.type

    def _argument(self, reference: SymbolRefAttr) -> Argument:
        name = reference.root_reference.data
        op = self.symbols[name]
        if isinstance(op, VariableOp):
            return Fixed(self._address(op))
        return Slot(self.registers[name])


def assertions(kernel: KernelOp) -> tuple[str, ...]:
    """The messages of the assertions in a kernel, in the order of their codes."""
    return tuple(op.msg.data for op in kernel.walk() if isinstance(op, AssertOp))


def raise_if_any(problems: Sequence[str]) -> None:
    """Raise PenstockError with all that is wrong, each thing once."""
    different = list(dict.fromkeys(problems))
    if len(different) == 1:
        raise PenstockError(different[0])
    if different:
        head = f"{len(different)} things are wrong with the weights:"
        raise PenstockError("\n  ".join((head, *different)))


def fitting(
    what: str, given: npt.ArrayLike, shape: Sequence[int], dtype: np.dtype[np.generic]
) -> Array:
    """
    What was given as a contiguous array in the byte order of this machine, copied only
    if need be. Raises PenstockError unless it has a shape and a dtype.
    """
    array: Array = np.asarray(given)
    if array.shape != tuple(shape):
        raise PenstockError(
            f"{what} has shape {tuple(shape)}, got an array of shape {array.shape}"
        )
    if array.dtype.newbyteorder("=") != dtype:
        raise PenstockError(
            f"{what} has dtype {dtype.name}, got an array of dtype {array.dtype.name}"
        )
    return np.ascontiguousarray(array, dtype)
