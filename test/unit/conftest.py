"""Fixtures that compile and run the kernels of ops."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial, partialmethod
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, TypeAlias

import kernel_runs
import numpy as np
import pytest
from draws import fresh_seed
from forked_tool import ForkedCommands
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from kept_kernels import keep_new, kept_folder, link_kept
from kernel_runs import flat, run_source
from numpy.typing import NDArray

from penstock.dialects.job import JobOp
from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.launch import KernelOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.algorithms.machine_code import keep_machine_code_with
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.convert.raise_linalg_to_kernel import raise_kernel
from penstock.lowering.pipelines import PipelineOptions, pipeline
from penstock.lowering.regst import plan_memory as regst_plan_memory
from penstock.plugins import forget, registering_modules
from penstock.runtime.core.core import Core
from penstock.runtime.core.entry_points import address_of_entry
from penstock.runtime.core.object_key import core_folder, packing_folder
from penstock.runtime.cuda.simulator import SIMULATOR, gpu_count
from penstock.runtime.jit import cubin, pool
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.plugins import unload
from penstock.tools.universe import keep_function_of_pass

Array: TypeAlias = NDArray[np.generic]
RunOp: TypeAlias = Callable[..., list[Array]]
RunKernel: TypeAlias = Callable[[KernelOp, Sequence[Array]], None]
ParseKernel: TypeAlias = Callable[[str], KernelOp]
Start: TypeAlias = Callable[..., "Future[Any]"]
Until: TypeAlias = Callable[[Callable[[], bool]], None]
Hold: TypeAlias = Callable[[str], tuple[threading.Event, threading.Event]]
DeviceKernels: TypeAlias = Callable[[str], list[KernelOp]]

TARGET = os.environ.get("PENSTOCK_TEST_TARGET", "cpu")
"""The target that kernels of the fixtures are compiled for."""

LONGEST = 600
"""Seconds after which a test has failed, also on a machine with much else to do."""

# Hypothesis reads the constants of all modules of this package, to try them as inputs:
# in a clean checkout that takes 20 s of each worker.
setattr(providers, "_get_local_constants", Constants)  # noqa: B010

# Tests that run no pass may be the first to import the searches.
keep_machine_code_with(keep_function_of_pass)

WITHOUT_CORE = "sequential", "sim", "run_sequential", "run_simulated"
"""Executors, and functions that run them, in which the compiled core has no part."""

NO_PARAMETERS = SimpleNamespace(params={})

FUTEX = (202, 98)
"""The numbers of the system call `futex`, of x86-64 and AArch64."""

OWN_CODE = core_folder(), packing_folder()
"""Where the compiled core and searches are that all tests share: the user's cache."""


