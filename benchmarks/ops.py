"""
Single ops of many kinds, in three sizes, ours and those of peers.

Each case is a node of ONNX and the same as an expression of PyTorch. Ours is a session,
as a user runs it. The rate counts the bytes of operands and results once, so that ops
that only move bytes can be compared with a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, cast

from benchmarks.elementwise import best_rows
from benchmarks.harness import Race, Run, race
from benchmarks.report import Section, Table
from benchmarks.sessions import bound_run, imported_model, penstock_run, runtime_run
from benchmarks.speed import race_section

if TYPE_CHECKING:
    from onnx import ModelProto

    from penstock.runtime.loading.initializers import Array

Shape: TypeAlias = tuple[int, ...]

TEXT = """\
Milliseconds of one op on `f32` (the median and the extremes of all rounds), the ratio
of a peer's time to ours (above 1, we are faster), and the bytes of operands and results
in a second. Sizes are of the first operand: it stays in the L1 cache, in the L2 cache,
or in neither. Ours is a session, ONNX Runtime writes to a given array, and PyTorch is
eager. The worst ratios stand first."""

SIZES = {"L1": 1 << 12, "L2": 1 << 17, "memory": 1 << 22}
"""The elements of the first operand."""

WORST = 5
"""The cases of the table of the worst."""


@dataclass(frozen=True)
class Case:
    """A node of ONNX, and PyTorch's expression of its operands `a`, `b`..."""

    node: str
    """The op, and its attributes after a semicolon."""
    torch: str
    shapes: Callable[[int], Sequence[Shape]]
    """The shapes of operands for a number of elements."""
    constants: Mapping[str, Sequence[int] | int] = field(default_factory=dict)
    """The last operands by any names."""
    indices: int | None = None
    """The number of the operand that holds indices into the first one's rows."""
    outputs: int = 1


def matrix(count: int) -> Shape:
    """A matrix whose rows and columns are powers of two."""
    columns = 1 << (count.bit_length() - 1) // 2
    return count // columns, columns


