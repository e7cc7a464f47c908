"""
Elementwise ops and ops on rows, ours and those of peers.

On one thread ours is what the passes of fusion make of a job, called through its
address, as the executor does; on more it is a session. Each peer does the whole
expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from statistics import geometric_mean
from typing import TYPE_CHECKING, Protocol, cast

from benchmarks.harness import Race, Run, race
from benchmarks.jax_runs import model_run
from benchmarks.report import Section, Table
from benchmarks.sessions import bound_run, imported_model, penstock_run
from benchmarks.speed import race_section

if TYPE_CHECKING:
    from onnx import ModelProto

    from penstock.dialects.op.tensor_op import TensorOp
    from penstock.runtime.loading.initializers import Array

TEXT = """\
Milliseconds of an expression on `f32` (the median and the extremes of all rounds), and
the ratio of a peer's time to ours: above 1, we are faster. `b` and `g` are one row,
anything else has the whole shape. On one thread our kernel is called by itself; on
more, a session runs a model. `best ratio` is that to the best peer."""

SHAPES = {"1024x1024": (1024, 1024), "64x128x768": (64, 128, 768)}


@dataclass(frozen=True)
class Case:
    """An expression: our ops, that of PyTorch, and the nodes of ONNX."""

    operands: str
    """A letter each: `b` and `g` are rows."""
    ops: Sequence[str]
    """Ours: `name = op a, b`, the last of which is the result."""
    torch: str
    nodes: Sequence[str]
    """Those of ONNX: `o = Op(a, b)`, with attributes after a semicolon."""


CASES: Mapping[str, Case] = {
    "add, relu": Case(
        "xy",
        ("s = op.add x, y", "o = op.relu s"),
        "F.relu(x + y)",
        ("s = Add(x, y)", "o = Relu(s)"),
    ),
    "chain": Case(
        "xyz",
        (
            *("p = op.mul x, y", "t = op.tanh p", "e = op.sigmoid z"),
            *("q = op.mul t, e", "o = op.add q, x"),
        ),
        "torch.tanh(x * y) * torch.sigmoid(z) + x",
        (
            *("p = Mul(x, y)", "t = Tanh(p)", "e = Sigmoid(z)"),
            *("q = Mul(t, e)", "o = Add(q, x)"),
        ),
    ),
    "bias, gelu": Case(
        "xb",
        ("s = op.add x, b", "o = op.gelu s"),
        "F.gelu(x + b)",
        ("s = Add(x, b)", "o = Gelu(s)"),
    ),
    "bias, gelu by tanh": Case(
        "xb",
        ("s = op.add x, b", 'o = op.gelu s; approximate "tanh"'),
        "F.gelu(x + b, approximate='tanh')",
        ("s = Add(x, b)", "o = Gelu(s); approximate=tanh"),
    ),
    "layer norm": Case(
        "xgb",
        ("o = op.layer_norm x, g, b",),
        "F.layer_norm(x, g.shape, g, b)",
        ("o = LayerNormalization(x, g, b)",),
    ),
    "add, layer norm": Case(
        "xygb",
        ("s = op.add x, y", "o = op.layer_norm s, g, b"),
        "F.layer_norm(x + y, g.shape, g, b)",
        ("s = Add(x, y)", "o = LayerNormalization(s, g, b)"),
    ),
    "layer norm, softmax": Case(
        "xgb",
        ("n = op.layer_norm x, g, b", "o = op.softmax n"),
        "F.softmax(F.layer_norm(x, g.shape, g, b), -1)",
        ("n = LayerNormalization(x, g, b)", "o = Softmax(n)"),
    ),
    "two layer norms and a sum": Case(
        "xygb",
        ("n = op.layer_norm x, g, b", "s = op.add n, y", "o = op.layer_norm s, g, b"),
        "F.layer_norm(F.layer_norm(x, g.shape, g, b) + y, g.shape, g, b)",
        (
            *("n = LayerNormalization(x, g, b)", "s = Add(n, y)"),
            "o = LayerNormalization(s, g, b)",
        ),
    ),
    "softmax": Case(
        "x", ("o = op.softmax x",), "F.softmax(x, -1)", ("o = Softmax(x)",)
    ),
    "scale, softmax": Case(
        "xb",
        ("s = op.mul x, b", "o = op.softmax s"),
        "F.softmax(x * b, -1)",
        ("s = Mul(x, b)", "o = Softmax(s)"),
    ),
}


def arrays_of(case: Case, shape: Sequence[int]) -> dict[str, Array]:
    """Random operands by name."""
    import numpy as np

    random = np.random.default_rng(5)
    return {
        name: page_aligned(random.normal(size=_shape(name, shape)).astype(np.float32))
        for name in case.operands
    }


def page_aligned(array: Array) -> Array:
    """A copy of an array at the beginning of a page, as plans have it."""
    import numpy as np

    memory = np.empty(array.nbytes + 4096, np.uint8)
    start = -memory.ctypes.data % 4096
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _shape(name: str, shape: Sequence[int]) -> Sequence[int]:
    return shape[-1:] if is_row(name) else shape


def job_text(case: Case, shape: Sequence[int]) -> str:
    """A case as a job."""
    types = {
        name: f"tensor<{'x'.join(map(str, _shape(name, shape)))}xf32>"
        for name in case.operands
    }
    full = types["x"]
    lines = [f'%{name} = job.input "{name}" : {type}' for name, type in types.items()]
    for text in case.ops:
        call, _, properties = text.partition("; ")
        result, _, rest = call.partition(" = ")
        op, _, names = rest.partition(" ")
        used = names.split(", ")
        operands = ", ".join(f"%{name}" for name in used)
        of = ", ".join(types.get(name, full) for name in used)
        lines.append(f"%{result} = {op} {operands} {properties} : {of} -> {full}")
    body = "\n  ".join([*lines, f'job.output "o", %o : {full}'])
    return f"job.job @case placement <cpu, [0:0]> {{\n  {body}\n}}"


def op_of(case: Case, shape: Sequence[int]) -> TensorOp:
    """The only op that is left of a case once it is fused."""
    from xdsl.context import Context
    from xdsl.parser import Parser

    from penstock.dialects import get_all_dialects
    from penstock.dialects.job import JobOp
    from penstock.dialects.op.tensor_op import TensorOp
    from penstock.lowering import get_all_passes

    context = Context()
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    module = Parser(context, job_text(case, shape)).parse_module()
    passes = get_all_passes()
    for name in ("op-fuse-elementwise", "op-fuse-rows"):
        passes[name]()().apply(context, module)
    (job,) = (op for op in module.walk() if isinstance(op, JobOp))
    (op,) = (op for op in job.body.block.ops if isinstance(op, TensorOp))
    return op


def open_penstock(name: str, shape: Sequence[int], threads: int) -> Run:
    """The compiled kernel of the fused op, or a session."""
    case = CASES[name]
    if threads > 1:
        model = imported_model(model_of(case, shape))
        return penstock_run(model, inputs_of(case, shape), threads)
    return kernel_run(op_of(case, shape), arrays_of(case, shape), shape)


def kernel_run(op: TensorOp, arrays: Mapping[str, Array], shape: Sequence[int]) -> Run:
    """The kernel of an op on arrays by the names of its operands."""
    import numpy as np

    from penstock.dialects.kernel.builder import kernel_body
    from penstock.dialects.launch import KernelOp
    from penstock.lowering.codegen.target import kernel_source
    from penstock.runtime.jit.cpu import compile_cpu

    source = kernel_source(KernelOp("kernel", "cpu", kernel_body(op)))
    compiled = compile_cpu(source, "kernel")
    out = page_aligned(np.empty(shape, np.float32))
    names = [str(value.name_hint) for value in op.operands]
    words = [*(arrays[operand].ctypes.data for operand in names), out.ctypes.data]
    row = np.array(words, np.int64)
    call = compiled.bound(row.ctypes.data)

    def run() -> Sequence[Array]:
        call(0, 1)
        return [out] if row.size == len(arrays) + 1 else []

    return run


class _Tensor(Protocol):
    """The part of PyTorch's tensors that is used here."""

    def numpy(self) -> Array:
        """The same elements as an array."""
        ...


