"""
Functions on tensors that are made from the definitions of ops.

The arguments of `softmax(x, axis=1)` are the operands of `op.softmax`, then its
properties as plain Python values. Numbers and arrays among the operands become
constants; a number takes the dtype of the last tensor among them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    UnitAttr,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    OperandDef,
    OptOperandDef,
    OptPropertyDef,
    OptResultDef,
    VarOperandDef,
    VarResultDef,
)

from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.dialects.utils.python_values import (
    classes_of,
    python_value,
    settable_properties,
)
from penstock.tools.driver.diagnostics import suggest
from penstock.tools.frontend.python.dtypes import DType, dtype_named
from penstock.tools.frontend.python.errors import refuse, refusing
from penstock.tools.frontend.python.guards import is_array, is_number, is_sequence
from penstock.tools.frontend.python.tensor import Tensor
from penstock.tools.frontend.python.trace import Trace, current_trace

_MISSING = inspect.Parameter.empty


class OpFunction:
    """
    The function that an op stands for. Called in a function that is traced, it adds
    the op. It returns a tensor, or a tuple of tensors where there are several.
    """

    def __init__(self, op: type[TensorOp]):
        self.op = op
        self.__name__ = op.name.rpartition(".")[2]
        self.__doc__ = inspect.getdoc(op)
        self._definition = op.get_irdl_definition()
        self._defaults = dict(self._properties())

    def __repr__(self) -> str:
        return f"<function of {self.op.name}{self.__signature__}>"

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """Operands, then properties; those without a default come first."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        found = [
            inspect.Parameter(name, kind, default=default)
            for name, default in (*self._operands(), *self._defaults.items())
        ]
        return inspect.Signature(sorted(found, key=_is_optional))

    def _operands(self) -> Iterator[tuple[str, object]]:
        for name, operand in self._definition.operands:
            yield name, None if isinstance(operand, OptOperandDef) else _MISSING

    def _properties(self) -> Iterator[tuple[str, object]]:
        made = inspect.signature(self.op.__init__).parameters
        for name, definition in settable_properties(self._definition).items():
            if definition.default_value is not None:
                yield name, python_value(definition.default_value)
            elif isinstance(definition, OptPropertyDef):
                is_flag = classes_of(definition) == [UnitAttr]
                yield name, False if is_flag else None
            else:
                yield name, made[name].default if name in made else _MISSING

    def __call__(self, *args: object, **options: object) -> Any:
        """
        Add the op. Raises TraceError unless the arguments are those of its signature,
        and fit together.
        """
        name = self.op.name
        trace = current_trace(name)
        with refusing(name):
            given = self.__signature__.bind(*args, **options).arguments
        operands = self._values(trace, given)
        with refusing(f"{name} of {', '.join(texts_of(operands)) or 'nothing'}"):
            op = self.op.of(*operands, **self._options(given))
        results = trace.results_of(op)
        # A result that is asked for by a property makes a tuple only if it is there.
        always = [
            definition
            for _, definition in self._definition.results
            if not isinstance(definition, OptResultDef)
        ]
        is_list = max(len(always), len(results)) > 1
        is_list = is_list or isinstance(always[0], VarResultDef)
        return results if is_list else results[0]

    def _values(
        self, trace: Trace, given: Mapping[str, object]
    ) -> list[list[SSAValue]]:
        """The values of each operand, of which there may be none or many."""
        groups: list[list[object]] = []
        for name, definition in self._definition.operands:
            groups.append(self._group(name, definition, given.get(name)))
        flat = [value for group in groups for value in group]
        tensors = [value for value in flat if isinstance(value, Tensor)]
        dtype = tensors[-1].dtype if tensors else None
        made = iter(as_tensors(trace, flat, dtype, self.op.name))
        return [[trace.value_of(next(made)) for _ in group] for group in groups]

    def _group(self, name: str, definition: OperandDef, given: object) -> list[object]:
        if isinstance(definition, OptOperandDef):
            return [] if given is None else [given]
        if not isinstance(definition, VarOperandDef):
            return [given]
        if not is_sequence(given):
            raise refuse(f"{self.op.name}: '{name}' should be a list of tensors")
        return list(given)

    def _options(self, given: Mapping[str, object]) -> dict[str, object]:
        values: dict[str, object] = {}
        for name, default in self._defaults.items():
            value = given.get(name, default)
            classes = classes_of(self._definition.properties[name])
            values[name] = value if classes or value is None else _element(value)
        return values


