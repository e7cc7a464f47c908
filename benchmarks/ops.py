"""
Single ops of many kinds, in three sizes, ours, those of peers, and what is possible.

Ours and ONNX Runtime's are bound to arrays, where these are contiguous. The rate counts
the bytes of operands and results once; the share is that of the time that the bytes or
the arithmetic take at least on this processor (`benchmarks/limits.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from benchmarks.elementwise import best_rows
from benchmarks.harness import Field, Manner, Race, Run, busy_share
from benchmarks.limits import Limits, measured
from benchmarks.op_cases import CASES, SIZES, Operand, dtype_of, is_named
from benchmarks.report import Section, Table
from benchmarks.sessions import bound_run, imported_model, runtime_run
from benchmarks.speed import flops_of, is_failure, race_data, result_cells
from penstock.cpu_target import most_vector_bytes

if TYPE_CHECKING:
    from onnx import ModelProto

    from penstock.runtime.loading.initializers import Array
    from penstock.tools.session.session import Model

TEXT = """\
Microseconds of one op (the median and the extremes of all rounds), the ratio of a
peer's time to ours (above 1, we are faster), the bytes of operands and results in a
second, and the share that is reached of what this processor can do: the time of these
bytes at the measured bandwidth of their size, or of the arithmetic at the measured
peak, whichever is longer. Elements are `f32` unless a case says so. Sizes are of the
first operand: it stays in the L1 cache, in the L2 cache, or in neither. Ours and ONNX
Runtime's are bound to arrays, and PyTorch is eager; `Penstock, 32 bytes` is code
without AVX-512, with its own peak."""

NARROW = "Penstock, 32 bytes"
NARROW_BYTES = 32

NARROW_SHARE, WIDE_SHARE = 0.7, 0.9
"""The share below which narrow code is too slow, where wide code reaches the other."""

TURN_SECONDS = 0.03
"""The time of a turn: there are hundreds of cases."""


def operands_of(name: str, size: str) -> dict[str, Array]:
    """Random operands by their letters."""
    found = described(name, size)
    return {letter: each.array(7 + ord(letter)) for letter, each in found.items()}


def described(name: str, size: str) -> dict[str, Operand]:
    """The descriptions of operands by their letters."""
    operands = CASES[name].operands(SIZES[size])
    return dict(zip("abcdef", operands, strict=False))


################################################################################
# Models                                                                       #
################################################################################


def model_of(name: str, size: str) -> ModelProto:
    """A case as a model of ONNX."""
    helper, onnx = import_module("onnx.helper"), import_module("onnx")
    case, operands = CASES[name], operands_of(name, size)
    op, *attributes = case.node.split("; ")
    pairs = (text.partition("=") for text in attributes)
    given = {key: ast.literal_eval(value) for key, _, value in pairs}
    constants = {key: constant(value) for key, value in case.constants.items()}
    outputs = [f"y{number}" for number in range(case.outputs)]
    node = helper.make_node(op, [*operands, *constants], outputs, **given)
    graph = helper.make_graph(
        [node],
        "case",
        [
            helper.make_tensor_value_info(
                key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for key, array in operands.items()
        ],
        [helper.make_empty_tensor_value_info(output) for output in outputs],
        [
            onnx.numpy_helper.from_array(array, key)
            for key, array in constants.items()
            if array is not None
        ],
    )
    opset = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    return cast("ModelProto", onnx.shape_inference.infer_shapes(model))


def constant(value: object) -> Array | None:
    """The array of a constant operand."""
    import numpy as np

    if value is None:
        return None
    if isinstance(value, tuple):
        type, number = cast("tuple[str, int]", value)
        return np.array(number, dtype_of(type))
    found = np.array(value)
    return found.astype(np.float32) if found.dtype.kind == "f" else found


def text_of(name: str, size: str) -> str:
    """A case that is written in our text, as a job."""
    case, operands = CASES[name], described(name, size)
    types = {letter: type_of(each) for letter, each in operands.items()}
    extents = operands["a"].shape
    facts = {
        **types,
        "shape_a": "x".join(map(str, extents)),
        "extents_a": ", ".join(map(str, extents)),
        "rows_a": str(extents[0]),
    }
    lines = [f'%{key} = job.input "{key}" : {type}' for key, type in types.items()]
    lines.append(case.node.format(**facts))
    for number, type in enumerate(case.results):
        result = f"%y{number} : {type.format(**facts)}"
        lines.append(f'job.output "y{number}", {result}')
    body = "\n".join(lines)
    return f"job.job @case placement <cpu, [0:0]> {{\n{body}\n}}"


def type_of(operand: Operand) -> str:
    """The type of an operand in our text."""
    element = operand.type.replace("u", "ui")
    return f"tensor<{''.join(f'{extent}x' for extent in operand.shape)}{element}>"


def job_of(name: str, size: str) -> Model:
    """A case as a job of ours."""
    if not CASES[name].is_ours:
        return imported_model(model_of(name, size))
    from penstock.tools.driver.compiler import installed_compiler
    from penstock.tools.session.session import Model

    compiler, _ = installed_compiler()
    return Model(compiler.parse(text_of(name, size).encode(), name), {}, Path())


################################################################################
# Contenders                                                                   #
################################################################################


def open_penstock(name: str, size: str, threads: int) -> Run:
    """A session of ours that is bound to arrays, where they are contiguous."""
    from penstock.tools.session.session import Session

    session = Session(job_of(name, size), threads=threads)
    operands = operands_of(name, size)
    if not are_bound(operands.values()):
        return lambda: [*session.run(operands).values()]
    bound = session.bind(operands)
    return lambda: [*bound.run().values()]


def are_bound(operands: Iterable[Array]) -> bool:
    """Whether arrays can be read where they are."""
    return all(array.flags.c_contiguous for array in operands)


def open_onnxruntime(name: str, size: str, threads: int) -> Run:
    """A session that writes to a given array, if it has one output."""
    model, operands = model_of(name, size), operands_of(name, size)
    run = runtime_run(model, operands, threads)
    outputs = run()
    if len(outputs) > 1 or not are_bound(operands.values()):
        return run
    return bound_run(model, operands, outputs[0].copy(), threads)


def open_torch(name: str, size: str, threads: int, wide: bool = False) -> Run:
    """PyTorch's function; on numbers of 64 bits, if so."""
    torch = import_module("torch")
    torch.set_num_threads(threads)
    operands = operands_of(name, size)
    scope = {"torch": torch, "F": torch.nn.functional}
    function = eval(f"lambda {', '.join(operands)}: {CASES[name].torch}", scope)
    tensors = [tensor_of(array) for array in operands.values()]
    if wide:
        tensors = [x.double() if x.is_floating_point() else x for x in tensors]

    def run() -> Sequence[Array]:
        with torch.inference_mode():
            found = function(*tensors)
        several = CASES[name].outputs > 1
        return [array_of(each) for each in (found if several else [found])]

    return run