def open_torch(
    name: str, shape: Sequence[int], threads: int, compiled: bool = False
) -> Run:
    """PyTorch's functions, one by one or compiled."""
    torch = import_module("torch")
    torch.set_num_threads(threads)
    case = CASES[name]
    names = ", ".join(case.operands)
    scope = {"torch": torch, "F": torch.nn.functional}
    function = cast(
        "Callable[..., _Tensor]", eval(f"lambda {names}: {case.torch}", scope)
    )
    if compiled:
        function = torch.compile(function)
    tensors = [torch.from_numpy(array) for array in arrays_of(case, shape).values()]

    def run() -> Sequence[Array]:
        with torch.inference_mode():
            return [function(*tensors).numpy()]

    return run


def model_of(case: Case, shape: Sequence[int]) -> ModelProto:
    """A case as a model whose rows are constants."""
    helper = import_module("onnx.helper")
    to_tensor = import_module("onnx.numpy_helper").from_array
    arrays = arrays_of(case, shape)
    nodes: list[object] = []
    for text in case.nodes:
        call, _, attribute = text.partition("; ")
        result, _, rest = call.partition(" = ")
        op, _, operands = rest.rstrip(")").partition("(")
        given = dict([attribute.split("=")]) if attribute else {}
        nodes.append(helper.make_node(op, operands.split(", "), [result], **given))
    value = partial(helper.make_tensor_value_info, elem_type=1)
    graph = helper.make_graph(
        nodes,
        "case",
        [value(operand, shape=shape) for operand in inputs_of(case, shape)],
        [value("o", shape=shape)],
        [
            to_tensor(arrays[operand], operand)
            for operand in case.operands
            if is_row(operand)
        ],
    )
    opset = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9)


