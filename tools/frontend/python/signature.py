"""
The signature of a job: the annotations of its parameters, and arguments that fit them.

A tensor is `Annotated[Tensor, shape, dtype]`. An extent is an integer or a name; the
extents of one name are equal in a call, and may differ from call to call. Tensors may
be in tuples, lists (of any length), dictionaries (with any keys) and `TypedDict`s.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    Annotated,
    Any,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np

from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.arrays import is_float
from penstock.tools.frontend.python.dtypes import DType, array_text, dtype_named
from penstock.tools.frontend.python.errors import TraceError, first_line
from penstock.tools.frontend.python.guards import (
    Array,
    Number,
    is_array,
    is_mapping,
    is_number,
    is_plain_array,
    is_sequence,
)
from penstock.tools.frontend.python.tensor import Tensor

Extent: TypeAlias = "int | str"
MakeInput: TypeAlias = Callable[[str, tuple[int, ...], DType], Tensor]


class ArgumentError(PenstockError):
    """An argument of a call is not what the job takes. Nothing was run."""


@dataclass(slots=True)
class Arguments:
    """
    The arguments of one call: its arrays by the names of inputs, and what a compiled
    job is for: the extents that have names, the lengths of lists, the keys of
    dictionaries.
    """

    job: str
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    extents: dict[str, int] = field(default_factory=dict[str, int])
    key: list[Hashable] = field(default_factory=list[Hashable])
    values: Sequence[object] = ()

    def fail(self, name: str, expected: str, got: str) -> ArgumentError:
        """The error that an argument is something else."""
        return ArgumentError(f"{self.job}: '{name}' should be {expected}, got {got}")


class Placeholder(ABC):
    """The placeholder of one parameter, or of a part of it."""

    @property
    @abstractmethod
    def is_static(self) -> bool:
        """Whether all calls take the same shapes."""

    @abstractmethod
    def take(self, name: str, value: object, into: Arguments) -> None:
        """Note the arrays in an argument. Raises ArgumentError if it does not fit."""

    @abstractmethod
    def inputs(self, name: str, value: object, make: MakeInput) -> object:
        """An argument of this structure with a traced tensor for each array in it."""

    @property
    @abstractmethod
    def has_known_parts(self) -> bool:
        """Whether all calls take the same structure, whatever its shapes."""

    @abstractmethod
    def example(self, extent: int = 1) -> object:
        """
        An argument that is taken, in which extents with names are `extent`. It has to
        have a known structure.
        """


@dataclass(frozen=True)
class TensorPlaceholder(Placeholder):
    """A tensor of a dtype, and of a shape whose extents may have names."""

    shape: tuple[Extent, ...]
    dtype: DType

    @property
    def is_static(self) -> bool:
        return all(isinstance(extent, int) for extent in self.shape)

    @property
    def has_known_parts(self) -> bool:
        return True

    def take(self, name: str, value: object, into: Arguments) -> None:
        array = value if is_plain_array(value) else self._array(name, value, into)
        into.arrays[name] = array
        if array.shape == self.shape and array.dtype == self.dtype:
            return
        if array.dtype != self.dtype:
            raise self._fail(name, array, into)
        if array.ndim != len(self.shape):
            raise self._fail(name, array, into)
        for wanted, extent in zip(self.shape, array.shape, strict=True):
            if isinstance(wanted, str):
                known = into.extents.get(wanted)
                if known is None:
                    into.extents[wanted] = known = extent
                    into.key.append(extent)
                wanted = known
            if wanted != extent:
                raise self._fail(name, array, into)

    def _array(self, name: str, value: object, into: Arguments) -> Array:
        if is_array(value):
            array: Array = np.asarray(value)
        elif is_number(value) and self._takes_number(value):
            array = self._number(name, value, into)
        else:
            got = "nothing" if value is None else type(value).__name__
            raise into.fail(name, f"an array {self.text()}", got)
        return array

    def _takes_number(self, value: Number) -> bool:
        """Whether a number of Python is a scalar of the dtype, by NumPy's rules."""
        if isinstance(value, bool):
            return self.dtype.kind == "b"
        is_whole = isinstance(value, int) and self.dtype.kind in "iu"
        return is_whole or is_float(self.dtype)

    def _number(self, name: str, value: float, into: Arguments) -> Array:
        try:
            return np.array(value, self.dtype)
        except OverflowError as error:
            text = self.text()
            raise into.fail(name, f"an array {text}", str(value)) from error

    def _fail(self, name: str, array: Array, into: Arguments) -> ArgumentError:
        names = [extent for extent in self.shape if isinstance(extent, str)]
        known = {name: into.extents[name] for name in names if name in into.extents}
        where = ", ".join(f"{name} = {extent}" for name, extent in known.items())
        expected = self.text() + (f" where {where}" if where else "")
        return into.fail(name, expected, array_text(array.shape, array.dtype))

    def text(self) -> str:
        """Shape and dtype, such as `64x784xf32` or `batch x 784 x f32`."""
        between = "x" if self.is_static else " x "
        return between.join([*map(str, self.shape), array_text((), self.dtype)])

    def inputs(self, name: str, value: object, make: MakeInput) -> object:
        assert is_array(value) or is_number(value), "it was taken before"
        return make(name, np.shape(value), self.dtype)

    def example(self, extent: int = 1) -> object:
        shape = [wanted if isinstance(wanted, int) else extent for wanted in self.shape]
        return np.broadcast_to(np.zeros((), self.dtype), shape)


