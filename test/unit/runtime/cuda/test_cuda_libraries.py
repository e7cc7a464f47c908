"""Products by libraries: what they are told, where they stand, and what fails how."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from draws import fresh

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.launch import KernelOp, LibraryAttr
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.body.sums_split import split_sums
from penstock.lowering.codegen.cuda.library_calls import unfit_of_libraries
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.convert.raise_linalg_to_kernel import raise_kernel
from penstock.lowering.pipelines import PipelineOptions, pipeline, text_of
from penstock.runtime.cuda import device as cuda
from penstock.runtime.cuda import driver_real as cuda_driver_real
from penstock.runtime.cuda.driver import CudaError, Handle, Launch, Span
from penstock.runtime.cuda.libraries import cublas as cuda_cublas
from penstock.runtime.cuda.libraries import registry as cuda_libraries
from penstock.runtime.cuda.libraries.cublas import Cublas, matrix
from penstock.runtime.cuda.libraries.problems import (
    Library,
    LibraryError,
    Product,
    Sum,
)
from penstock.runtime.cuda.libraries.registry import calls_of
from penstock.runtime.loading.memory import host_bytes
from penstock.runtime.observe.timing_rounds import Effort
from penstock.runtime.testing.cuda_recording_driver import RecordedDriver
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.options import CompileOptions
from penstock.tools.session.session import Model, Session
from penstock.tools.session.tuning import Subject, Tuning, tune

DTYPES = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}
CUDA_TYPES = {0: "f32", 1: "f64", 2: "f16", 14: "bf16"}
TOLERANCES = {"f32": 1e-5, "f64": 1e-12, "f16": 2e-3, "bf16": 1e-2}


def strided(address: int, dtype: np.dtype[Any], strides: Sequence[int], shape: Any):
    """An array at an address, given its strides in elements."""
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
    flat = host_bytes(address, last * dtype.itemsize).view(dtype)
    steps = [stride * dtype.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(flat, shape, steps)


class Function:
    """A C function in Python; notes the types that it was given."""

    def __init__(self, run: Callable[..., int]):
        self.run = run
        self.argtypes: Sequence[Any] = ()
        self.restype: Any = None

    def __call__(self, *args: Any) -> int:
        # As ctypes does: what cannot be converted is an error.
        assert len(args) == len(self.argtypes)
        for type, value in zip(self.argtypes, args, strict=True):
            type.from_param(value)
        return self.run(*args)


class FakeApi:
    """A fake of cuBLAS, as its documentation says, on memory of the host."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fails = 0
        self.cublasCreate_v2 = Function(self.create)
        self.cublasSetMathMode = Function(lambda *args: self.noted("math", *args))
        self.cublasSetStream_v2 = Function(lambda *args: self.noted("stream", *args))
        self.cublasGemmStridedBatchedEx = Function(self.product)

    def noted(self, *call: Any) -> int:
        self.calls.append(call)
        return 0

    def create(self, place: Any) -> int:
        place._obj.value = 77 + len(self.calls)
        return self.noted("create")

    def product(self, handle: int, *args: Any) -> int:
        """All matrices lie column by column."""
        turn_a, turn_b, m, n, k, alpha, *rest = args
        (a, kind_a, lda, stride_a, b, kind_b, ldb, stride_b, beta, c, *rest) = rest
        kind_c, ldc, stride_c, batch, compute, algorithm = rest
        assert kind_a == kind_b == kind_c
        assert compute == (70 if kind_c == 1 else 68)
        assert algorithm == -1
        dtype = DTYPES[CUDA_TYPES[kind_c]]
        assert lda >= (k if turn_a else m)
        assert ldb >= (n if turn_b else k)
        assert ldc >= m
        wide = np.float64
        for number in range(batch):
            at = [
                address + number * stride * dtype.itemsize
                for address, stride in ((a, stride_a), (b, stride_b), (c, stride_c))
            ]
            steps = (lda, 1) if turn_a else (1, lda)
            first = strided(at[0], dtype, steps, (m, k)).astype(wide)
            steps = (ldb, 1) if turn_b else (1, ldb)
            second = strided(at[1], dtype, steps, (k, n)).astype(wide)
            out = strided(at[2], dtype, (1, ldc), (m, n))
            start = out.astype(wide) if beta[0] else np.zeros((m, n))
            out[...] = (alpha[0] * (first @ second) + beta[0] * start).astype(dtype)
        self.calls.append(("product", handle))
        return self.fails