def image(count: int) -> Shape:
    """An image of 64 channels."""
    return 1, 64, *matrix(count // 64)


def one(count: int) -> Sequence[Shape]:
    """One matrix."""
    return [matrix(count)]


def two(count: int) -> Sequence[Shape]:
    """Two matrices."""
    return [matrix(count)] * 2


def with_row(count: int) -> Sequence[Shape]:
    """A matrix and a row."""
    return [matrix(count), matrix(count)[1:]]


def one_image(count: int) -> Sequence[Shape]:
    """One image."""
    return [image(count)]


def reversed_image(count: int) -> Sequence[Shape]:
    """An image whose channels are last."""
    return [(1, *image(count)[2:], 64)]


def cube(count: int) -> Sequence[Shape]:
    """A tensor of four dimensions."""
    rows, columns = matrix(count)
    return [(*matrix(rows), *matrix(columns))]


def normalized(count: int) -> Sequence[Shape]:
    """An image, and the scale and the bias of its channels."""
    return [image(count), (64,), (64,)]


def looked_up(count: int) -> Sequence[Shape]:
    """Rows of 64 elements, and as many indices of these as there are."""
    return [(count // 64, 64), (count // 64,)]


def of(node: str, torch: str, *, like: Callable[[int], Sequence[Shape]] = one) -> Case:
    """A case of operands alone."""
    return Case(node, torch, like)


def over(node: str, torch: str, *axes: int) -> Case:
    """A reduction of a matrix, or of an image, over axes."""
    shapes = one_image if max(axes) > 1 else one
    return Case(f"{node}; keepdims=0", torch, shapes, {"axes": axes})


CASES: Mapping[str, Case] = {
    "transpose": of("Transpose; perm=[1, 0]", "a.t().contiguous()"),
    "channels last": of(
        "Transpose; perm=[0, 2, 3, 1]",
        "a.permute(0, 2, 3, 1).contiguous()",
        like=one_image,
    ),
    "channels first": of(
        "Transpose; perm=[0, 3, 1, 2]",
        "a.permute(0, 3, 1, 2).contiguous()",
        like=reversed_image,
    ),
    "reversed dimensions": of(
        "Transpose; perm=[3, 2, 1, 0]", "a.permute(3, 2, 1, 0).contiguous()", like=cube
    ),
    "concatenation of rows": of("Concat; axis=1", "torch.cat([a, b], 1)", like=two),
    "lookup of rows": Case("Gather", "a[b]", looked_up, indices=1),
    "add": of("Add", "a + b", like=two),
    "add a row": of("Add", "a + b", like=with_row),
    "divide": of("Div", "a / b", like=two),
    "relu": of("Relu", "torch.relu(a)"),
    "exp": of("Exp", "torch.exp(a)"),
    "sin": of("Sin", "torch.sin(a)"),
    "cos": of("Cos", "torch.cos(a)"),
    "tanh": of("Tanh", "torch.tanh(a)"),
    "erf": of("Erf", "torch.erf(a)"),
    "sigmoid": of("Sigmoid", "torch.sigmoid(a)"),
    "gelu": of("Gelu", "F.gelu(a)"),
    "sum of rows": over("ReduceSum", "a.sum(1)", 1),
    "sum of columns": over("ReduceSum", "a.sum(0)", 0),
    "largest of rows": over("ReduceMax", "a.amax(1)", 1),
    "largest of columns": over("ReduceMax", "a.amax(0)", 0),
    "mean of images": over("ReduceMean", "a.mean((2, 3))", 2, 3),
    "place of the largest of rows": of("ArgMax; axis=1; keepdims=0", "a.argmax(1)"),
    "place of the largest of columns": of("ArgMax; axis=0; keepdims=0", "a.argmax(0)"),
    "10 largest of rows": Case(
        "TopK; axis=1", "torch.topk(a, 10, 1)", one, {"k": [10]}, outputs=2
    ),
    "sums along rows": Case("CumSum", "a.cumsum(1)", one, {"axis": 1}),
    "sums along columns": Case("CumSum", "a.cumsum(0)", one, {"axis": 0}),
    "softmax": of("Softmax; axis=1", "torch.softmax(a, 1)"),
    "log-softmax": of("LogSoftmax; axis=1", "torch.log_softmax(a, 1)"),
    "group norm": of(
        "GroupNormalization; num_groups=8",
        "F.group_norm(a, 8, b, c)",
        like=normalized,
    ),
    "instance norm": of(
        "InstanceNormalization", "F.instance_norm(a, None, None, b, c)", like=normalized
    ),
}


def operands_of(name: str, size: str) -> dict[str, Array]:
    """Random operands by their letters."""
    import numpy as np

    case, random = CASES[name], np.random.default_rng(7)
    found: dict[str, Array] = {}
    shapes = case.shapes(SIZES[size])
    for number, shape in enumerate(shapes):
        letter = "abc"[number]
        if number == case.indices:
            found[letter] = random.integers(0, shapes[0][0], shape)
        else:
            # Away from zero, as something is divided by it.
            found[letter] = random.normal(4, 1, shape).astype(np.float32)
    return found


def model_of(name: str, size: str) -> ModelProto:
    """A case as a model."""
    import numpy as np

    helper, onnx = import_module("onnx.helper"), import_module("onnx")
    case, operands = CASES[name], operands_of(name, size)
    op, *attributes = case.node.split("; ")
    given = {
        key: [*map(int, value.strip("[]").split(","))] if "[" in value else int(value)
        for key, _, value in (text.partition("=") for text in attributes)
    }
    constants = {key: np.array(value) for key, value in case.constants.items()}
    outputs = [f"y{number}" for number in range(case.outputs)]
    node = helper.make_node(op, [*operands, *constants], outputs, **given)
    kinds = {"f": 1, "i": 7}
    graph = helper.make_graph(
        [node],
        "case",
        [
            helper.make_tensor_value_info(key, kinds[array.dtype.kind], array.shape)
            for key, array in operands.items()
        ],
        [helper.make_empty_tensor_value_info(output) for output in outputs],
        [onnx.numpy_helper.from_array(array, key) for key, array in constants.items()],
    )
    opset = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    return cast("ModelProto", onnx.shape_inference.infer_shapes(model))


def open_penstock(name: str, size: str, threads: int) -> Run:
    """A session of ours."""
    model = imported_model(model_of(name, size))
    return penstock_run(model, operands_of(name, size), threads)


def open_onnxruntime(name: str, size: str, threads: int) -> Run:
    """A session that writes to a given array, if it has one output."""
    model, operands = model_of(name, size), operands_of(name, size)
    run = runtime_run(model, operands, threads)
    outputs = run()
    if len(outputs) > 1:
        return run
    return bound_run(model, operands, outputs[0].copy(), threads)


def open_torch(name: str, size: str, threads: int) -> Run:
    """PyTorch's function."""
    torch = import_module("torch")
    torch.set_num_threads(threads)
    operands = operands_of(name, size)
    scope = {"torch": torch, "F": torch.nn.functional}
    function = eval(f"lambda {', '.join(operands)}: {CASES[name].torch}", scope)
    tensors = [torch.from_numpy(array) for array in operands.values()]

    def run() -> Sequence[Array]:
        with torch.inference_mode():
            found = function(*tensors)
        several = CASES[name].outputs > 1
        return [each.numpy() for each in (found if several else [found])]

    return run


OPENERS: Mapping[str, Callable[[str, str, int], Run]] = {
    "Penstock": open_penstock,
    "ONNX Runtime": open_onnxruntime,
    "PyTorch eager": open_torch,
}
"""All contenders, ours first."""


def moved_bytes(name: str, size: str) -> int:
    """The bytes of operands and results."""
    run = open_onnxruntime(name, size, 1)
    arrays = [*operands_of(name, size).values(), *run()]
    return sum(array.nbytes for array in arrays)


def ops(
    threads: Sequence[int],
    rounds: int,
    names: Sequence[str] = tuple(CASES),
    sizes: Sequence[str] = tuple(SIZES),
) -> Section:
    """Time all ops in all sizes with each number of threads."""
    races: dict[tuple[str, int], Race] = {}
    moved: dict[str, int] = {}
    for count in threads:
        for name in names:
            for size in sizes:
                openers = {
                    contender: partial(opener, name, size, count)
                    for contender, opener in OPENERS.items()
                }
                title = f"{name}, {size}"
                races[title, count] = race(openers, rounds)
                moved[title] = moved_bytes(name, size)
    found = race_section("Single ops", TEXT, "case", races, moved, rounds, "GB/s")
    header = "threads", "case", "best peer / Penstock"
    best = Table(header, best_rows(races))
    return replace(found, tables=[worst_of(best), *found.tables, best])


def worst_of(best: Table) -> Table:
    """The cases with the worst ratios to the best peer."""
    cases = [row for row in best.rows if row[1] != "geometric mean"]
    rows = sorted(cases, key=lambda row: float(row[2]))[:WORST]
    return Table(
        ("worst", "threads", "ratio"), [(case, count, x) for count, case, x in rows]
    )
