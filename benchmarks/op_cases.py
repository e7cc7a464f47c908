"""
The cases of single ops: every op of the dialect that computes something, of the common
types and layouts, as a node of ONNX or in our text, and as an expression of PyTorch.

Operands are named by letters. The size of a case is that of the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

Shape: TypeAlias = tuple[int, ...]

SIZES = {"L1": 1 << 12, "L2": 1 << 17, "memory": 1 << 22}
"""The elements of the first operand."""

WITHOUT_WORK = {
    **dict.fromkeys(("op.constant", "op.yield", "op.yield_wave"), "no kernel"),
    **dict.fromkeys(("op.stop_gradient", "op.reshape"), "moves nothing"),
    **dict.fromkeys(("op.if", "op.loop", "op.require"), "runs what other ops compute"),
    **dict.fromkeys(("op.fused", "op.wave"), "made of other ops by passes"),
    **dict.fromkeys(
        ("op.acc", "op.last", "op.pack", "op.repeat", "op.unpack"),
        "joins acts of a job to pieces of another rate",
    ),
    **dict.fromkeys(("op.winograd_split", "op.winograd_join"), "made by a pass"),
}
"""The ops that are no case, and why."""


@dataclass(frozen=True)
class Operand:
    """The values of an operand, its type and its layout."""

    shape: Shape
    type: str = "f32"
    low: float = 1
    high: float = 8
    """Values are uniform between these; or it is a permutation, if both are 0."""
    layout: str = "rows"
    """`rows`, `columns` (transposed), `every second`, or `unaligned`."""

    def array(self, seed: int) -> Array:
        """Random values of a seed."""
        import numpy as np

        random = np.random.default_rng(seed)
        if self.low == self.high:
            found = random.permutation(self.shape[0]).reshape(self.shape)
        elif self.type[0] in "iu":
            found = random.integers(int(self.low), int(self.high), self.shape)
        else:
            found = random.uniform(self.low, self.high, self.shape)
        return laid_out(found.astype(dtype_of(self.type)), self.layout)


def laid_out(array: Array, layout: str) -> Array:
    """The same values in another layout, as users pass them."""
    import numpy as np

    if layout == "columns":
        return np.asfortranarray(array)
    if layout == "every second":
        return np.repeat(array, 2, -1)[..., ::2]
    if layout == "unaligned":
        memory = np.empty(array.size + 1, array.dtype)[1:]
        memory[...] = array.reshape(-1)
        return memory.reshape(array.shape)
    return array


def dtype_of(type: str) -> Any:
    """The dtype of NumPy for a type of ours."""
    import numpy as np

    if type == "bf16":
        import ml_dtypes

        return ml_dtypes.bfloat16
    if type == "i1":
        return np.bool_
    kind = {"f": "float", "i": "int", "u": "uint"}[type[0]]
    return np.dtype(f"{kind}{type.lstrip('fui')}")


Operands: TypeAlias = Callable[[int], Sequence[Operand]]
"""The operands for a number of elements of the first one."""


@dataclass(frozen=True)
class Case:
    """A node of ONNX or a text of ours, and PyTorch's expression of its operands."""

    node: str
    """ONNX: the op, and its attributes after semicolons. Ours: `%y = op.add %a, ...`,
    in which `{a}` is the type of an operand."""
    torch: str
    """Empty, if PyTorch has no such op, or no numbers that could be compared."""
    operands: Operands
    constants: Mapping[str, object] = field(default_factory=dict[str, object])
    """The last operands of ONNX by any names: numbers, of i64, f32 or i1, or a type and
    numbers; None is left out."""
    outputs: int = 1
    results: Sequence[str] = ()
    """The types of results of a text of ours."""
    tolerance: float = 1e-4
    """The tolerance of outputs, relative to the largest value."""
    is_exact: bool = True
    """Whether the expression of PyTorch in `f64` is the exact result."""

    @property
    def is_ours(self) -> bool:
        """Whether it is a text of ours."""
        return self.node.startswith("%")


################################################################################
# Operands                                                                     #
################################################################################


def matrix(count: int) -> Shape:
    """A matrix whose rows and columns are powers of two."""
    columns = 1 << (count.bit_length() - 1) // 2
    return count // columns, columns