@dataclass(frozen=True)
class TuplePlaceholder(Placeholder):
    """A tuple of so many parts."""

    parts: tuple[Placeholder, ...]

    @property
    def is_static(self) -> bool:
        return all(part.is_static for part in self.parts)

    @property
    def has_known_parts(self) -> bool:
        return all(part.has_known_parts for part in self.parts)

    def take(self, name: str, value: object, into: Arguments) -> None:
        expected = f"a tuple of {len(self.parts)}"
        items = _sequence(name, value, tuple, expected, into)
        if len(items) != len(self.parts):
            raise into.fail(name, expected, f"one of {len(items)}")
        for index, (part, item) in enumerate(zip(self.parts, items, strict=True)):
            part.take(f"{name}.{index}", item, into)

    def inputs(self, name: str, value: object, make: MakeInput) -> object:
        assert is_sequence(value), "it was taken before"
        return tuple(
            part.inputs(f"{name}.{index}", item, make)
            for index, (part, item) in enumerate(zip(self.parts, value, strict=True))
        )

    def example(self, extent: int = 1) -> object:
        return tuple(part.example(extent) for part in self.parts)


@dataclass(frozen=True)
class ListPlaceholder(Placeholder):
    """A list, or a tuple, of any length, whose items are alike."""

    item: Placeholder
    kind: type[list[object] | tuple[object, ...]]

    @property
    def is_static(self) -> bool:
        return False

    @property
    def has_known_parts(self) -> bool:
        return False

    def take(self, name: str, value: object, into: Arguments) -> None:
        items = _sequence(name, value, self.kind, f"a {self.kind.__name__}", into)
        into.key.append(len(items))
        for index, item in enumerate(items):
            self.item.take(f"{name}.{index}", item, into)

    def inputs(self, name: str, value: object, make: MakeInput) -> object:
        assert is_sequence(value), "it was taken before"
        return self.kind(
            self.item.inputs(f"{name}.{index}", item, make)
            for index, item in enumerate(value)
        )

    def example(self, extent: int = 1) -> object:
        raise AssertionError("lists have no length before a call")


def _sequence(
    name: str, value: object, kind: type, expected: str, into: Arguments
) -> Sequence[object]:
    if not isinstance(value, kind) or not is_sequence(value):
        raise into.fail(name, expected, type(value).__name__)
    return value


@dataclass(frozen=True)
class DictPlaceholder(Placeholder):
    """A dictionary whose values are alike, or with these keys if there is no `item`."""

    item: Placeholder | None
    parts: Mapping[str, Placeholder] = field(default_factory=dict[str, Placeholder])

    @property
    def is_static(self) -> bool:
        parts = self.parts.values()
        return self.item is None and all(part.is_static for part in parts)

    @property
    def has_known_parts(self) -> bool:
        parts = self.parts.values()
        return self.item is None and all(part.has_known_parts for part in parts)

    def take(self, name: str, value: object, into: Arguments) -> None:
        if not is_mapping(value):
            raise into.fail(name, "a dictionary", type(value).__name__)
        if self.item is None and value.keys() != self.parts.keys():
            keys = ", ".join(map(str, value))
            wanted = f"a dictionary of {', '.join(self.parts)}"
            raise into.fail(name, wanted, f"one of {keys or 'nothing'}")
        if self.item is not None:
            into.key.append(tuple(map(str, value)))
        for key, item in value.items():
            if not isinstance(key, str):
                raise into.fail(name, "a dictionary with strings for keys", repr(key))
            part = self.item or self.parts[key]
            part.take(f"{name}.{key}", item, into)

    def inputs(self, name: str, value: object, make: MakeInput) -> object:
        assert is_mapping(value), "it was taken before"
        found: dict[str, object] = {}
        for key, item in value.items():
            part = self.item or self.parts[str(key)]
            found[str(key)] = part.inputs(f"{name}.{key}", item, make)
        return found

    def example(self, extent: int = 1) -> object:
        return {key: part.example(extent) for key, part in self.parts.items()}


# Annotations


