"""
Variables that start from equal arrays, byte by byte, as one under all their names:
models that tie layers are often written with a copy for each.

Only arrays of a model or its files count, of variables that ops on tensors read and
nothing else: numbers of a formula, such as zeros, stand for others that come later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp, TensorType

from penstock.dialects.job import JobOp, OutputOp, VariableOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.initializers import WeightFiles

Array: TypeAlias = npt.NDArray[np.generic]

SAMPLES = 16
"""The elements by which most arrays are told apart."""


def merge_equal(
    module: ModuleOp, weights: Mapping[str, Array], files: WeightFiles
) -> dict[str, Array]:
    """
    Let variables of the jobs of a module that start from equal arrays be the first of
    them, which is known by the names of all; the weights that are left. Those that
    `weights` do not name start from `files`, unless these cannot be read.
    """
    jobs = [op for op in module.body.block.ops if isinstance(op, JobOp)]
    named: dict[str, list[VariableOp]] = defaultdict(list)
    for op in (op for job in jobs for op in job.body.block.ops):
        if isinstance(op, VariableOp):
            named[op.port.data].append(op)
    starts, left = _Starts(weights, files), dict(weights)
    for names in starts.groups([ops for ops in named.values() if _may_merge(ops)]):
        first = named[names[0]][0]
        members = [named[name][0] for name in names]
        all_names = [x for op in members for x in (op.port.data, *op.other_names)]
        for job in jobs:
            _merge_in(job, first, {*names}, all_names)
        for name in names[1:]:
            left.pop(name, None)
    return left


def _may_merge(ops: Sequence[VariableOp]) -> bool:
    """Whether the ops of a name are alike, and nothing does more than read them."""
    users = [use.operation for op in ops for use in op.result.uses]
    is_read = all(isinstance(user, OutputOp | TensorOp) for user in users)
    return is_read and len({(_form(op), op.init, op.also) for op in ops}) == 1


def _form(op: VariableOp) -> Hashable:
    """All that is said of a variable but its names and the array it starts from."""
    own = {k: v for k, v in op.properties.items() if k not in ("port", "also", "init")}
    said = (tuple(sorted(each.items())) for each in (own, op.attributes))
    return op.result.type, *said


def _merge_in(
    job: JobOp, first: VariableOp, names: set[str], all_names: Sequence[str]
) -> None:
    """Let the first of the variables of some names in a job stand for all of them."""
    found = [
        op
        for op in job.body.block.ops
        if isinstance(op, VariableOp) and op.port.data in names
    ]
    for op in found[1:]:
        op.result.replace_all_uses_with(found[0].result)
        op.detach()
        op.erase()
    for op in found[:1]:
        op.port, op.init, op.also = first.port, first.init, None
        op.add_names(all_names[1:])


class _Starts:
    """The arrays that variables start from."""

    def __init__(self, weights: Mapping[str, Array], files: WeightFiles):
        self._weights = weights
        self._files = files

    def groups(self, variables: Sequence[Sequence[VariableOp]]) -> list[list[str]]:
        """The names of those that start from equal arrays."""
        found: dict[Hashable, list[list[VariableOp]]] = defaultdict(list)
        for op, *_ in variables:
            if (facts := self._facts(op)) is None:
                continue
            alike = found[_form(op), facts]
            group = next((x for x in alike if self._are_equal(x[0], op)), None)
            if group is None:
                alike.append([op])
            else:
                group.append(op)
        groups = [group for alike in found.values() for group in alike]
        return [[op.port.data for op in group] for group in groups if len(group) > 1]

    def _facts(self, op: VariableOp) -> Hashable | None:
        """Facts that equal arrays share; None for one that is not there."""
        if (array := self._weights.get(op.port.data)) is not None:
            flat = array.reshape(-1)
            step = max(1, len(flat) // SAMPLES)
            return array.dtype, array.shape, flat[::step].tobytes()
        if op.init.kind.data != "npz":
            return None
        return self._files.checksum(*_place_of(op))

    def _are_equal(self, one: VariableOp, other: VariableOp) -> bool:
        try:
            return self._array(one).tobytes() == self._array(other).tobytes()
        except PenstockError:
            return False  # It is said when the program is loaded.

    def _array(self, op: VariableOp) -> Array:
        if (array := self._weights.get(op.port.data)) is not None:
            return array
        type = op.result.type
        assert isa(type, TensorType), "checked by the constraint"
        dtype = dtype_of(type.element_type)
        return self._files.read(*_place_of(op), op.whole_shape, dtype, op.port.data)


def _place_of(op: VariableOp) -> tuple[str, str]:
    """The file that a variable starts from, and the name of the array in it."""
    file, name = op.init.value("file", ""), op.init.value("name", op.port.data)
    return str(file), str(name)
