"""Errors of a traced function or a call: the message, and its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import penstock
from penstock import Tensor
from penstock.tools.frontend.python.errors import TraceError
from penstock.tools.frontend.python.jobs import Job
from penstock.tools.frontend.python.signature import ArgumentError

X = Annotated[Tensor, (3, 4), "f32"]
I = Annotated[Tensor, (3, 4), "i32"]  # noqa: E741 -- the integers beside the floats
B = Annotated[Tensor, (3, 4), "i1"]

leaked: list[Tensor] = []


def message_of(function: Callable[..., Any]) -> str:
    """The message of tracing a function; it says the function's line."""
    with pytest.raises(TraceError) as caught:
        Job(function).trace()
    error = caught.value
    assert error.place is not None
    assert Path(error.place.file) == Path(__file__)
    first = function.__code__.co_firstlineno
    assert first <= error.place.line <= first + 2
    return str(error).removeprefix(f"{error.place}: ")


# While tracing --------------------------------------------------------------------

NOT_KNOWN = (
    "the elements of tensor 3x4xf32 are not known while 'traced' is traced: choose "
    "between values with np.where"
)
FUNCTIONS: list[tuple[str, Callable[[Any, Any, Any], Any]]] = [
    (
        "op.matmul of 3x4xf32, 3x4xf32: rows of 4 elements cannot be multiplied with "
        "columns of 3",
        lambda x, i, b: x @ x,
    ),
    (
        "op.add of 3x4xf32, 2xf32: shapes 3x4, 2 do not broadcast",
        lambda x, i, b: x + np.ones(2, np.float32),
    ),
    (
        "op.add of 3x4xf32, 3x4xi32: operands have different element types f32 and i32",
        lambda x, i, b: penstock.ops.add(x, i),
    ),
    (
        "op.exp of 3x4xi32: expected floats, got i32",
        lambda x, i, b: penstock.ops.exp(i),
    ),
    (
        "numpy.remainder of f32 cannot be traced: there is no op for it",
        lambda x, i, b: x % 2,
    ),
    (
        "numpy.add.reduce cannot be traced",
        lambda x, i, b: np.add.reduce(x),
    ),
    (
        "numpy.exp with where cannot be traced",
        lambda x, i, b: np.exp(x, where=b),
    ),
    (
        "numpy.sort cannot be traced: there is no op for it",
        lambda x, i, b: np.sort(x),
    ),
    (
        "numpy.linalg.svd cannot be traced: there is no op for it",
        lambda x, i, b: np.linalg.svd(x),
    ),
    (
        "numpy.sum: got an unexpected keyword argument 'where'",
        lambda x, i, b: np.sum(x, where=b),
    ),
    (
        "numpy.sum: axis 2 is out of bounds for array of dimension 2",
        lambda x, i, b: x.sum(axis=2),
    ),
    (
        "numpy.add takes tensors, arrays and numbers, got str",
        lambda x, i, b: x + "a",
    ),
    (
        "op.relu takes tensors, arrays and numbers, got NoneType",
        lambda x, i, b: penstock.ops.relu(None),
    ),
    (
        "a constant: there are no tensors of complex64",
        lambda x, i, b: penstock.ops.relu(np.ones(4, np.complex64)),
    ),
    (
        "op.softmax: got an unexpected keyword argument 'dim'",
        lambda x, i, b: penstock.ops.softmax(x, dim=1),
    ),
    ("op.gather: missing a required argument: 'axis'", lambda x, i, b: gather(x, i)),
    (
        "op.softmax of 3x4xf32: 'axis' should be an integer, got 'a'",
        lambda x, i, b: penstock.ops.softmax(x, axis="a"),
    ),
    (
        "op.reduce_sum of 3x4xf32: 'axes' should be a list of integers, got 1",
        lambda x, i, b: penstock.ops.reduce_sum(x, axes=1),
    ),
    (
        "op.reduce_sum of 3x4xf32: 'keepdims' should be True or False, got 2",
        lambda x, i, b: penstock.ops.reduce_sum(x, keepdims=2),
    ),
    (
        "op.gelu of 3x4xf32: 'approximate' should be a string, got 1",
        lambda x, i, b: penstock.ops.gelu(x, approximate=1),
    ),
    (
        "op.leaky_relu of 3x4xf32: 'alpha' should be a number, got 'a'",
        lambda x, i, b: penstock.ops.leaky_relu(x, "a"),
    ),
    (
        "op.pad of 3x4xf32: 'mode' should be one of constant, edge, reflect, "
        "got 'wrap'",
        lambda x, i, b: np.pad(x, 1, mode="wrap"),
    ),
    (
        "op.concat: 'ins' should be a list of tensors",
        lambda x, i, b: penstock.ops.concat(x, 0),
    ),
    (
        "there is no dialect 'opp', did you mean 'op'?",
        lambda x, i, b: penstock.op("opp.relu", x),
    ),
    (
        "there is no op 'op.rellu' on tensors, did you mean 'op.relu'?",
        lambda x, i, b: penstock.op("op.rellu", x),
    ),
    (
        "unknown dtype 'i4', expected one of bf16, f16, f32, f64, i1, i8, i16, i32, "
        "i64, ui8, ui16, ui32, ui64",
        lambda x, i, b: x.astype("i4"),
    ),
    (
        "unknown dtype 'complex128', expected one of bf16, f16, f32, f64, i1, i8, i16, "
        "i32, i64",
        lambda x, i, b: x.astype(complex),
    ),
    (
        "the elements of tensor 3x4xi1 are not known while 'traced' is traced: choose "
        "between values with np.where",
        lambda x, i, b: 1 if x.sum(keepdims=True).reshape(1, 1) * x > 0 else 2,
    ),
    (NOT_KNOWN, lambda x, i, b: int(x)),
    (NOT_KNOWN, lambda x, i, b: float(x)),
    (NOT_KNOWN, lambda x, i, b: range(x)),
    (NOT_KNOWN, lambda x, i, b: bytes(np.asarray(x, np.float32))),
    ("a scalar has no length", lambda x, i, b: len(x.sum())),
    ("index 3 is out of range for axis 0 of 3x4xf32", lambda x, i, b: x[3]),
    ("3x4xf32 has 2 axes, got 3 indices", lambda x, i, b: x[0, 0, 0]),
    ("an index can have only one ellipsis", lambda x, i, b: x[..., ...]),
    (
        "an array of places can be combined with slices only",
        lambda x, i, b: x[i, 0],
    ),
    ("3x4xf32 cannot be indexed by a str", lambda x, i, b: x["a"]),
    ("3x4xf32 cannot be indexed by elements of i1", lambda x, i, b: x[b]),
    ("3x4xf32 cannot be indexed by a bool", lambda x, i, b: x[True]),
    (
        "a slice of a tensor needs constants: slice indices must be integers or None "
        "or have an __index__ method",
        lambda x, i, b: x["a":],
    ),
    (
        "op.constant of nothing: there are no tensors of object",
        lambda x, i, b: penstock.ops.constant(penstock.Tensor),
    ),
    ("variable 'w' needs a shape", lambda x, i, b: penstock.variable("w")),
    (
        "variable 'w': no initialiser 'one', did you mean 'ones'?",
        lambda x, i, b: penstock.variable("w", (1,), init="one"),
    ),
    (
        "variable 'w' starts from an array, and takes no seed",
        lambda x, i, b: penstock.variable("w", init=np.ones(2), seed=1),
    ),
    (
        "variable 'w' of shape (3,) starts from one of (2,)",
        lambda x, i, b: penstock.variable("w", (3,), init=np.ones(2)),
    ),
    (
        "variable 'w' of f32 starts from an array of f64",
        lambda x, i, b: penstock.variable("w", None, "f32", init=np.ones(2)),
    ),
    (
        "variable 'w' is tensor<2xf32> init <zeros> here, but tensor<3xf32> init "
        "<zeros> before",
        lambda x, i, b: (penstock.variable("w", (3,)), penstock.variable("w", (2,))),
    ),
    (
        "variable 'w' starts from another array before",
        lambda x, i, b: [
            penstock.variable("w", init=np.full(2, value)) for value in (1, 2)
        ],
    ),
    (
        "tensor 3x4xf32 of a call of 'leak' that has been traced before is used in "
        "'traced'",
        lambda x, i, b: x + leaked[0],
    ),
]


