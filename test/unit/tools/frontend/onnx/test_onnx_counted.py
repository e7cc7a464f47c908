"""
Models whose values have as many elements as data says: compiled once for all inputs of
their shapes, with the results of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, parser

from penstock.runtime.errors import PenstockError
from penstock.tools.driver.diagnostics import Rejected, UsageError
from penstock.tools.frontend.onnx import model as importer
from penstock.tools.frontend.onnx.model import (
    import_for,
    import_model,
    run_onnxruntime,
)
from penstock.tools.frontend.onnx.session import OnnxSession

Array: TypeAlias = NDArray[Any]
Ports: TypeAlias = Mapping[str, Array]

node = helper.make_node


def graph(
    nodes: Sequence[NodeProto], inputs: Ports, outputs: str, known: Ports
) -> ModelProto:
    """A model with inputs like arrays, and outputs of any shape."""
    kinds = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(bool): TensorProto.BOOL}
    made = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(name, kinds[array.dtype], array.shape)
            for name, array in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs.split()],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(made, opset_imports=opsets, ir_version=9)


def check(
    model: ModelProto, pieces: Sequence[Ports], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare with ONNX Runtime; the model is imported and compiled for the first."""
    imports: list[str] = []

    def counted(*given: Any, **options: Any) -> Any:
        imports.append("one")
        return import_model(*given, **options)

    monkeypatch.setattr(importer, "import_model", counted)
    with OnnxSession(model) as session:
        for piece in pieces:
            wanted, found = run_onnxruntime(model, piece), session.run(piece)
            assert found.keys() == wanted.keys()
            for name, array in wanted.items():
                assert found[name].shape == array.shape, name
                assert found[name].dtype == array.dtype, name
                np.testing.assert_allclose(
                    found[name].astype(np.float64), array.astype(np.float64), 1e-5, 1e-5
                )
        assert (session.compiled, len(imports)) == (1, 1)


def floats(*shape: int) -> Array:
    return fresh().normal(size=shape).astype(np.float32)


def test_places_are_read_reduced_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        node("NonZero", ["x"], ["y"]),
        node("Transpose", ["y"], ["t"], perm=[1, 0]),
        node("GatherND", ["x", "t"], ["v"]),
        node("Shape", ["v"], ["s"]),
        node("Size", ["y"], ["n"]),
        node("ReduceSum", ["v"], ["sum"], keepdims=0),
        node("ReduceMax", ["t", "rows"], ["last"], keepdims=1),
        node("Mul", ["v", "v"], ["q"]),
        node("Greater", ["v", "half"], ["is_large"]),
        node("Compress", ["v", "is_large"], ["large"]),
        node("NonZero", ["v"], ["again"]),
    ]
    known = {"rows": np.array([1]), "half": np.float32(0.5)}
    known = {name: np.asarray(value) for name, value in known.items()}
    pieces = [
        {"x": np.where(fresh().random((4, 5)) < share, floats(4, 5), np.float32(0))}
        for share in (0.5, 0.9, 0, 1)
    ]
    outputs = "y t v s n sum last q large again"
    check(graph(nodes, pieces[0], outputs, known), pieces, monkeypatch)


def test_slices_that_are_kept_are_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        node("Compress", ["x", "c"], ["y"], axis=1),
        node("MatMul", ["w", "y"], ["z"]),
        node("Softmax", ["y"], ["p"], axis=0),
        node("Concat", ["y", "z"], ["both"], axis=0),
        node("Slice", ["both", "start", "end", "axis"], ["few"]),
        node("Compress", ["x", "c"], ["flat"]),
    ]
    known = {"w": floats(3, 4), "start": np.array([0]), "end": np.array([2])}
    known["axis"] = np.array([1])
    pieces = [
        {"x": floats(4, 6), "c": fresh().random(6) < share}
        for share in (0.5, 0.9, 0, 1)
    ]
    model = graph(nodes, pieces[0], "y z p both few flat", known)
    check(model, pieces, monkeypatch)


