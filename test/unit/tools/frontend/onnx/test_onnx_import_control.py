"""Branches, loops and functions of ONNX become ops of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from penstock.dialects.op import IfOp, LoopOp
from penstock.runtime.errors import PenstockError
from penstock.tools.driver.diagnostics import Rejected, UsageError
from penstock.tools.frontend.onnx.model import (
    ImportedModel,
    NeedsInputs,
    import_for,
    import_model,
    run_onnxruntime,
)
from penstock.tools.frontend.onnx.session import OnnxSession

Array: TypeAlias = NDArray[np.generic]
Arrays: TypeAlias = Mapping[str, Array]
MakeModel: TypeAlias = Callable[..., ModelProto]
AssertClose: TypeAlias = Callable[..., None]
Evaluate: TypeAlias = Callable[[ImportedModel, Arrays], dict[str, Array]]

X = np.random.default_rng(5).standard_normal((4, 3)).astype(np.float32)
YES = np.array(True)


def graph(
    nodes: Sequence[NodeProto], inputs: Sequence[str], outputs: Sequence[str]
) -> GraphProto:
    """A graph inside of a node; types are left open but for counts and conditions."""
    kinds = {"i": TensorProto.INT64, "c": TensorProto.BOOL, "d": TensorProto.BOOL}

    def value(name: str) -> object:
        if name in kinds:
            return helper.make_tensor_value_info(name, kinds[name], [])
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)

    ins, outs = (list(map(value, names)) for names in (inputs, outputs))
    return helper.make_graph(list(nodes), "inside", ins, outs)  # pyright: ignore[reportArgumentType]


def loop(condition: NodeProto) -> NodeProto:
    """y = x + s + s..., and the sums so far; s is a value from outside."""
    nodes = [helper.make_node("Add", ["v", "s"], ["w"]), condition]
    nodes.append(helper.make_node("Mul", ["w", "w"], ["z"]))
    body = graph(nodes, ["i", "c", "v"], ["d", "w", "z"])
    return helper.make_node("Loop", ["n", "k", "x"], ["y", "all"], body=body)


SAME = helper.make_node("Identity", ["v"], ["w"])
FOREVER = helper.make_node("Identity", ["c"], ["d"])


def branch(condition: str) -> NodeProto:
    """y = max(x, 0), or -x."""
    taken, other = (
        graph([helper.make_node(op, ["x"], ["v"])], [], ["v"]) for op in ("Relu", "Neg")
    )
    return helper.make_node(
        "If", [condition], ["y"], then_branch=taken, else_branch=other
    )


def test_a_branch_is_chosen(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    for condition in (True, False):
        known = {"k": np.array(condition)}
        model = make_model([branch("k")], {"x": X}, known=known)
        got = evaluate(import_model(model, "m"), {"x": X})
        assert_close(got, run_onnxruntime(model, {"x": X}))


def test_a_condition_on_data_is_one_job_for_all_inputs(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    known = {"zero": np.zeros(1, np.float32), "w": X * 2}
    total = helper.make_node("ReduceSum", ["x"], ["m"], keepdims=0)
    sign = helper.make_node("Greater", ["m", "zero"], ["k"])
    inner = helper.make_node("Abs", ["x"], ["p"])
    nested = helper.make_node(
        "If",
        ["k"],
        ["q"],
        then_branch=graph([inner], [], ["p"]),
        else_branch=graph([helper.make_node("Mul", ["x", "w"], ["r"])], [], ["r"]),
    )
    twice = helper.make_node("Add", ["q", "w"], ["s"])
    taken = graph([nested, twice], [], ["s"])
    other = graph([helper.make_node("Neg", ["x"], ["v"])], [], ["v"])
    choice = helper.make_node("If", ["k"], ["y"], then_branch=taken, else_branch=other)
    model = make_model([total, sign, choice], {"x": X}, known=known)
    imported = import_model(model, "m")
    assert sum(isinstance(op, IfOp) for op in imported.module.walk()) == 2
    for x in (X, -X):
        assert_close(evaluate(imported, {"x": x}), run_onnxruntime(model, {"x": x}))


def test_a_condition_that_decides_ranks_has_to_be_known(
    make_model: MakeModel, evaluate: Evaluate
):
    taken = graph([helper.make_node("ReduceSum", ["x"], ["u"], keepdims=0)], [], ["u"])
    other = graph([helper.make_node("Neg", ["x"], ["v"])], [], ["v"])
    choice = helper.make_node("If", ["k"], ["y"], then_branch=taken, else_branch=other)
    inputs = {"x": X, "k": np.array(False)}
    model = make_model([choice], inputs)
    with pytest.raises(NeedsInputs) as raised:
        import_model(model, "m")
    (note,) = raised.value.diagnoses[0].notes
    reason = "the types of results follow from its condition"
    assert (note.partition("': ")[2], raised.value.inputs) == (reason, {"k"})
    got = evaluate(import_for(model, "m", inputs), inputs)["y"]
    np.testing.assert_array_equal(got, -X)


def loops_of(imported: ImportedModel) -> list[LoopOp]:
    return [op for op in imported.module.walk() if isinstance(op, LoopOp)]


def test_a_loop_of_a_known_number_of_steps(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    known = {"n": np.array(3), "k": YES, "s": np.array(0.5, np.float32)}
    model = make_model([loop(FOREVER)], {"x": X}, ["y", "all"], known)
    imported = import_model(model, "m")
    assert len(loops_of(imported)) == 1
    got = evaluate(imported, {"x": X})
    assert got["all"].shape == (3, 4, 3)
    assert_close(got, run_onnxruntime(model, {"x": X}))


def test_a_loop_ends_when_its_condition_does(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    known = {"n": np.array(9), "k": YES, "s": np.array(0.5, np.float32)}
    known["two"] = np.array(2)
    ends = helper.make_node("Less", ["i", "two"], ["d"])
    model = make_model([loop(ends)], {"x": X}, ["y", "all"], known)
    got = evaluate(import_model(model, "m"), {"x": X})
    assert got["all"].shape == (3, 4, 3)
    assert_close(got, run_onnxruntime(model, {"x": X}))


@pytest.mark.parametrize("direction", [0, 1])
def test_a_scan_is_written_out(
    direction: int,
    make_model: MakeModel,
    evaluate: Evaluate,
    assert_close: AssertClose,
):
    nodes = [helper.make_node("Add", ["v", "w"], ["sum"])]
    nodes.append(helper.make_node("Tanh", ["sum"], ["out"]))
    body = graph(nodes, ["v", "w"], ["sum", "out"])
    names = ["first", "x"]
    scan = helper.make_node(
        "Scan",
        names,
        ["y", "all"],
        body=body,
        num_scan_inputs=1,
        scan_input_directions=[direction],
    )
    inputs = {"first": X[0], "x": X}
    model = make_model([scan], inputs, ["y", "all"])
    got = evaluate(import_model(model, "m"), inputs)
    assert_close(got, run_onnxruntime(model, inputs))


def test_functions_are_written_out(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    """ONNX defines this loss by another one, and that by ops."""
    labels = np.array([2, 0, 1, 2])
    loss = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "l"], ["y"])
    inputs = {"x": X, "l": labels}
    model = make_model([loss], inputs)
    got = evaluate(import_model(model, "m"), inputs)
    assert_close(got, run_onnxruntime(model, inputs))


def refusal(model: ModelProto) -> str:
    """The note about a node that cannot be imported."""
    with pytest.raises(Rejected) as raised:
        import_model(model, "m")
    (note,) = raised.value.diagnoses[0].notes
    return note.partition("': ")[2]


@pytest.mark.slow
def test_loops_that_cannot_be_written_out_are_refused(make_model: MakeModel):
    known = {"k": YES, "s": np.array(0.5, np.float32)}
    number = np.array(3)
    model = make_model([loop(FOREVER)], {"x": X, "n": number}, known=known)
    text = "how often it runs is only known at run time: give --max y=N"
    assert refusal(model) == text
    known["n"] = np.array(20_000)
    later = helper.make_node("Less", ["i", "n"], ["d"])
    body = graph([later, SAME], ["i", "c", "v"], ["d", "w"])
    long = helper.make_node("Loop", ["n", "k", "s"], ["y"], body=body)
    assert refusal(make_model([long], {"x": X}, known=known)) == (
        "it takes more than 10000 steps"
    )


def test_what_decides_at_run_time_is_refused(make_model: MakeModel):
    known = {"n": np.array(3), "k": YES, "s": np.array(0.5, np.float32)}
    known["zero"] = np.array(0.0, np.float32)
    total = helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0)
    ends = helper.make_node("Less", ["m", "zero"], ["d"])
    known["n"] = np.array(2**62)
    model = make_model([total, loop(ends)], {"x": X}, known=known)
    text = "how often it runs is only known at run time: give --max y=N"
    assert refusal(model) == text
    # The stacked output would grow.
    known["n"] = np.array(0)
    nodes = [helper.make_node("Concat", ["v", "v"], ["w"], axis=0), FOREVER]
    nodes.append(helper.make_node("Mul", ["w", "w"], ["z"]))
    body = graph(nodes, ["i", "c", "v"], ["d", "w", "z"])
    grown = helper.make_node("Loop", ["n", "k", "x"], ["y", "all"], body=body)
    model = make_model([grown], {"x": X}, ["all"], known)
    assert refusal(model) == "it has no steps that tell the shapes of its outputs"


HALF = np.array(0.5, np.float32)
BELOW = [
    helper.make_node("ReduceMax", ["w"], ["m"], keepdims=0),
    helper.make_node("Less", ["m", "top"], ["d"]),
]
"""The condition that a sum is small."""


def summing(condition: Sequence[NodeProto], trips: str, going: str) -> NodeProto:
    """y = x + s + s..., as often as that is asked for and a condition holds."""
    nodes = [helper.make_node("Add", ["v", "s"], ["w"]), *condition]
    nodes.append(helper.make_node("Mul", ["w", "w"], ["z"]))
    body = graph(nodes, ["i", "c", "v"], ["d", "w", "z"])
    for value in body.output[1:]:
        # ONNX Runtime needs it for the shape of what no iteration has made.
        for extent in X.shape:
            value.type.tensor_type.shape.dim.add().dim_value = extent
    return helper.make_node("Loop", [trips, going, "x"], ["y", "all"], body=body)


RUN_TIME_FORMS = [
    ("run time", False, False),
    ("run time", False, True),
    ("run time", True, False),
    ("run time", True, True),
    ("known", False, True),
    ("known", True, False),
    ("known", True, True),
    ("", True, False),
    ("", True, True),
]
"""The trip count; whether a condition is computed; and whether there is one before."""


@pytest.mark.parametrize(("trips", "ends", "starts"), RUN_TIME_FORMS)
def test_loops_of_run_time_counts_and_conditions_are_one_job(
    trips: str,
    ends: bool,
    starts: bool,
    make_model: MakeModel,
    evaluate: Evaluate,
    assert_close: AssertClose,
):
    node = summing(BELOW if ends else [FOREVER], "n" if trips else "", "k")
    known: dict[str, Array] = {"s": HALF, "top": np.array(4.0, np.float32)}
    inputs: dict[str, Array] = {"x": X}
    (inputs if trips == "run time" else known)["n"] = np.array([4])
    (inputs if starts else known)["k"] = np.array(True)
    model = make_model([node], inputs, ["y", "all"], known)
    imported = import_model(model, "m", maxima={"y": 9})
    (found,) = loops_of(imported)
    assert found.count == (4 if trips == "known" else 9)
    for count, going in ((4, True), (0, True), (7, True), (4, False)):
        given = {"x": X, "n": np.array([count]), "k": np.array(going)}
        given = {name: given[name] for name in inputs}
        got = evaluate(imported, given)
        assert_close(got, run_onnxruntime(model, given))


def test_one_session_runs_a_loop_as_often_as_is_asked_for(
    make_model: MakeModel, assert_close: AssertClose
):
    inputs = {"x": X, "n": np.array(3)}
    node = summing(BELOW, "n", "")
    known = {"s": HALF, "top": np.array(4.0, np.float32)}
    model = make_model([node], inputs, ["y", "all"], known)
    with OnnxSession(model, maxima={"y": 5}) as session:
        for count in (3, 0, 5):
            given = {"x": X, "n": np.array(count)}
            assert_close(session.run(given), run_onnxruntime(model, given))
        assert session.compiled == 1
        for count in (6, -1):
            wrong = f"a loop of at most 5 iterations was to make {count}"
            with pytest.raises(PenstockError, match=wrong):
                session.run({"x": X, "n": np.array(count)})


def test_iterations_that_are_not_alike_need_their_number(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    nodes = [helper.make_node("Add", ["i", "one"], ["next"])]
    nodes.append(helper.make_node("Slice", ["x", "i1", "next"], ["part"]))
    nodes.insert(0, helper.make_node("Reshape", ["i", "one"], ["i1"]))
    nodes += [helper.make_node("Add", ["v", "part"], ["w"]), FOREVER]
    body = graph(nodes, ["i", "c", "v"], ["d", "w"])
    node = helper.make_node("Loop", ["n", "k", "x"], ["y"], body=body)
    inputs = {"x": X, "n": np.array(3)}
    model = make_model([node], inputs, known={"k": YES, "one": np.array([1])})
    with pytest.raises(NeedsInputs) as raised:
        import_model(model, "m", maxima={"y": 4})
    (note,) = raised.value.diagnoses[0].notes
    assert note.partition("': ")[2] == (
        "iterations are not alike, and how often it runs is only known at run time"
    )
    assert raised.value.inputs == {"n"}
    got = evaluate(import_for(model, "m", inputs, maxima={"y": 4}), inputs)
    assert_close(got, run_onnxruntime(model, inputs))


def test_maxima_are_of_loops_of_the_model(make_model: MakeModel):
    model = make_model([summing(BELOW, "n", "")], {"x": X, "n": np.array(3)})
    with pytest.raises(UsageError, match="no node with a maximum has the name 'z'"):
        import_model(model, "m", maxima={"z": 3})


def test_loops_and_scans_nest(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    """The sums of each row with all before it, several times."""
    add = helper.make_node("Add", ["a", "b"], ["sum"])
    same = helper.make_node("Identity", ["sum"], ["out"])
    rows = graph([add, same], ["a", "b"], ["sum", "out"])
    for value in rows.output:
        # ONNX Runtime needs to know it.
        value.type.tensor_type.shape.dim.add().dim_value = 3
    scan = helper.make_node(
        "Scan", ["first", "v"], ["end", "sums"], body=rows, num_scan_inputs=1
    )
    half = helper.make_node("Mul", ["sums", "s"], ["w"])
    body = graph([scan, half, FOREVER], ["i", "c", "v"], ["d", "w", "end"])
    node = helper.make_node("Loop", ["n", "k", "x"], ["y", "ends"], body=body)
    known = {"first": X[0], "s": HALF, "k": YES, "n": np.array(3)}
    model = make_model([node], {"x": X}, ["y", "ends"], known)
    imported = import_model(model, "m")
    assert sorted(loop.count for loop in loops_of(imported)) == [3, 4]
    assert_close(evaluate(imported, {"x": X}), run_onnxruntime(model, {"x": X}))


@pytest.mark.parametrize("seed", range(4))
def test_scans_of_several_inputs_take_axes_and_directions(
    seed: int, make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    rng = np.random.default_rng(seed)
    ins, outs, axes, out_axes = (rng.integers(0, 2, 2).tolist() for _ in range(4))
    nodes = [
        helper.make_node("Add", ["v", "a"], ["p"]),
        helper.make_node("Mul", ["u", "b"], ["q"]),
        helper.make_node("Sub", ["p", "q"], ["r"]),
        helper.make_node("Tanh", ["p"], ["t"]),
    ]
    body = graph(nodes, ["v", "u", "a", "b"], ["p", "r", "t", "q"])
    scan = helper.make_node(
        "Scan",
        ["v0", "u0", "xs", "ys"],
        ["v1", "u1", "all", "more"],
        body=body,
        num_scan_inputs=2,
        scan_input_axes=axes,
        scan_output_axes=out_axes,
        scan_input_directions=ins,
        scan_output_directions=outs,
    )
    inputs = {name: rng.standard_normal(3).astype(np.float32) for name in ("v0", "u0")}
    for name, axis in zip(("xs", "ys"), axes, strict=True):
        values = rng.standard_normal((5, 3)).astype(np.float32)
        inputs[name] = np.moveaxis(values, 0, axis)
    model = make_model([scan], inputs, ["v1", "u1", "all", "more"])
    imported = import_model(model, "m")
    assert [loop.count for loop in loops_of(imported)] == [5]
    assert_close(evaluate(imported, inputs), run_onnxruntime(model, inputs))


def batch_scan(lengths: str) -> NodeProto:
    """A scan of opset 8, which goes through its second input from the end on."""
    nodes = [
        helper.make_node("Add", ["v", "a"], ["p"]),
        helper.make_node("Mul", ["p", "b"], ["q"]),
    ]
    body = graph(nodes, ["v", "a", "b"], ["p", "q"])
    for value in (*body.input, *body.output):
        value.type.tensor_type.shape.dim.add().dim_value = 3
    return helper.make_node(
        "Scan",
        [lengths, "first", "xs", "ys"],
        ["y", "all"],
        body=body,
        num_scan_inputs=2,
        directions=[0, 1],
    )


BATCHES: Mapping[str, Array] = {
    name: np.random.default_rng(index).standard_normal(shape).astype(np.float32)
    for index, (name, shape) in enumerate(
        {"first": (2, 3), "xs": (2, 5, 3), "ys": (2, 5, 3)}.items()
    )
}


def test_scans_of_opset_8_go_through_batches(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    model = make_model([batch_scan("")], BATCHES, ["y", "all"], opset=8)
    imported = import_model(model, "m")
    assert sorted(loop.count for loop in loops_of(imported)) == [2, 5]
    assert_close(evaluate(imported, BATCHES), run_onnxruntime(model, BATCHES))


def test_scans_of_sequences_of_several_lengths_are_refused(make_model: MakeModel):
    inputs = {**BATCHES, "lengths": np.array([5, 3])}
    model = make_model([batch_scan("lengths")], inputs, opset=8)
    with pytest.raises(UsageError, match="of several lengths is not read"):
        import_model(model, "m")


def test_inputs_that_shapes_depend_on_are_taken_as_known(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    nodes = [
        helper.make_node("Add", ["n", "one"], ["m"]),
        helper.make_node("Reshape", ["x", "m"], ["y"]),
    ]
    inputs = {"x": X, "n": np.array([1, 5])}
    model = make_model(nodes, inputs, known={"one": np.array(1)})
    with pytest.raises(NeedsInputs) as raised:
        import_model(model, "m")
    assert raised.value.inputs == {"n"}
    with pytest.raises(NeedsInputs):
        import_for(model, "m", {"x": X})
    got = evaluate(import_for(model, "m", inputs), {"x": X})
    assert_close(got, {"y": X.reshape(2, 6)})