def _element(value: object) -> Attribute:
    """An attribute of any class; from a Python value, an element type."""
    is_attribute = isinstance(value, Attribute)
    return value if is_attribute else element_type_of(dtype_named(value))


def _is_optional(parameter: inspect.Parameter) -> bool:
    return parameter.default is not _MISSING


def texts_of(operands: Sequence[Sequence[SSAValue]]) -> list[str]:
    """The types of values, such as `64x784xf32`."""
    return [
        str(value.type).removeprefix("tensor<").removesuffix(">")
        for group in operands
        for value in group
    ]


def as_tensors(
    trace: Trace, values: Sequence[object], dtype: DType | None, what: str
) -> list[Tensor]:
    """
    Values as tensors; Python's numbers get the given dtype. Raises TraceError for what
    is no tensor, array or number.
    """
    return [as_tensor(trace, value, dtype, what) for value in values]


def as_tensor(trace: Trace, value: object, dtype: DType | None, what: str) -> Tensor:
    """One value as a tensor; see `as_tensors`."""
    if isinstance(value, Tensor):
        return value
    if is_number(value):
        with refusing(what):
            return trace.constant(np.array(value, dtype))
    if is_array(value):
        return trace.constant(value)
    raise refuse(
        f"{what} takes tensors, arrays and numbers, got {type(value).__name__}"
    )


# The ops of all packages


@cache
def function_of(op: type[TensorOp]) -> OpFunction:
    """The function of an op."""
    return OpFunction(op)


def functions_of(dialect: str) -> Mapping[str, OpFunction]:
    """
    The functions of a dialect by name: of any installed package, of a file that was
    loaded, or of this program. Raises TraceError if there is no such dialect.
    """
    if dialect in (installed := _installed_dialects()):
        return _installed_functions(dialect)
    from penstock.tools.driver import plugins

    universes = plugins.loaded_universes().values()
    loaded = {name: make for x in universes for name, make in x.all_dialects.items()}
    if dialect in loaded:
        return _functions_in(loaded[dialect]())
    hint = suggest(dialect, [*installed, *loaded])
    hint = hint or " (that of a file needs load=[FILE] of the job or of its session)"
    raise refuse(f"there is no dialect '{dialect}'{hint}")


@cache
def _installed_dialects() -> dict[str, Callable[[], Dialect]]:
    from penstock.tools.driver import plugins

    universes = plugins.installed_universes()
    return plugins.merge(universes, lambda u: u.all_dialects, "dialect")


@cache
def _installed_functions(dialect: str) -> Mapping[str, OpFunction]:
    return _functions_in(_installed_dialects()[dialect]())


def _functions_in(dialect: Dialect) -> Mapping[str, OpFunction]:
    return {
        operation.name.partition(".")[2]: function_of(operation)
        for operation in dialect.operations
        if issubclass(operation, TensorOp)
        and not operation.get_irdl_definition().regions
    }


def op(which: str | type[TensorOp], /, *args: object, **options: object) -> Any:
    """
    The result of an op, inside a function that is traced.

    `which` is the class of the op, or its name, such as `"acme.swish"`, for an op of an
    installed package or of a file that the job or its session loads. The operands of
    the op and then its properties are `args` and `options`.

    Raises TraceError if there is no such op, or the arguments do not fit it.

    ```python
    from typing import Annotated

    import penstock
    from penstock import Tensor


    @penstock.job
    def layer(x: Annotated[Tensor, (2, 3), "f32"]):
        return penstock.op("op.softmax", x, axis=1)


    assert "op.softmax %x axis 1" in layer.ir
    ```
    """
    if not isinstance(which, str):
        return function_of(which)(*args, **options)
    dialect, _, name = which.partition(".")
    known = functions_of(dialect)
    if name not in known:
        names = [f"{dialect}.{each}" for each in known]
        raise refuse(f"there is no op '{which}' on tensors{suggest(which, names)}")
    return known[name](*args, **options)
