"""Sequences of tensors whose number is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper

from penstock.dialects.op import LoopOp
from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.frontend.onnx.model import (
    ImportedModel,
    import_model,
    run_onnxruntime,
)

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


def appending(extra: Sequence[NodeProto] = ()) -> NodeProto:
    """A loop that adds to a value, and appends what it makes to a sequence."""
    real = TensorProto.FLOAT
    info, kind = helper.make_tensor_value_info, helper.make_tensor_sequence_value_info
    ins = [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, [])]
    ins += [kind("s", real, None), info("v", real, [5, 4])]
    outs = [info("d", TensorProto.BOOL, []), kind("t", real, None)]
    outs += [info("w", real, [5, 4])]
    nodes = [
        make("Add", "v", "x", to="w"),
        make("SequenceInsert", "s", "w", to="t"),
        make("Identity", "c", to="d"),
        *extra,
    ]
    body = helper.make_graph(nodes, "body", ins, outs)
    return helper.make_node("Loop", ["n", "k", "a", "x"], ["all", "end"], body=body)


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
    "an output": ([make("SequenceConstruct", "x")], {}, "output 'y': it is a sequence"),
    "a loop that reads it": (
        [
            SEQUENCE,
            appending([make("SequenceLength", "s", to="unused")]),
            make("SequenceLength", "all"),
        ],
        known(n=3, k=True),
        "Loop 'all': it does more with the sequence 's' than append",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sequences_that_cannot_be_said_are_refused(name: str, make_model: MakeModel):
    nodes, weights, text = REFUSED[name]
    model = make_model(nodes, {"x": X}, known=weights)
    with pytest.raises(Rejected) as raised:
        import_model(model, "m")
    assert raised.value.diagnoses[0].notes[0].strip() == text


def test_branches_that_end_in_sequences_are_refused(make_model: MakeModel):
    kind = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    nodes = [make("SequenceConstruct", "x", "x", to="s")]
    branch = helper.make_graph(nodes, "branch", [], [kind])
    choice = make("If", "k", to="a", then_branch=branch, else_branch=branch)
    nodes = [choice, make("ConcatFromSequence", "a", axis=0)]
    model = make_model(nodes, {"x": X}, known=known(k=True))
    with pytest.raises(Rejected) as raised:
        import_model(model, "m")
    assert raised.value.diagnoses[0].notes[0].strip() == "If 'a': 's' is a sequence"


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
