"""Sequences of tensors whose number is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, helper

from penstock.dialects.op import IfOp, LoopOp
from penstock.runtime.errors import PenstockError
from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.frontend.onnx.model import (
    ImportedModel,
    NeedsInputs,
    import_for,
    import_model,
    run_onnxruntime,
)
from penstock.tools.frontend.onnx.ports import with_tensors
from penstock.tools.frontend.onnx.session import OnnxSession

Array: TypeAlias = NDArray[np.generic]
Arrays: TypeAlias = Mapping[str, Array]
MakeModel: TypeAlias = Callable[..., ModelProto]
AssertClose: TypeAlias = Callable[..., None]
Evaluate: TypeAlias = Callable[[ImportedModel, Arrays], dict[str, Array]]

X = np.random.default_rng(5).standard_normal((5, 4)).astype(np.float32)


def make(op: str, *inputs: str, to: str = "y", **attributes: Any) -> NodeProto:
    return helper.make_node(op, list(inputs), [to], **attributes)


def known(**values: object) -> dict[str, Array]:
    return {name: np.asarray(value) for name, value in values.items()}


CASES: dict[str, tuple[Sequence[NodeProto], dict[str, Array]]] = {
    "parts of one element": (
        [
            make("SplitToSequence", "x", to="s", axis=1),
            make("ConcatFromSequence", "s", axis=0),
        ],
        {},
    ),
    "parts of one element without the axis": (
        [
            make("SplitToSequence", "x", to="s", axis=1, keepdims=0),
            make("ConcatFromSequence", "s", axis=1, new_axis=1),
        ],
        {},
    ),
    "parts of two elements": (
        [
            make("SplitToSequence", "x", "two", to="s"),
            make("SequenceAt", "s", "last", to="z"),
            make("Neg", "z"),
        ],
        known(two=2, last=-1),
    ),
    "parts of given sizes": (
        [
            make("SplitToSequence", "x", "sizes", to="s", axis=-1),
            make("ConcatFromSequence", "s", axis=-1, new_axis=0),
        ],
        known(sizes=[1, 3]),
    ),
    "one at a place that data tells": (
        [
            make("SplitToSequence", "x", to="s", keepdims=0),
            make("ArgMax", "x", to="i", axis=0, keepdims=0),
            make("Gather", "i", "last", to="j"),
            make("SequenceAt", "s", "j"),
        ],
        known(last=1),
    ),
    "made, changed and counted": (
        [
            make("Neg", "x", to="n"),
            make("SequenceConstruct", "x", "n", "x", to="a"),
            make("Exp", "x", to="e"),
            make("SequenceInsert", "a", "e", "one", to="b"),
            make("SequenceErase", "b", "zero", to="c"),
            make("Identity", "c", to="d"),
            make("SequenceLength", "d", to="count"),
            make("CastLike", "count", "x", to="real"),
            make("ConcatFromSequence", "d", to="all", axis=0),
            make("Mul", "all", "real"),
        ],
        known(one=1, zero=0),
    ),
    "appended to an empty one": (
        [
            make("SequenceEmpty", to="a"),
            make("SequenceInsert", "a", "x", to="b"),
            make("SequenceErase", "b", to="c"),
            make("SequenceInsert", "c", "x", to="d"),
            make("ConcatFromSequence", "d", axis=0),
        ],
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sequences_equal_those_of_onnx_runtime(
    name: str, make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    nodes, weights = CASES[name]
    model = make_model(nodes, {"x": X}, known=weights)
    got = evaluate(import_model(model, "m"), {"x": X})
    assert_close(got, run_onnxruntime(model, {"x": X}))


def appending(
    extra: Sequence[NodeProto] = (), rows: Sequence[str] = (), value: str = "w"
) -> NodeProto:
    """A loop that adds to a value, and appends one that it makes to a sequence."""
    real = TensorProto.FLOAT
    info, kind = helper.make_tensor_value_info, helper.make_tensor_sequence_value_info
    ins = [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, [])]
    ins += [kind("s", real, None), info("v", real, [5, 4])]
    outs = [info("d", TensorProto.BOOL, []), kind("t", real, None)]
    outs += [info("w", real, [5, 4]), *(info(row, real, None) for row in rows)]
    nodes = [
        make("Add", "v", "x", to="w"),
        *extra,
        make("SequenceInsert", "s", value, to="t"),
        make("Identity", "c", to="d"),
    ]
    body = helper.make_graph(nodes, "body", ins, outs)
    results = ["all", "end", *(["rows"] if rows else [])]
    return helper.make_node("Loop", ["n", "k", "a", "x"], results, body=body)


def test_a_loop_stacks_what_it_appends(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    sizes: list[int] = []
    for steps in (3, 50):
        nodes = [
            make("SequenceConstruct", "x", to="a"),
            appending(),
            make("ConcatFromSequence", "all", axis=0),
        ]
        model = make_model(nodes, {"x": X}, ["y", "end"], known(n=steps, k=True))
        imported = import_model(model, "m")
        ops = [*imported.module.walk()]
        assert sum(isinstance(op, LoopOp) for op in ops) == 1
        sizes.append(len(ops))
        got = evaluate(imported, {"x": X})
        assert_close(got, run_onnxruntime(model, {"x": X}))
    assert sizes[0] == sizes[1]


SEQUENCE = make("SequenceConstruct", "x", "x", to="a")
REFUSED: dict[str, tuple[Sequence[NodeProto], dict[str, Array], str]] = {
    "an op on tensors": (
        [SEQUENCE, make("Relu", "a")],
        {},
        "Relu 'y': its operand 'a' is a sequence",
    ),
    "a tensor": (
        [make("SequenceLength", "x")],
        {},
        "SequenceLength 'y': its operand 'x' is no sequence",
    ),
    "a place behind": (
        [SEQUENCE, make("SequenceAt", "a", "two")],
        known(two=2),
        "SequenceAt 'y': there is no place 2 in a sequence of 2",
    ),
    "a place to insert at": (
        [
            SEQUENCE,
            make("SequenceInsert", "a", "x", "two", to="b"),
            make("SequenceLength", "b"),
        ],
        known(two=3),
        "SequenceInsert 'b': there is no place 3 in a sequence of 2",
    ),
    "parts that do not fit": (
        [make("SplitToSequence", "x", "sizes", to="s"), make("SequenceLength", "s")],
        known(sizes=[2, 2]),
        "SplitToSequence 's': parts of [2, 2] elements do not make 5",
    ),
    "parts of nothing": (
        [make("SplitToSequence", "x", "size", to="s"), make("SequenceLength", "s")],
        known(size=0),
        "SplitToSequence 's': parts should have at least 1 element, got 0",
    ),
    "no tensors": (
        [make("SequenceEmpty", to="s"), make("ConcatFromSequence", "s", axis=0)],
        {},
        "ConcatFromSequence 'y': there are no tensors in the sequence",
    ),
    "tensors of two shapes": (
        [
            make("SplitToSequence", "x", "two", to="s"),
            make("ConcatFromSequence", "s", axis=0, new_axis=1),
        ],
        known(two=2),
        "ConcatFromSequence 'y': tensors of a sequence differ in shape, or there is "
        "none",
    ),
    "an output whose tensors have the name of a value": (
        [make("Neg", "x", to="y.1"), make("SequenceConstruct", "x", "y.1")],
        {},
        "output 'y': one of its tensors would be called 'y.1', too",
    ),
    "a sequence that a loop is to stack": (
        [
            make("SequenceConstruct", "x", to="a"),
            appending([make("Identity", "s", to="row")], ["row"]),
            make("Identity", "rows"),
        ],
        known(n=3, k=True),
        "Loop 'all': a sequence or an optional stands where a tensor should",
    ),
    "the element of an optional without one": (
        [
            make("Optional", to="o", type=helper.make_tensor_type_proto(1, [2])),
            make("OptionalGetElement", "o"),
        ],
        {},
        "OptionalGetElement 'y': 'o' has no element",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sequences_that_cannot_be_said_are_refused(name: str, make_model: MakeModel):
    nodes, weights, text = REFUSED[name]
    model = make_model(nodes, {"x": X}, known=weights)
    with pytest.raises(Rejected) as raised:
        import_model(model, "m")
    assert raised.value.diagnoses[0].notes[0].strip() == text


def test_a_loop_that_reads_its_sequence_is_unrolled(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    """It appends as many rows as the sequence has tensors."""
    more = [
        make("SequenceLength", "s", to="rows"),
        make("Unsqueeze", "rows", "zero", to="ends"),
        make("Slice", "w", "zero", "ends", to="part"),
    ]
    nodes = [make("SequenceConstruct", "x", to="a"), appending(more, value="part")]
    values = known(n=3, k=True, zero=[0])
    model = make_model(nodes, {"x": X}, ["all"], values)
    imported = import_model(model, "m")
    got = evaluate(imported, {"x": X})
    assert [array.shape[0] for array in got.values()] == [5, 1, 2, 3]
    assert_close(got, run_onnxruntime(model, {"x": X}))


def choosing(first: Sequence[NodeProto], second: Sequence[NodeProto]) -> NodeProto:
    """A choice of two sequences `s`."""
    kind = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    one, other = (
        helper.make_graph(nodes, "branch", [], [kind]) for nodes in (first, second)
    )
    return make("If", "k", then_branch=one, else_branch=other)


def test_branches_end_in_sequences(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    one = [make("Neg", "x", to="n"), make("SequenceConstruct", "x", "n", to="s")]
    other = [make("Exp", "x", to="e"), make("SequenceConstruct", "e", "x", to="s")]
    for k in (True, False):
        inputs = {"x": X, "k": np.array(k)}
        model = make_model([choosing(one, other)], inputs)
        imported = import_model(model, "m")
        assert sum(isinstance(op, IfOp) for op in imported.module.walk()) == 1
        assert_close(evaluate(imported, inputs), run_onnxruntime(model, inputs))


def test_a_condition_that_decides_what_is_in_a_sequence_is_taken_as_known(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    one = [make("SequenceConstruct", "x", "x", to="s")]
    other = [make("SequenceConstruct", "x", to="s")]
    inputs = {"x": X, "k": np.array(False)}
    model = make_model([choosing(one, other)], inputs)
    with pytest.raises(NeedsInputs) as raised:
        import_model(model, "m")
    assert raised.value.inputs == {"k"}
    got = evaluate(import_for(model, "m", inputs), {"x": X})
    assert_close(got, run_onnxruntime(model, inputs))


def with_inputs(model: ModelProto, **types: TypeProto) -> ModelProto:
    """A model with further inputs that are no tensors."""
    for name, type in types.items():
        model.graph.input.add(name=name, type=type)
    return model


TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
TENSORS = helper.make_sequence_type_proto(TENSOR)


def test_sequences_come_and_go_as_tensors(
    make_model: MakeModel, assert_close: AssertClose
):
    """Each of them is added to one of another sequence, whatever its shape is."""
    value = partial(helper.make_tensor_value_info, elem_type=1, shape=["n"])
    body = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["c"])],
        "body",
        [value("a"), value("b")],
        [value("c")],
    )
    nodes = [helper.make_node("SequenceMap", ["s", "t"], ["y"], body=body)]
    model = with_inputs(make_model(nodes, {}), s=TENSORS, t=TENSORS)
    rng = np.random.default_rng(6)
    with OnnxSession(model) as session:
        for sizes in ([3, 5], [2, 4, 1]):
            inputs = {
                f"{name}.{place}": rng.standard_normal(size).astype(np.float32)
                for name in "st"
                for place, size in enumerate(sizes)
            }
            got = session.run(inputs)
            pairs = zip(sizes, range(9), strict=False)
            wanted = {
                f"y.{place}": inputs[f"s.{place}"] + inputs[f"t.{place}"]
                for _, place in pairs
            }
            assert_close(got, wanted)
        with pytest.raises(PenstockError, match=r"has no inputs s\.2"):
            session.run({"s.0": X[0], "t.0": X[0], "s.2": X[0]})


@pytest.mark.parametrize("kind", ["a tensor", "a sequence", "nothing"])
def test_optionals_are_their_elements_or_nothing(
    kind: str, make_model: MakeModel, evaluate: Evaluate
):
    own = TENSORS if kind == "a sequence" else TENSOR
    optional = helper.make_optional_type_proto(own)
    nodes = [make("OptionalHasElement", "o", to="has"), make("Identity", "o")]
    model = with_inputs(make_model(nodes, {}, ["has", "y"]), o=optional)
    names = {"a tensor": ["o"], "a sequence": ["o.0", "o.1"], "nothing": []}[kind]
    arrays = {name: X + place for place, name in enumerate(names)}
    imported = import_for(with_tensors(model, arrays), "m", arrays)
    got = evaluate(imported, arrays)
    assert got.pop("has") == bool(names)
    assert [*got] == [name.replace("o", "y") for name in names]
    for array, wanted in zip(got.values(), arrays.values(), strict=True):
        assert np.array_equal(array, wanted)


def test_parts_of_as_many_elements_as_data_says_are_refused(make_model: MakeModel):
    nodes = [
        make("NonZero", "x", to="p"),
        make("SplitToSequence", "p", to="s", axis=1),
        make("SequenceLength", "s"),
    ]
    with pytest.raises(Rejected) as raised:
        import_model(make_model(nodes, {"x": X}), "m")
    assert raised.value.diagnoses[0].notes[0].strip() == (
        "SplitToSequence 's': 'p' has an extent that is a count"
    )