# What cuBLAS is told


@pytest.mark.parametrize("element", DTYPES)
def test_products_of_random_layouts_are_those_of_numpy(element: str):
    random = fresh()
    dtype = DTYPES[element]
    api = FakeApi()
    library = Cublas(api)
    library.open(0)
    for _ in range(20):
        rows, columns, terms, batch = (int(x) for x in random.integers(1, 7, 4))
        shared = bool(random.integers(2)), bool(random.integers(2))
        values: list[np.ndarray[Any, np.dtype[Any]]] = []
        steps: list[tuple[int, int]] = []
        strides: list[int] = []
        for side, shape in enumerate(((rows, terms), (terms, columns))):
            turned, pad = bool(random.integers(2)), int(random.integers(3))
            size = shape[::-1] if turned else shape
            full = random.standard_normal((batch, size[0], size[1] + pad))
            array = full.astype(dtype)
            step = (1, size[1] + pad) if turned else (size[1] + pad, 1)
            steps.append(step)
            strides.append(0 if shared[side] else size[0] * (size[1] + pad))
            values.append(array)
        pad, adds = int(random.integers(3)), bool(random.integers(2))
        start = random.standard_normal((batch, rows, columns + pad)).astype(dtype)
        out = start.copy()
        product = Product(
            element,
            (rows, columns, terms),
            steps[0],
            steps[1],
            columns + pad,
            batch,
            (strides[0], strides[1], rows * (columns + pad)),
            adds,
        )
        words = [array.ctypes.data for array in (*values, out)]
        library.bind(product, words, 0)(5)
        shapes = (rows, terms), (terms, columns)
        for number in range(batch):
            a, b = (
                strided(
                    array.ctypes.data + number * stride * dtype.itemsize,
                    dtype,
                    step,
                    shape,
                ).astype(np.float64)
                for array, stride, step, shape in zip(
                    values, strides, steps, shapes, strict=True
                )
            )
            wanted = a @ b + adds * start[number, :, :columns].astype(np.float64)
            found = out[number, :, :columns].astype(np.float64)
            limit = TOLERANCES[element] * max(1.0, float(np.abs(wanted).max()))
            assert np.abs(found - wanted).max() <= limit
        assert np.array_equal(out[:, :, columns:], start[:, :, columns:])


def test_each_device_has_a_handle_and_each_launch_its_stream():
    api = FakeApi()
    library = Cublas(api)
    for device in (0, 1, 0):
        library.open(device)
    assert [call[0] for call in api.calls] == ["create", "math"] * 2
    # The default mode, and no sums of 16 bits; TF32 would be 3.
    assert {call[2] for call in api.calls if call[0] == "math"} == {16}
    data = np.ones(3, np.float32)
    product = Product("f32", (1, 1, 1), (1, 1), (1, 1), 1)
    words = [data.ctypes.data + 4 * index for index in range(3)]
    launch = library.bind(product, words, 1)
    launch(8)
    launch(9)
    streams = [call[2] for call in api.calls if call[0] == "stream"]
    handles = {call[1] for call in api.calls if call[0] in ("stream", "product")}
    assert (streams, len(handles)) == ([8, 9], 1)
    library.forget(1)
    library.open(1)
    assert [call[0] for call in api.calls].count("create") == 3


def test_a_status_is_an_error():
    api = FakeApi()
    library = Cublas(api)
    library.open(0)
    api.fails = 13
    data = np.ones(3, np.float32)
    words = [data.ctypes.data] * 3
    product = Product("f32", (1, 1, 1), (1, 1), (1, 1), 1)
    with pytest.raises(CudaError) as caught:
        library.bind(product, words, 0)(0)
    assert str(caught.value) == "cublasGemmStridedBatchedEx failed: status 13"


def test_matrices_without_lines_are_none():
    assert matrix((2, 6), (3, 3)) is None
    assert matrix((1, 2), (3, 3)) is None
    assert matrix((1, 3), (3, 3)) == (0, 3)
    assert matrix((3, 1), (3, 3)) == (1, 3)


