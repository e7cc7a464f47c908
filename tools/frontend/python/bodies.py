"""
Loops and conditions in traced functions: `penstock.ops.loop`, `penstock.ops.while_loop`
and `penstock.ops.cond`, and the traces of their bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, Region, SSAValue

from penstock.dialects.job import InitAttr
from penstock.dialects.op.body import YieldOp, isolate, values_outside
from penstock.dialects.op.condition import CONDITION, IfOp
from penstock.dialects.op.loop import INDEX, LoopOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.python.calls import as_tensor
from penstock.tools.frontend.python.errors import refuse, refusing
from penstock.tools.frontend.python.guards import Array, is_sequence
from penstock.tools.frontend.python.structures import Rebuild, flattened
from penstock.tools.frontend.python.tensor import Tensor
from penstock.tools.frontend.python.trace import Trace, current_trace, tracing

Carried = TypeVar("Carried")
Result = TypeVar("Result")
Structure: TypeAlias = Callable[[Mapping[str, Tensor]], object]
"""Makes a structure anew of tensors by name."""

LOOP = "penstock.ops.loop"
COND = "penstock.ops.cond"


class BodyTrace(Trace):
    """
    The ops of a body, such as those of one iteration. They read values of the function
    around it until the body is isolated; variables are those of the job.
    """

    def __init__(self, outer: Trace, origin: str):
        super().__init__(outer.job)
        self.outer = outer
        self._origin = origin

    @property
    def origin(self) -> str:
        return self._origin

    def argument(self, type: TensorType) -> Tensor:
        """A new argument of the body."""
        block = self.block
        return Tensor(block.insert_arg(type, len(block.args)), self)

    def value_of(self, tensor: Tensor) -> SSAValue:
        return tensor.value if tensor.trace is self else self.outer.value_of(tensor)

    def insert_whole(self, op: Operation) -> None:
        what = op.name.partition(".")[2]
        raise refuse(f"there are no {what} in {self._origin}: ask for them after")

    @property
    def variables(self) -> Mapping[str, Tensor]:
        return self.outer.variables

    def variable(
        self, name: str, type: TensorType, init: InitAttr, array: Array | None
    ) -> Tensor:
        return self.outer.variable(name, type, init, array)

    def target(self, target: Tensor, value: Tensor) -> str:
        raise refuse(
            f"a variable is not assigned to in {self._origin}: let its value be a "
            "result, and assign after"
        )


def loop(
    body: Callable[[Carried, Any], tuple[Carried, Any]],
    carry: Carried,
    slices: object = None,
    times: int | Tensor | None = None,
    *,
    backward: bool = False,
    going: Callable[[Carried], object] | None = None,
    most: int | None = None,
) -> tuple[Carried, Any]:
    """
    Let ops run several times, each time on what they have made before, as in
    `jax.lax.scan`.

    * `body(carry, slice)`: returns the values that the next iteration carries, and
      others that are stacked. It is traced once; tensors of the function around it may
      be read.
    * `carry`: tensors, arrays or numbers that it starts with, alone or in lists, tuples
      and dictionaries. They keep shape, dtype and structure.
    * `slices`: tensors of which each iteration is given the elements at its number on
      the first axis; or None.
    * `times`: the number of iterations, which follows from `slices` if there are any;
      or one `i64` that is computed, of at most `most`.
    * `backward`: whether to take slices, and stack, from the last on.
    * `going(carry)`: says, as one `i1`, whether to go on; asked before each iteration.
    * `most`: the largest number of iterations, where the number is not known.

    Returns what is carried in the end, and the others stacked on a new first axis;
    those of iterations that are not made are zeros. Raises TraceError where shapes,
    dtypes or structures do not fit. A run fails if `times` is negative or more than
    `most`, and if, without `times` and slices, there is to be more than `most`.

    ```python
    from typing import Annotated

    import penstock
    from penstock import Tensor


    @penstock.job
    def smoothed(xs: Annotated[Tensor, (6, 4), "f32"]):
        def step(mean, x):
            mean = 0.9 * mean + 0.1 * x
            return mean, mean

        last, means = penstock.ops.loop(step, xs[0], xs)
        return means


    assert "op.loop 6" in smoothed.ir
    ```
    """
    trace = current_trace(LOOP)
    kept, as_carry = _tensors(trace, carry, "carry")
    taken, as_slices = _tensors(trace, slices, "slices")
    bounds = _bounds(trace, list(taken.values()), times, most, going is not None)
    inside = BodyTrace(trace, "an iteration of a loop")
    _ = inside.argument(INDEX)
    first = None
    if going is not None:
        first = _condition(trace, going(cast(Carried, as_carry(kept))), LOOP)
        _ = inside.argument(CONDITION)
    before = {name: inside.argument(_type_of(x)) for name, x in kept.items()}
    given = {name: inside.argument(_slice_type(x)) for name, x in taken.items()}
    with tracing(inside):
        result = body(cast(Carried, as_carry(before)), as_slices(given))
        stacked, as_stacked = _finish(inside, result, kept, going)
    reads = values_outside([inside.block])
    isolate(inside.block, reads)
    with refusing(LOOP):
        made = LoopOp(
            bounds.most,
            [trace.value_of(tensor) for tensor in kept.values()],
            [trace.value_of(tensor) for tensor in taken.values()],
            reads,
            Region(inside.block),
            backward=backward,
            trips=None if bounds.times is None else trace.value_of(bounds.times),
            going=None if first is None else trace.value_of(first),
        )
    results = trace.results_of(made)[first is not None :]
    ends = dict(zip(kept, results, strict=False))
    columns = dict(zip(stacked, results[len(kept) :], strict=True))
    return cast(Carried, as_carry(ends)), as_stacked(columns)


def while_loop(
    cond: Callable[[Carried], object],
    body: Callable[[Carried], Carried],
    init: Carried,
    *,
    most: int,
) -> Carried:
    """
    Let ops run while a condition holds, as in `jax.lax.while_loop`.

    * `cond(carry)`: says, as one `i1`, whether to go on; asked before each iteration.
    * `body(carry)`: returns the values that the next iteration carries. Both are traced
      once; tensors of the function around them may be read.
    * `init`: tensors, arrays or numbers that it starts with, alone or in lists, tuples
      and dictionaries. They keep shape, dtype and structure.
    * `most`: the largest number of iterations. A run in which the condition still holds
      after so many fails.

    Returns what is carried in the end. Raises TraceError where shapes, dtypes or
    structures do not fit.

    ```python
    from typing import Annotated

    import penstock
    from penstock import Tensor


    @penstock.job
    def root(x: Annotated[Tensor, (), "f32"]):
        def is_far(y):
            return penstock.ops.abs(y * y - x) > 1e-3

        return penstock.ops.while_loop(is_far, lambda y: (y + x / y) / 2, x, most=50)


    assert "op.loop up to 50 while" in root.ir
    ```
    """
    last, _ = loop(lambda carry, _: (body(carry), None), init, going=cond, most=most)
    return last


def _condition(trace: Trace, value: object, what: str) -> Tensor:
    """A value as a condition. Raises TraceError unless it is one `i1`."""
    choice = as_tensor(trace, value, np.dtype(np.bool_), what)
    if (choice.shape, choice.dtype) != ((), np.bool_):
        raise refuse(f"{what}: the condition is one i1, got {choice.text}")
    return choice


def _finish(
    trace: BodyTrace,
    result: object,
    carried: Mapping[str, Tensor],
    going: Callable[[Any], object] | None,
) -> tuple[Sequence[str], Structure]:
    """End a body by its results; the names of those that are stacked."""
    if not is_sequence(result) or len(found := list(result)) != 2:
        raise refuse(f"{LOOP}: the body returns what it carries, and other results")
    after, as_after = _tensors(trace, found[0], "carry")
    stacked, as_stacked = _tensors(trace, found[1], "stacked")
    _check_carried(carried, after)
    tensors = [*after.values(), *stacked.values()]
    if going is not None:
        tensors.insert(0, _condition(trace, going(as_after(after)), LOOP))
    trace.insert(YieldOp(*map(trace.value_of, tensors)))
    return list(stacked), as_stacked


def cond(
    condition: object,
    then: Callable[[], Result],
    otherwise: Callable[[], Result],
) -> Result:
    """
    Let a condition decide which ops run, as in `jax.lax.cond`.

    * `condition`: one `i1`, a tensor or a number.
    * `then` and `otherwise`: functions of no arguments, which are traced once each;
      they read tensors of the function around them. Their results, alone or in lists,
      tuples and dictionaries, have the same structure, shapes and dtypes.

    Returns the results of the one, if the condition holds, or of the other. Raises
    TraceError where they do not fit.

    ```python
    from typing import Annotated

    import penstock
    from penstock import Tensor


    @penstock.job
    def clipped(x: Annotated[Tensor, (4,), "f32"]):
        norm = (x * x).sum() ** 0.5
        return penstock.ops.cond(norm > 1, lambda: x / norm, lambda: x)


    assert "op.if" in clipped.ir
    ```
    """
    trace = current_trace(COND)
    choice = _condition(trace, condition, COND)
    bodies = [BodyTrace(trace, "a branch of a condition") for _ in range(2)]
    first, as_result = _ended(bodies[0], then)
    second, _ = _ended(bodies[1], otherwise)
    if first != second:
        texts = (", ".join(f"{k} {v}" for k, v in x.items()) for x in (first, second))
        raise refuse("{}: one body returns {}, the other one {}".format(COND, *texts))
    reads = values_outside([inside.block for inside in bodies])
    for inside in bodies:
        isolate(inside.block, reads)
    with refusing(COND):
        made = IfOp(trace.value_of(choice), reads, *(Region(x.block) for x in bodies))
    results = dict(zip(first, trace.results_of(made), strict=True))
    return cast(Result, as_result(results))


def _ended(
    trace: BodyTrace, function: Callable[[], object]
) -> tuple[Mapping[str, str], Structure]:
    """Trace a branch to its end; the shapes and dtypes of its results by name."""
    with tracing(trace):
        made, rebuild = _tensors(trace, function(), "result", COND)
        trace.insert(YieldOp(*map(trace.value_of, made.values())))
    return {name: tensor.text for name, tensor in made.items()}, rebuild


def _tensors(
    trace: Trace, value: object, name: str, what: str = LOOP
) -> tuple[dict[str, Tensor], Structure]:
    """The tensors of a structure, by name, and its like of others of these names."""
    leaves: dict[str, object] = {}
    rebuild: Rebuild = flattened(value, name, leaves)
    tensors = {key: as_tensor(trace, leaf, None, what) for key, leaf in leaves.items()}
    return tensors, cast(Structure, rebuild)


def _type_of(tensor: Tensor) -> TensorType:
    return tensor_type(tensor.value)


def _slice_type(tensor: Tensor) -> TensorType:
    type = _type_of(tensor)
    return TensorType(type.element_type, type.get_shape()[1:])


class Bounds(NamedTuple):
    """The iterations of a loop: so many, or `most`, and at most so many `times`."""

    most: int
    times: Tensor | None = None


def _bounds(
    trace: Trace,
    slices: Sequence[Tensor],
    times: int | Tensor | None,
    most: int | None,
    has_condition: bool,
) -> Bounds:
    """The iterations of a loop. Raises TraceError if they are not one number."""
    is_computed = isinstance(times, Tensor)
    if is_computed and (times.shape, times.dtype) != ((), np.int64):
        raise refuse(f"{LOOP}: a number of iterations is one i64, got {times.text}")
    if is_computed and most is None:
        raise refuse(f"{LOOP}: `times` is computed, so `most` has to be given")
    if most is not None and not is_computed and not has_condition:
        raise refuse(f"{LOOP}: the iterations are known, so there is no `most`")
    if most is not None and most < 1:
        raise refuse(f"{LOOP}: `most` is at least 1, got {most}")
    if isinstance(times, Tensor):
        return Bounds(_count(slices, None, most), times)
    count = _count(slices, times, most)
    if not has_condition or (times is None and not slices):
        return Bounds(count)
    # The condition may still hold after the last one of a known number.
    return Bounds(count, trace.constant(np.asarray(count)))


def _count(slices: Sequence[Tensor], times: int | None, most: int | None) -> int:
    """The number of iterations. Raises TraceError if it is not one number."""
    if any(tensor.ndim == 0 for tensor in slices):
        raise refuse(f"{LOOP}: a scalar has no slices")
    counts = {tensor.shape[0] for tensor in slices}
    counts |= {number for number in (times, most) if number is not None}
    if len(counts) != 1:
        texts = ", ".join(map(str, sorted(counts))) or "nothing that says how many"
        raise refuse(f"{LOOP}: one number of iterations is needed, got {texts}")
    (count,) = counts
    if count < 0:
        raise refuse(f"{LOOP}: there are no {count} iterations")
    return count


def _check_carried(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> None:
    """Raise TraceError unless an iteration keeps structure, shapes and dtypes."""
    if [*before] != [*after]:
        names = (", ".join(each) or "nothing" for each in (before, after))
        raise refuse("{}: the body is given {}, and returns {}".format(LOOP, *names))
    for name, tensor in before.items():
        if (tensor.shape, tensor.dtype) != (after[name].shape, after[name].dtype):
            raise refuse(
                f"{LOOP}: {name} is {tensor.text} before an iteration, "
                f"{after[name].text} after it"
            )