def gather(x: Any, i: Any) -> Any:
    return penstock.ops.gather(x, i)


def leak(x: X) -> Any:
    leaked[:] = [x]
    return x


@pytest.mark.parametrize(("message", "function"), FUNCTIONS)
def test_what_cannot_be_traced(message: str, function: Callable[..., Any]):
    Job(leak).trace()

    def traced(x: X, i: I, b: B) -> Any:
        return function(x, i, b)

    with pytest.raises(TraceError) as caught:
        Job(traced).trace()
    place = caught.value.place
    assert place is not None
    assert place.file == __file__
    assert str(caught.value).startswith(f"{place}: {message}")


def test_the_place_is_that_of_the_expression():
    def traced(x: X) -> Any:
        y = x + 1
        return y, y @ x

    line = traced.__code__.co_firstlineno + 2
    with pytest.raises(TraceError) as caught:
        Job(traced).trace()
    place = caught.value.place
    assert place is not None
    assert (place.file, place.line, place.column) == (__file__, line, 19)


def test_what_a_job_returns_are_tensors():
    assert message_of(lambda: {"a": ["text"]}) == (
        "<lambda> returns a str as 'out.a.0', expected tensors in lists, tuples and "
        "dictionaries"
    )
    with pytest.raises(TraceError) as caught:
        Job(lambda: {1: 2}).trace()
    assert str(caught.value) == "out: the keys of a dictionary are strings, got 1"


