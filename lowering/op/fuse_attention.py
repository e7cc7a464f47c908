"""
Compute attention in one kernel: products of queries and keys, the scale and mask of
scores, the softmax, and its product with values become one `op.attention`.

From each matmul `softmax(x) * v` on, with the softmax along the last dimension, the
chain of `x` is followed up to a matmul of queries and keys. On the way there may be

* a product with, or a quotient by, a constant: the `scale`;
* after that, a sum with one other tensor, which broadcasts: the `mask`;
* before or after that, a causal mask, which hides the keys after a diagonal, for row i
  those after number i + n: a sum with an `op.triangle`, or a constant like one, of 0 up
  to there and -inf, or the least finite number, after that; or an `op.where` that puts
  such a number there. Then the op is `causal` n, and no matrix is read.

All of these must be used by the next one only, have static shapes, and be `f32` or
`f64`, or on `cuda` `f16` or `bf16`, whose rows have up to 256 elements there (128 of
`f64`). If queries or keys are multiplied with a constant before, that becomes a part of
the scale: scores are the same but for rounding. Transposes of queries, keys, values and
the result become orders of axes of the `op.attention`, if only it needs them, unless
the elements of a row of values or of the result would not be contiguous any more. Keys
and values that are repeated for groups of heads (`op.expand` between reshapes) are read
where they are: then queries are viewed as groups.

With `trained` that is done ahead of `job-add-gradients`, only in jobs on one device
that ask for gradients, which are then made without a matrix of scores.

The gain is that the matrix of scores is not moved. Without fusion it is written,
changed in place by a softmax, and read again; attention in blocks writes the result
only. This pays if a score is read by enough products to be made in tiles: at least
`min_keys` keys; and only on `cpu` and `cuda`, as other targets have no blocks.

Where a softmax is an operand of a matmul and stays as it is, its attribute
`no_attention` says why. On several devices, where ops say how they are cut in parts,
they stay apart. Ops that must write over an operand by a hint (`in_place`), or whose
operand another op must, do too.

Example: `test/lowering/op/op-fuse-attention-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ModuleOp,
    StringAttr,
    f32,
    f64,
)
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.job import GradientsOp, JobOp, placement_of
from penstock.dialects.op.attention import AttentionOp
from penstock.dialects.op.elementwise import AddOp, DivOp, MulOp
from penstock.dialects.op.in_place import IN_PLACE
from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.movement import ReshapeOp, TransposeOp
from penstock.dialects.op.normalization import SoftmaxOp
from penstock.dialects.utils.half_precision import is_half
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.body_jobs import with_bodies
from penstock.lowering.analysis.in_place_hints import Overwritten
from penstock.lowering.analysis.op_devices import JobDevices, kind_of
from penstock.lowering.analysis.op_layouts import OPERANDS, RESULTS
from penstock.lowering.op.causal_mask import hidden_of, splat_of
from penstock.lowering.op.grouped_query import repeat_of, split, split_order
from penstock.lowering.op.replacement import replace_by

KINDS = ("cpu", "cuda")
"""The kinds of devices that compute attention in blocks."""
MOST_TERMS, MOST_DOUBLES = 256, 128
"""The terms of a score, and the elements of a value, in a block of `cuda`."""
NO_ATTENTION = "no_attention"
"""The attribute of a softmax that says why it is no part of attention."""


class Refused(Exception):
    """Why ops cannot be computed as attention."""


@dataclass(frozen=True)
class Side:
    """An operand, its axes in another order, and what it is multiplied with."""

    value: SSAValue
    order: tuple[int, ...]
    factor: float = 1.0
    passed: tuple[Operation, ...] = ()
    """The ops that need not be computed for it, from the last to the first."""
    shape: tuple[int, ...] | None = None
    """The shape that it is viewed in, if that is not its own."""


@dataclass(frozen=True)
class Scores:
    """The origin of scores, and the ops that make them, from the last one on."""

    product: MatmulOp
    scale: float
    mask: SSAValue | None
    offset: int | None
    """The number of keys past its own number that a row sees; all of them if None."""
    ops: tuple[Operation, ...]


@dataclass(frozen=True)
class Group:
    """Heads that share keys and values."""

    place: int
    """The axis of heads."""
    times: int
    """The number of heads of each."""


@dataclass(frozen=True)
class Attention:
    """Ops that are attention."""

    ops: tuple[Operation, ...]
    """From the last to the first; what the others use comes after them."""
    softmax: SoftmaxOp
    q: Side
    k: Side
    v: Side
    by: tuple[int, ...]
    scale: float
    mask: SSAValue | None
    offset: int | None
    group: Group | None = None


def is_only_for(value: SSAValue, user: Operation) -> bool:
    """Whether nothing but one operand of one op is a value."""
    return [use.operation for use in value.uses] == [user]


def scaled_by(op: Operation) -> tuple[SSAValue, float] | None:
    """The value of its own type that an op multiplies with a number, and the number."""
    if not isinstance(op, MulOp | DivOp):
        return None
    pairs = [tuple(op.operands)]
    if isinstance(op, MulOp):
        pairs.append(tuple(reversed(op.operands)))
    for value, factor in pairs:
        number = splat_of(factor)
        if number is not None and value.type == op.results[0].type:
            if isinstance(op, MulOp):
                return value, number
            return (value, 1 / number) if number else None
    return None


def scores_of(softmax: SoftmaxOp) -> Scores:
    """The origin of the scores of a softmax. Raises `Refused`."""
    value, user = softmax.input, softmax
    scale, mask, offsets, ops = 1.0, None, list[int](), list[Operation]()
    while True:
        op = value.owner
        if not isinstance(op, Operation) or not is_only_for(value, user):
            raise Refused("scores are used by others, too")
        ops.append(op)
        if isinstance(op, MatmulOp):
            return Scores(op, scale, mask, min(offsets, default=None), tuple(ops))
        if (scaled := scaled_by(op)) is not None:
            value, factor = scaled
            scale *= factor
        elif scale == 1 and (hidden := hidden_of(op)) is not None:
            value = hidden.scores
            offsets.append(hidden.offset)
        elif isinstance(op, AddOp) and mask is None and scale == 1:
            value, mask = _masked(op)
        else:
            raise Refused(f"scores are made by {op.name}")
        user = op


def _masked(op: AddOp) -> tuple[SSAValue, SSAValue]:
    """The scores and the mask that an op adds. Raises `Refused`."""
    for scores, mask in (tuple(op.operands), tuple(reversed(op.operands))):
        if (
            makes_scores(scores.owner)
            and scores.type == op.results[0].type
            and scores is not mask
        ):
            return scores, mask
    raise Refused("scores are not made by op.matmul")


def makes_scores(op: Operation | Block) -> bool:
    """Whether what an op makes may be scores that are masked after that."""
    if isinstance(op, Block):
        return False
    return isinstance(op, MatmulOp | MulOp | DivOp) or hidden_of(op) is not None


def transposed(order: Sequence[int], by: Sequence[int]) -> tuple[int, ...]:
    """The order of the axes of what a transpose reads, given that of its result."""
    return tuple(by[axis] for axis in order)


def side_of(
    value: SSAValue, swapped: bool, user: Operation, *, is_mean: bool = False
) -> Side:
    """
    An operand of a product without the ops that need not be computed for it; with
    `is_mean` elements of rows have to be contiguous.
    """
    rank = tensor_type(value).get_num_dims()
    order = [*range(rank)]
    if swapped:
        order[-2:] = reversed(order[-2:])
    return walked(Side(value, tuple(order)), user, is_mean)


def walked(side: Side, user: Operation, is_mean: bool) -> Side:
    """The origin of a side, without transposes and products with constants."""
    rank = len(side.order)
    while isinstance(op := side.value.owner, Operation):
        if not is_only_for(side.value, user):
            break
        if isinstance(op, TransposeOp):
            after = transposed(side.order, op.permutation.get_values())
            if is_mean and after[-1] != rank - 1:
                break
            side = replace(side, value=op.source, order=after)
        elif not is_mean and (scaled := scaled_by(op)) is not None:
            side = replace(side, value=scaled[0], factor=side.factor * scaled[1])
        else:
            break
        side, user = replace(side, passed=(*side.passed, op)), op
    return side


def unrepeated(side: Side, user: Operation, is_mean: bool) -> tuple[Side, Group] | None:
    """A side without repeats of its heads, and which these are, if there are any."""
    user = side.passed[-1] if side.passed else user
    if (repeat := repeat_of(side.value, user)) is None:
        return None
    group = Group(side.order.index(repeat.axis), repeat.times)
    passed, value = [*side.passed, *repeat.passed], repeat.value
    while isinstance(op := value.owner, ReshapeOp) and is_only_for(value, passed[-1]):
        passed.append(op)
        value = op.source
    side = replace(side, value=value, passed=tuple(passed), shape=repeat.shape)
    if tensor_type(value).get_shape() != repeat.shape:
        return side, group
    return walked(replace(side, shape=None), passed[-1], is_mean), group


def grouped(found: Attention, first: MatmulOp, last: MatmulOp) -> Attention:
    """Attention whose keys and values are not repeated, if they were alike."""
    k, v = unrepeated(found.k, first, False), unrepeated(found.v, last, True)
    ranks = {len(side.order) for side in (found.q, found.k, found.v)}
    if k is None or v is None or k[1] != v[1] or ranks != {len(found.by)}:
        return found
    if k[1].place >= len(found.by) - 2:
        return found
    old = {*found.k.passed, *found.v.passed}
    ops = tuple(op for op in found.ops if op not in old)
    return replace(
        found,
        ops=(*ops, *v[0].passed, *k[0].passed),
        k=k[0],
        v=v[0],
        scale=found.scale / found.k.factor * k[0].factor,
        group=k[1],
    )


def attention_of(product: MatmulOp, softmax: SoftmaxOp, kind: str) -> Attention:
    """
    The attention that a product of shares and values ends, on a kind of device. Raises
    `Refused`.
    """
    type = tensor_type(product.result)
    # On a GPU halves are multiplied in f32.
    is_fit = kind == "cuda" and is_half(type.element_type)
    if type.element_type not in (f32, f64) and not is_fit:
        raise Refused(f"attention is for f32 and f64, not {type.element_type}")
    if not is_only_for(softmax.results[0], product):
        raise Refused("shares are used by others, too")
    scores = scores_of(softmax)
    if any(tensor_type(v).get_num_dims() < 2 for v in (*scores.product.operands,)):
        raise Refused("queries and keys should be matrices")
    first = scores.product
    q = side_of(first.a, first.transpose_a is not None, first)
    k = side_of(first.b, first.transpose_b is None, first)
    v = side_of(product.b, product.transpose_b is not None, product, is_mean=True)
    if v.order[-1] != len(v.order) - 1:
        raise Refused("the elements of values do not follow each other")
    ops: tuple[Operation, ...] = (product, softmax, *scores.ops)
    by = tuple(range(type.get_num_dims()))
    users = [use.operation for use in product.result.uses]
    if len(users) == 1 and isinstance(last := users[0], TransposeOp):
        order = transposed(range(len(by)), last.permutation.get_values())
        if order[-1] == len(by) - 1 and last.parent is product.parent:
            ops, by = (last, *ops), order
    ops += (*v.passed, *q.passed, *k.passed)
    scale = scores.scale * q.factor * k.factor
    found = Attention(ops, softmax, q, k, v, by, scale, scores.mask, scores.offset)
    return grouped(found, first, product)


def check_pays(found: Attention, min_keys: int) -> None:
    """Raise `Refused` where a matrix of scores takes less time."""
    values = [v for op in found.ops for v in (*op.operands, *op.results)]
    if not all(tensor_type(value).has_static_shape() for value in values):
        raise Refused("shapes are not known")
    keys = tensor_type(found.softmax.input).get_shape()[-1]
    if keys < min_keys:
        raise Refused(f"{keys} keys are less than {min_keys}")


def check_fits(found: Attention) -> None:
    """Raise `Refused` where no block of a device has room for rows."""
    most = (
        MOST_DOUBLES if tensor_type(found.q.value).element_type == f64 else MOST_TERMS
    )
    for side in (found.q, found.v):
        length = tensor_type(side.value).get_shape()[side.order[-1]]
        if length > most:
            raise Refused(f"rows of {length} elements are longer than {most}")


def check_free(
    found: Attention, job: JobOp, overwritten: Overwritten, kind: str
) -> None:
    """Raise `Refused` where ops say how they run, or what lies over what."""
    last = found.ops[0]
    if kind not in KINDS:
        raise Refused(f"no blocks compute it on {kind}")
    if kind == "cuda":
        check_fits(found)
    for op in found.ops:
        if placement_of(op, job) != placement_of(last, job):
            raise Refused(f"{op.name} runs in another place")
        if OPERANDS in op.attributes or RESULTS in op.attributes:
            raise Refused(f"{op.name} runs in parts")
        if "slots" in op.attributes and op is not last:
            raise Refused(f"{op.name} asks for slots")
        if IN_PLACE in op.attributes or overwritten.keeps_apart(op, last):
            raise Refused(f"{op.name} has to write over something, or before others")


def as_order(order: Sequence[int]) -> Sequence[int] | None:
    """An order of axes; none for the usual one."""
    return None if [*order] == [*range(len(order))] else order


def in_groups(found: Attention, group: Group) -> tuple[Attention, list[ReshapeOp]]:
    """Attention whose axis of heads is two, and the views that this takes."""
    views: list[ReshapeOp] = []
    sides: list[Side] = []
    for side, heads in ((found.q, group.times), (found.k, 1), (found.v, 1)):
        shape = side.shape or tensor_type(side.value).get_shape()
        axis = side.order[group.place]
        wanted = split(shape, axis, shape[axis] // heads, heads)
        views.append(ReshapeOp(side.value, wanted))
        order = split_order(side.order, group.place)
        sides.append(replace(side, value=views[-1].result, order=order))
    q, k, v = sides
    by = split_order(found.by, found.by.index(group.place))
    mask = found.mask
    if mask is not None:
        shape = tensor_type(mask).get_shape()
        axis = group.place - len(found.by) + len(shape)
        if axis >= 0:
            heads = 1 if shape[axis] == 1 else group.times
            wanted = split(shape, axis, shape[axis] // heads, heads)
            views.append(ReshapeOp(mask, wanted))
            mask = views[-1].result
    return replace(found, q=q, k=k, v=v, by=by, mask=mask), views


def fuse(found: Attention) -> None:
    """Replace ops by one, where the last of them stood."""
    last = found.ops[0]
    before: list[ReshapeOp] = []
    if found.group is not None:
        found, before = in_groups(found, found.group)
    attention = attention_op(found)
    made: list[Operation] = [*before, attention]
    if found.group is not None:
        shape = tensor_type(last.results[0]).get_shape()
        made.append(ReshapeOp(attention.result, shape))
    replace_by(made, found.ops, root=attention, lead=found.softmax)


def attention_op(found: Attention) -> AttentionOp:
    """The op that computes attention."""
    return AttentionOp.of(
        found.q.value,
        found.k.value,
        found.v.value,
        found.mask,
        causal=found.offset,
        scale=found.scale,
        q_by=as_order(found.q.order),
        k_by=as_order(found.k.order),
        v_by=as_order(found.v.order),
        by=as_order(found.by),
    )


def fuse_job(job: JobOp, min_keys: int, device: str | None = None) -> None:
    """
    Compute attention in a job, which may be moved to a device, as one op each, and say
    where that is not done.
    """
    overwritten = Overwritten(job.body.block.ops)
    for op in tuple(job.body.block.ops):
        if not isinstance(op, MatmulOp) or op.parent is None:
            continue
        softmax = op.a.owner
        if not isinstance(softmax, SoftmaxOp) or not is_along_rows(softmax):
            continue
        kind = kind_of(op, job, device)
        try:
            found = attention_of(op, softmax, kind)
            check_pays(found, min_keys)
            check_free(found, job, overwritten, kind)
        except Refused as refused:
            softmax.attributes[NO_ATTENTION] = StringAttr(str(refused))
            continue
        fuse(found)


def is_along_rows(softmax: SoftmaxOp) -> bool:
    """Whether the shares of a softmax sum up along the last dimension."""
    rank = tensor_type(softmax.input).get_num_dims()
    return softmax.axis.value.data in (-1, rank - 1) and rank > 1


@dataclass(frozen=True)
class OpFuseAttentionPass(ModulePass):
    """
    Compute attention without its matrix of scores in memory.
    """

    name = "op-fuse-attention"

    min_keys: int = 16
    """The least keys for which that is done."""

    trained: bool = False
    """Whether only jobs on one device that ask for gradients are changed."""

    device: str | None = None
    """The kind of device that `job-place` will move jobs to, if it will."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in outermost(op, JobOp):
            if self.trained and not may_train(job):
                continue
            for each in with_bodies(job):
                fuse_job(each, self.min_keys, self.device)


def may_train(job: JobOp) -> bool:
    """
    Whether a job asks for gradients that are not made yet, and runs on one device: on
    several it is not known yet how ops are cut in parts.
    """
    asks = any(isinstance(op, GradientsOp) for op in job.body.block.ops)
    return asks and not JobDevices(job).has_several
