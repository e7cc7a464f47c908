"""
The sections of the benchmarks of a GPU, each by itself.

A section yields rows as it finds them. All of it runs on any driver and any device of
PyTorch, so that it can be tried without a GPU.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import gpu_cases
from benchmarks.gpu_cases import TOLERANCES, Case
from benchmarks.gpu_replay import mean_seconds, opened, replayed
from benchmarks.harness import timed

if TYPE_CHECKING:
    from penstock.runtime.cuda.driver import Driver
    from penstock.runtime.loading.initializers import Array
    from penstock.tools.session.session import Model

OURS = "Penstock"
EAGER, COMPILED, GRAPHED = "PyTorch eager", "torch.compile", "torch.compile, graphs"
TRITON = "Triton"
PACKAGES = (
    *("numpy", "numba", "numba-cuda", "llvmlite", "xdsl", "cuda-bindings"),
    *("nvidia-nvvm", "nvidia-nvjitlink", "torch", "triton", "cupy-cuda13x"),
)
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Setup:
    """Where a section runs, and how much it does."""

    driver: Driver
    device: str = "cuda"
    """Where PyTorch computes."""
    small: bool = False
    """Whether only tiny cases are run."""
    rounds: int = 7
    turn_seconds: float = 0.02
    peers: Sequence[str] = (EAGER, COMPILED, TRITON)
    model_peers: Sequence[str] = (EAGER, COMPILED, GRAPHED)


@dataclass(frozen=True)
class Row:
    """Something that was found out: a time, a figure, or what is wrong."""

    case: str
    who: str = OURS
    microseconds: float | None = None
    figure: str = ""
    ratio: float | None = None
    """This time over ours."""
    note: str = ""
    is_problem: bool = False

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


Section = Callable[[Setup], Iterator[Row]]


################################################################################
# What there is                                                                #
################################################################################

ATTRIBUTES = {
    "compute capability": ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR"),
    "processors": ("MULTIPROCESSOR_COUNT",),
    "clock in kHz": ("CLOCK_RATE",),
    "bytes of the L2 cache": ("L2_CACHE_SIZE",),
    "shared memory of a block": ("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",),
}
"""The attributes of a device, with their names in the driver."""


def probe(setup: Setup) -> Iterator[Row]:
    """The GPU, its driver, and the versions of all that takes part."""
    yield Row("system", platform.platform(), note=f"{os.cpu_count()} processors")
    yield Row("GPU", gpu_name())
    for what, names in ATTRIBUTES.items():
        yield from guarded(what, partial(attribute, setup, what, names))
    yield Row("python", platform.python_version())
    for package in PACKAGES:
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "not installed"
        yield Row(package, found)
    yield from guarded("copy", partial(copy_bandwidth, setup))


def attribute(setup: Setup, what: str, names: Sequence[str]) -> Iterator[Row]:
    """The attributes of the device of these names, if its driver knows them."""
    ask: Callable[[str], int] | None = getattr(setup.driver, "attribute", None)
    if ask is not None:
        yield Row(what, ".".join(str(ask(name)) for name in names))


def gpu_name() -> str:
    """The name of the GPU and its driver by `nvidia-smi`, if it is there."""
    query = ["--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            ["nvidia-smi", *query],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.partition("\n")[0].strip() or "unknown"


def copy_bandwidth(setup: Setup) -> Iterator[Row]:
    """A copy within the memory of the device, and to and from pinned memory."""
    driver = setup.driver
    size = 1 << 20 if setup.small else 1 << 30
    driver.use(0)
    stream = driver.stream()
    one, two = driver.allocate(size), driver.allocate(size)
    pinned = driver.allocate_host(size)
    wait = partial(driver.synchronize_stream, stream)
    for name, moved, pair in (
        ("copy", 2 * size, (two, one)),
        ("copy to the device", size, (one, pinned)),
        ("copy to the host", size, (pinned, one)),
    ):
        run = partial(driver.copy, *pair, size, stream)
        seconds = best_of(run, wait, setup)
        figure = f"{moved / seconds / 1e9:.0f} GB/s"
        yield Row(name, OURS, 1e6 * seconds, figure)
    driver.free(one)
    driver.free(two)
    driver.free_host(pinned)
    driver.destroy_stream(stream)


def best_of(
    run: Callable[[], object], wait: Callable[[], object], setup: Setup, calls: int = 10
) -> float:
    """The median over rounds of mean seconds, after a round to warm up."""
    calls = 1 if setup.small else calls
    times = [mean_seconds(run, wait, calls) for _ in range(setup.rounds + 1)]
    return median(times[1:])


################################################################################
# Correctness                                                                  #
################################################################################


def check(setup: Setup) -> Iterator[Row]:
    """Each kind of kernel on odd sizes, against NumPy."""
    for case in gpu_cases.checked_cases():
        inputs = case.inputs()
        yield from guarded(case.name, partial(checked, setup, case, inputs))


def checked(setup: Setup, case: Case, inputs: Mapping[str, Array]) -> Iterator[Row]:
    """Whether a case computes what NumPy does."""
    with replayed(case.text, inputs, setup.driver) as replay:
        error = error_of(replay.outputs["o"], case.meaning(inputs))
    is_wrong = not error <= TOLERANCES[case.dtype]
    yield Row(case.name, figure=f"differs by {error:.1e}", is_problem=is_wrong)


def error_of(found: Array, wanted: Array) -> float:
    """The largest difference over the largest value."""
    from penstock.tools.session.differences import relative_error

    return relative_error(found.astype(np.float64), wanted.astype(np.float64))


def guarded(name: str, rows: Callable[[], Iterable[Row]]) -> Iterator[Row]:
    """Rows of a case, or a row that says why there are none."""
    try:
        yield from rows()
    except Exception as error:
        text = f"{type(error).__name__}: {str(error)[:300]}"
        yield Row(name, note=text, is_problem=True)


################################################################################
# Kernels beside those of peers                                                #
################################################################################


@dataclass
class TorchRunner:
    """A function of PyTorch that takes turns."""

    name: str
    run: Callable[[], Any]
    wait: Callable[[], object]

    def turn(self, calls: int) -> float:
        """Mean seconds of this many runs."""
        return mean_seconds(self.run, self.wait, calls)

    def settle(self) -> None:
        """Nothing runs after a turn, which waits for the device."""


def torch_here() -> Any:
    """PyTorch, if it is installed."""
    return import_module("torch") if find_spec("torch") else None


@dataclass
class Peers:
    """PyTorch, if it is there, as it computes cases in some ways."""

    device: str
    names: Sequence[str]
    torch: Any = field(init=False)

    def __post_init__(self) -> None:
        self.torch = torch_here()
        if self.torch is None:
            return
        # `f32` is never cut to fewer bits, neither by us nor by others.
        self.torch.backends.cuda.matmul.allow_tf32 = False
        self.torch.backends.cudnn.allow_tf32 = False
        self.torch.backends.cudnn.benchmark = True

    def wait(self) -> None:
        """Wait for the device."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def tensor(self, array: Array) -> Any:
        """An array on the device."""
        if array.dtype.name == "bfloat16":
            wide = self.torch.from_numpy(array.astype(np.float32))
            return wide.to(self.device, self.torch.bfloat16)
        return self.torch.from_numpy(array).to(self.device)

    def array(self, tensor: Any) -> Array:
        """The numbers of a tensor."""
        return tensor.detach().float().cpu().numpy()

    def runner(self, name: str, function: Callable[[], Any]) -> TorchRunner:
        """The runner of a function without gradients, in one of the ways."""
        torch = self.torch

        def run() -> Any:
            with torch.inference_mode():
                return made()

        modes = {COMPILED: "default", GRAPHED: "reduce-overhead"}
        made = function
        if name in modes:
            made = torch.compile(function, mode=modes[name])
        return TorchRunner(name, run, self.wait)

    def of_case(self, case: Case, inputs: Mapping[str, Array]) -> Iterator[TorchRunner]:
        """The runners of a case."""
        given = {name: self.tensor(array) for name, array in inputs.items()}
        word = case.name.replace(",", " ").split()[0]
        for name in self.names:
            if name != TRITON:
                yield self.runner(name, lambda: case.torch(self.torch, given))
            elif find_spec("triton") is not None:
                functions = import_module("benchmarks.gpu_triton").FUNCTIONS
                if word in functions:
                    function = partial(functions[word], given)
                    yield TorchRunner(name, function, self.wait)


