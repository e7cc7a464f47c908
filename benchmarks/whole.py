"""
Whole models: the nine light ones of the package `onnx`, and exports of PyTorch in full
size, ours and peers.

Weights are random, or as the light models fill them. All contenders read one file; the
module of PyTorch is made anew where it runs, which is always the same.
"""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING

from benchmarks.gemm import WINOGRAD
from benchmarks.harness import Opener, Race, Run, race
from benchmarks.models import LIGHT
from benchmarks.report import Section, Table
from benchmarks.sessions import penstock_run, runtime_run, runtime_session
from benchmarks.speed import flops_of, race_section

if TYPE_CHECKING:
    from torch import Tensor

    from penstock.runtime.loading.initializers import Array
    from penstock.tools.session.session import Model

EXPORTS = "penstock.tools.reports.compare.exports.export"
"""The module that exports models, which imports PyTorch."""

TEXT = """\
Milliseconds of a run of a whole model with a batch of one (the median and the extremes
of all rounds), and the ratio of a peer's time to ours: above 1, we are faster. The
models of PyTorch have random weights and full size: BERT-base, GPT-2 and the
Llama-style decoder read 128 tokens, Whisper's encoder 30 seconds. Winograd is less
exact (about 1e-5 of the largest result) and has to be allowed."""

MEMORY = """\
Memory of activations: ours as it is planned, and allocated once; ONNX Runtime's as far
as its process grows from when its session is there to the peak of two runs."""


@dataclass(frozen=True)
class Case:
    """A model as a file, with the inputs of a run."""

    name: str
    path: Path

    @property
    def is_export(self) -> bool:
        """Whether PyTorch has it, too."""
        return not self.name.startswith("light ")

    def inputs(self) -> Mapping[str, Array]:
        """The arrays that lie beside the file."""
        import numpy as np

        with np.load(self.path.with_suffix(".npz")) as arrays:
            return {name: arrays[name] for name in arrays.files}

    def model(self) -> Model:
        """The model as a job, with its weights."""
        from penstock.tools.frontend.onnx.model import import_file
        from penstock.tools.session.session import Model

        found = import_file(self.path)
        return Model(found.module, found.weights, self.path.parent)


################################################################################
# Contenders                                                                   #
################################################################################


def open_penstock(case: Case, threads: int, winograd: bool = False) -> Run:
    """A session on the model."""
    return penstock_run(case.model(), case.inputs(), threads, winograd=winograd)


def open_onnxruntime(case: Case, threads: int) -> Run:
    """A session of ONNX Runtime on the file."""
    return runtime_run(case.path, case.inputs(), threads)


def open_torch(case: Case, threads: int, compiled: bool = False) -> Run:
    """The module that was exported, compiled or operation by operation."""
    torch = import_module("torch")
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    model, inputs = import_module(EXPORTS).example(case.name)
    given = tuple(inputs.values())
    forward: Callable[..., Tensor | tuple[Tensor, ...]] = model
    if compiled:
        forward = torch.compile(model)

    def run() -> Sequence[Array]:
        with torch.inference_mode():
            found = forward(*given)
        values = found if isinstance(found, tuple) else (found,)
        return [value.numpy() for value in values]

    return run


def openers(case: Case, threads: int) -> Mapping[str, Opener]:
    """The opener of each contender on a model, ours first."""
    found: dict[str, Opener] = {"Penstock": partial(open_penstock, case, threads)}
    if case.name in ("resnet", "light resnet50", "light vgg19"):
        found[WINOGRAD] = partial(open_penstock, case, threads, winograd=True)
    found["ONNX Runtime"] = partial(open_onnxruntime, case, threads)
    if case.is_export:
        found["PyTorch eager"] = partial(open_torch, case, threads)
        found["PyTorch compiled"] = partial(open_torch, case, threads, compiled=True)
    return found


################################################################################
# Models                                                                       #
################################################################################


@contextmanager
def written_cases(names: Sequence[str]) -> Generator[Sequence[Case]]:
    """The models of these names as files, as long as the context lasts."""
    with tempfile.TemporaryDirectory() as folder:
        yield [write_case(name, Path(folder)) for name in names]


def write_case(name: str, folder: Path) -> Case:
    """Write a model and its inputs."""
    import numpy as np

    path = folder / f"{name.replace(' ', '_')}.onnx"
    if name.startswith("light "):
        path.write_bytes((LIGHT / path.name).read_bytes())
        arrays = random_inputs(path)
    else:
        exports = import_module(EXPORTS)
        _, inputs = exports.export(name, path, small=False)
        arrays = {key: value.numpy() for key, value in inputs.items()}
    np.savez(path.with_suffix(".npz"), allow_pickle=False, **arrays)
    return Case(name, path)


