"""Models run by sessions of Penstock and of ONNX Runtime, with a number of threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from onnx import ModelProto

    from benchmarks.harness import Run
    from penstock.runtime.loading.initializers import Array
    from penstock.tools.session.session import Model


def imported_model(model: ModelProto) -> Model:
    """A model as a job, with its weights."""
    from penstock.tools.frontend.onnx.model import import_model
    from penstock.tools.session.session import Model

    found = import_model(model, model.graph.name)
    return Model(found.module, found.weights, Path())


def penstock_run(
    model: Model, inputs: Mapping[str, Array], threads: int, *, winograd: bool = False
) -> Run:
    """Runs of a session of ours."""
    from penstock.tools.session.session import Session

    session = Session(model, threads=threads, allow_winograd=winograd)

    def run() -> Sequence[Array]:
        return [*session.run(inputs).values()]

    return run


class RuntimeSession(Protocol):
    """
    The part of ONNX Runtime's sessions that is used here, as its stubs leave most types
    open.
    """

    run: Callable[[None, Mapping[str, Array]], Sequence[Array]]
    io_binding: Callable[[], RuntimeBinding]
    run_with_iobinding: Callable[[RuntimeBinding], None]


class RuntimeBinding(Protocol):
    """The part of ONNX Runtime's I/O bindings that is used here."""

    bind_cpu_input: Callable[[str, Array], None]
    bind_output: Callable[[str, str, int, object, Sequence[int], int], None]


def runtime_session(
    model: ModelProto | Path, threads: int, *, apart: bool = False
) -> RuntimeSession:
    """
    A session of ONNX Runtime with all its optimisations; if so, with weights apart from
    the memory of activations.
    """
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    if apart:
        key = "session.use_device_allocator_for_initializers"
        options.add_session_config_entry(key, "1")
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(
        source, options, providers=["CPUExecutionProvider"]
    )
    return cast("RuntimeSession", session)


def runtime_run(
    model: ModelProto | Path, inputs: Mapping[str, Array], threads: int
) -> Run:
    """Runs of a session of ONNX Runtime, which makes its outputs anew."""
    session = runtime_session(model, threads)
    given = dict(inputs)
    return lambda: session.run(None, given)


def bound_run(
    model: ModelProto, inputs: Mapping[str, Array], out: Array, threads: int
) -> Run:
    """Runs of a session of ONNX Runtime that writes its only output to an array."""
    session = runtime_session(model, threads)
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    (output,) = model.graph.output
    binding.bind_output(
        output.name, "cpu", 0, out.dtype.type, out.shape, out.ctypes.data
    )

    def run() -> Sequence[Array]:
        session.run_with_iobinding(binding)
        return [out]

    return run