def test_sizes_reach_to_the_last_elements():
    product = Product("bf16", (2, 3, 4), (4, 1), (1, 5), 7, 2, (0, 20, 14))
    assert product.sizes == (16, 68, 48)


def test_without_the_library_an_error_says_so(monkeypatch: pytest.MonkeyPatch):
    def failing(name: str) -> Any:
        raise RuntimeError("no lib\nmore of it")

    monkeypatch.setattr(cuda_cublas, "import_module", failing)
    with pytest.raises(LibraryError) as caught:
        cuda_cublas.open_cublas()
    assert str(caught.value) == "cuBLAS is not installed: no lib"


# Libraries in kernels


@dataclass
class FakeLibrary:
    """Computes with NumPy what it is asked for; off by a factor, if wanted."""

    is_capturable: bool = True
    factor: float = 1.0
    log: list[str] = field(default_factory=list[str])
    kinds: tuple[type[Sum], ...] = (Product,)

    def open(self, device: int) -> None:
        self.log.append(f"open {device}")

    def forget(self, device: int) -> None:
        self.log.append(f"forget {device}")

    def room(self, wanted: Sum, device: int) -> int:
        return 0

    def bind(self, wanted: Sum, words: Sequence[int], device: int) -> Launch:
        assert isinstance(wanted, Product)
        product = wanted
        dtype = DTYPES[product.element]
        rows, columns, terms = product.extents

        def launch(stream: Handle) -> None:
            self.log.append("launch")
            for number in range(product.batch):
                places = [
                    word + number * stride * dtype.itemsize
                    for word, stride in zip(words, product.strides, strict=True)
                ]
                a = strided(places[0], dtype, product.a_steps, (rows, terms))
                b = strided(places[1], dtype, product.b_steps, (terms, columns))
                steps = product.row_step, 1
                out = strided(places[2], dtype, steps, (rows, columns))
                found = a.astype(np.float64) @ b.astype(np.float64)
                start = out.astype(np.float64) if product.adds else 0.0
                out[...] = (self.factor * found + start).astype(dtype)

        return launch


class CardApi:
    """
    The part of `cuda.bindings.driver` that the driver of GPUs uses to load a library.
    """

    FOUND = {
        "cuCtxSetCurrent": (),
        "cuDeviceGet": (7,),
        "cuDeviceGetAttribute": (9,),
        "cuDeviceGetCount": (1,),
        "cuDeviceGetName": (b"A card\0\0",),
        "cuDevicePrimaryCtxRetain": ("context",),
        "cuDriverGetVersion": (13000,),
        "cuMemAlloc": (4096,),
        "cuMemGetInfo": (10, 100),
        "cuStreamCreate": (5,),
    }
    CUresult = SimpleNamespace(CUDA_ERROR_OUT_OF_MEMORY=2)
    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=1,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=2,
    )
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)

    def __init__(self, *, is_full: bool):
        self.is_full = is_full
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        def call(*_: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            code = 2 if self.is_full and name == "cuMemAlloc" else 0
            return code, *self.FOUND.get(name, ())

        return call


ONE_CALL = """
PARAMETERS = ["float32", "float32", "float32"]
STAGES = [
]
LIBRARY_CALLS = [
    ('stage_0', 'fake', (1, 0, 2), 'Product', {'element': 'f32', 'extents': (2, 3, 4), \
'a_steps': (4, 1), 'b_steps': (3, 1), 'row_step': 3}),
]
"""


@pytest.mark.parametrize("is_full", [True, False])
def test_on_a_card_a_library_computes_once_before_it_may_be_captured(
    is_full: bool, register: Register, monkeypatch: pytest.MonkeyPatch
):
    def compiled(*_: object) -> dict[str, tuple[()]]:
        return {"kernel": ()}

    given: list[tuple[list[int], Handle]] = []

    class Noting(FakeLibrary):
        def bind(self, wanted: Sum, words: Sequence[int], device: int) -> Launch:
            return lambda stream: given.append(([*words], stream))

    register(Noting())
    monkeypatch.setattr(cuda_driver_real, "compile_kernels", compiled)
    api = CardApi(is_full=is_full)
    driver = cuda_driver_real.RealDriver(api)
    driver.open(0)
    (function,) = driver.load("kernel", ONE_CALL)
    assert given == ([] if is_full else [([4096] * 3, 5)])
    assert api.calls.count("cuMemFree") == (0 if is_full else 3)
    assert api.calls.count("cuStreamDestroy") == 1
    spans = [Span(word, 96, True) for word in (16, 32, 48, 64)]
    driver.bind(function, [16, 32, 48, 64], spans)(6)
    assert given[-1] == ([32, 16, 48], 6)
    assert driver.describe() == "A card, sm_99, driver 13000"


Register = Callable[[Library], None]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Register]:
    """Let a library be known as `fake`."""
    monkeypatch.setattr(cuda_libraries, "OPENERS", dict(cuda_libraries.OPENERS))

    def add(library: Library) -> None:
        cuda_libraries.register_library("fake", lambda: library)

    yield add
    cuda_libraries.register_library("fake", FakeLibrary)