@pytest.mark.parametrize("in_order", [0, 1])
@pytest.mark.parametrize("axis", [None, 1])
def test_what_differs_is_told(
    monkeypatch: pytest.MonkeyPatch, in_order: int, axis: int | None
) -> None:
    options = {"sorted": in_order} | ({} if axis is None else {"axis": axis})
    made = node("Unique", ["x"], ["y", "first", "place", "times"])
    made.attribute.extend(helper.make_attribute(*item) for item in options.items())
    nodes = [made]
    pieces = [
        {"x": fresh().integers(0, most, (2, 9)).astype(np.float32)}
        for most in (1, 3, 9)
    ]
    model = graph(nodes, pieces[0], "y first place times", {})
    check(model, pieces, monkeypatch)


def read_nodes(text: str) -> list[NodeProto]:
    """The nodes of a text."""
    return list(parser.parse_graph(f"g (float x) => (float y) {{ {text} }}").node)


def detector(boxes: int, channels: int) -> tuple[ModelProto, Sequence[Ports]]:
    """
    A detector: convolutions over an image, boxes around a grid, one score a class, the
    best boxes of each class, their corners, scores and labels, and the first four.
    """
    side = int(boxes**0.5)
    nodes = [
        node("Conv", ["image", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c0"], ["r0"]),
        node("Conv", ["r0", "w1"], ["deltas"], pads=[1, 1, 1, 1]),
        node("Conv", ["r0", "w2"], ["logits"], pads=[1, 1, 1, 1]),
        node("Reshape", ["deltas", "by_four"], ["flat"]),
        node("Transpose", ["flat"], ["rows"], perm=[0, 2, 1]),
        node("Split", ["rows"], ["shift", "size"], axis=2, num_outputs=2),
        node("Add", ["shift", "grid"], ["center"]),
        node("Exp", ["size"], ["half"]),
        node("Sub", ["center", "half"], ["low"]),
        node("Add", ["center", "half"], ["high"]),
        node("Concat", ["low", "high"], ["boxes"], axis=2),
        node("Reshape", ["logits", "by_three"], ["of_classes"]),
        node("Softmax", ["of_classes"], ["scores"], axis=1),
        node("NonMaxSuppression", ["boxes", "scores", "k", "iou", "least"], ["sel"]),
        node("GatherND", ["scores", "sel"], ["score"]),
        node("Gather", ["sel", "one"], ["label"], axis=1),
        node("Gather", ["sel", "two"], ["place"], axis=1),
        node("Squeeze", ["boxes", "first"], ["all_boxes"]),
        node("Gather", ["all_boxes", "place"], ["kept"], axis=0),
        node("Slice", ["kept", "first", "four"], ["best"]),
    ]
    places = np.stack(np.meshgrid(range(side), range(side)), 2).reshape(-1, 2)
    known = {
        "w0": floats(channels, 3, 3, 3) / 5,
        "b0": floats(channels) / 5,
        "w1": floats(4, channels, 3, 3) / channels,
        "w2": floats(3, channels, 3, 3) / channels,
        "grid": places.astype(np.float32)[None],
        "by_four": np.array([1, 4, -1]),
        "by_three": np.array([1, 3, -1]),
        "k": np.array([9]),
        "iou": np.array([0.3], np.float32),
        "least": np.array([0.4], np.float32),
        "one": np.array(1),
        "two": np.array(2),
        "first": np.array([0]),
        "four": np.array([4]),
    }
    pieces = [{"image": floats(1, 3, 2 * side, 2 * side)} for _ in range(3)]
    return graph(nodes, pieces[0], "sel score label kept best", known), pieces


def test_a_detector_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, pieces = detector(64, 8)
    check(model, pieces, monkeypatch)


COUNTED = """
    p = NonZero(x)
    t = Transpose(p)
    v = GatherND(x, t)
    is_high = Greater(x, half)
    q = NonZero(is_high)
    u = Transpose(q)
    w = GatherND(x, u)
    f = Cast<to=1>(t)
    column = Unsqueeze(v, one)
    other = Unsqueeze(w, zero)
    shape_v = Shape(v)
    shape_t = Concat<axis=0>(shape_v, two)
    count = Squeeze(shape_v)
    length = Shape(w)
    either = Concat<axis=0>(length, three)
    few = ReduceMin<keepdims=1>(either)
    is_large = Greater(v, half)
"""
"""
Values `v` of a count, their places `t` and `f`, one a row, and some of them, `w`.
"""

AFTER = """
    both = Concat<axis=0>(v, half_line, w)
    twice = Concat<axis=0>(t, t)
    last = Gather<axis=0>(v, end)
    best = ArgMax<axis=0, keepdims=0>(v)
    row = Gather<axis=0>(t, best)
    worst = ArgMin<axis=0>(v)
    picked = GatherElements<axis=0>(v, worst)
    sums = CumSum(v, none)
    rest = CumSum<reverse=1, exclusive=1>(v, none)
    shares = Softmax<axis=0>(v)
    logs = LogSoftmax<axis=0>(v)
    mean = ReduceMean<keepdims=0>(v)
    middle = ReduceMean<keepdims=0>(f, zero)
    norm = ReduceL2<keepdims=0>(v)
    total = ReduceLogSumExp<keepdims=0>(v)
    most = ReduceMax(v)
    product = ReduceProd(v)
    unit = LpNormalization<axis=0>(v)
    one_hot = Hardmax<axis=0>(v)
    line = MatMul(v, f)
    linear = Gemm<transA=1>(f, f)
    outer = MatMul(column, other)
    table = Sub(column, other)
    lower = Trilu<upper=0>(outer)
    flat = Reshape(t, minus)
    pairs = Reshape(flat, by_two)
    again = Reshape(flat, shape_t)
    wide = Flatten<axis=0>(f)
    tail = Slice(v, one, large)
    head = Slice(v, zero, end)
    every = Slice(v, one, large, zero, two)
    near = Slice(v, before, large)
    first = Slice(v, zero, few)
    begin = Slice(known_line, zero, length)
    numbers = Range(none, count, single)
    ones = ConstantOfShape(shape_t)
    filled = Expand(half, shape_v)
    chosen = Where(is_large, v, half)
    best_values, best_places = TopK<axis=0>(v, few)
    two_values, two_places = TopK<axis=0, largest=0>(v, two)
    sizes = Shape(table)
    size = Size(table)
    order = Transpose(table)
    some = Compress<axis=0>(table, is_large)
    ends = ReduceSum<keepdims=0>(table, zero)
"""


# A hundred kernels, for as many ops on counted values.
@pytest.mark.slow
def test_ops_on_counted_values(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = read_nodes(COUNTED + AFTER)
    outputs = [name for each in read_nodes(AFTER) for name in each.output]
    known = {
        "half": np.array(0.5),
        "half_line": np.array([0.5, 0.25]),
        "known_line": fresh().normal(size=30),
    }
    known = {name: array.astype(np.float32) for name, array in known.items()}
    numbers = {"end": -1, "minus": -1, "large": 99, "before": -2}
    numbers |= {"zero": 0, "one": 1, "two": 2, "three": 3}
    known |= {name: np.array([number]) for name, number in numbers.items()}
    known |= {"none": np.array(0), "single": np.array(1), "by_two": np.array([-1, 2])}
    pieces: list[Ports] = []
    for share in (0.5, 0.9, 0, 1):
        x = np.where(fresh().random((5, 6)) < share, floats(5, 6), np.float32(0))
        # Some ops want elements: there are three, and one that is high.
        x.ravel()[[3, 9, 20]] = 0.75, -0.5, 0.25
        pieces.append({"x": x})
    check(graph(nodes, pieces[0], " ".join(outputs), known), pieces, monkeypatch)


def test_too_few_elements_for_the_best_of_them() -> None:
    nodes = read_nodes(COUNTED + "best, places = TopK<axis=0>(v, two)")
    known = {"half": np.array(0.5, np.float32), "zero": np.array([0])}
    known |= {"one": np.array([1]), "two": np.array([2]), "three": np.array([3])}
    x = np.zeros((2, 3), np.float32)
    with OnnxSession(graph(nodes, {"x": x}, "best", known)) as session:
        x[1] = 3, -1, 7
        np.testing.assert_array_equal(session.run({"x": x})["best"], [7, 3])
        x[1] = 0, -1, 0
        with pytest.raises(PenstockError, match="there are fewer elements along"):
            session.run({"x": x})


LEVELS = """
    is_there = Greater(x, none)
    rows = Compress<axis=0>(table, is_there)
    keys = Compress(x, is_there)
    is_far = Greater(keys, half)
    at = NonZero(is_far)
    line = Squeeze(at, zero)
    some = Gather<axis=0>(rows, line)
    column = Reshape(line, upright)
    shape = Shape(some)
    target = Reshape(shape, minus)
    size = Shape(target)
    ones = ConstantOfShape<value=int64[1] {1}>(size)
    hidden = Mul(ones, minus)
    is_open = Equal(target, hidden)
    extents = Where(is_open, ones, target)
    index = Expand(column, extents)
    all = Shape(rows)
    room = ConstantOfShape(all)
    back = ScatterElements<axis=0>(room, index, some)
    added = ScatterElements<axis=-2, reduction="add">(larger, index, some)
    wide = Transpose(rows)
    places = Transpose(index)
    parts = Transpose(some)
    across = ScatterElements<axis=1>(wide, places, parts)
    total = Gather(all, first)
    negative = Sub(places, total)
    same = ScatterElements<axis=1>(wide, negative, parts)
    width = Gather(all, second)
    numbers = Range(second, width, second)
"""
"""Rows that are there, of which some are taken out, and written back to places."""


def test_rows_of_a_level_are_written_back_to_their_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = read_nodes(LEVELS)
    known = {"none": np.array(0), "half": np.array(0.5), "table": floats(9, 4)}
    known["larger"] = floats(10, 4)
    known = {name: array.astype(np.float32) for name, array in known.items()}
    known |= {"zero": np.array([0]), "minus": np.array([-1])}
    known |= {"upright": np.array([-1, 1]), "first": np.array(0), "second": np.array(1)}
    pieces: list[Ports] = []
    for share in (0.5, 0.9, 0, 1):
        x = np.where(fresh().random(9) < share, floats(9), np.float32(0))
        x[[2, 7]] = 0.75, 0.25
        pieces.append({"x": x})
    outputs = "back added across same numbers"
    check(graph(nodes, pieces[0], outputs, known), pieces, monkeypatch)


def test_rows_are_not_written_behind_a_count() -> None:
    nodes = read_nodes("y = Compress(x, c) z = ScatterElements(y, place, number)")
    x, c = floats(4), np.array([True, False, True, True])
    known = {"place": np.array([2]), "number": np.array([7], np.float32)}
    with OnnxSession(graph(nodes, {"x": x, "c": c}, "z", known)) as session:
        found = session.run({"x": x, "c": c})["z"]
        np.testing.assert_array_equal(found, [x[0], x[2], 7])
        c[0] = False
        with pytest.raises(PenstockError, match="index out of range"):
            session.run({"x": x, "c": c})


def test_places_behind_a_count_are_out_of_range() -> None:
    nodes = [node("NonZero", ["x"], ["y"]), node("Gather", ["y", "i"], ["z"], axis=1)]
    x = np.array([1, 0, 0, 2, 3], np.float32)
    model = graph(nodes, {"x": x}, "z", {"i": np.array([-3, 2])})
    with OnnxSession(model) as session:
        np.testing.assert_array_equal(session.run({"x": x})["z"], [[0, 4]])
        x[0] = 0
        with pytest.raises(PenstockError, match="index out of range"):
            session.run({"x": x})


POSITIVE = [
    node("Greater", ["x", "none"], ["is_above"]),
    node("NonZero", ["is_above"], ["a"]),
]

FOLDED = {
    "Add": (
        [*POSITIVE, node("Add", ["a", "y"], ["z"])],
        "its operands have different counts",
    ),
    "Expand": (
        [*POSITIVE, node("Shape", ["a"], ["s"]), node("Expand", ["y", "s"], ["z"])],
        "an extent is a count, and that of its operand is another one",
    ),
    "Loop": (
        read_nodes("""
            size = Size(y)
            z = Loop(size, yes, single) <
                body = twice (int64 i, bool go, int64[n] v)
                    => (bool on, int64[m] w) {
                    on = Identity(go)
                    w = Concat<axis=0>(v, v)
                }>
        """),
        "iterations are not alike",
    ),
    "Range": (
        [
            node("Size", ["y"], ["size"]),
            node("Range", ["one", "size", "one"], ["z"]),
        ],
        "the end is only known at run time",
    ),
    "Reverse": (
        [node("Slice", ["y", "last", "before", "axis", "last"], ["z"])],
        "a slice of a count goes from the end on",
    ),
    "Split": (
        [node("Split", ["y"], ["z", "rest"], axis=1, num_outputs=2)],
        "op.split needs all",
    ),
    "Tile": ([node("Tile", ["y", "twice"], ["z"])], "no axis for the count of 6"),
    "View": (
        [
            node("Equal", ["x", "x"], ["all"]),
            node("NonZero", ["all"], ["a"]),
            node("Reshape", ["a", "pairs"], ["z"]),
        ],
        "its result has a known extent for one that is a count",
    ),
    "EyeLike": ([node("EyeLike", ["y"], ["z"])], "the extent of an operand"),
    "Reshape": (
        [node("Reshape", ["y", "other"], ["z"])],
        "its result has no axis for the count of 6",
    ),
}


@pytest.mark.parametrize("name", FOLDED)
def test_what_needs_all_is_made_for_its_values(name: str) -> None:
    nodes, message = FOLDED[name]
    first = node("NonZero", ["x"], ["y"])
    x = np.array([[1, 0, 2], [3, 0, 0]], np.float32)
    known = {
        "zero": np.array(0),
        "one": np.array(1),
        "other": np.array([3, -1]),
        "pairs": np.array([-1, 6]),
        "twice": np.array([1, 2]),
        "last": np.array([-1]),
        "before": np.array([-9]),
        "axis": np.array([1]),
        "single": np.array([1]),
        "yes": np.array(True),
        "none": np.array(0, np.float32),
    }
    model = graph([first, *nodes], {"x": x}, "z", known)
    with pytest.raises(Rejected, match=message):
        import_model(model, "m")
    with OnnxSession(model) as session:
        (wanted,) = run_onnxruntime(model, {"x": x}).values()
        np.testing.assert_array_equal(session.run({"x": x})["z"], wanted)


def test_a_maximum_makes_room_for_as_many() -> None:
    nodes = [node("NonZero", ["x"], ["y"], name="find")]
    model = graph(nodes, {"x": np.zeros(9, np.float32)}, "y", {})
    for name in ("find", "y"):
        with OnnxSession(model, maxima={name: 3}) as session:
            few = (np.arange(9) % 4 == 1).astype(np.float32)
            found = session.run({"x": few})["y"]
            np.testing.assert_array_equal(found, [[1, 5]])
            with pytest.raises(PenstockError, match="than the maximum 3"):
                session.run({"x": np.ones(9, np.float32)})
    message = "no node with a maximum has the name 'fin', did you mean 'find'"
    with pytest.raises(UsageError, match=message):
        import_model(model, "m", maxima={"fin": 3})


def test_inputs_that_counts_follow_from_are_known_alone() -> None:
    end = helper.make_tensor_value_info("end", TensorProto.INT64, [1])
    nodes = [
        node("Slice", ["x", "zero", "end"], ["some"]),
        node("Split", ["some"], ["z", "rest"], axis=0, num_outputs=2),
    ]
    x = floats(9, 2)
    model = graph(nodes, {"x": x}, "z", {"zero": np.array([0])})
    model.graph.input.append(end)
    inputs = {"x": x, "end": np.array([6])}
    assert import_for(model, "m", inputs).known == {"end"}
    nodes = [node("Reshape", ["x", "end"], ["z"])]
    model = graph(nodes, {"x": x}, "z", {})
    model.graph.input.append(end)
    assert import_for(model, "m", {"x": x, "end": np.array([18])}).known == {"end"}


DETECTED = """
    is_high = Greater(x, half)
    places = NonZero(is_high)
    line = Squeeze(places, zero)
    box = Gather<axis=0>(known_boxes, line)
    score = Gather<axis=0>(x, line)
    number = Size(box)
    is_none = Equal(number, none)
    keep = If(is_none) <
        then_branch = none_kept () => (int64[k] nothing) {
            nothing = Constant<value = int64[0] {}>()
        },
        else_branch = some_kept () => (int64[k] kept) {
            whole = Unsqueeze(box, zero)
            high = Unsqueeze(score, both)
            found = NonMaxSuppression(whole, high, most, overlap)
            column = Gather<axis=1>(found, two)
            kept = Squeeze(column, last)
        }>
    best = Gather<axis=0>(box, keep)
    count = Shape(best)
    image = Sub(keep, keep)
    crops = RoiAlign<output_height=2, output_width=3, sampling_ratio=2,
        spatial_scale=6.0>(picture, best, image)
"""
"""
A condition around a suppression as torchvision exports it: without a box nothing is
kept, and `most` is the largest number there is.
"""


def test_branches_make_as_many_as_data_says(monkeypatch: pytest.MonkeyPatch) -> None:
    corners = fresh().uniform(0, 1, (12, 2))
    known = {
        "half": np.array(0.5, np.float32),
        "known_boxes": np.hstack([corners, corners + 0.3]).astype(np.float32),
        "most": np.array([2**63 - 1]),
        "overlap": np.array([0.2], np.float32),
        "zero": np.array([0]),
        "last": np.array([-1]),
        "both": np.array([0, 1]),
        "two": np.array([2]),
        "none": np.array(0),
        "picture": floats(1, 2, 7, 7),
    }
    pieces = [{"x": floats(12) * share} for share in (1, 9, 0)]
    model = graph(read_nodes(DETECTED), pieces[0], "keep best count crops", known)
    check(model, pieces, monkeypatch)


CHOSEN = """
    most = ReduceMax<keepdims=0>(x)
    is_positive = Greater(most, none)
    is_above = Greater(x, none)
    places = NonZero(is_above)
    turned = Transpose(places)
    above = GatherND(x, turned)
    y, z, w = If(is_positive) <
        then_branch = first () => (float[a, b] p, float[c] q, float[d] r) {
            p = Transpose(x)
            q = Mul(above, above)
            r = Gather<axis=0>(above, three)
        },
        else_branch = second () => (float[a, b] s, float[c] t, float[d] u) {
            s = Neg(x)
            t = Exp(above)
            u = Identity(fixed)
        }>
    sum = Add(z, above)
    total = ReduceSum<keepdims=0>(y)
"""


def test_branches_differ_in_extents_and_may_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {
        "none": np.array(0, np.float32),
        "three": np.array([0, -1]),
        "fixed": floats(5),
    }
    pieces = [{"x": np.abs(floats(2, 3)) * sign} for sign in (1, -1)]
    pieces.append({"x": floats(2, 3)})
    model = graph(read_nodes(CHOSEN), pieces[0], "y z w sum total", known)
    check(model, pieces, monkeypatch)


LOOPS = """
    is_above = Greater(x, none)
    places = NonZero(is_above)
    turned = Transpose(places)
    above = GatherND(x, turned)
    count = Size(above)
    grown, total, squares = Loop(count, yes, start, none) <
        body = append (int64 i, bool go, float[n] before, float sum)
            => (bool on, float[m] after, float next, float[k] row) {
            on = Identity(go)
            one = Gather<axis=0>(above, i)
            next = Add(sum, one)
            some = Unsqueeze(next, zero)
            after = Concat<axis=0>(before, some)
            row = Mul(above, one)
        }>
    few, longest = Loop(four, is_long, above, zero) <
        body = halve (int64 j, bool going, float[n] old, int64[1] length)
            => (bool more, float[m] rest, int64[1] extent) {
            size = Shape(old)
            half = Div(size, two)
            rest = Slice(old, zero, half)
            extent = Max(size, length)
            scalar = Squeeze(half)
            more = Greater(scalar, single)
        }>
    first = SequenceEmpty()
    appended = Loop(count, yes, first) <
        body = insert (int64 k, bool goes, seq(float[1]) s)
            => (bool goes_on, seq(float[1]) longer) {
            goes_on = Identity(goes)
            element = Gather<axis=0>(above, k)
            double = Add(element, element)
            line = Unsqueeze(double, zero)
            longer = SequenceInsert(s, line)
        }>
    length_of_all = SequenceLength(appended)
    all = ConcatFromSequence<axis=0>(appended)
    ends, states = Scan(none, above) <
        num_scan_inputs = 1,
        body = step (float s, float e) => (float t, float u) {
            t = Add(s, e)
            u = Mul(t, e)
        }>
"""
"""
Loops as often as data says, over what it counts: a state that grows, rows of counted
values, and one that is halved while it is long.
"""


# Thirty kernels.
@pytest.mark.slow
def test_loops_carry_and_stack_as_many_as_data_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {
        "none": np.array(0, np.float32),
        "start": floats(2),
        "zero": np.array([0]),
        "two": np.array([2]),
        "single": np.array(1),
        "four": np.array(4),
        "yes": np.array(True),
        "is_long": np.array(True),
    }
    pieces = [{"x": np.abs(floats(3, 4))}, {"x": floats(3, 4)}]
    outputs = "grown total squares few longest length_of_all all ends states"
    model = graph(read_nodes(LOOPS), pieces[0], outputs, known)
    check(model, pieces, monkeypatch)


def test_a_state_that_needs_more_room_than_by_steps_alike() -> None:
    # It has 1, 2, 5 and then 6 elements, where room for 1, 2, 3, 4 and 5 is made.
    nodes = read_nodes("""
        is_above = Greater(x, none)
        places = NonZero(is_above)
        column = Shape<start=1>(places)
        count = Squeeze(column)
        y = Loop(count, yes, first) <
            body = jump (int64 i, bool go, float[n] v) => (bool on, float[m] w) {
                on = Identity(go)
                length = Shape(v)
                square = Mul(length, length)
                some = Slice(line, zero, square)
                head = Slice(v, zero, one)
                w = Concat<axis=0>(head, some)
            }>
    """)
    known = {"none": np.array(0, np.float32), "yes": np.array(True)}
    known |= {"zero": np.array([0]), "one": np.array([1])}
    known |= {"first": floats(1), "line": floats(5)}
    pieces = [{"x": np.array(x, np.float32)} for x in ([1, 0, 1, 0], [1, 1, 0, 1])]
    model = graph(nodes, pieces[0], "y", known)
    with OnnxSession(model) as session:
        wanted = run_onnxruntime(model, pieces[0])["y"]
        np.testing.assert_array_equal(session.run(pieces[0])["y"], wanted)
        with pytest.raises(PenstockError, match="an iteration needs more room than"):
            session.run(pieces[1])