def inputs_of(case: Case, shape: Sequence[int]) -> dict[str, Array]:
    """The operands that come at run time."""
    arrays = arrays_of(case, shape)
    return {name: array for name, array in arrays.items() if not is_row(name)}


def is_row(operand: str) -> bool:
    """Whether an operand is one row."""
    return operand in "bg"


def open_onnxruntime(name: str, shape: Sequence[int], threads: int) -> Run:
    """A session that writes to a given array."""
    import numpy as np

    case = CASES[name]
    out = np.empty(shape, np.float32)
    return bound_run(model_of(case, shape), inputs_of(case, shape), out, threads)


def open_jax(name: str, shape: Sequence[int], threads: int) -> Run:
    """A function that JAX compiles, on arrays that lie where it wants them."""
    case = CASES[name]
    given = inputs_of(case, shape)
    return model_run(model_of(case, shape), given, threads, fixed=True)


OPENERS: Mapping[str, Callable[[str, Sequence[int], int], Run]] = {
    "Penstock": open_penstock,
    "ONNX Runtime": open_onnxruntime,
    "PyTorch eager": open_torch,
    "torch.compile": partial(open_torch, compiled=True),
    "JAX": open_jax,
}
"""All contenders, ours first."""


def elementwise(
    threads: Sequence[int], rounds: int, names: Sequence[str] = tuple(CASES)
) -> Section:
    """Time cases with each number of threads."""
    races: dict[tuple[str, int], Race] = {}
    flops: dict[str, int] = {}
    for count in threads:
        for size, shape in SHAPES.items():
            for name in names:
                openers = {
                    contender: partial(opener, name, shape, count)
                    for contender, opener in OPENERS.items()
                }
                title = f"{name} {size}"
                races[title, count] = race(openers, rounds)
                flops[title] = op_of(CASES[name], shape).flops()
    found = race_section("Elementwise ops and rows", TEXT, "case", races, flops, rounds)
    header = "threads", "case", "best peer / Penstock"
    return replace(found, tables=[*found.tables, Table(header, best_rows(races))])


def best_rows(races: Mapping[tuple[str, int], Race]) -> list[list[str]]:
    """The ratio to the best peer of each case, and their means."""
    rows: list[list[str]] = []
    for count in dict.fromkeys(count for _, count in races):
        best = {
            title: ratio
            for (title, number), found in races.items()
            if number == count and (ratio := found.best_ratio()) is not None
        }
        rows += [[str(count), title, f"{ratio:.2f}"] for title, ratio in best.items()]
        if best:
            mean = f"{geometric_mean(best.values()):.2f}"
            rows.append([str(count), "geometric mean", mean])
    return rows
