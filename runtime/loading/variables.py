"""The variables of a loaded program as whole arrays, in however many parts they lie."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.devices import Chunk
from penstock.runtime.loading.initializers import Array
from penstock.runtime.loading.loader import part_of, raise_if_any
from penstock.runtime.loading.weight_layout import as_usual, stored_value
from penstock.runtime.program.executable import Variable
from penstock.runtime.program.output_cuts import first_of
from penstock.runtime.program.variable_part import Part


class HasVariables(Protocol):
    """Variables in chunks: those of a loaded program, or `SharedVariables`."""

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables, and in which chunk each lies."""
        ...

    @property
    def chunks(self) -> Mapping[str, Chunk]:
        """The chunks by name."""
        ...

    @property
    def originals(self) -> dict[str, Array]:
        """The weights that variables for Winograd are made of."""
        ...


def read_parts(program: HasVariables) -> list[Part]:
    """A copy of each part of a variable that a program has, each one once."""
    found: dict[tuple[str, tuple[int, ...]], Part] = {}
    for variable in program.variables:
        offsets = (0,) * len(variable.whole) if variable.winograd else variable.offsets
        name = name_of(variable)
        if (name, offsets) not in found:
            array = _read(program, variable)
            found[name, offsets] = Part(name, offsets, variable.whole, array)
    return list(found.values())


def whole_of(parts: Iterable[Part]) -> dict[str, Array]:
    """
    The whole variables by name. Raises PenstockError for one that lacks elements.
    """
    arrays: dict[str, Array] = {}
    seen: dict[str, Array] = {}
    for part in parts:
        name, place = part.name, (*part.place, ...)
        if name not in arrays:
            arrays[name] = np.zeros(part.whole, part.array.dtype)
            seen[name] = np.zeros(part.whole, np.bool_)
        arrays[name][place] = part.array
        seen[name][place] = True
    problems = [
        f"variable '{name}' lies in several processes, this one has "
        f"{np.count_nonzero(mask)} of its {mask.size} elements"
        for name, mask in seen.items()
        if not mask.all()
    ]
    raise_if_any(problems, "variables")
    return dict(sorted(arrays.items()))


def read_variables(program: HasVariables) -> dict[str, Array]:
    """
    A copy of each variable by name. Raises PenstockError for one of which this process
    has only parts.
    """
    return whole_of(read_parts(program))


def name_of(variable: Variable) -> str:
    """The name that the whole of a variable goes by."""
    assert variable.port is not None, "constants are no variables"
    return variable.port


Cuts: TypeAlias = Mapping[str, Sequence[tuple[str, int]]]
"""Variable: those that say how many elements it has, each with the axis."""


def cuts_of(program: HasVariables) -> Cuts:
    """The cuts of variables that have some."""
    return {name_of(x): x.cuts for x in program.variables if x.cuts}


def cut_part(part: Part, cuts: Cuts, counts: Mapping[str, int]) -> Part:
    """A part of a variable, cut to the extents that counts say."""
    for name, axis in cuts.get(part.name, ()):
        count = min(max(0, counts[name]), part.whole[axis])
        array = first_of(part.array, max(0, count - part.offsets[axis]), axis)
        whole = (*part.whole[:axis], count, *part.whole[axis + 1 :])
        part = part._replace(whole=whole, array=array)
    return part


def under_all_names(
    program: HasVariables, arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """The arrays of variables by each of the names that these go by."""
    found = dict(arrays)
    for name, others in _names(program).items():
        found |= dict.fromkeys(others, arrays[name])
    return dict(sorted(found.items()))


def under_one_name(
    program: HasVariables, arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """
    The arrays of a state by one name of each variable, which may have come by all of
    its names; those that are cut have zeros behind what is there. Raises PenstockError
    if arrays of one variable differ, or one has not as many elements as its count says.
    """
    found, problems = dict(arrays), list[str]()
    counts = {x: found[x] for v in program.variables for x, _ in v.cuts if x in found}
    for name, others in _names(program).items():
        for other in others:
            if (array := found.pop(other, None)) is None:
                continue
            if not _is_same(array, found.setdefault(name, array)):
                problems.append(
                    f"variables '{name}' and '{other}' were equal when the model was "
                    "read and are one, but here they differ: compile the model with "
                    "--separate-weights (separate_weights=True)"
                )
    for variable in program.variables:
        if (array := found.get(name := name_of(variable))) is None:
            continue
        for count, axis in variable.cuts:
            if count not in counts or array.ndim != len(variable.whole):
                continue  # It is said where variables are set.
            if array.shape[axis] != (number := int(counts[count])):
                problems.append(
                    f"variable '{name}' has {array.shape[axis]} elements along axis "
                    f"{axis}, but '{count}' is {number}"
                )
            found[name] = array = _filled(array, axis, variable.whole[axis])
    raise_if_any(problems, "state")
    return found


def _filled(array: Array, axis: int, extent: int) -> Array:
    """An array with zeros behind its elements along an axis."""
    pads = [(0, 0)] * array.ndim
    pads[axis] = 0, max(0, extent - array.shape[axis])
    return np.pad(array, pads)


def _names(program: HasVariables) -> dict[str, tuple[str, ...]]:
    """The further names of variables that have such."""
    return {name_of(x): x.also for x in program.variables if x.also}


def with_place(problem: str, name: str, places: Mapping[str, str]) -> str:
    """A line about a variable, with the place where that was written if it is known."""
    return f"{place}: {problem}" if (place := places.get(name)) else problem


def _is_same(one: Array, other: Array) -> bool:
    a, b = np.asarray(one), np.asarray(other)
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def _read(program: HasVariables, variable: Variable) -> Array:
    kind = variable.kind
    if variable.winograd:
        return program.originals[name_of(variable)]
    data = program.chunks[variable.chunk].read(variable.offset, kind.size)
    stored = data.view(kind.dtype)
    return as_usual(stored, variable.panels).reshape(kind.shape)


Places: TypeAlias = Callable[[], Mapping[str, str]]
"""Says where variables were written, as far as that is known, for a message."""

Agree: TypeAlias = "Callable[[Sequence[str], str], None]"
"""Raises PenstockError if something is wrong with a thing."""


def write_variables(
    program: HasVariables,
    arrays: Mapping[str, Array],
    places: Places = dict,
    elsewhere: Collection[str] = (),
    agree: Agree = raise_if_any,
) -> None:
    """
    Set all variables. Raises PenstockError, before any is written, unless there is an
    array for each name that fits, and no other but those of variables `elsewhere`, in
    other processes, which `agree` on that.
    """
    own = {name_of(variable) for variable in program.variables}
    names = own.union(elsewhere)
    problems: list[str] = []
    if missing := sorted(names - set(arrays)):
        problems.append(f"the state lacks variables {', '.join(missing)}")
    if unknown := sorted(set(arrays) - names):
        problems.append(f"the program has no variables {', '.join(unknown)}")
    parts: list[tuple[Variable, Array]] = []
    for variable in program.variables:
        if (given := arrays.get(name_of(variable))) is None:
            continue
        try:
            parts.append((variable, part_of(variable, given)))
        except PenstockError as error:
            problems.append(with_place(str(error), name_of(variable), places()))
    agree(problems, "state")
    for variable, value in parts:
        chunk = program.chunks[variable.chunk]
        chunk.write(variable.offset, stored_value(variable, value))
        if variable.winograd:
            program.originals[name_of(variable)] = value.copy()
