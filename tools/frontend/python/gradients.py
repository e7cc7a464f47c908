"""Gradients of functions on tensors: `penstock.grad` and `penstock.value_and_grad`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import update_wrapper
from inspect import unwrap
from typing import Any, TypeAlias

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import SSAValue

from penstock.dialects.job import GradientsOp, VariableOp
from penstock.dialects.op.training.stop_gradient import StopGradientOp
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.value_names import name_value
from penstock.tools.driver.diagnostics import suggest
from penstock.tools.frontend.python.errors import refuse
from penstock.tools.frontend.python.guards import is_sequence, is_tuple
from penstock.tools.frontend.python.jobs import Job
from penstock.tools.frontend.python.structures import flattened
from penstock.tools.frontend.python.tensor import Tensor
from penstock.tools.frontend.python.trace import Trace, current_trace

By: TypeAlias = (
    "str | Tensor | Sequence[str] | Sequence[Tensor] | Mapping[str, Tensor] | None"
)
"""Variables to derive by: patterns of their names, or tensors in any structure."""


def grad(
    function: Callable[..., object],
    *,
    by: By = None,
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """
    A function that returns the gradients of a `function`'s result alone; and what else
    it returns, with `has_aux`. See `value_and_grad`, also for `by` and `argnums`.

    Raises what that raises.

    ```python
    import penstock


    @penstock.job
    def slope():
        w = penstock.variable("w", (3,), init="ones")
        return penstock.grad(lambda: (w * w).sum())()["w"]


    assert slope().tolist() == [2, 2, 2]
    ```
    """
    both = value_and_grad(function, by=by, argnums=argnums, has_aux=has_aux)

    def gradients(*args: object, **options: object) -> Any:
        value, found = both(*args, **options)
        return (found, value[1]) if has_aux else found

    return update_wrapper(gradients, unwrap(function))


def value_and_grad(
    function: Callable[..., object],
    *,
    by: By = None,
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """
    A function that returns the result of `function`, a loss, and the loss's gradients.

    It is called in a job. Without `by` and `argnums` the gradients are those by all
    variables that the loss depends on, in a dictionary by their names.

    * `by`: the variables, as a pattern of their names such as `"head/*"` or as a list
      of these; or tensors, also in lists and dictionaries, which the gradients have.
    * `argnums`: the number of a parameter, or of several, in whose place the gradients
      are derived by arguments: tensors, also in lists and dictionaries.
    * `has_aux`: whether the function returns the loss and something else, which is
      returned beside the loss.

    Raises TraceError, when it is called, outside of a job, for a loss that is no
    scalar of floats, for tensors of integers, and for variables or arguments that the
    loss does not depend on.

    ```python
    from typing import Annotated

    import penstock
    from penstock import Tensor


    @penstock.job
    def step(x: Annotated[Tensor, (8, 4), "f32"], y: Annotated[Tensor, (8,), "f32"]):
        def loss_of(x, y):
            w = penstock.variable("w", (4,))
            return ((x @ w - y) ** 2).mean()

        loss, gradients = penstock.value_and_grad(loss_of)(x, y)
        return loss, gradients["w"]


    assert "job.gradients" in step.ir
    ```
    """
    # A job that is called becomes a part of this one.
    inner = function.function if isinstance(function, Job) else function

    def both(*args: object, **options: object) -> Any:
        trace = current_trace("a gradient")
        value = inner(*args, **options)
        loss = _loss_of(value, has_aux=has_aux)
        if argnums is not None:
            if by is not None:
                raise refuse("gradients are by variables or by arguments, got both")
            return value, _by_structure(trace, loss, _chosen(args, argnums), "argument")
        patterns = _names_in(by)
        if by is None or patterns:
            return value, _by_variables(trace, loss, patterns)
        return value, _by_structure(trace, loss, by, "by")

    return update_wrapper(both, unwrap(function))


def _loss_of(value: object, *, has_aux: bool) -> Tensor:
    """The loss that a function returned. Raises TraceError if it cannot be one."""
    if has_aux:
        if not is_tuple(value) or len(value) != 2:
            raise refuse("with has_aux=True a function returns a loss and something")
        value = value[0]
    if not isinstance(value, Tensor):
        got = type(value).__name__
        hint = ", and others with has_aux=True" if is_sequence(value) else ""
        raise refuse(f"the loss should be a scalar tensor{hint}, got a {got}")
    if value.shape or not has_gradient(value.value):
        raise refuse(f"the loss should be a scalar of floats, got {value.text}")
    return value


def _names_in(by: object) -> list[str]:
    """A text or a list of texts; nothing for anything else."""
    if isinstance(by, str):
        return [by]
    names = [x for x in by if isinstance(x, str)] if is_sequence(by) else []
    return names if is_sequence(by) and len(names) == len(by) else []


def _chosen(args: Sequence[object], argnums: int | Sequence[int]) -> object:
    """The arguments of certain numbers: one, or a tuple of them."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise refuse(f"there is no argument {number} of {len(args)}")
    if isinstance(argnums, int):
        return args[argnums]
    return tuple(args[number] for number in numbers)


