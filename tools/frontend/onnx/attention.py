"""The converter of `Attention`, to two matmuls and a softmax."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np
from xdsl.dialects.builtin import f16, i1
from xdsl.ir import SSAValue

from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.normalization import SoftmaxOp
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.tools.frontend.onnx.graph import Converter, Declined, Node
from penstock.tools.frontend.onnx.ops import Ops, Value

ATTRIBUTES = {
    *("is_causal", "q_num_heads", "kv_num_heads", "scale"),
    *("softcap", "qk_matmul_output_mode"),
}
"""The attributes that are converted here; with others ONNX's own definition is read."""

MASK, PAST_KEY, PAST_VALUE, LENGTHS = 3, 4, 5, 6
"""The places of the operands that may be left out."""


def attention(node: Node) -> None:
    """softmax(scale * q * k^T + mask) * v, for each head."""
    decline_if_rare(node)
    ops = node.ops
    query = heads(ops, node.value(0), node.int("q_num_heads", 0))
    key = heads(ops, node.value(1), node.int("kv_num_heads", 0))
    value = heads(ops, node.value(2), node.int("kv_num_heads", 0))
    past = 0
    if node.has(PAST_KEY):
        past = node.shape(PAST_KEY)[2]
        key = ops.concat([node.value(PAST_KEY), key], 2)
        value = ops.concat([node.value(PAST_VALUE), value], 2)
    node.give_value(key, 1)
    node.give_value(value, 2)
    batch, count, rows, width = ops.shape(query)
    groups, columns = ops.shape(key)[1:3]
    if node.int("is_causal", 0) and rows + past != columns:
        raise Declined
    scale = node.float("scale", 1 / sqrt(width))
    depth = ops.shape(value)[3]
    if count != groups:
        # Heads of queries that share a key are a dimension of the stack.
        query = ops.reshape(query, [batch, groups, count // groups, rows, width])
        key = ops.reshape(key, [batch, groups, 1, columns, width])
        value = ops.reshape(value, [batch, groups, 1, columns, depth])
    scores = ops.mul(ops.one(MatmulOp, query, key, transpose_b=True), scale)
    scores = masked(node, scores, past)
    shares = ops.one(SoftmaxOp, scores, axis=-1)
    mixed = ops.reshape(ops.one(MatmulOp, shares, value), [batch, count, rows, depth])
    if len(node.shape()) == 3:
        mixed = ops.transpose(mixed, [0, 2, 1, 3])
        mixed = ops.reshape(mixed, [batch, rows, count * depth])
    node.give_value(mixed)


def decline_if_rare(node: Node) -> None:
    """Leave to ONNX's own definition what few models use."""
    mask = node.optional(MASK)
    # Rows whose keys are all masked are left to ONNX's definition.
    drops = mask is not None and node.ops.element(mask) == i1
    drops = drops and (isinstance(mask, SSAValue) or not np.all(np.any(mask, -1)))
    if (
        node.attribute_names - ATTRIBUTES
        or node.has(LENGTHS)
        or node.wants(3)
        or node.float("softcap", 0)
        or node.element() == f16
        or drops
        or (node.int("is_causal", 0) and mask is not None)
    ):
        raise Declined


def heads(ops: Ops, value: Value, count: int) -> Value:
    """Vectors for each head: [batch, heads, rows, width]."""
    if len(shape := ops.shape(value)) == 4:
        return value
    batch, rows, width = shape
    split = ops.reshape(value, [batch, rows, count, width // count])
    return ops.transpose(split, [0, 2, 1, 3])


def masked(node: Node, scores: Value, past: int) -> Value:
    """Scores without those that a mask, or time, forbids: -inf is added to them."""
    ops, (*stack, rows, columns) = node.ops, node.ops.shape(scores)
    element = dtype_of(ops.element(scores))
    nothing, forbidden = np.zeros([], element), np.full([], -np.inf, element)
    if node.int("is_causal", 0):
        seen = np.tri(rows, columns, past, dtype=np.bool_)
        if seen.all():
            return scores
        return ops.add(scores, np.where(seen, nothing, forbidden))
    mask = node.optional(MASK)
    if mask is None:
        return scores
    shape = ops.shape(mask)
    if shape[-1] != columns:
        raise Declined
    if ops.element(mask) == i1:
        mask = ops.where(mask, nothing, forbidden)
    if len(stack) > 2 and len(shape) > 2:
        heads = [1, 1] if shape[-3] == 1 else stack[-2:]
        mask = ops.reshape(mask, [*shape[:-3], *heads, *shape[-2:]])
    return ops.add(scores, mask)


CONVERTERS: Mapping[str, Converter] = {"Attention": attention}
"""The converter of attention."""
