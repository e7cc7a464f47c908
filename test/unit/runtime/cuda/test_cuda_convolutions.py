"""Convolutions by cuDNN: what it is told, where they stand, and what fails how."""

from __future__ import annotations

import ctypes
import gc
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from draws import fresh

from penstock.dialects.launch import KernelOp, LibraryAttr
from penstock.lowering.codegen.body.epilogue import stages_of
from penstock.lowering.codegen.body.sums_split import split_sums
from penstock.lowering.codegen.cuda.library_calls import (
    LibraryContraction,
    library_contraction_of,
    unfit_of_libraries,
)
from penstock.lowering.convert.raise_linalg_to_kernel import raise_kernel
from penstock.lowering.pipelines import PipelineOptions, pipeline
from penstock.runtime.cuda import device as cuda
from penstock.runtime.cuda.driver import CudaError, Handle, Launch
from penstock.runtime.cuda.libraries import cudnn as cuda_cudnn
from penstock.runtime.cuda.libraries import registry as cuda_libraries
from penstock.runtime.cuda.libraries.cudnn import Cudnn
from penstock.runtime.cuda.libraries.problems import (
    Convolution,
    LibraryError,
    Product,
    Sum,
)
from penstock.runtime.cuda.resources import Rooms
from penstock.runtime.errors import PenstockError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.loading.memory import host_bytes
from penstock.runtime.observe.timing_rounds import Effort
from penstock.runtime.testing.cuda_order_check import RAN, RUN, problems, watched
from penstock.runtime.testing.cuda_recording_driver import RecordedDriver
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.options import CompileOptions
from penstock.tools.session.session import Model, Session
from penstock.tools.session.tuning import Tuning, tune

Doubles = npt.NDArray[np.float64]

DTYPES = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}
CUDNN_TYPES = {0: "f32", 1: "f64", 2: "f16", 9: "bf16"}
TOLERANCES = {"f32": 1e-5, "f64": 1e-12, "f16": 2e-3, "bf16": 1e-2}


def strided(
    address: int, element: str, steps: Sequence[int], shape: Sequence[int]
) -> npt.NDArray[Any]:
    """An array at an address, given its steps in elements."""
    dtype = DTYPES[element]
    last = sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) + 1
    flat = host_bytes(address, last * dtype.itemsize).view(dtype)
    strides = [step * dtype.itemsize for step in steps]
    return np.lib.stride_tricks.as_strided(flat, shape, strides)