@pytest.fixture(autouse=True, scope="module")
def no_plugins_of_other_files() -> Iterator[None]:
    """Forget what a test file has loaded and registered when its tests are done."""
    before = registering_modules()
    yield
    unload()
    for module in registering_modules() - before:
        forget(module)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--quick` is for `make quick`, `--cold` to measure a first run."""
    text = "leave out slow tests, and of each other test all cases but the first"
    parser.addoption("--quick", action="store_true", help=text)
    text = "compile all kernels anew, as the first run of the tests does"
    parser.addoption("--cold", action="store_true", help=text)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """
    Let garbage collections look at objects of the tests alone: all modules and all
    cases, which stay, take a quarter of a second each time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(40_000, 10, 10)
        gc.enable()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """
    Run files with many slow tests first and those of few tests last, so that workers,
    which take a file at a time, end together.
    """
    items[:] = [item for item in items if not _is_a_repetition(item)]
    if config.getoption("--quick"):
        _leave_out(config, items)
    count = Counter(item.path for item in items)
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (-slow[item.path], -count[item.path], item.path))


def _is_a_repetition(item: pytest.Item) -> bool:
    """
    Whether a test asks for the second scheduler of the core, and for an executor that
    has none: it is the test with the first one.
    """
    parameters: Mapping[str, object] = getattr(item, "callspec", NO_PARAMETERS).params
    executor = parameters.get("engine", parameters.get("run"))
    name = getattr(executor, "__name__", executor)
    return parameters.get("both_loops") == "dataflow" and name in WITHOUT_CORE


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    seen: set[str] = set()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        test, _, _ = item.nodeid.partition("[")
        is_quick = item.get_closest_marker("slow") is None and test not in seen
        seen.add(test)
        (kept if is_quick else left_out).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """
    Fail a test that has no end, and tell where its threads are. Where the main thread
    runs no Python, `faulthandler_timeout` ends the process, a while later.
    """
    if not hasattr(signal, "SIGALRM"):
        return (yield)
    before = signal.signal(signal.SIGALRM, _fail_slow)
    signal.alarm(LONGEST)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _fail_slow(number: int, frame: object) -> None:
    faulthandler.dump_traceback(2)
    pytest.fail(f"no end after {LONGEST} s")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """
    Let Ctrl-C interrupt this process and those it starts. A process that a shell starts
    in the background, such as `nohup make test &`, ignores it, and all its children do
    as well.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def start() -> Iterator[Start]:
    """
    Call a function, with the arguments after it, in a thread of its own: the future of
    its result. The test fails if one fails, or has not ended with it.
    """
    started: list[tuple[threading.Thread, Future[Any]]] = []

    def start(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)

        # A daemon: Python does not wait for it where the test has failed.
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        started.append((thread, future))
        return future

    yield start
    for thread, future in started:
        future.result(300)
        thread.join(300)


@pytest.fixture(scope="session")
def until() -> Until:
    """Wait until something holds, for five minutes at most."""

    def until(holds: Callable[[], bool]) -> None:
        last = time.monotonic() + 300
        while not holds():
            assert time.monotonic() < last, "it has not come to that"
            time.sleep(0.002)

    return until


@pytest.fixture(scope="session")
def until_at_rest(until: Until) -> Callable[[], None]:
    """
    Wait until all threads of the executor but the caller's sleep without an end, so
    that they take no time of a CPU until they are woken.
    """
    if _call_of(threading.current_thread()) is None:
        pytest.skip("the system does not tell what threads wait for")

    def rests() -> bool:
        others = {*threading.enumerate()} - {threading.current_thread()}
        found = [x for x in others if x.name.startswith("penstock")]
        return all(_sleeps_without_end(thread) for thread in found)

    return partial(until, rests)


def _call_of(thread: threading.Thread) -> list[str] | None:
    """
    The number of the system call that a thread is in, and its arguments; `running` in
    none. None where that cannot be known.
    """
    try:
        path = Path(f"/proc/self/task/{thread.native_id}/syscall")
        return path.read_text(encoding="ascii").split()
    except OSError:
        return None


def _sleeps_without_end(thread: threading.Thread) -> bool:
    match _call_of(thread):
        case [number, _, _, _, limit, *_]:
            return int(number) in FUTEX and int(limit, 16) == 0
        case found:
            # A thread that has ended has no file.
            return found is None


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hold]:
    """
    Keep calls of a job of a frontend's session where they are about to run, in their
    threads: events that one is there, and that all may go on.
    """
    from penstock.tools.frontend.python.session import Program

    held: dict[str, tuple[threading.Event, threading.Event]] = {}
    run: Callable[..., object] = Program.run

    def wait_and_run(program: Program, *arguments: Any) -> object:
        if program.name in held:
            begun, gate = held[program.name]
            begun.set()
            assert gate.wait(300)
        return run(program, *arguments)

    def hold(job: str) -> tuple[threading.Event, threading.Event]:
        return held.setdefault(job, (threading.Event(), threading.Event()))

    monkeypatch.setattr(Program, "run", wait_and_run)
    yield hold
    for _, gate in held.values():
        gate.set()


@pytest.fixture(scope="module", params=["static", "dataflow"])
def both_loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the compiled core by the static scheduler, and by the dataflow scheduler."""
    if request.param == "static":
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        make = partialmethod(Core.__init__, dataflow=True)
        patch.setattr(Core, "__init__", make)
        yield


@pytest.fixture(scope="session", autouse=True)
def _short_searches() -> Iterator[None]:
    """
    Let searches for places that cannot know that they have found the best end after
    less than a tenth of a second: most random plans have one. A layout found by then is
    as sound. Tests of `penstock.lowering.algorithms.packing`, and tools that are
    started, search for as long as users do.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regst_plan_memory, "DEFAULT_STEPS", 1_000_000)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_compiling_process() -> Iterator[None]:
    """
    Compile kernels of a program one after the other: workers of pytest-xdist have a CPU
    each, and more processes than that would only have to start. Tests of compiling in
    several processes say how many.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (pool, cubin):
            patch.setattr(module, "processors", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def _cache_dir(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Path]:
    """
    Compile into a folder of this session, unless the environment names one. Workers of
    pytest-xdist share it: what one has compiled the others need not, nor what former
    sessions have, unless `--cold` asks for it.
    """
    given = os.environ.get("PENSTOCK_CACHE_DIR")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = Path(given) if given else shared / "kernels"
    if given is None:
        for name in ("core", "direct", "feed", "fetch", "copy"):
            address_of_entry(name)
        share_own_code(folder)
    kept = kept_folder() if given is None else None
    if kept is not None and not pytestconfig.getoption("--cold"):
        link_kept(folder, kept)
    os.environ["PENSTOCK_CACHE_DIR"] = str(folder)
    yield folder
    if kept is not None:
        keep_new(folder, kept)
        del os.environ["PENSTOCK_CACHE_DIR"]


def share_own_code(folder: Path) -> None:
    """Make a cache folder where the core, which takes long, need not be compiled."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for shared in OWN_CODE:
        shared.mkdir(mode=0o700, exist_ok=True)
        # Other workers may be as far.
        with suppress(FileExistsError):
            (folder / shared.name).symlink_to(shared)


@pytest.fixture(scope="session")
def forked(_cache_dir: Path) -> Iterator[ForkedCommands]:
    """Run commands in forks of one process, which is started for the first of them."""
    commands = ForkedCommands()
    yield commands
    commands.close()


@pytest.fixture(scope="session")
def forked_simulator(_cache_dir: Path) -> Iterator[ForkedCommands]:
    """The same with a process in which CUDA is simulated."""
    commands = ForkedCommands(**{SIMULATOR: "1"})
    yield commands
    commands.close()


@pytest.fixture(scope="session")
def forked_cuda(request: pytest.FixtureRequest) -> ForkedCommands:
    """The same with a GPU, or where there is none, in the simulator."""
    return request.getfixturevalue("forked" if gpu_count() else "forked_simulator")


@pytest.fixture
def cold_cache(tmp_path: Path) -> Path:
    """A cache folder with nothing in it but the compiled core, which takes long."""
    folder = tmp_path / "cold cache"
    share_own_code(folder)
    return folder


@pytest.fixture
def flip_a_bit() -> Callable[[Path], None]:
    """Change one bit of a file."""

    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        bit = Random(fresh_seed()).randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)

    return flip


@pytest.fixture(scope="session")
def parse_kernel() -> ParseKernel:
    """Read one `launch.kernel` from its text."""
    return kernel_runs.parse_kernel


@pytest.fixture(scope="session")
def parse_raised() -> ParseKernel:
    """Read one `launch.kernel` from its text, and raise its sums of products."""

    def parse(text: str) -> KernelOp:
        kernel = kernel_runs.parse_kernel(text)
        raise_kernel(kernel)
        return kernel

    return parse


@pytest.fixture(scope="session")
def device_kernels() -> DeviceKernels:
    """
    The kernels for `cuda` of a job, given the ops inside it, or of a text that has them
    already.
    """

    def kernels(text: str) -> list[KernelOp]:
        compiler, passes = installed_compiler()
        if "launch.kernel" not in text:
            text = f"job.job @net placement <cpu, [0:0]> {{{text}}}"
        module = compiler.parse(text.encode(), "test.mlir")
        compiler.verify(module)
        if any(isinstance(op, JobOp) for op in module.ops):
            run_pipeline(compiler, passes, module, pipeline(PipelineOptions("cuda")))
        found = [op for op in module.walk() if isinstance(op, KernelOp)]
        found = [op for op in found if op.target.data == "cuda"]
        for kernel in found:
            raise_kernel(kernel)
        return found

    return kernels


@pytest.fixture(scope="session")
def run_kernel() -> RunKernel:
    """
    Run a kernel on arrays, one an argument, which are written in place: compiled for
    `cpu`, or in a session that `PENSTOCK_TEST_TARGET=cuda` is set for, by CUDA, or with
    `lanes` by the emulator of CUDA.

    Raises `RuntimeError` with the text of a failed `cf.assert`, and `AssertionError`
    if anything outside of the arrays was written.
    """
    return _run_kernel


@pytest.fixture
def run_op() -> RunOp:
    """
    Run an op on arrays, one an operand, as a kernel; returns its results.

    Raises what `run_kernel` does.
    """

    def run(op: TensorOp, *arrays: Array) -> list[Array]:
        types = [tensor_type(value) for value in op.operands]
        for type, array in zip(types, arrays, strict=True):
            wanted = type.get_shape(), dtype_of(type.element_type)
            given = array.shape, array.dtype
            assert wanted == given, f"the operand is {type}, the array is {given}"
        results = [
            np.full(type.get_shape(), 113, dtype_of(type.element_type))
            for type in map(tensor_type, op.results)
        ]
        _run_kernel(KernelOp("kernel", TARGET, kernel_body(op)), [*arrays, *results])
        return results

    return run


def _run_kernel(kernel: KernelOp, arrays: Sequence[Array]) -> None:
    target = "cpu" if TARGET == "cpu" else "cuda"
    kernel = KernelOp(kernel.sym_name.data, target, kernel.body.clone())
    kernel.verify()
    source = kernel_source(kernel)
    if TARGET == "cuda":
        status = _run_on_cuda(source, arrays)
    else:
        status = run_source(source, arrays, target=target)
    if status:
        raise RuntimeError(kernel.failures[status - 1])


def _run_on_cuda(source: str, arrays: Sequence[Array]) -> int:
    from penstock.runtime.cuda.device import Cuda, open_cuda
    from penstock.runtime.testing.cuda_guarded_driver import guarded

    driver, guards = guarded(open_cuda().driver)
    code = Cuda(driver).run_kernel(source, [*map(flat, arrays)])
    guards.check()
    return code