HIDDEN = """
job.job @hidden placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<2x5x8xf32>
  %w = job.variable "w" init <xavier_uniform, seed = 3> : tensor<8x12xf32>
  %p = op.matmul %x, %w : tensor<2x5x8xf32>, tensor<8x12xf32> -> tensor<2x5x12xf32>
  %r = op.relu %p : tensor<2x5x12xf32> -> tensor<2x5x12xf32>
  %s = op.softmax %r axis 2 : tensor<2x5x12xf32> -> tensor<2x5x12xf32>
  job.output "r", %r : tensor<2x5x12xf32>
  job.output "s", %s : tensor<2x5x12xf32>
}
"""


def selected(text: str, library: str) -> Model:
    """A job lowered for `cuda`, whose sums of products a library computes."""
    front = installed_compiler()
    module = front[0].parse(text.encode(), "job.mlir")
    run_pipeline(*front, module, pipeline(PipelineOptions("cuda")))
    for kernel in module.walk():
        if isinstance(kernel, KernelOp):
            # Small ones are loops by now.
            raise_kernel(kernel)
            for op in kernel.body.block.ops:
                if isinstance(op, ContractOp):
                    op = split_sums(op, unfit_of_libraries(op))
                    op.attributes["schedule"] = LibraryAttr(library)
    return Model(module, {}, Path())


def opened(model: Model, driver: RecordedDriver) -> Session:
    front = installed_compiler()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "open_cuda", lambda: cuda.Cuda(driver))
        return Session(model, compiler=front)


@pytest.mark.parametrize("is_capturable", [True, False])
def test_a_library_computes_a_stage_in_its_place(
    is_capturable: bool, register: Register
):
    library = FakeLibrary(is_capturable)
    register(library)
    driver = RecordedDriver()
    random = fresh()
    pieces = [
        {"x": random.standard_normal((2, 5, 8)).astype(np.float32)} for _ in range(3)
    ]
    with opened(selected(HIDDEN, "fake"), driver) as session:
        w = np.asarray(session.state()["w"], np.float64)
        found = session.run_many(pieces)
        calls = [entry.call for entry in driver.log]
    assert library.log.count("open 0") == 1
    assert library.log.count("launch") == 3
    assert ("launch_graph" in calls) == is_capturable
    for piece, outputs in zip(pieces, found, strict=True):
        r = np.maximum(piece["x"].astype(np.float64) @ w, 0)
        powers = np.exp(r)
        np.testing.assert_allclose(
            np.asarray(outputs["r"], float), r, rtol=1e-5, atol=1e-6
        )
        s = powers / powers.sum(-1, keepdims=True)
        np.testing.assert_allclose(
            np.asarray(outputs["s"], float), s, rtol=1e-4, atol=1e-6
        )


def test_without_the_library_a_program_is_not_loaded(register: Register):
    def absent() -> Library:
        raise LibraryError("it is not installed")

    cuda_libraries.register_library("fake", absent)
    with pytest.raises(LibraryError) as caught:
        opened(selected(HIDDEN, "fake"), RecordedDriver())
    assert str(caught.value).endswith(
        "was selected to be computed by 'fake', which cannot be used: it is not "
        "installed; select its kernels anew"
    )
    with pytest.raises(LibraryError, match="there is no library 'other', known are: "):
        opened(selected(HIDDEN, "other"), RecordedDriver())