def convolved(
    x: npt.NDArray[Any],
    w: npt.NDArray[Any],
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> Doubles:
    """A convolution without borders, as it is defined, by NumPy's windows."""
    window = w.shape[2:]
    axes = tuple(range(2, x.ndim))
    reach = [(n - 1) * d + 1 for n, d in zip(window, dilations, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), reach, axes)
    picked = [slice(None), slice(None)]
    picked += [slice(None, None, n) for n in (*strides, *dilations)]
    view = view[tuple(picked)]
    parts: list[Doubles] = []
    own, filters = w.shape[1], w.shape[0] // groups
    for group in range(groups):
        images = view[:, group * own : (group + 1) * own]
        weights = w[group * filters : (group + 1) * filters].astype(np.float64)
        places = len(axes)
        sums = [1, *range(2 + places, 2 + 2 * places)]
        part = np.tensordot(images, weights, (sums, [1, *range(2, 2 + places)]))
        parts.append(np.moveaxis(part, -1, 1))
    return np.concatenate(parts, 1)


def close(found: npt.NDArray[Any], wanted: Doubles, element: str) -> bool:
    """Whether a result is right but for rounding."""
    limit = TOLERANCES[element] * max(1.0, float(np.abs(wanted).max()))
    return bool(np.abs(found.astype(np.float64) - wanted).max() <= limit)


# What cuDNN is told


class Api:
    """A fake of cuDNN, as its documentation says, on memory of the host."""

    def __init__(self, *, rooms: Sequence[int] = (1 << 40, 96)):
        self.rooms = rooms
        """The bytes that each algorithm needs, the fastest first."""
        self.fails: dict[str, int] = {}
        self.told: dict[int, Any] = {}
        """The contents of descriptors."""
        self.calls: list[tuple[Any, ...]] = []
        self.functions: dict[str, Function] = {}

    def __getattr__(self, name: str) -> Function:
        if not name.startswith("cudnn"):
            raise AttributeError(name)
        return self.functions.setdefault(name, Function(self, name))

    def run(self, name: str, args: Sequence[Any]) -> int:
        self.calls.append((name, *args))
        if name in self.fails:
            return self.fails[name]
        getattr(self, f"do_{name.removeprefix('cudnn')}", self.describe)(*args)
        return 0

    def describe(self, descriptor: Any, *told: Any) -> None:
        if not told:
            descriptor._obj.value = 100 + len(self.calls)
            return
        lists = [[*each] if hasattr(each, "_length_") else each for each in told]
        self.told.setdefault(descriptor, []).append(lists)

    def do_SetStream(self, handle: int, stream: int) -> None:
        """Nothing but a note."""

    def do_GetConvolutionForwardAlgorithm_v7(self, *args: Any) -> None:
        *_, wanted, count, found = args
        assert wanted == len(found) == 8
        # The first one cannot compute it.
        rows = [(5, 9, 0), *((n, 0, room) for n, room in enumerate(self.rooms))]
        for entry, (number, status, room) in zip(found, rows, strict=False):
            entry.algorithm, entry.status, entry.memory = number, status, room
            entry.math = 1
        count._obj.value = len(rows)

    def do_GetConvolutionForwardWorkspaceSize(self, *args: Any) -> None:
        *_, algorithm, size = args
        size._obj.value = self.rooms[algorithm]

    def do_ConvolutionForward(self, handle: int, *args: Any) -> None:
        alpha, images, x, filters, w, settings, algorithm, *rest = args
        room, size, beta, result, o = rest
        assert size == self.rooms[algorithm]
        if size:
            host_bytes(room, size)[:] = 0xEE
        ((kind, count, x_extents, x_steps),) = self.told[images]
        ((_, layout, _, w_extents),) = self.told[filters]
        ((o_kind, _, o_extents, o_steps),) = self.told[result]
        (told, (groups,), *maths) = self.told[settings]
        dimensions, pads, strides, dilations, mode, sums = told
        element = CUDNN_TYPES[kind]
        assert kind == o_kind
        assert (layout, mode, sums) == (0, 1, 1 if element == "f64" else 0)
        # No TF32, and tensor cores for what has 16 bits.
        assert maths[-1] == ([3] if element in ("f32", "f64") else [1])
        assert count == dimensions + 2 >= 4
        assert pads == [0] * dimensions
        # As cuDNN finds the extents of the result itself.
        assert o_extents == [
            x_extents[0],
            w_extents[0],
            *(
                (n - (k - 1) * d - 1) // s + 1
                for n, k, s, d in zip(
                    x_extents[2:], w_extents[2:], strides, dilations, strict=True
                )
            ),
        ]
        scalar = ctypes.c_double if element == "f64" else ctypes.c_float
        first, start = (scalar.from_address(place).value for place in (alpha, beta))
        dense = np.cumprod([1, *w_extents[:0:-1]])[::-1]
        found = convolved(
            strided(x, element, x_steps, x_extents),
            strided(w, element, [*map(int, dense)], w_extents),
            strides,
            dilations,
            groups,
        )
        out = strided(o, element, o_steps, o_extents)
        before = out.astype(np.float64) if start else 0.0
        out[...] = (first * found + start * before).astype(out.dtype)


@dataclass
class Function:
    """A C function in Python."""

    api: Api
    name: str
    argtypes: Sequence[Any] = ()
    restype: Any = None

    def __call__(self, *args: Any) -> int:
        # As ctypes does: what cannot be converted is an error.
        assert len(args) == len(self.argtypes)
        for type, value in zip(self.argtypes, args, strict=True):
            type.from_param(value)
        return self.api.run(self.name, args)


def some_convolution(
    element: str, random: np.random.Generator, places: int
) -> Convolution:
    """A small convolution whose images and results have gaps."""

    def some(most: int, count: int = 1) -> tuple[int, ...]:
        return tuple(int(x) for x in random.integers(1, most + 1, count))

    batch, groups, channels, filters = some(3, 4)
    extents, window = some(4, places), some(3, places)
    strides, dilations = some(3, places), some(2, places)
    reach = [
        (n - 1) * s + (k - 1) * d + int(random.integers(1, s + 1))
        for n, k, s, d in zip(extents, window, strides, dilations, strict=True)
    ]
    steps: list[tuple[int, ...]] = []
    for shape in (
        (batch, groups * channels, *reach),
        (batch, groups * filters, *extents),
    ):
        own: list[int] = [1]
        for extent in shape[:0:-1]:
            own.insert(0, own[0] * extent + int(random.integers(3)))
        steps.append(tuple(0 if n == 1 else s for n, s in zip(shape, own, strict=True)))
    counts = batch, groups, channels, filters
    sizes = extents, tuple(reach), window, strides, dilations
    return Convolution(element, *counts, *sizes, steps[0], steps[1], bool(places % 2))


@pytest.mark.parametrize("element", DTYPES)
def test_convolutions_of_random_layouts_are_those_of_numpy(element: str):
    random = fresh()
    api = Api()
    library = Cudnn(api)
    library.open(0)
    for places in (1, 2, 3, 1, 2):
        wanted = some_convolution(element, random, places)
        sizes = [size // DTYPES[element].itemsize for size in wanted.sizes]
        x, w, o = (
            random.standard_normal(size).astype(DTYPES[element]) for size in sizes
        )
        before, room = o.copy(), np.zeros(96, np.uint8)
        assert library.room(wanted, 0) == 96
        words = [array.ctypes.data for array in (x, w, o, room)]
        library.bind(wanted, words, 0)(5)
        images = strided(words[0], element, wanted.x_steps, wanted.x_extents)
        result = convolved(
            images,
            w.reshape(wanted.w_extents),
            wanted.strides,
            wanted.dilations,
            wanted.groups,
        )
        out = strided(words[2], element, wanted.o_steps, wanted.o_extents)
        start = strided(before.ctypes.data, element, wanted.o_steps, wanted.o_extents)
        assert close(out, result + wanted.adds * start.astype(np.float64), element)
        assert room.all()
        # Nothing is written between results.
        out[...] = start
        assert np.array_equal(o.view(np.uint8), before.view(np.uint8))
    streams = [call[2] for call in api.calls if call[0] == "cudnnSetStream"]
    assert streams == [5] * 5


STEPS = 0, 0, 1
ONE = Convolution("f32", 1, 1, 1, 1, (2,), (3,), (2,), (1,), (1,), STEPS, STEPS)


def test_a_convolution_is_told_of_once_a_device():
    api = Api(rooms=[0])
    library = Cudnn(api)
    for device in (0, 1, 0):
        library.open(device)
        assert library.room(ONE, device) == 0
    names = [call[0] for call in api.calls]
    assert names.count("cudnnCreate") == 2
    assert names.count("cudnnCreateConvolutionDescriptor") == 2
    library.forget(1)
    library.open(1)
    assert library.room(ONE, 1) == 0
    names = [call[0] for call in api.calls]
    assert names.count("cudnnCreateConvolutionDescriptor") == 3


def test_what_cudnn_cannot_compute_is_an_error():
    library = Cudnn(Api(rooms=[1 << 30]))
    library.open(0)
    with pytest.raises(LibraryError, match=r"^no algorithm of cuDNN computes it$"):
        library.room(ONE, 0)
    api = Api()
    api.fails["cudnnSetTensorNdDescriptor"] = 2000
    library = Cudnn(api)
    library.open(0)
    with pytest.raises(LibraryError) as caught:
        library.room(ONE, 0)
    assert str(caught.value) == "cudnnSetTensorNdDescriptor failed: status 2000"
    api = Api(rooms=[0])
    library = Cudnn(api)
    library.open(0)
    launch = library.bind(ONE, [0, 0, 0], 0)
    api.fails["cudnnConvolutionForward"] = 5000
    with pytest.raises(CudaError) as failed:
        launch(0)
    assert str(failed.value) == "cudnnConvolutionForward failed: status 5000"


def test_cudnn_is_looked_for_in_its_package_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    tried: list[str] = []

    def load(place: str) -> Any:
        tried.append(place)
        raise OSError(place)

    def spec(name: str) -> Any:
        assert name == "nvidia.cudnn"
        return SimpleNamespace(submodule_search_locations=[str(tmp_path)])

    monkeypatch.setattr(cuda_cudnn, "find_spec", spec)
    monkeypatch.setattr(cuda_cudnn.ctypes, "CDLL", load)
    with pytest.raises(LibraryError) as caught:
        cuda_cudnn.open_cudnn()
    wanted = "cuDNN is not installed: there is no libcudnn.so.9"
    assert str(caught.value) == wanted
    assert tried[-2:] == [str(tmp_path / "lib" / "libcudnn.so.9"), "libcudnn.so.9"]


# Convolutions of jobs

JOB = """
job.job @convolution placement <cuda, [0:0]> {{
  %x = job.input "x" : tensor<{x}xf32>
  %w = job.variable "w" init <xavier_uniform, seed = 3> : tensor<{w}xf32>
  %p = op.{op} %x, %w {options} : tensor<{x}xf32>, tensor<{w}xf32> -> tensor<{o}xf32>
  %r = op.relu %p : tensor<{o}xf32> -> tensor<{o}xf32>
  job.output "r", %r : tensor<{o}xf32>
}}
"""
CASES = {
    "plain": ("conv2d", "2x3x7x8", "4x3x3x2", "2x4x5x7", ""),
    "strides, groups, pads": (
        *("conv2d", "2x8x14x14", "16x4x3x3", "2x16x7x7"),
        "strides [2, 2] pads [1, 1, 1, 1] groups 2",
    ),
    "one tap, strides": ("conv2d", "1x6x9x9", "5x6x1x1", "1x5x5x5", "strides [2, 2]"),
    "dilations": (
        *("conv2d", "1x4x11x9", "6x4x3x3", "1x6x5x5"),
        "dilations [3, 2]",
    ),
    "one line of taps": ("conv2d", "3x2x5x9", "4x2x1x3", "3x4x5x7", ""),
    "one channel": ("conv2d", "2x1x6x6", "4x1x3x3", "2x4x4x4", ""),
    "one image, one filter": ("conv2d", "1x3x6x6", "1x3x3x3", "1x1x4x4", ""),
}


def parsed(text: str) -> Model:
    """A job."""
    front = installed_compiler()
    return Model(front[0].parse(text.encode(), "job.mlir"), {}, Path())


def library_sums_of(model: Model) -> list[LibraryContraction | str]:
    """The sums of products of a lowered job, or why no library computes them."""
    found: list[LibraryContraction | str | None] = []
    for kernel in model.module.walk():
        if isinstance(kernel, KernelOp):
            # Small ones are loops by now.
            raise_kernel(kernel)
            stages = stages_of(kernel.body.block)
            found += [library_contraction_of(op) for op in stages]
    return [each for each in found if each is not None]


def sums_of(model: Model) -> list[LibraryContraction]:
    """The sums of products of a lowered job that libraries could compute."""
    return [x for x in library_sums_of(model) if isinstance(x, LibraryContraction)]


def selected(text: str, streams: int = 1) -> Model:
    """A job lowered for `cuda`, whose convolutions a library computes."""
    model = parsed(text)
    passes = pipeline(PipelineOptions("cuda", streams))
    run_pipeline(*installed_compiler(), model.module, passes)
    for each in sums_of(model):
        op = split_sums(each.op, unfit_of_libraries(each.op))
        op.attributes["schedule"] = LibraryAttr("fake")
    return model


@dataclass
class Fake:
    """A library that computes convolutions with NumPy in memory of its own."""

    kinds: tuple[type[Sum], ...] = (Convolution,)
    is_capturable: bool = True
    size: int = 64
    wanted: list[Sum] = field(default_factory=list[Sum])

    def open(self, device: int) -> None:
        """There is nothing to be made."""

    def forget(self, device: int) -> None:
        """There is nothing to be forgotten."""

    def room(self, wanted: Sum, device: int) -> int:
        return self.size

    def bind(self, wanted: Sum, words: Sequence[int], device: int) -> Launch:
        assert isinstance(wanted, Convolution)
        self.wanted.append(wanted)

        def launch(stream: Handle) -> None:
            x, w, o, *room = words
            images = strided(x, wanted.element, wanted.x_steps, wanted.x_extents)
            count = int(np.prod(wanted.w_extents))
            weights = strided(w, wanted.element, [1], [count])
            found = convolved(
                images,
                weights.reshape(wanted.w_extents),
                wanted.strides,
                wanted.dilations,
                wanted.groups,
            )
            for address in room:
                # Whoever used it meanwhile would find this.
                host_bytes(address, self.size)[:] = 0xEE
            out = strided(o, wanted.element, wanted.o_steps, wanted.o_extents)
            out[...] = found + wanted.adds * out

        return launch


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """A library known as `fake`."""
    monkeypatch.setattr(cuda_libraries, "OPENERS", dict(cuda_libraries.OPENERS))
    library = Fake()
    cuda_libraries.register_library("fake", lambda: library)
    yield library
    # Whoever is next opens its own.
    for name in ("cudnn", "fake"):
        cuda_libraries.register_library(name, Fake)


def opened(model: Model, driver: RecordedDriver) -> Session:
    """A session on a double of CUDA."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "open_cuda", lambda: cuda.Cuda(driver))
        return Session(model, compiler=installed_compiler())


@pytest.mark.parametrize("case", CASES)
def test_a_library_computes_convolutions_of_jobs(case: str, fake: Fake):
    op, x, w, o, options = CASES[case]
    model = selected(JOB.format(op=op, x=x, w=w, o=o, options=options))
    random = fresh()
    shape = [*map(int, x.split("x"))]
    given = random.standard_normal(shape).astype(np.float32)
    with opened(model, RecordedDriver()) as session:
        weights = session.state()["w"]
        found = session.run({"x": given})["r"]
    (wanted,) = {*fake.wanted}
    assert isinstance(wanted, Convolution)
    pad = 1 if "pads" in options else 0
    padded = np.pad(given, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    strides = (2, 2) if "strides" in options else (1, 1)
    dilations = (3, 2) if "dilations" in options else (1, 1)
    groups = 2 if "groups" in options else 1
    result = convolved(padded, weights, strides, dilations, groups)
    assert close(found, np.maximum(result, 0), "f32")
    assert (wanted.groups, wanted.adds) == (groups, False)


LAST = {
    "windows": (4, 6, (3, 2), 1, 1),
    "windows, strides, groups": (4, 6, (3, 2), 2, 2),
    "one tap, strides": (6, 4, (1, 1), 2, 1),
}
"""Channels, filters, window, stride and groups."""
APART = "the terms of a factor are not equally far apart"
REFUSED = {
    ("windows", False): APART,
    ("windows", True): APART,
    ("windows, strides, groups", False): APART,
    ("windows, strides, groups", True): APART,
    ("one tap, strides", False): (
        "neither rows nor terms of the first factor follow each other"
    ),
    ("one tap, strides", True): "its products are not equally far apart",
}
"""Why libraries compute no results whose channels are last, by those of the images."""


def last_job(case: str, input_last: bool, result_last: bool) -> str:
    """A convolution of two images of 7 x 8 whose channels may be last."""
    channels, filters, (down, across), stride, groups = LAST[case]
    rows, columns = (7 - down) // stride + 1, (8 - across) // stride + 1
    x = f"2x7x8x{channels}" if input_last else f"2x{channels}x7x8"
    o = f"{rows}x{columns}x{filters}" if result_last else f"{filters}x{rows}x{columns}"
    w = f"{filters}x{channels // groups}x{down}x{across}"
    words = "input_last " * input_last + "result_last" * result_last
    options = f"strides [{stride}, {stride}] groups {groups} {words}"
    return f"""
      job.job @last placement <cuda, [0:0]> {{
        %x = job.input "x" : tensor<{x}xf32>
        %w = job.variable "w" init <xavier_uniform, seed = 3> : tensor<{w}xf32>
        %r = op.conv2d %x, %w {options}
          : tensor<{x}xf32>, tensor<{w}xf32> -> tensor<2x{o}xf32>
        job.output "r", %r : tensor<2x{o}xf32>
      }}"""


@pytest.mark.parametrize("input_last", [False, True])
@pytest.mark.parametrize("result_last", [False, True])
@pytest.mark.parametrize("case", LAST)
def test_channels_may_be_last(
    case: str, result_last: bool, input_last: bool, fake: Fake
):
    channels, _, _, stride, groups = LAST[case]
    model = selected(last_job(case, input_last, result_last))
    random = fresh()
    x = random.standard_normal((2, channels, 7, 8)).astype(np.float32)
    given = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if input_last else x
    with opened(model, RecordedDriver()) as session:
        weights = session.state()["w"]
        found = session.run({"x": given})["r"]
    wanted = convolved(x, weights, (stride, stride), (1, 1), groups)
    result = np.moveaxis(found, -1, 1) if result_last else found
    assert close(result, wanted, "f32")
    # Those that no library computes are generated, and it says why.
    assert bool(fake.wanted) != result_last
    reasons = [REFUSED[case, input_last]] if result_last else []
    assert [x for x in library_sums_of(model) if isinstance(x, str)] == reasons


def test_images_whose_channels_are_last_are_generated_too():
    random = fresh()
    x = random.standard_normal((2, 7, 8, 4)).astype(np.float32)
    model = parsed(last_job("windows", True, False))
    with opened(model, RecordedDriver()) as session:
        weights = session.state()["w"]
        found = session.run({"x": x})["r"]
    wanted = convolved(np.moveaxis(x, -1, 1), weights, (1, 1), (1, 1), 1)
    assert close(found, wanted, "f32")


def test_a_library_for_products_computes_no_convolutions(fake: Fake):
    fake.kinds = (Product,)
    op, x, w, o, options = CASES["plain"]
    model = selected(JOB.format(op=op, x=x, w=w, o=o, options=options))
    with pytest.raises(LibraryError) as caught:
        opened(model, RecordedDriver())
    wanted = "which cannot be used: it does not compute a convolution; select its"
    assert wanted in str(caught.value)


class Quick(Fake):
    """It computes once, for the comparison, and nothing when it is timed."""

    def bind(self, wanted: Sum, words: Sequence[int], device: int) -> Launch:
        pending = [super().bind(wanted, words, device)]

        def launch(stream: Handle) -> None:
            if pending:
                pending.pop()(stream)

        return launch


@pytest.mark.slow
@pytest.mark.usefixtures("fake")
def test_cudnn_is_taken_where_it_was_measured_to_be_faster(tmp_path: Path):
    text = JOB.format(
        op="conv2d", x="1x16x14x14", w="16x16x3x3", o="1x16x12x12", options=""
    )
    cuda_libraries.register_library("cudnn", Quick)
    driver, path = RecordedDriver(), str(tmp_path / "kernels.db")
    driver.open(0)
    effort = Effort(warm_up=0, rounds=1, seconds=30)
    tuning = Tuning(
        CompileOptions("cuda", database=Path(path)), effort=effort, driver=driver
    )
    (subject,) = tune(installed_compiler(), parsed(text), tuning)
    assert subject.problems == {}
    assert subject.chosen.name == "cudnn"
    calls = [entry.call for entry in driver.log]
    assert calls.count("allocate") == calls.count("free")
    model = parsed(text)
    gpu = cuda.device_name(driver)
    options = PipelineOptions("cuda", database=path, gpu=gpu)
    run_pipeline(*installed_compiler(), model.module, pipeline(options))
    (each,) = sums_of(model)
    assert each.op.attributes["schedule"] == LibraryAttr("cudnn")


TWICE = """
job.job @twice placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<1x2x6x6xf32>
  %v = job.variable "v" init <xavier_uniform, seed = 3> : tensor<2x2x3x3xf32>
  %w = job.variable "w" init <xavier_uniform, seed = 4> : tensor<2x2x3x3xf32>
  %a = op.conv2d %x, %v : tensor<1x2x6x6xf32>, tensor<2x2x3x3xf32> -> tensor<1x2x4x4xf32>
  %b = op.conv2d %x, %w : tensor<1x2x6x6xf32>, tensor<2x2x3x3xf32> -> tensor<1x2x4x4xf32>
  job.output "a", %a : tensor<1x2x4x4xf32>
  job.output "b", %b : tensor<1x2x4x4xf32>
}
"""  # noqa: E501


def run_twice(driver: RecordedDriver) -> tuple[list[str], list[bool]]:
    """The problems with the order of three pieces, and whether each is right."""
    random = fresh()
    model = selected(TWICE, streams=2)
    with opened(model, driver) as session:
        program = watched(session.executor.program, driver)
        variables = session.state()
        pieces = [
            {"x": random.standard_normal((1, 2, 6, 6)).astype(np.float32)}
            for _ in range(3)
        ]
        with Executor(program, "sequential") as executor:
            driver.note(RUN)
            found = executor.run_many(pieces)
            driver.note(RAN)
        lines = problems(driver.log, program)
    right: list[bool] = []
    for piece, outputs in zip(pieces, found, strict=True):
        for name, weights in ("a", "v"), ("b", "w"):
            wanted = convolved(piece["x"], variables[weights], (1, 1), (1, 1), 1)
            right.append(close(outputs[name], wanted, "f32"))
    return lines, right


@pytest.mark.slow
@pytest.mark.parametrize("captures", [True, False])
def test_no_memory_for_a_library_is_said_with_the_task_and_who_takes_most(
    captures: bool, fake: Fake
):
    fake.size = 1 << 20
    driver = RecordedDriver(captures=captures, memory=1 << 16)
    op, x, w, o, options = CASES["plain"]
    job = JOB.format(op=op, x=x, w=w, o=o, options=options)
    with pytest.raises(PenstockError) as caught:
        opened(selected(job), driver)
    text = re.fullmatch(
        r"there is no memory for 1048576 bytes on CUDA device 0, (\d+) are free: "
        r"task '(\w+)' needs them besides its arguments; most of what the program "
        r"has there is for (.*)",
        str(caught.value),
    )
    assert text is not None, str(caught.value)
    assert 0 < int(text[1]) < 1 << 16
    assert text[2] == "r"
    # Two slots of images, and the result: 2 x 3 x 7 x 8 and 2 x 4 x 5 x 7 floats.
    owners = [
        "'x_cuda/out' 2688 (task 'x_cuda' at job.mlir:3:3)",
        "'r/out' 1120 (task 'r' at job.mlir:5:3)",
    ]
    assert text[3].split(", ")[:2] == owners
    del caught
    gc.collect()
    calls = [entry.call for entry in driver.log]
    assert calls.count("allocate") == calls.count("free") > 0
    # There is room for the program without it.
    with opened(parsed(job), driver) as session:
        session.run({"x": np.zeros([2, 3, 7, 8], np.float32)})


@pytest.mark.parametrize("captures", [True, False])
@pytest.mark.usefixtures("fake")
def test_the_room_of_a_library_is_used_by_one_at_a_time(
    captures: bool, monkeypatch: pytest.MonkeyPatch
):
    driver = RecordedDriver(captures=captures)
    assert run_twice(driver) == ([], [True] * 6)
    calls = [entry.call for entry in driver.log]
    start = [entry.name for entry in driver.log].index(RUN)
    assert "allocate" not in calls[start:]
    assert ("launch_graph" in calls) == captures
    gc.collect()
    calls = [entry.call for entry in driver.log]
    assert calls.count("allocate") == calls.count("free")
    streams = {x.stream for x in driver.log if ".stage_0" in x.name}
    assert len(streams) == 2
    # The check finds what is shared.
    address, given = Rooms.address, list[int]()

    def shared(rooms: Rooms, launching: int, lane: int) -> int:
        given.append(address(rooms, launching, lane))
        return next((each for each in given if each), 0)

    monkeypatch.setattr(Rooms, "address", shared)
    lines, _ = run_twice(RecordedDriver(captures=captures))
    assert lines != []