def _by_variables(
    trace: Trace, loss: Tensor, patterns: Sequence[str]
) -> dict[str, Tensor]:
    """The gradients by variables that the loss depends on, by their names."""
    on = depends_on(trace, loss)
    reached = {name: x for name, x in trace.variables.items() if x.value in on}
    chosen = _matching(trace, reached, patterns) if patterns else reached
    if not chosen:
        raise refuse(
            "the loss depends on no variable: gradients by arguments need argnums"
        )
    found = _gradients(trace, loss, list(chosen.values()))
    return dict(zip(chosen, found, strict=True))


def _matching(
    trace: Trace, reached: Mapping[str, Tensor], patterns: Sequence[str]
) -> dict[str, Tensor]:
    """The variables that have a name of some patterns, in the order of the job."""
    for pattern in patterns:
        if any(fnmatchcase(name, pattern) for name in reached):
            continue
        found = [name for name in trace.variables if fnmatchcase(name, pattern)]
        if not found:
            hint = suggest(pattern, list(trace.variables))
            raise refuse(f"there is no variable '{pattern}'{hint}")
        tensor = trace.variables[found[0]]
        _check_float(f"variable '{found[0]}'", tensor)
        raise refuse(f"the loss does not depend on variable '{found[0]}'")
    return {
        name: tensor
        for name, tensor in reached.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def _by_structure(trace: Trace, loss: Tensor, by: object, what: str) -> object:
    """The gradients by tensors, in the structure that these are in."""
    leaves: dict[str, object] = {}
    rebuild = flattened(by, what, leaves)
    tensors: list[Tensor] = []
    on = depends_on(trace, loss)
    for name, leaf in leaves.items():
        if not isinstance(leaf, Tensor):
            got = type(leaf).__name__
            raise refuse(f"gradients are by tensors, got a {got} as '{name}'")
        what = _text_of(name, leaf)
        _check_float(what, leaf)
        if trace.value_of(leaf) not in on:
            raise refuse(f"the loss does not depend on {what}")
        tensors.append(leaf)
    if not tensors:
        raise refuse("gradients are by at least one tensor")
    found = _gradients(trace, loss, tensors)
    return rebuild(dict(zip(leaves, found, strict=True)))


def _text_of(name: str, tensor: Tensor) -> str:
    owner = tensor.value.owner
    if isinstance(owner, VariableOp):
        return f"variable '{owner.port.data}'"
    return f"'{name}'"


def _check_float(what: str, tensor: Tensor) -> None:
    if not has_gradient(tensor.value):
        raise refuse(f"{what} is {tensor.text}, and there are gradients by floats only")


def _gradients(trace: Trace, loss: Tensor, by: Iterable[Tensor]) -> list[Tensor]:
    """The gradients of a loss by some tensors, as an op of the job."""
    values = [trace.value_of(tensor) for tensor in by]
    op = GradientsOp(trace.value_of(loss), values)
    trace.insert_whole(op)
    for value, gradient in zip(values, op.gradients, strict=True):
        name_value(gradient, f"{value.name_hint or 'value'}_grad")
    return [Tensor(gradient, trace) for gradient in op.gradients]


def depends_on(trace: Trace, loss: Tensor) -> set[SSAValue]:
    """The values that a loss depends on by floats, itself among them."""
    on = {trace.value_of(loss)}
    for op in reversed(list(trace.block.ops)):
        if not isinstance(op, StopGradientOp) and not on.isdisjoint(op.results):
            on.update(value for value in op.operands if has_gradient(value))
    return on


def has_gradient(value: SSAValue) -> bool:
    """Whether the elements of a value are floats."""
    return isa(value.type, TensorType[AnyFloat])