def race_of(
    setup: Setup,
    name: str,
    ours: Any,
    others: Iterable[TorchRunner],
    peers: Peers,
    outputs: tuple[Array, float],
    figure: Callable[[float], str],
) -> Iterator[Row]:
    """
    Times of contenders that take turns, ours first. `outputs` are ours, and how far
    those of the others may be from them.
    """
    runners, problems = [ours], list[Row]()
    for other in others:
        try:
            found = peers.array(other.run())
            peers.wait()
        except Exception as error:
            text = f"{type(error).__name__}: {str(error)[:200]}"
            problems.append(Row(name, other.name, note=text))
            continue
        error = error_of(found.reshape(outputs[0].shape), outputs[0])
        if not error <= outputs[1]:
            text = f"differs from ours by {error:.1e}"
            problems.append(Row(name, other.name, note=text, is_problem=True))
            continue
        runners.append(other)
    if peers.torch is None:
        problems.append(Row(name, EAGER, note="not installed"))
    seconds, _ = timed(runners, setup.rounds, lambda: True, setup.turn_seconds)
    best = {who: median(times) for who, times in seconds.items()}
    for who, time_of in best.items():
        ratio = None if who == ours.name else time_of / best[ours.name]
        yield Row(name, who, 1e6 * time_of, figure(time_of), ratio)
    yield from problems