def test_ops_and_variables_belong_into_jobs():
    with pytest.raises(TraceError) as caught:
        penstock.ops.relu(1)
    assert str(caught.value).endswith("op.relu outside of a function that is traced")
    with pytest.raises(TraceError) as caught:
        penstock.variable("w", (1,))
    text = "variable 'w' outside of a function that is traced"
    assert str(caught.value).endswith(text)


def test_shapes_that_differ_need_an_example():
    def lazy(x: Annotated[Tensor, ("n",), "f32"]) -> Any:
        return x

    with pytest.raises(TraceError) as caught:
        _ = Job(lazy).ir
    message = "lazy takes different shapes: trace it with an example"
    assert str(caught.value).endswith(message)
    assert "tensor<7xf32>" in Job(lazy).trace(np.ones(7, np.float32)).ir


# Annotations ----------------------------------------------------------------------


def plain(x: Any) -> Any: ...
def star(*x: X) -> Any: ...
def unknown(x: Any) -> Any: ...
def short(x: Annotated[Tensor, (3,)]) -> Any: ...
def negative(x: Annotated[Tensor, (-3,), "f32"]) -> Any: ...
def dashed(x: Annotated[Tensor, ("a-b",), "f32"]) -> Any: ...
def wrong(x: Annotated[Tensor, (3,), "f8"]) -> Any: ...
def inside(x: dict[int, X]) -> Any: ...
def empty(x: Any) -> Any: ...


unknown.__annotations__["x"] = "Nothing"
empty.__annotations__.clear()


EXPECTED = 'such as Annotated[Tensor, (64, 784), "f32"]'


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (plain, f"plain: 'x' should be annotated {EXPECTED}, got Any"),
        (empty, f"empty: 'x' has no annotation, expected one {EXPECTED}"),
        (star, "star: 'x' is no plain parameter"),
        (unknown, "unknown: cannot read annotations: name 'Nothing' is not defined"),
        (short, "short: 'x' should say a shape and a dtype, got ((3,),)"),
        (negative, "negative: 'x': an extent is a size or a name, got -3"),
        (dashed, "dashed: 'x': an extent is a size or a name, got 'a-b'"),
    ],
)
def test_annotations_that_say_too_little(function: Callable[..., Any], message: str):
    with pytest.raises(TraceError) as caught:
        Job(function)
    assert str(caught.value) == message