def image(count: int) -> Shape:
    """An image of 64 channels."""
    return 1, 64, *matrix(count // 64)


def one(count: int) -> Sequence[Operand]:
    """One matrix."""
    return [Operand(matrix(count))]


def two(count: int) -> Sequence[Operand]:
    """Two matrices."""
    return [Operand(matrix(count))] * 2


def three(count: int) -> Sequence[Operand]:
    """Three matrices."""
    return [Operand(matrix(count))] * 3


def with_row(count: int) -> Sequence[Operand]:
    """A matrix and a row."""
    return [Operand(matrix(count)), Operand(matrix(count)[1:])]


def with_two_rows(count: int) -> Sequence[Operand]:
    """A matrix, and the scale and the bias of its columns."""
    return [*with_row(count), Operand(matrix(count)[1:])]


def one_image(count: int) -> Sequence[Operand]:
    """One image."""
    return [Operand(image(count))]


def two_images(count: int) -> Sequence[Operand]:
    """Two images."""
    return [Operand(image(count))] * 2


def reversed_image(count: int) -> Sequence[Operand]:
    """An image whose channels are last."""
    return [Operand((1, *image(count)[2:], 64))]


def cube(count: int) -> Sequence[Operand]:
    """A tensor of four dimensions."""
    rows, columns = matrix(count)
    return [Operand((*matrix(rows), *matrix(columns)))]


def normalized(count: int) -> Sequence[Operand]:
    """An image, and the scale and the bias of its channels."""
    return [Operand(image(count)), Operand((64,)), Operand((64,))]


def scaled_image(count: int) -> Sequence[Operand]:
    """An image, and scale, bias, mean and variance of its channels."""
    return [*normalized(count), Operand((64,)), Operand((64,))]


def rows_of_64(count: int) -> Operand:
    """Rows of 64 elements."""
    return Operand((count // 64, 64))


def looked_up(count: int) -> Sequence[Operand]:
    """Rows of 64 elements, and as many indices of these as there are."""
    rows = count // 64
    return [rows_of_64(count), Operand((rows,), "i64", 0, rows)]


def looked_up_by_element(count: int) -> Sequence[Operand]:
    """A matrix, and an index into its row for each element."""
    return [
        Operand(matrix(count)),
        Operand(matrix(count), "i64", 0, matrix(count)[1]),
    ]


def scattered(count: int) -> Sequence[Operand]:
    """Rows of 64 elements, and the indices and values of an eighth of them."""
    rows = count // 512
    index = Operand((rows, 1), "i64", 0, 0)
    return [rows_of_64(count), index, Operand((rows, 64))]


def scattered_elements(count: int) -> Sequence[Operand]:
    """A matrix, and for each of its columns an index and a value."""
    _, columns = matrix(count)
    at = Operand((1, columns), "i64", 0, matrix(count)[0])
    return [Operand(matrix(count)), at, Operand((1, columns))]


def updated(count: int) -> Sequence[Operand]:
    """Different indices, rows of 64 elements, and what is taken from some of them."""
    rows = count // 512
    return [Operand((rows,), "i64", 0, 0), rows_of_64(count), Operand((rows, 64))]


def products(count: int) -> Sequence[Operand]:
    """A matrix and one of at most 256 columns."""
    rows, columns = matrix(count)
    return [Operand((rows, columns)), Operand((columns, min(256, rows)))]


def batched(count: int) -> Sequence[Operand]:
    """Matrices of 64 by 64."""
    return [Operand((count // 4096, 64, 64))] * 2


def heads(count: int) -> Sequence[Operand]:
    """The queries, keys and values of 128 places and heads of 64."""
    places = min(128, count // 64)
    shape = count // (64 * places), places, 64
    return [Operand(shape, low=-1, high=1)] * 3


def heads_and_gradient(count: int) -> Sequence[Operand]:
    """The same, the gradient of the result, and two numbers for each query."""
    q, k, v = heads(count)
    logs = Operand(q.shape[:2], low=5, high=6)
    return [q, k, v, q, logs, Operand(q.shape[:2], low=-0.1, high=0.1)]


def classes(count: int) -> Sequence[Operand]:
    """Scores of classes, and the right one of each row."""
    rows, columns = matrix(count)
    return [Operand((rows, columns)), Operand((rows,), "i64", 0, columns)]


def classes_and_gradient(count: int) -> Sequence[Operand]:
    """The same, and the gradient of each row."""
    return [*classes(count), Operand(matrix(count)[:1])]


def typed(operands: Operands, type: str, low: float = 1, high: float = 8) -> Operands:
    """Operands of another type and other values."""
    return lambda count: [
        replace(each, type=type, low=low, high=high) for each in operands(count)
    ]


def between(low: float, high: float) -> Operands:
    """A matrix of values between two."""
    return typed(one, "f32", low, high)


def laid(operands: Operands, layout: str) -> Operands:
    """Operands in another layout."""
    return lambda count: [replace(each, layout=layout) for each in operands(count)]


def boxes(count: int) -> Sequence[Operand]:
    """Boxes, and the scores of one class."""
    number = min(1024, count // 4)
    return [
        Operand((1, number, 4), low=0, high=1),
        Operand((1, 1, number), low=0, high=1),
    ]


################################################################################
# Cases                                                                        #
################################################################################


def of(node: str, torch: str, *, like: Operands = one) -> Case:
    """A case of operands alone."""
    return Case(node, torch, like)


def ours(
    text: str, torch: str, *results: str, like: Operands = one, exact: bool = True
) -> Case:
    """A case in our text, with the types of its results `%y0`, `%y1`..."""
    names = ", ".join(f"%y{number}" for number in range(len(results)))
    whole = text if "%y0" in text else f"{names} = {text}"
    return Case(
        whole.replace("{results}", ", ".join(results)),
        torch,
        like,
        outputs=len(results),
        results=results,
        is_exact=exact,
    )


def over(node: str, torch: str, *axes: int) -> Case:
    """A reduction of a matrix, or of an image, over axes."""
    shapes = one_image if max(axes) > 1 else one
    return Case(f"{node}; keepdims=0", torch, shapes, {"axes": [*axes]})


def unary(node: str, torch: str = "", low: float = -4, high: float = 4) -> Case:
    """A function of each element between two bounds."""
    return of(node, f"torch.{torch or node.lower()}(a)", like=between(low, high))


def compared(node: str, torch: str) -> Case:
    """A comparison of small whole numbers, of which some are equal."""
    numbers = typed(two, "i32", 0, 4)
    return of(node, f"torch.{torch}(a, b)", like=numbers)


def logical(node: str, torch: str, *, like: Operands = two) -> Case:
    """An op on truth values."""
    return of(
        node,
        f"torch.{torch}(a{', b' if like is two else ''})",
        like=typed(like, "i1", -1, 1),
    )


def convolution(
    *taps: int,
    channels: int = 64,
    groups: int = 1,
    stride: int = 1,
    dilation: int = 1,
    transposed: bool = False,
) -> Case:
    """
    A convolution of an image of 64 channels to a number of channels, along as many
    dimensions as there are taps, with the pads of a window around its element.
    """
    rank = len(taps)
    pads = [dilation * (count - 1) // 2 for count in taps]
    pair = (64, channels) if transposed else (channels, 64 // groups)

    def operands(count: int) -> Sequence[Operand]:
        extents = {
            1: (count // 64,),
            2: matrix(count // 64),
            3: (4, *matrix(count // 256)),
        }[rank]
        image = Operand((1, 64, *extents), low=-1, high=1)
        return [image, Operand((*pair, *taps), low=-1, high=1)]

    node = (
        f"Conv{'Transpose' * transposed}; strides={[stride] * rank}; "
        f"pads={pads * 2}; dilations={[dilation] * rank}; group={groups}"
    )
    torch = (
        f"F.conv{'_transpose' * transposed}{rank}d(a, b, stride={stride}, "
        f"padding={pads}, dilation={dilation}, groups={groups})"
    )
    return replace(of(node, torch, like=operands), tolerance=2e-4)


def halved(case: Case, type: str) -> Case:
    """A case of halves, whose peers may round each step."""
    tolerance = {"f16": 4e-3, "bf16": 3e-2}[type]
    low, high = (0.125, 1) if case.operands in (products, batched) else (0.5, 4)
    return replace(
        case, operands=typed(case.operands, type, low, high), tolerance=tolerance
    )


_MOVEMENT: Mapping[str, Case] = {
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
    "concatenation of channels": of(
        "Concat; axis=1", "torch.cat([a, b], 1)", like=two_images
    ),
    "split of rows": Case(
        "Split; axis=1; num_outputs=2",
        "[x.contiguous() for x in a.chunk(2, 1)]",
        one,
        outputs=2,
    ),
    "slice": Case(
        "Slice",
        "a[1:-1, 1:-1].contiguous()",
        one,
        {"starts": [1, 1], "ends": [-1, -1], "axes": [0, 1]},
    ),
    "slice by steps": Case(
        "Slice",
        "a[::2, 1::3].contiguous()",
        one,
        {"starts": [0, 1], "ends": [1 << 30] * 2, "axes": [0, 1], "steps": [2, 3]},
    ),
    "pad": Case(
        "Pad", "F.pad(a, (1, 1, 1, 1))", one_image, {"pads": [0, 0, 1, 1, 0, 0, 1, 1]}
    ),
    "expand": Case(
        "Expand", "a.expand(4, *a.shape).contiguous()", one, {"to": [4, 1, 1]}
    ),
    "lookup of rows": of("Gather", "a[b]", like=looked_up),
    "lookup of elements": of(
        "GatherElements; axis=1", "a.gather(1, b)", like=looked_up_by_element
    ),
    "lookup of rows by tuples": of("GatherND", "a[b[:, 0]]", like=lambda count: [
        looked_up(count)[0], replace(looked_up(count)[1], shape=(count // 64, 1))
    ]),
    "scatter of rows": of(
        "ScatterND", "a.index_put((b[:, 0],), c)", like=scattered
    ),
    "scatter of elements": of(
        "ScatterElements; axis=0", "a.scatter(0, b, c)", like=scattered_elements
    ),
    "triangle": of("Trilu; upper=0", "a.tril()"),
    "compress": of("Compress; axis=0", "a[b]", like=lambda count: [
        rows_of_64(count), Operand((count // 64,), "i1", -1, 1)
    ]),
    "places of what is not zero": of(
        "NonZero", "a.nonzero().t().contiguous()", like=typed(one, "i32", 0, 4)
    ),
    "different values": Case(
        "Unique", "a.unique()", lambda count: [Operand((count,), "i32", 0, 64)]
    ),
    "nearest, twice as large": Case(
        "Resize; mode='nearest'; coordinate_transformation_mode='asymmetric'; "
        "nearest_mode='floor'",
        "F.interpolate(a, scale_factor=2, mode='nearest')",
        one_image,
        {"": None, "scales": [1.0, 1.0, 2.0, 2.0]},
    ),
    "bilinear, twice as large": Case(
        "Resize; mode='linear'",
        "F.interpolate(a, scale_factor=2, mode='bilinear')",
        one_image,
        {"": None, "scales": [1.0, 1.0, 2.0, 2.0]},
    ),
    "boxes that overlap": Case(
        "NonMaxSuppression", "", boxes, {"most": [32], "overlap": 0.5}
    ),
}  # fmt: skip

_ELEMENTWISE: Mapping[str, Case] = {
    "add": of("Add", "a + b", like=two),
    "add a row": of("Add", "a + b", like=with_row),
    "add, mul, relu": ours(
        "%s = op.add %a, %b : {a}, {b} -> {a}\n"
        "%m = op.mul %s, %c : {a}, {c} -> {a}\n"
        "%y0 = op.relu %m : {a} -> {results}",
        "torch.relu((a + b) * c)",
        "{a}",
        like=three,
    ),
    "subtract": of("Sub", "a - b", like=two),
    "multiply": of("Mul", "a * b", like=two),
    "divide": of("Div", "a / b", like=two),
    "remainder": of("Mod; fmod=1", "torch.fmod(a, b)", like=two),
    "power": of("Pow", "a ** b", like=typed(two, "f32", 1, 4)),
    "larger": of("Max", "torch.maximum(a, b)", like=two),
    "smaller": of("Min", "torch.minimum(a, b)", like=two),
    "negative": unary("Neg"),
    "absolute": unary("Abs"),
    "ceil": unary("Ceil"),
    "floor": unary("Floor"),
    "round": unary("Round"),
    "reciprocal": unary("Reciprocal", low=1, high=8),
    "square root": unary("Sqrt", low=0, high=8),
    "reciprocal square root": ours(
        "op.rsqrt %a : {a} -> {results}", "torch.rsqrt(a)", "{a}"
    ),
    "exp": unary("Exp"),
    "log": unary("Log", low=0.1, high=8),
    "log1p": ours("op.log1p %a : {a} -> {results}", "torch.log1p(a)", "{a}"),
    "sin": unary("Sin"),
    "cos": unary("Cos"),
    "tan": unary("Tan", low=-1, high=1),
    "asin": unary("Asin", low=-1, high=1),
    "acos": unary("Acos", low=-1, high=1),
    "atan": unary("Atan"),
    "sinh": unary("Sinh"),
    "cosh": unary("Cosh"),
    "tanh": unary("Tanh"),
    "asinh": unary("Asinh"),
    "acosh": unary("Acosh", low=1, high=8),
    "atanh": unary("Atanh", low=-0.9, high=0.9),
    "erf": unary("Erf"),
    "relu": unary("Relu"),
    "leaky relu": of(
        "LeakyRelu", "F.leaky_relu(a, 0.01)", like=between(-4, 4)
    ),
    "clip": Case(
        "Clip", "torch.clip(a, -1, 1)", between(-4, 4), {"low": -1.0, "high": 1.0}
    ),
    "sigmoid": unary("Sigmoid"),
    "gelu": of("Gelu", "F.gelu(a)", like=between(-4, 4)),
    "gelu by tanh": of(
        "Gelu; approximate='tanh'",
        "F.gelu(a, approximate='tanh')",
        like=between(-4, 4),
    ),
    "equal": compared("Equal", "eq"),
    "not equal": ours(
        "op.not_equal %a, %b : {a}, {b} -> {results}",
        "torch.ne(a, b)",
        "tensor<{shape_a}xi1>",
        like=typed(two, "i32", 0, 4),
    ),
    "greater": compared("Greater", "gt"),
    "greater or equal": compared("GreaterOrEqual", "ge"),
    "less": compared("Less", "lt"),
    "less or equal": compared("LessOrEqual", "le"),
    "and": logical("And", "logical_and"),
    "or": logical("Or", "logical_or"),
    "xor": logical("Xor", "logical_xor"),
    "not": logical("Not", "logical_not", like=one),
    "where": of("Where", "torch.where(a, b, c)", like=lambda count: [
        Operand(matrix(count), "i1", -1, 1), *two(count)
    ]),
    "bits in both": of(
        "BitwiseAnd", "a & b", like=typed(two, "i32", 0, 1 << 20)
    ),
    "bits in any": of("BitwiseOr", "a | b", like=typed(two, "i32", 0, 1 << 20)),
    "bits in one": of("BitwiseXor", "a ^ b", like=typed(two, "i32", 0, 1 << 20)),
    "bits to the left": of("BitShift; direction='LEFT'", "", like=typed(two, "u32")),
    "bits to the right": of("BitShift; direction='RIGHT'", "", like=typed(two, "u32")),
    "bits of floats": ours(
        "op.bitcast %a to i32 : {a} -> {results}",
        "a.view(torch.int32).clone()",
        "tensor<{shape_a}xi32>",
        exact=False,
    ),
    "all finite": ours(
        "op.all_finite %a : {a} -> {results}", "a.isfinite().all()", "tensor<i1>"
    ),
    "dropout": ours(
        "op.dropout %a, %b, %c ratio 0.5 : {a}, {b}, {c} -> {results}",
        "",
        "{a}",
        like=lambda count: [*one(count), Operand((), "i64"), Operand((), "i64")],
    ),
    "random bits": ours(
        "op.random_bits %b, %c to [{extents_a}] : {b}, {c} -> {results}",
        "",
        "tensor<{shape_a}xui32>",
        like=lambda count: [*one(count), Operand((), "i64"), Operand((), "i64")],
    ),
}  # fmt: skip

_ROWS: Mapping[str, Case] = {
    "sum of rows": over("ReduceSum", "a.sum(1)", 1),
    "sum of columns": over("ReduceSum", "a.sum(0)", 0),
    "product of rows": replace(
        over("ReduceProd", "a.prod(1)", 1), operands=between(0.99, 1.01)
    ),
    "mean of rows": over("ReduceMean", "a.mean(1)", 1),
    "largest of rows": over("ReduceMax", "a.amax(1)", 1),
    "largest of columns": over("ReduceMax", "a.amax(0)", 0),
    "smallest of rows": over("ReduceMin", "a.amin(1)", 1),
    "mean of images": over("ReduceMean", "a.mean((2, 3))", 2, 3),
    "place of the largest of rows": of("ArgMax; axis=1; keepdims=0", "a.argmax(1)"),
    "place of the largest of columns": of("ArgMax; axis=0; keepdims=0", "a.argmax(0)"),
    "place of the smallest of rows": of("ArgMin; axis=1; keepdims=0", "a.argmin(1)"),
    "10 largest of rows": Case(
        "TopK; axis=1", "torch.topk(a, 10, 1)", one, {"k": [10]}, outputs=2
    ),
    "sums along rows": Case("CumSum", "a.cumsum(1)", one, {"axis": 1}),
    "sums along columns": Case("CumSum", "a.cumsum(0)", one, {"axis": 0}),
    "products along rows": ours(
        "op.cum_prod %a axis 1 : {a} -> {results}",
        "a.cumprod(1)",
        "{a}",
        like=between(0.99, 1.01),
    ),
    "softmax": of("Softmax; axis=1", "torch.softmax(a, 1)"),
    "log-softmax": of("LogSoftmax; axis=1", "torch.log_softmax(a, 1)"),
    "layer norm": of(
        "LayerNormalization",
        "F.layer_norm(a, b.shape, b, c)",
        like=with_two_rows,
    ),
    "RMS norm": ours(
        "op.rms_norm %a, %b : {a}, {b} -> {results}",
        "F.rms_norm(a, b.shape, b, 1e-5)",
        "{a}",
        like=with_row,
    ),
    "batch norm": of(
        "BatchNormalization", "F.batch_norm(a, d, e, b, c)", like=scaled_image
    ),
    "group norm": of(
        "GroupNormalization; num_groups=8",
        "F.group_norm(a, 8, b, c)",
        like=normalized,
    ),
    "instance norm": of(
        "InstanceNormalization", "F.instance_norm(a, None, None, b, c)", like=normalized
    ),
    "response norm": of(
        "LRN; size=5; alpha=1e-4; beta=0.75",
        "F.local_response_norm(a, 5, 1e-4, 0.75, 1.0)",
        like=one_image,
    ),
}

_WINDOWS: Mapping[str, Case] = {
    "matmul": of("MatMul", "a @ b", like=products),
    "product of one row": of("MatMul", "a @ b", like=lambda count: [
        Operand((1, matrix(count)[0])), Operand(matrix(count))
    ]),
    "batched matmul": of("MatMul", "a @ b", like=batched),
    "matmul, transposed, and a row": of(
        "Gemm; transB=1", "F.linear(a, b, c)", like=lambda count: [
            Operand(matrix(count)),
            Operand((matrix(count)[1], matrix(count)[1])),
            Operand(matrix(count)[1:]),
        ]
    ),
    "1x1 convolution": convolution(1, 1),
    "3x3 convolution": convolution(3, 3),
    "3x3 convolution, stride 2": convolution(3, 3, stride=2),
    "3x3 convolution, dilation 4": convolution(3, 3, dilation=4),
    "3x3 convolution, 4 groups": convolution(3, 3, groups=4),
    "3x3 convolution of channels": convolution(3, 3, groups=64),
    "7x7 convolution of channels": convolution(7, 7, groups=64),
    "3x3 convolution to 3 channels": convolution(3, 3, channels=3),
    "convolution of 5 places": convolution(5),
    "3x3x3 convolution": convolution(3, 3, 3),
    "transposed convolution": convolution(4, 4, stride=2, transposed=True),
    "transposed convolution to 3 channels": convolution(
        4, 4, channels=3, stride=2, transposed=True
    ),
    "largest of windows": of(
        "MaxPool; kernel_shape=[3, 3]; strides=[2, 2]; pads=[1, 1, 1, 1]",
        "F.max_pool2d(a, 3, 2, 1)",
        like=one_image,
    ),
    "mean of windows": of(
        "AveragePool; kernel_shape=[3, 3]; pads=[1, 1, 1, 1]",
        "F.avg_pool2d(a, 3, 1, 1, count_include_pad=False)",
        like=one_image,
    ),
    "mean of planes": of(
        "GlobalAveragePool", "F.adaptive_avg_pool2d(a, 1)", like=one_image
    ),
    "attention": ours(
        "op.attention %a, %b, %c scale 0.125 : {a}, {b}, {c} -> {results}",
        "F.scaled_dot_product_attention(a, b, c)",
        "{a}",
        like=heads,
    ),
}  # fmt: skip

_TRAINING: Mapping[str, Case] = {
    "gradient of softmax": ours(
        "op.softmax_gradient %a, %b : {a}, {b} -> {results}",
        "torch.ops.aten._softmax_backward_data(b, a, 1, a.dtype)",
        "{a}",
        like=typed(two, "f32", 0, 1),
    ),
    "gradient of log-softmax": ours(
        "op.log_softmax_gradient %a, %b : {a}, {b} -> {results}",
        "torch.ops.aten._log_softmax_backward_data(b, a, 1, a.dtype)",
        "{a}",
        like=typed(two, "f32", -4, 0),
    ),
    "cross entropy": ours(
        "op.softmax_cross_entropy %a[%b] : {a}, {b} -> {results}",
        "F.cross_entropy(a, b, reduction='none')",
        "tensor<{rows_a}xf32>",
        like=classes,
    ),
    "gradient of cross entropy": ours(
        "op.softmax_cross_entropy_gradient %a[%b], %c : {a}, {b}, {c} -> {results}",
        "(torch.softmax(a, 1) - F.one_hot(b, a.shape[1])) * c[:, None]",
        "{a}",
        like=classes_and_gradient,
    ),
    "gradient of layer norm": ours(
        "op.layer_norm_gradient %a, %b, %c : {a}, {b}, {c} -> {results}",
        "torch.ops.aten.native_layer_norm_backward(b, a, c.shape, "
        "*torch.ops.aten.native_layer_norm(a, c.shape, c, None, 1e-5)[1:], "
        "c, None, [True, False, False])[0]",
        "{a}",
        like=lambda count: [*two(count), Operand(matrix(count)[1:])],
    ),
    "gradient of RMS norm": ours(
        "op.rms_norm_gradient %a, %b, %c : {a}, {b}, {c} -> {results}",
        "(lambda r: r * (b * c - a * r * r * (a * b * c).mean(1, True)))"
        "(torch.rsqrt((a * a).mean(1, True) + 1e-5))",
        "{a}",
        like=lambda count: [*two(count), Operand(matrix(count)[1:])],
    ),
    "mean and variance of channels": ours(
        "op.batch_norm_statistics %a : {a} -> {results}",
        "torch.var_mean(a, (0, 2, 3), correction=0)[::-1]",
        "tensor<64xf32>",
        "tensor<64xf32>",
        like=one_image,
    ),
    "sums of a batch norm's gradient": ours(
        "op.batch_norm_gradient_sums %a, %b, %c : {a}, {b}, {c} -> {results}",
        "(b.sum((0, 2, 3)), (b * (a - c[:, None, None])).sum((0, 2, 3)))",
        "tensor<64xf32>",
        "tensor<64xf32>",
        like=lambda count: [*two_images(count), Operand((64,))],
    ),
    "gradient of a filter": replace(
        ours(
            "op.conv2d_filter_gradient %a, %b kernel [3, 3] pads [1, 1, 1, 1] : "
            "{a}, {b} -> {results}",
            "torch.nn.grad.conv2d_weight(a, (64, 64, 3, 3), b, padding=1)",
            "tensor<64x64x3x3xf32>",
            like=typed(two_images, "f32", -1, 1),
        ),
        tolerance=1e-3,
    ),
    "gradient of max pool": ours(
        "%m = op.max_pool2d %a kernel [2, 2] strides [2, 2] : {a} -> {b}\n"
        "%y0 = op.max_pool2d_gradient %a, %m, %b kernel [2, 2] strides [2, 2] : "
        "{a}, {b}, {b} -> {results}",
        "torch.ops.aten.max_pool2d_with_indices_backward(b, a, [2, 2], [2, 2], "
        "[0, 0], [1, 1], False, F.max_pool2d(a, 2, return_indices=True)[1])",
        "{a}",
        like=lambda count: [*one_image(count), *one_image(count // 4)],
    ),
    "gradient of a lookup": ours(
        "op.embedding_gradient %a[%b] rows {rows_a} : {a}, {b} -> {results}",
        "torch.zeros_like(a).index_add(0, b, a)",
        "{a}",
        like=looked_up,
    ),
    "gradient of attention": ours(
        "op.attention_gradient %a, %b, %c, %d, %e, %f scale 0.125 : "
        "{a}, {b}, {c}, {d}, {e}, {f} -> {results}",
        "(lambda p: (lambda s: (s @ b, s.mT @ a, p.mT @ d))"
        "(p * (d @ c.mT - f[..., None]) * 0.125))"
        "(torch.exp(a @ b.mT * 0.125 - e[..., None]))",
        "{a}",
        "{b}",
        "{c}",
        like=heads_and_gradient,
    ),
    "update of rows": ours(
        "%y0 = op.update_rows %a of %b by %c : {a} of {b} by {c} -> {results} {{\n"
        "^bb0(%p: {c}, %d: {c}):\n"
        "  %q = op.sub %p, %d : {c}, {c} -> {c}\n"
        "  op.yield %q : {c}\n"
        "}}",
        "b.index_put((a,), b[a] - c)",
        "{b}",
        like=updated,
    ),
    "update by AdamW": ours(
        "%m = op.mul %b, %e : {b}, {e} -> {b}\n"
        "%n = op.mul %d, %f : {d}, {f} -> {d}\n"
        "%y1 = op.add %m, %n : {b}, {b} -> {b}\n"
        "%g = op.mul %d, %d : {d}, {d} -> {d}\n"
        "%h = op.mul %g, %f : {d}, {f} -> {d}\n"
        "%k = op.mul %c, %e : {c}, {e} -> {c}\n"
        "%y2 = op.add %k, %h : {c}, {c} -> {c}\n"
        "%r = op.sqrt %y2 : {c} -> {c}\n"
        "%q = op.div %y1, %r : {c}, {c} -> {c}\n"
        "%t = op.mul %q, %f : {c}, {f} -> {c}\n"
        "%y0 = op.sub %a, %t : {a}, {a} -> {a}",
        "(lambda m, v: (a - m / v.sqrt() * f, m, v))(b * e + d * f, c * e + d * d * f)",
        "{a}",
        "{a}",
        "{a}",
        like=lambda count: [
            *[Operand(matrix(count))] * 4,
            Operand((), low=0.9, high=0.99),
            Operand((), low=0.01, high=0.1),
        ],
    ),
}

_TYPES: Mapping[str, Case] = {
    "cast to f16": of("Cast; to=10", "a.half()"),
    "cast to i32": of("Cast; to=6", "a.int()"),
    "quantize": replace(
        Case(
            "QuantizeLinear",
            "",
            one,
            {"scale": 0.05, "zero": ("u8", 128)},
        ),
        is_exact=False,
    ),
    "dequantize": Case(
        "DequantizeLinear",
        "(a.float() - 128) * 0.05",
        typed(one, "u8", 0, 256),
        {"scale": 0.05, "zero": ("u8", 128)},
    ),
    **{f"{name}, f64": replace(case, operands=typed(case.operands, "f64", low, high))
       for name, case, low, high in (
           ("add", _ELEMENTWISE["add"], 1, 8),
           ("exp", _ELEMENTWISE["exp"], -4, 4),
           ("sin", _ELEMENTWISE["sin"], -4, 4),
           ("sum of rows", _ROWS["sum of rows"], 1, 8),
           ("matmul", _WINDOWS["matmul"], 1, 8),
       )},
    **{f"{name}, {type}": halved(case, type)
       for type in ("f16", "bf16")
       for name, case in (
           ("add", _ELEMENTWISE["add"]),
           ("exp", _ELEMENTWISE["exp"]),
           ("sum of rows", _ROWS["sum of rows"]),
           ("softmax", _ROWS["softmax"]),
           ("layer norm", _ROWS["layer norm"]),
           ("matmul", _WINDOWS["matmul"]),
       )},
    **{f"add, {type}": of("Add", "a + b", like=typed(two, type, 0, 50))
       for type in ("i8", "i32", "i64")},
    "matmul, i8": of(
        "MatMulInteger",
        "a.int() @ b.int()",
        like=lambda count: [
            replace(x, type=type, low=low, high=high)
            for x, (type, low, high) in zip(
                products(count), (("u8", 0, 255), ("i8", -127, 127)), strict=True
            )
        ],
    ),
}  # fmt: skip

_LAYOUTS: Mapping[str, Case] = {
    **{f"add, {layout}": of("Add", "a + b", like=laid(two, layout))
       for layout in ("columns", "every second", "unaligned")},
    **{f"sum of rows, {layout}": replace(
           _ROWS["sum of rows"], operands=laid(one, layout))
       for layout in ("columns", "every second", "unaligned")},
    "matmul, columns": of("MatMul", "a @ b", like=laid(products, "columns")),
}  # fmt: skip

CASES: Mapping[str, Case] = {
    **_MOVEMENT,
    **_ELEMENTWISE,
    **_ROWS,
    **_WINDOWS,
    **_TRAINING,
    **_TYPES,
    **_LAYOUTS,
}


def adds_up(name: str) -> bool:
    """Whether results of a case are sums, in which terms may cancel each other."""
    kind = name.partition(", ")[0]
    return any(kind in group for group in (_ROWS, _WINDOWS, _TRAINING))


def is_named(name: str, words: Sequence[str]) -> bool:
    """Whether a case has one of some words in its name, or there are none."""
    return not words or any(word in name for word in words)