def cases(setup: Setup, some: Sequence[Case]) -> Iterator[Row]:
    """Cases, each beside its peers."""
    peers = Peers(setup.device, setup.peers)
    for case in some:
        yield from guarded(case.name, partial(raced, setup, case, peers))


def raced(setup: Setup, case: Case, peers: Peers) -> Iterator[Row]:
    """A case beside its peers, whose outputs should be ours."""
    inputs = case.inputs()
    with replayed(case.text, inputs, setup.driver) as replay:
        others = peers.of_case(case, inputs) if peers.torch is not None else ()
        outputs = replay.outputs["o"], TOLERANCES[case.dtype]
        yield from race_of(
            setup, case.name, replay, others, peers, outputs, case.figure
        )


def rows(setup: Setup) -> Iterator[Row]:
    """Elementwise ops and rows, which memory bounds."""
    return cases(setup, gpu_cases.row_cases(small=setup.small))


def products(setup: Setup) -> Iterator[Row]:
    """Products of matrices and convolutions."""
    return cases(setup, gpu_cases.product_cases(small=setup.small))


LIBRARIES = {"Product": "cublas", "Convolution": "cudnn"}
"""The libraries that programs call, by what they compute."""


def libraries(setup: Setup) -> Iterator[Row]:
    """Products and convolutions by the libraries that programs call, beside our own."""
    for case in gpu_cases.product_cases(small=setup.small):
        yield from guarded(case.name, partial(by_library, setup, case))


def by_library(setup: Setup, case: Case) -> Iterator[Row]:
    """A case whose sums of products are generated, and computed by a library."""
    from penstock.runtime.cuda.libraries.registry import missing

    model, library = with_library(case.text)
    if (reason := missing(library)) is not None:
        yield Row(case.name, library, note=reason)
        return
    inputs = case.inputs()
    with (
        replayed(case.text, inputs, setup.driver) as ours,
        replayed(model, inputs, setup.driver) as theirs,
    ):
        theirs.name = library
        error = error_of(theirs.outputs["o"], ours.outputs["o"])
        runners = [ours, theirs]
        seconds, _ = timed(runners, setup.rounds, lambda: True, setup.turn_seconds)
    best = {who: median(times) for who, times in seconds.items()}
    yield Row(case.name, OURS, 1e6 * best[OURS], case.figure(best[OURS]))
    ratio, text = best[library] / best[OURS], f"differs by {error:.1e}"
    is_wrong = not error <= TOLERANCES[case.dtype]
    figure = case.figure(best[library])
    yield Row(case.name, library, 1e6 * best[library], figure, ratio, text, is_wrong)