SUM = """
launch.kernel @sum target "cuda" ({arguments}) {{
  %z = arith.constant {zero} : f32
  linalg.fill ins(%z : f32) outs(%o : {o})
  linalg.generic {{
    indexing_maps = [{maps}],
    iterator_types = [{iterators}]
  }} ins(%a, %b : {a}, {b}) outs(%o : {o})
  attrs = {{schedule = #launch.library<"fake">}} {{
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }}
}}
"""


def kernel_text(
    a: str, b: str, o: str, loops: str, maps: Sequence[str], **facts: str
) -> str:
    """A kernel of one sum of products; `loops` has a letter for each."""
    names = ", ".join(f"d{n}" for n in range(len(loops)))
    types = [f"memref<{x}xf32>" for x in (a, b, o)]
    given = {"zero": "0.0", **facts}
    kinds = ("parallel" if x == "p" else "reduction" for x in loops)
    return SUM.format(
        arguments=", ".join(f"%{n}: {t}" for n, t in zip("abo", types, strict=True)),
        a=types[0],
        b=types[1],
        o=types[2],
        maps=", ".join(f"affine_map<({names}) -> ({map})>" for map in maps),
        iterators=", ".join(f'"{kind}"' for kind in kinds),
        **given,
    )


PLAIN = kernel_text(
    "4x6", "6x8", "4x8", "ppr", ("d0, d2", "d2, d1", "d0, d1"), zero="1.0"
)


def test_a_source_tells_of_calls(parse_raised: Callable[[str], KernelOp]):
    (call,) = calls_of(kernel_source(parse_raised(PLAIN)))
    assert (call.stage, call.library, call.arguments) == ("stage_1", "fake", (0, 1, 2))
    assert call.wanted == Product("f32", (4, 8, 6), (6, 1), (8, 1), 8, adds=True)
    heads = kernel_text(
        "2x3x4x6", "2x3x8x6", "2x3x4x8", "ppppr",
        ("d0, d1, d2, d4", "d0, d1, d3, d4", "d0, d1, d2, d3"),
    )  # fmt: skip
    (call,) = calls_of(kernel_source(parse_raised(heads)))
    wanted = Product("f32", (4, 8, 6), (6, 1), (1, 6), 8, 6, (24, 48, 32))
    assert (call.stage, call.wanted) == ("stage_0", wanted)