@dataclass(frozen=True)
class Signature:
    """The signature of a job: a placeholder for each parameter, in order."""

    job: str
    parameters: Mapping[str, Placeholder]

    @property
    def is_static(self) -> bool:
        """Whether all calls take the same shapes."""
        return all(part.is_static for part in self.parameters.values())

    def bind(self, args: Sequence[object], options: Mapping[str, object]) -> Arguments:
        """
        The arguments of a call. Raises ArgumentError if they do not fit, with the name
        of the argument, what was expected and what was got.
        """
        into = Arguments(self.job)
        into.values = self._ordered(args, options) if options else args
        if len(into.values) != len(self.parameters):
            raise self._wrong_count(into.values)
        for (name, part), value in zip(
            self.parameters.items(), into.values, strict=True
        ):
            part.take(name, value, into)
        return into

    def _wrong_count(self, values: Sequence[object]) -> ArgumentError:
        names = ", ".join(self.parameters) or "nothing"
        return ArgumentError(f"{self.job} takes {names}, got {len(values)} arguments")

    def _ordered(
        self, args: Sequence[object], options: Mapping[str, object]
    ) -> Sequence[object]:
        names = list(self.parameters)
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names):
            raise self._wrong_count((*args, *options.values()))
        for name, value in options.items():
            if name not in self.parameters:
                takes = ", ".join(names) or "nothing"
                raise ArgumentError(f"{self.job} takes {takes}, got '{name}'")
            if name in given:
                raise ArgumentError(f"{self.job}: '{name}' is given twice")
            given[name] = value
        if missing := [name for name in names if name not in given]:
            raise ArgumentError(f"{self.job}: '{', '.join(missing)}' is not given")
        return [given[name] for name in names]

    def inputs(self, values: Sequence[object], make: MakeInput) -> list[object]:
        """Traced tensors for the arguments of a call."""
        parts = self.parameters.items()
        return [
            part.inputs(name, value, make)
            for (name, part), value in zip(parts, values, strict=True)
        ]

    @property
    def has_known_parts(self) -> bool:
        """Whether all calls take the same structure, whatever its shapes."""
        return all(part.has_known_parts for part in self.parameters.values())

    def example(self, extent: int = 1) -> list[object]:
        """Arguments that are taken, see `Placeholder.example`."""
        return [part.example(extent) for part in self.parameters.values()]


def signature_of(
    function: Callable[..., object], names: Mapping[str, object]
) -> Signature:
    """
    The signature of a function by its annotations, in which `names` may be used besides
    those that its module knows. Raises TraceError for parameters that are no tensors.
    """
    if not callable(function):
        raise TraceError(f"a job is a function, got {function!r}")
    job = function.__name__
    try:
        hints = get_type_hints(function, localns=dict(names), include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise TraceError(
            f"{job}: cannot read annotations: {first_line(error)}"
        ) from error
    parameters: dict[str, Placeholder] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            raise TraceError(f"{job}: '{name}' is no plain parameter")
        if name not in hints:
            raise TraceError(
                f"{job}: '{name}' has no annotation, "
                'expected one such as Annotated[Tensor, (64, 784), "f32"]'
            )
        parameters[name] = placeholder_of(f"{job}: '{name}'", hints[name])
    return Signature(job, parameters)


def placeholder_of(what: str, hint: Any) -> Placeholder:
    """
    The placeholder of an annotation. Raises TraceError, which names `what`, if it is
    none.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated and args[0] is Tensor:
        return _tensor(what, args[1:])
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return ListPlaceholder(placeholder_of(what, args[0]), tuple)
    if origin is tuple and () not in args:
        return TuplePlaceholder(tuple(placeholder_of(what, arg) for arg in args))
    if origin is list:
        return ListPlaceholder(placeholder_of(what, args[0]), list)
    if origin is dict and args[0] is str:
        return DictPlaceholder(placeholder_of(what, args[1]))
    if is_typeddict(hint):
        fields = get_type_hints(hint, include_extras=True).items()
        return DictPlaceholder(
            None, {key: placeholder_of(f"{what}.{key}", arg) for key, arg in fields}
        )
    text = hint.__name__ if isinstance(hint, type) else str(hint)
    raise TraceError(
        f'{what} should be annotated such as Annotated[Tensor, (64, 784), "f32"], '
        f"got {text}"
    )


def _tensor(what: str, said: Sequence[object]) -> TensorPlaceholder:
    if len(said) != 2 or not is_sequence(said[0]):
        raise TraceError(f"{what} should say a shape and a dtype, got {said}")
    extents: list[Extent] = []
    for extent in said[0]:
        is_size = isinstance(extent, int) and extent >= 0
        if not is_size and not (isinstance(extent, str) and extent.isidentifier()):
            raise TraceError(f"{what}: an extent is a size or a name, got {extent!r}")
        assert isinstance(extent, int | str)
        extents.append(extent)
    return TensorPlaceholder(tuple(extents), dtype_named(said[1]))