def with_library(text: str) -> tuple[Model, str]:
    """A job as a program whose sum of products a library computes, and its name."""
    from penstock.dialects.launch import KernelOp, LibraryAttr
    from penstock.lowering.codegen.body.epilogue import stages_of
    from penstock.lowering.codegen.body.sums_split import split_sums
    from penstock.lowering.codegen.cuda.library_calls import (
        LibraryContraction,
        library_contraction_of,
        unfit_of_libraries,
    )
    from penstock.lowering.convert.raise_linalg_to_kernel import raise_kernel
    from penstock.tools.driver.compiler import installed_compiler
    from penstock.tools.session.options import CompileOptions
    from penstock.tools.session.session import Model, lower

    front = installed_compiler()
    model = Model(front[0].parse(text.encode(), "job.mlir"), {}, Path())
    lower(*front, model, CompileOptions("cuda"))
    kernels = [op for op in model.module.walk() if isinstance(op, KernelOp)]
    for kernel in kernels:
        raise_kernel(kernel)
    stages = [stages_of(kernel.body.block) for kernel in kernels]
    sums = [library_contraction_of(op) for of_one in stages for op in of_one]
    (found,) = (each for each in sums if isinstance(each, LibraryContraction))
    library = LIBRARIES[found.kind]
    op = split_sums(found.op, unfit_of_libraries(found.op))
    op.attributes["schedule"] = LibraryAttr(library)
    return model, library


def attention(setup: Setup) -> Iterator[Row]:
    """Attention."""
    return cases(setup, gpu_cases.attention_cases(small=setup.small))


################################################################################
# Models                                                                       #
################################################################################


def layer(setup: Setup) -> Iterator[Row]:
    """A layer of BERT-base on 128 tokens."""
    from benchmarks.sessions import imported_model
    from benchmarks.workloads import encoder

    workload = encoder()
    peers = Peers(setup.device, setup.model_peers)

    def function() -> Callable[[], Any]:
        weights = {name: peers.tensor(x) for name, x in workload.weights.items()}
        (x,) = map(peers.tensor, workload.inputs.values())
        return lambda: workload.forward(weights, x)

    name, model = "BERT layer, 128 tokens", imported_model(workload.model)
    yield from model_rows(setup, name, model, workload.inputs, function, peers)


def resnet(setup: Setup) -> Iterator[Row]:
    """ResNet-50 on one image."""
    from tempfile import TemporaryDirectory

    from penstock.tools.frontend.onnx.model import import_file
    from penstock.tools.session.session import Model

    peers = Peers(setup.device, setup.model_peers)
    if peers.torch is None:
        yield Row("ResNet-50", note="needs PyTorch, which writes the model")
        return
    from penstock.tools.reports.compare.exports.export import export

    with TemporaryDirectory() as folder:
        path = Path(folder) / "resnet.onnx"
        module, example = export("resnet", path, small=setup.small)
        imported = import_file(path)
    inputs = {name: tensor.numpy() for name, tensor in example.items()}

    def function() -> Callable[[], Any]:
        moved = module.to(setup.device)
        (x,) = map(peers.tensor, inputs.values())
        return lambda: moved(x)

    model = Model(imported.module, imported.weights, Path())
    yield from model_rows(setup, "ResNet-50", model, inputs, function, peers)


def model_rows(
    setup: Setup,
    name: str,
    model: Model,
    inputs: Mapping[str, Array],
    function: Callable[[], Callable[[], Any]],
    peers: Peers,
) -> Iterator[Row]:
    """
    A model beside its peers on the device alone, and a run of a session, with what it
    copies from and to the host.
    """
    from benchmarks.speed import flops_of

    flops = flops_of(model)

    def figure(seconds: float) -> str:
        return f"{flops / seconds / 1e12:.2f} TFLOP/s"

    with replayed(model, inputs, setup.driver) as replay:
        others: Sequence[TorchRunner] = ()
        if peers.torch is not None:
            made = function()
            others = [peers.runner(who, made) for who in peers.names]
        (output,) = replay.outputs.values()
        outputs = output, 1e-3
        yield from race_of(setup, name, replay, others, peers, outputs, figure)
        launches = f"{len(replay.launched)} launches of kernels and graphs"
        run = partial(replay.session.run, inputs)
        seconds = best_of(run, replay.wait, setup)
        yield Row(f"{name}, a run", OURS, 1e6 * seconds, figure(seconds), note=launches)


################################################################################
# What it costs to ask                                                         #
################################################################################

CHAIN = 20
"""The kernels of the program whose launches are counted."""


