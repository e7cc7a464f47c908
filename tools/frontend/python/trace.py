"""A function while it is traced: the block of ops that it has asked for so far."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import AssignOp, InitAttr, UpdateOp, VariableOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.numpy_types import dense_of
from penstock.dialects.utils.value_names import name_value
from penstock.tools.frontend.python.dtypes import dtype_named, short_name, tensor_of
from penstock.tools.frontend.python.errors import (
    TraceError,
    location_of,
    refuse,
    refusing,
    source_place,
)
from penstock.tools.frontend.python.guards import Array
from penstock.tools.frontend.python.tensor import Tensor

WEIGHTS_FILE = "weights.npz"
"""Where the text of a job looks for variables that start from arrays."""

_active: ContextVar[Trace | None] = ContextVar("penstock_trace", default=None)


class Trace:
    """
    The ops of one traced function in order, each with the place of the expression that
    asked for it; and the arrays that its variables start from, by name.
    """

    def __init__(self, job: str):
        self.job = job
        self.block = Block()
        self.weights: dict[str, Array] = {}
        self._variables: dict[str, Tensor] = {}
        self._written: dict[str, AssignOp | UpdateOp] = {}

    @property
    def origin(self) -> str:
        """The origin of its tensors, as others are told that use them."""
        return f"a call of '{self.job}' that has been traced before"

    def insert(self, op: Operation) -> None:
        """Add an op to the block. Raises TraceError if it does not verify."""
        place = source_place()
        if place is not None:
            op.location = location_of(place)
        try:
            op.verify()
        except VerifyException as error:
            op.drop_all_references()
            raise TraceError(f"{op.name}: {error}", place) from None
        self.block.add_op(op)

    def insert_whole(self, op: Operation) -> None:
        """Add an op that stands among those of the job. Raises TraceError in bodies."""
        self.insert(op)

    @property
    def variables(self) -> Mapping[str, Tensor]:
        """The variables so far, by name."""
        return self._variables

    def results_of(self, op: TensorOp) -> tuple[Tensor, ...]:
        """Add an op; its results."""
        self.insert(op)
        return tuple(Tensor(value, self) for value in op.results)

    def constant(self, array: Array) -> Tensor:
        """A tensor of these elements."""
        with refusing("a constant"):
            dense = dense_of(np.asarray(array))
        return self.results_of(ConstantOp(dense))[0]

    def value_of(self, tensor: Tensor) -> SSAValue:
        """The value of a tensor. Raises TraceError if another function has made it."""
        if tensor.trace is not self:
            raise refuse(
                f"tensor {tensor.text} of {tensor.trace.origin} is used in '{self.job}'"
            )
        return tensor.value

    def variable(
        self, name: str, type: TensorType, init: InitAttr, array: Array | None
    ) -> Tensor:
        """
        The variable of a name. Raises TraceError if the function has one that is
        defined in another way.
        """
        if (known := self._variables.get(name)) is not None:
            self._check_same(known, type, init, array)
            return known
        op = VariableOp(name, init, type)
        self.insert(op)
        name_value(op.result, name)
        if array is not None:
            self.weights[name] = array
        self._variables[name] = tensor = Tensor(op.result, self)
        return tensor

    def assign(self, target: Tensor, value: Tensor) -> None:
        """
        Let a variable hold a tensor after the run. Raises TraceError if the target is
        no variable, is assigned to already, or has another type.
        """
        name = self.target(target, value)
        self.write(name, AssignOp(self.value_of(value), self.value_of(target)))

    def target(self, target: Tensor, value: Tensor) -> str:
        """
        The name of a variable that is assigned a value, or updated by it. Raises
        TraceError as `assign` does.
        """
        op = self.value_of(target).owner
        if not isinstance(op, VariableOp):
            raise refuse(f"only variables are assigned to, got {target.text}")
        what = f"variable '{op.port.data}'"
        if (value.shape, value.dtype) != (target.shape, target.dtype):
            raise refuse(f"{what} is {target.text}, got {value.text}")
        return op.port.data

    def write(self, name: str, op: AssignOp | UpdateOp) -> None:
        """
        Keep what assigns to the variable of a name in the end of the run. Raises
        TraceError if something does already.
        """
        if name in self._written:
            raise refuse(f"variable '{name}' is assigned twice")
        place = source_place()
        if place is not None:
            op.location = location_of(place)
        with refusing(f"variable '{name}'"):
            op.verify()
        self._written[name] = op

    def finish(self) -> None:
        """Add what the run does in the end."""
        for op in self._written.values():
            self.block.add_op(op)

    def _check_same(
        self, known: Tensor, type: TensorType, init: InitAttr, array: Array | None
    ) -> None:
        op = known.value.owner
        assert isinstance(op, VariableOp), "it stands among the variables"
        here, before = (
            f"{type} init {str(init).removeprefix('#job.init')}"
            for type, init in ((type, init), (op.result.type, op.init))
        )
        name = op.port.data
        if here != before:
            raise refuse(f"variable '{name}' is {here} here, but {before} before")
        if not same_values(array, self.weights.get(name)):
            raise refuse(f"variable '{name}' starts from another array before")


def same_values(a: Array | None, b: Array | None) -> bool:
    """Whether two arrays of one type have the same bytes, or neither is there."""
    if a is None or b is None or a is b:
        return a is b
    return a.tobytes() == b.tobytes()


def active_trace() -> Trace | None:
    """The trace of the function that this thread is in, if any."""
    return _active.get()


def current_trace(what: str) -> Trace:
    """The active trace. Raises TraceError if there is none for `what` to be part of."""
    if (trace := _active.get()) is None:
        raise refuse(f"{what} outside of a function that is traced")
    return trace


@contextmanager
def tracing(trace: Trace) -> Generator[None]:
    """Let what this thread does with tensors be part of a trace."""
    token = _active.set(trace)
    try:
        yield
    finally:
        _active.reset(token)


def variable(
    name: str,
    shape: tuple[int, ...] | None = None,
    dtype: object = None,
    *,
    init: str | Array = "zeros",
    **options: float | str,
) -> Tensor:
    """
    A tensor that lives as long as the session, and is the same for all of its jobs.

    * `name`: jobs that name one variable mean the same.
    * `shape` and `dtype`: those of its elements; `f32` if nothing says another dtype.
    * `init`: its first elements. Either an array, which may say shape and dtype; or an
      initialiser of [`job.variable`](dialects/job.md), such as `"normal"`.
    * `options`: those of the initialiser, such as `std=0.1, seed=3`.

    Raises TraceError outside a function that is traced, without a shape, or if the
    function has a variable of this name that is defined in another way.

    ```python
    from typing import Annotated

    import penstock
    from penstock import Tensor


    @penstock.job
    def dense(x: Annotated[Tensor, (2, 3), "f32"]):
        w = penstock.variable("w", (3, 4), init="normal", std=0.1, seed=3)
        return x @ w


    assert 'job.variable "w"' in dense.ir
    ```
    """
    trace = current_trace(f"variable '{name}'")
    what = f"variable '{name}'"
    if isinstance(init, str):
        if shape is None:
            raise refuse(f"{what} needs a shape")
        type = tensor_of(tuple(shape), dtype_named("f32" if dtype is None else dtype))
        with refusing(what):
            return trace.variable(name, type, InitAttr(init, options), None)
    if options:
        raise refuse(f"{what} starts from an array, and takes no {', '.join(options)}")
    array = np.ascontiguousarray(init).reshape(np.shape(init))
    found = tensor_of(array.shape, dtype_named(array.dtype))
    _check_declared(what, array, shape, dtype)
    attr = InitAttr("npz", {"file": WEIGHTS_FILE})
    return trace.variable(name, found, attr, array)


def assign(target: Tensor, value: Tensor | Array | float) -> None:
    """
    An assignment: the variable `target` holds `value` when the run has ended.

    Until then it is read as it was. The value is a tensor or an array of its shape and
    dtype, or a number, which all elements become.

    Raises TraceError if `target` is no variable, is assigned to already, or has another
    shape or dtype.

    ```python
    import penstock


    @penstock.job
    def count():
        n = penstock.variable("n", (), "i64")
        penstock.assign(n, n + 1)
        return n


    assert "job.assign" in count.ir
    ```
    """
    trace = current_trace("an assignment to a variable")
    if not isinstance(value, Tensor):
        array = np.asarray(value)
        shape = target.shape if array.ndim == 0 else array.shape
        dtype = target.dtype if isinstance(value, int | float) else array.dtype
        value = trace.constant(np.broadcast_to(array, shape).astype(dtype))
    trace.assign(target, value)


def _check_declared(
    what: str, array: Array, shape: tuple[int, ...] | None, dtype: object
) -> None:
    if shape is not None and tuple(shape) != array.shape:
        raise refuse(f"{what} of shape {tuple(shape)} starts from one of {array.shape}")
    if dtype is not None and dtype_named(dtype) != array.dtype:
        wanted, got = short_name(dtype_named(dtype)), short_name(array.dtype)
        raise refuse(f"{what} of {wanted} starts from an array of {got}")