def random_inputs(path: Path) -> Mapping[str, Array]:
    """Random numbers for all inputs of a model, which are floats, but its weights."""
    import numpy as np

    onnx = import_module("onnx")
    random, graph = np.random.default_rng(5), onnx.load(path).graph
    weights = {tensor.name for tensor in graph.initializer}
    return {
        value.name: random.normal(
            size=[dim.dim_value for dim in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in graph.input
        if value.name not in weights
    }


def case_names() -> Sequence[str]:
    """All models, those of PyTorch only where it is installed."""
    light = (path.stem.replace("_", " ", 1) for path in sorted(LIGHT.glob("*.onnx")))
    if find_spec("torch") is None:
        return [*light]
    return [
        *light,
        *import_module(EXPORTS).MODELS,
    ]


################################################################################
# Memory                                                                       #
################################################################################


def grown_bytes(path: Path = Path("/proc/self")) -> Callable[[], int] | None:
    """
    A function that gives the growth of this process's peak memory above its memory now;
    None where the system does not say.
    """

    def status(key: str) -> int:
        text = (path / "status").read_text(encoding="utf-8")
        found = re.search(rf"^{key}:\s*(\d+) kB", text, re.MULTILINE)
        return 0 if found is None else int(found[1]) << 10

    try:
        (path / "clear_refs").write_text("5")
        now = status("VmRSS")
    except OSError:
        return None
    return lambda: status("VmHWM") - now


def serve_peak(pipe: Connection, case: Case) -> None:
    """Send the memory that two runs of ONNX Runtime take, 0 if that is not known."""
    session, inputs = runtime_session(case.path, 1, apart=True), case.inputs()
    # What was freed while the model was read would be taken first, and not be seen.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    found = grown_bytes()
    for _ in range(2):
        session.run(None, inputs)
    pipe.send(0 if found is None else found())


def runtime_peak(case: Case) -> int:
    """
    The memory that two runs of ONNX Runtime take, measured in a process of its own; 0
    if that is not known.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_peak, args=(theirs, case), daemon=True)
    process.start()
    theirs.close()
    peak = 0
    with suppress(EOFError):
        peak = int(ours.recv())
    process.join()
    return peak


################################################################################
# The section                                                                  #
################################################################################


def models(
    threads: Sequence[int], rounds: int, names: Sequence[str] | None = None
) -> Section:
    """Time whole models with each number of threads, and look at their memory."""
    from benchmarks.memory import planned_memory

    races: dict[tuple[str, int], Race] = {}
    flops: dict[str, int] = {}
    peaks: dict[str, tuple[int, int]] = {}
    with written_cases(case_names() if names is None else names) as cases:
        for case in cases:
            model = case.model()
            flops[case.name] = flops_of(model)
            peaks[case.name] = planned_memory(model.module)["peak"], runtime_peak(case)
            for count in threads:
                races[case.name, count] = race(openers(case, count), rounds)
    found = race_section("Whole models", TEXT, "model", races, flops, rounds)
    tables = [
        *found.tables,
        Table(("threads", "models", "mean of ratios"), means(races, threads)),
        Table(("model", "ours MB", "ONNX Runtime MB", "ratio"), peak_rows(peaks)),
    ]
    return replace(found, text=f"{found.text}\n\n{MEMORY}", tables=tables)


def means(
    races: Mapping[tuple[str, int], Race], threads: Sequence[int]
) -> Sequence[Sequence[str]]:
    """The geometric means of what the best peers take over what we take."""
    rows: list[list[str]] = []
    for count in threads:
        ratios = [
            ratio
            for (_, number), found in races.items()
            if number == count and (ratio := found.best_ratio()) is not None
        ]
        if ratios:
            mean = f"{geometric_mean(ratios):.2f}"
            rows.append([str(count), str(len(ratios)), mean])
    return rows


def peak_rows(peaks: Mapping[str, tuple[int, int]]) -> Sequence[Sequence[str]]:
    """The memory of each model, and what ONNX Runtime takes of what we take."""
    return [
        [
            name,
            f"{ours / 1e6:.1f}",
            f"{theirs / 1e6:.1f}" if theirs else "not known",
            f"{theirs / ours:.2f}" if theirs and ours else "",
        ]
        for name, (ours, theirs) in peaks.items()
    ]
