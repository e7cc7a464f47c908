"""
Weights that are equal, byte by byte, as one variable under all their names: models that
tie layers are often written with a copy for each.
"""

from __future__ import annotations

from collections.abc import Hashable

from penstock.dialects.job import VariableOp
from penstock.tools.frontend.onnx.graph import JobBuilder
from penstock.tools.frontend.onnx.ops import Array

SAMPLES = 16
"""The elements by which most arrays are told apart."""


def merge_equal(builder: JobBuilder) -> None:
    """Let variables that start from equal arrays be the first of them."""
    found: dict[Hashable, list[VariableOp]] = {}
    for op in [op for op in builder.block.ops if isinstance(op, VariableOp)]:
        array = builder.weights[op.port.data]
        alike = found.setdefault(_key(array), [])
        first = next((x for x in alike if _is_same(builder, x, array)), None)
        if first is None:
            alike.append(op)
            continue
        first.add_names([op.port.data])
        del builder.weights[op.port.data]
        op.result.replace_all_uses_with(first.result)
        builder.block.erase_op(op)


def _key(array: Array) -> Hashable:
    """Facts that equal arrays share."""
    flat = array.reshape(-1)
    step = max(1, len(flat) // SAMPLES)
    return array.dtype, array.shape, flat[::step].tobytes()


def _is_same(builder: JobBuilder, op: VariableOp, array: Array) -> bool:
    return builder.weights[op.port.data].tobytes() == array.tobytes()