def tensor_of(array: Array) -> Any:
    """An array as a tensor of PyTorch, which has another way to read bf16."""
    torch = import_module("torch")
    if array.dtype.kind == "V" or array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def array_of(tensor: Any) -> Array:
    """A tensor of PyTorch as an array."""
    torch = import_module("torch")
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(dtype_of("bf16"))
    return tensor.numpy()


def openers_of(name: str, size: str, threads: int) -> dict[str, Callable[[], Run]]:
    """The contenders that know a case, ours first."""
    found: dict[str, Callable[[], Run]] = {
        OURS: partial(open_penstock, name, size, threads),
        NARROW: partial(open_penstock, name, size, threads),
    }
    kinds = {each.type for each in described(name, size).values()}
    if not CASES[name].is_ours and "bf16" not in kinds:
        found["ONNX Runtime"] = partial(open_onnxruntime, name, size, threads)
    if CASES[name].torch:
        found["PyTorch eager"] = partial(open_torch, name, size, threads)
    return found


OURS = "Penstock"
ENVIRONMENTS: Mapping[str, Mapping[str, str]] = {
    NARROW: {"PENSTOCK_VECTOR_BYTES": str(NARROW_BYTES)}
}
"""Variables of the environment by contenders."""


################################################################################
# Limits                                                                       #
################################################################################