NO_LIBRARY = {
    "its operands do not begin at their first elements": kernel_text(
        "5x6", "6x8", "4x8", "ppr", ("d0 + 1, d2", "d2, d1", "d0, d1"),
    ),
    "neither rows nor terms of the first factor follow each other": kernel_text(
        "4x6x2", "6x8", "4x8", "ppr", ("d0, d2, 0", "d2, d1", "d0, d1"),
    ),
    "neither terms nor columns of the second factor follow each other": kernel_text(
        "4x6", "6x8x2", "4x8", "ppr", ("d0, d2", "d2, d1, 0", "d0, d1"),
    ),
    "its products are not equally far apart": kernel_text(
        "3x2x4x6", "2x6x8", "3x2x4x8", "ppppr",
        ("d0, d1, d2, d4", "d1, d4, d3", "d0, d1, d2, d3"),
    ),
    "its loops are not those of a convolution": kernel_text(
        "3x2x6x6", "2x5x2x3x3", "2x3x5x4x4", "ppppprrr",
        ("d1, d5, d3 + d6, d4 + d7", "d0, d2, d5, d6, d7", "d0, d1, d2, d3, d4"),
    ),
    "its filters do not follow each other": kernel_text(
        "1x3x6x6", "4x2x3x3x3", "1x4x4x4", "pppprrr",
        ("d0, d4, d2 + d5, d3 + d6", "d1, 0, d4, d5, d6", "d0, d1, d2, d3"),
    ),
    "its channels or images are not equally far apart": kernel_text(
        "3x2x2x6x6", "4x2x3x3", "2x3x4x4x4", "ppppprrr",
        ("d1, d0, d5, d3 + d6, d4 + d7", "d2, d5, d6, d7", "d0, d1, d2, d3, d4"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", NO_LIBRARY)
def test_what_no_library_computes_is_refused(
    reason: str, parse_raised: Callable[[str], KernelOp]
):
    with pytest.raises(LocatedPassFailure) as caught:
        kernel_source(parse_raised(NO_LIBRARY[reason]))
    assert any(reason in text for _, text in caught.value.findings), caught.value


# Which is taken

HALVES = """
job.job @halves placement <cuda, [0:0]> {
  %a = job.input "a" : tensor<64x64xbf16>
  %b = job.input "b" : tensor<64x64xbf16>
  %o = op.matmul %a, %b : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  job.output "o", %o : tensor<64x64xbf16>
}
"""
EFFORT = Effort(warm_up=0, rounds=1, seconds=30)


@pytest.fixture
def cublas(monkeypatch: pytest.MonkeyPatch) -> Iterator[Register]:
    """Let a library stand in for cuBLAS."""
    opener = cuda_libraries.OPENERS["cublas"]
    yield lambda library: cuda_libraries.register_library("cublas", lambda: library)
    cuda_libraries.register_library("cublas", opener)


def parsed(text: str) -> Model:
    front = installed_compiler()
    return Model(front[0].parse(text.encode(), "job.mlir"), {}, Path())


def tuned(path: Path, driver: RecordedDriver) -> Subject:
    """The one kernel of a job, measured on a device."""
    tuning = Tuning(CompileOptions("cuda", database=path), effort=EFFORT, driver=driver)
    (subject,) = tune(installed_compiler(), parsed(HALVES), tuning)
    return subject


def taken(path: Path, gpu: str) -> tuple[str, str]:
    """The selection for the kernel, and the alternatives that were not taken."""
    model = parsed(HALVES)
    options = PipelineOptions("cuda", database=str(path), gpu=gpu)
    text = text_of(pipeline(options))
    text = text.replace(
        "launch-select-kernels{", "launch-select-kernels{refusals=true "
    )
    run_pipeline(*installed_compiler(), model.module, text)
    (kernel,) = (op for op in model.module.walk() if isinstance(op, KernelOp))
    return str(kernel.attributes["selected"]), str(kernel.attributes.get("refused"))


def test_a_library_is_taken_where_it_was_measured_to_be_faster(
    tmp_path: Path, cublas: Register
):
    library = FakeLibrary()
    cublas(library)
    driver = RecordedDriver()
    driver.open(0)
    path = tmp_path / "kernels.db"
    subject = tuned(path, driver)
    assert subject.problems == {}
    assert subject.times.keys() == {"rules", "cublas"}
    assert subject.chosen.name == "cublas"
    assert {entry.call for entry in driver.log} >= {"free", "destroy_stream"}
    gpu = cuda.device_name(driver)
    selection, _ = taken(path, gpu)
    assert selection.startswith('"cublas: '), selection
    # Of another device, or of none, nothing is known.
    for other in ("another", ""):
        selection, refused = taken(path, other)
        assert selection == '"rules: nothing else is offered"'
        assert '"cublas: was not measured"' in refused


@pytest.mark.parametrize("is_there", [True, False])
def test_a_library_that_is_wrong_or_missing_is_left_out(
    is_there: bool, tmp_path: Path, cublas: Register
):
    def absent() -> Library:
        raise LibraryError("it is not installed")

    cublas(FakeLibrary(factor=1.5))
    if not is_there:
        cuda_libraries.register_library("cublas", absent)
    driver = RecordedDriver()
    driver.open(0)
    path = tmp_path / "kernels.db"
    subject = tuned(path, driver)
    reason = (
        "argument 2 differs by " if is_there else "kernel @cublas was selected to be"
    )
    assert subject.problems.keys() == {"cublas"}
    assert reason in subject.problems["cublas"]
    assert subject.times.keys() == {"rules"}
    selection, refused = taken(path, cuda.device_name(driver))
    assert selection.startswith('"rules: ')
    assert '"cublas: was not measured"' in refused