def chain(length: int) -> str:
    """A job of products that follow each other, none of which can be fused."""
    square = "tensor<16x16xf32>"
    lines = [f'  %v0 = job.input "x" : {square}']
    lines += [
        f"  %v{n + 1} = op.matmul %v{n}, %v{n} : {square}, {square} -> {square}"
        for n in range(length)
    ]
    lines.append(f'  job.output "o", %v{length} : {square}')
    return gpu_cases.job("\n".join(lines))


def launches(setup: Setup) -> Iterator[Row]:
    """The time that launches, graphs and iterations of a program cost the host."""
    inputs = {"x": np.eye(16, dtype=np.float32)}
    yield from guarded("launch", partial(launch_rows, setup, inputs))
    yield from guarded("iteration", partial(iteration_rows, setup, inputs))
    peers = Peers(setup.device, ())
    if peers.torch is None:
        yield Row("launch", EAGER, note="not installed")
    else:
        yield from guarded("launch", partial(torch_launch_rows, setup, peers))


def host_seconds(
    run: Callable[[], object], wait: Callable[[], object], setup: Setup
) -> float:
    """
    Median seconds until something was asked for, while the device's queue has room.
    """
    calls, found = (1 if setup.small else 100), list[float]()
    for _ in range(1 if setup.small else 20):
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            run()
        found.append((time.perf_counter() - start) / calls)
    wait()
    return median(found)


def launch_rows(setup: Setup, inputs: Mapping[str, Array]) -> Iterator[Row]:
    """A kernel by itself, and a graph of several."""
    one, several = chain(1), chain(2 if setup.small else CHAIN)
    for text, what in ((one, "launch"), (several, "launch of a graph")):
        with replayed(text, inputs, setup.driver) as replay:
            asked = host_seconds(replay.launch, replay.wait, setup)
            done = best_of(replay.launch, replay.wait, setup, 100)
            count = len(replay.launched)
        note = f"{count} a run; {1e6 * done:.1f} us until all is done"
        yield Row(f"{what}, host", OURS, 1e6 * asked / max(count, 1), note=note)


def iteration_rows(setup: Setup, inputs: Mapping[str, Array]) -> Iterator[Row]:
    """Iterations of a program of a copy in, a graph and a copy out."""
    count = 3 if setup.small else 500
    with opened(chain(2 if setup.small else CHAIN), setup.driver) as session:
        pieces = [inputs] * count
        session.run_many(pieces)
        rounds: list[tuple[float, float]] = []
        for _ in range(1 if setup.small else setup.rounds):
            wall, busy = time.perf_counter(), time.process_time()
            session.run_many(pieces)
            rounds.append((time.perf_counter() - wall, time.process_time() - busy))
        single = best_of(partial(session.run, inputs), lambda: None, setup, 100)
    wall, busy = (median(times) / count for times in zip(*rounds, strict=True))
    note = f"{1e6 * busy:.1f} us of all threads"
    yield Row("iteration of a stream", OURS, 1e6 * wall, note=note)
    yield Row("run by itself", OURS, 1e6 * single)


def torch_launch_rows(setup: Setup, peers: Peers) -> Iterator[Row]:
    """The same by PyTorch: ops, and a graph of them."""
    torch = peers.torch
    x = peers.tensor(np.eye(16, dtype=np.float32))
    out = torch.empty_like(x)

    def ops() -> None:
        with torch.inference_mode():
            for _ in range(CHAIN):
                torch.mm(x, x, out=out)

    asked = host_seconds(ops, peers.wait, setup) / CHAIN
    yield Row("launch, host", EAGER, 1e6 * asked)
    if setup.device != "cuda":
        return
    # Libraries must have started before their work is captured.
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        ops()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ops()
    asked = host_seconds(graph.replay, peers.wait, setup)
    done = best_of(graph.replay, peers.wait, setup, 100)
    note = f"{1e6 * done:.1f} us until all is done"
    yield Row("launch of a graph, host", EAGER, 1e6 * asked, note=note)


SECTIONS: Mapping[str, Section] = {
    "probe": probe,
    "check": check,
    "launches": launches,
    "rows": rows,
    "products": products,
    "libraries": libraries,
    "attention": attention,
    "layer": layer,
    "resnet": resnet,
}
"""The sections that run in a process of their own."""