@dataclass(frozen=True)
class Work:
    """The bytes and operations that an op cannot do without."""

    read: int
    written: int
    flops: int
    type: str
    """That of its first operand."""

    @property
    def moved(self) -> int:
        """The bytes of operands and results."""
        return self.read + self.written

    def share(self, limits: Limits, seconds: float) -> float:
        """The share of what is possible that a time stands for."""
        least = limits.seconds(self.read, self.written, self.flops, self.type)
        return least / seconds


def work_of(name: str, size: str) -> Work:
    """The work of a case, by its types."""
    from penstock.dialects.job import OutputOp
    from penstock.dialects.utils.tensors import byte_count

    job, arrays = job_of(name, size), operands_of(name, size)
    outputs = (op for op in job.module.walk() if isinstance(op, OutputOp))
    return Work(
        sum(array.nbytes for array in arrays.values()),
        sum(byte_count(op.value.type) for op in outputs),
        flops_of(job),
        described(name, size)["a"].type,
    )


################################################################################
# The section                                                                  #
################################################################################

HEADER = ("case", "threads", "contender", "us", "range", "ratio", "GB/s", "share")


def ops(
    threads: Sequence[int], rounds: int, words: Sequence[str] = (), size: str = ""
) -> Section:
    """
    Time the ops whose names have one of these words, or all, in one size or all, with
    each number of threads.
    """
    races: dict[tuple[str, int], Race] = {}
    rows: list[Sequence[str]] = []
    problems: list[str] = []
    with Field(ENVIRONMENTS) as field:
        for name, each, count in product(CASES, SIZES, threads):
            if not is_named(name, words) or size not in ("", each):
                continue
            work = work_of(name, each)
            title = f"{name}, {each}"
            found = field.race(openers_of(name, each, count), rounds, manner_of(name))
            races[title, count] = found
            rows += rows_of(title, count, found, work)
            problems += problems_of(title, count, found, work)
    best = Table(("threads", "case", "best peer / Penstock"), best_rows(races))
    data = [
        {"case": title, "threads": count, **race_data(found)}
        for (title, count), found in races.items()
    ]
    return Section("Single ops", TEXT, [Table(HEADER, rows), best], data, problems)


def manner_of(name: str) -> Manner:
    """Short turns, which wait for nothing, and the tolerance of a case."""
    return Manner(
        idle=lambda: busy_share(0.01) <= 0.5,
        turn_seconds=TURN_SECONDS,
        tolerance=CASES[name].tolerance,
    )


def limits_of(contender: str, threads: int) -> Limits:
    """The rates that code with the vectors of a contender can reach."""
    wide = most_vector_bytes()
    return measured(threads, NARROW_BYTES if contender == NARROW else wide)


def rows_of(title: str, threads: int, found: Race, work: Work) -> list[list[str]]:
    """The lines of a case."""
    rows: list[list[str]] = []
    for result in found.results:
        share = ""
        if result.problem is None:
            limits = limits_of(result.name, threads)
            share = f"{work.share(limits, result.median):.2f}"
        cells = result_cells(result, found, work.moved, 1e6)
        rows.append([title, str(threads), result.name, *cells, share])
    return rows


def problems_of(title: str, threads: int, found: Race, work: Work) -> list[str]:
    """Contenders that failed, and narrow code that is far behind wide code."""
    problems = [
        f"{title}, {threads} threads: {result.name}: {result.problem}"
        for result in found.results
        if is_failure(result)
    ]
    shares = {
        result.name: work.share(limits_of(result.name, threads), result.median)
        for result in found.results
        if result.problem is None and result.name in (OURS, NARROW)
    }
    narrow, wide = shares.get(NARROW, 1), shares.get(OURS, 0)
    if narrow < NARROW_SHARE and wide >= WIDE_SHARE:
        text = f"{narrow:.2f} of its limit in 32 bytes, {wide:.2f} in full vectors"
        problems.append(f"{title}, {threads} threads: {text}")
    return problems