def test_annotations_inside_others():
    with pytest.raises(TraceError) as caught:
        Job(inside)
    assert str(caught.value).startswith("inside: 'x' should be annotated such as ")
    with pytest.raises(TraceError) as caught:
        Job(wrong)
    assert "unknown dtype 'f8', expected one of bf16, f16, " in str(caught.value)


# Calls ----------------------------------------------------------------------------


def taking(
    x: X, n: Annotated[Tensor, (), "i8"], t: tuple[X, X], d: dict[str, X], s: list[X]
) -> Any: ...


ONES = np.ones((3, 4), np.float32)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": ONES[:2]}, "'x' should be 3x4xf32, got 2x4xf32"),
        ({"x": ONES[0]}, "'x' should be 3x4xf32, got 4xf32"),
        ({"x": ONES.astype("f8")}, "'x' should be 3x4xf32, got 3x4xf64"),
        ({"x": ONES.astype("c8")}, "'x' should be 3x4xf32, got 3x4xcomplex64"),
        ({"x": [1, 2]}, "'x' should be an array 3x4xf32, got list"),
        ({"x": None}, "'x' should be an array 3x4xf32, got nothing"),
        ({"x": 1.0}, "'x' should be 3x4xf32, got f32"),
        ({"n": 1.5}, "'n' should be an array i8, got float"),
        ({"n": True}, "'n' should be an array i8, got bool"),
        ({"n": 300}, "'n' should be an array i8, got 300"),
        ({"t": [ONES, ONES]}, "'t' should be a tuple of 2, got list"),
        ({"t": (ONES,)}, "'t' should be a tuple of 2, got one of 1"),
        ({"t": (ONES, ONES[0])}, "'t.1' should be 3x4xf32, got 4xf32"),
        ({"d": [ONES]}, "'d' should be a dictionary, got list"),
        ({"d": {1: ONES}}, "'d' should be a dictionary with strings for keys, got 1"),
        ({"d": {"k": ONES[0]}}, "'d.k' should be 3x4xf32, got 4xf32"),
        ({"s": (ONES,)}, "'s' should be a list, got tuple"),
        ({"s": [ONES, 1]}, "'s.1' should be 3x4xf32, got f32"),
    ],
)
def test_arguments_that_do_not_fit(changed: dict[str, Any], message: str):
    fitting: dict[str, Any] = {"x": ONES, "n": 1, "t": (ONES, ONES), "d": {}, "s": []}
    _ = Job(taking).trace(**fitting)
    with pytest.raises(ArgumentError) as caught:
        Job(taking)(**{**fitting, **changed})
    assert str(caught.value) == f"taking: {message}"


def pair(x: X, y: X) -> Any: ...


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((ONES,), {}, "pair takes x, y, got 1 arguments"),
        ((ONES, ONES, ONES), {}, "pair takes x, y, got 3 arguments"),
        ((ONES, ONES, ONES), {"y": ONES}, "pair takes x, y, got 4 arguments"),
        ((ONES,), {"z": ONES}, "pair takes x, y, got 'z'"),
        ((ONES,), {"x": ONES}, "pair: 'x' is given twice"),
        ((), {"x": ONES}, "pair: 'y' is not given"),
    ],
)
def test_calls_with_other_names(
    args: tuple[Any, ...], options: dict[str, Any], message: str
):
    with pytest.raises(ArgumentError) as caught:
        Job(pair)(*args, **options)
    assert str(caught.value) == message


def test_keys_of_a_typed_dictionary(tmp_path: Path):
    from typing import TypedDict

    Both = TypedDict("Both", {"a": X, "b": X})  # noqa: UP013 -- short

    def keyed(d: Both) -> Any:
        return d["a"]

    with pytest.raises(ArgumentError) as caught:
        Job(keyed, {"Both": Both})({"a": ONES})
    assert (
        str(caught.value) == "keyed: 'd' should be a dictionary of a, b, got one of a"
    )
