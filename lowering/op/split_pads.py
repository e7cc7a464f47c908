"""
Padding ahead of convolutions: `op.conv2d` with pads becomes `op.pad` and `op.conv2d`.

A convolution that pads on its own has to look at each element of an image whether it is
one. On an image that is padded with zeros before, all loops have constant bounds and
one body, which compilers turn into vector code; the price is the time and the memory of
the padded image. Convolutions of one value with the same pads at the same placement
share one `op.pad`. Two kinds of convolutions keep their pads, as they cost little:

* Those with one channel a group: their kernels work row by row, and only the ends of
  rows know of the pads.
* Those that would copy windows to panels anyway, where masks leave out what is not in
  the image: on a single `cpu`, of `f32` or `f64`, with one group, with channels first
  in images and results, and with tiles that
  `launch-schedule-contractions` would pack columns for if the image were padded (so
  not `upright` ones, nor those that read windows in place). As there, vectors have
  `vector_bytes`, and weights can lie in panels if they are a variable or a constant
  that nobody else reads.

A gradient of weights (`op.conv2d_filter_gradient`) of one group on a single device is
taken of its images as one tall image, if there are several or it has pads at the top or
bottom: then its terms are equally far apart, as tiles want them.

Example: `test/lowering/op/op-split-pads-example.mlir`.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, f64
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import JobOp, VariableOp, placement_of
from penstock.dialects.kernel.loops import Nest
from penstock.dialects.launch.schedules.cpu_matmul import ContractionAttr
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.padding import PadOp
from penstock.dialects.op.training.filter_gradient import Conv2dFilterGradientOp
from penstock.dialects.op.windows.convolution import Conv2dOp, placed
from penstock.dialects.op.windows.filter_layout import filter_gradient
from penstock.dialects.utils.attributes import carry, replace_op
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.body_jobs import jobs_and_bodies
from penstock.lowering.analysis.op_devices import kind_of
from penstock.lowering.codegen.body.contraction import Contraction, contraction_in
from penstock.lowering.codegen.cpu.matmul_schedule import schedule_or_refusal
from penstock.lowering.codegen.cpu.vector_width import checked_vector_bytes


def split_pads(job: JobOp, vector_bytes: int, device: str | None = None) -> None:
    """
    Split the pads off the convolutions of a job, which may be moved to a device, unless
    they keep them.
    """
    padded: dict[Hashable, PadOp] = {}
    for op in job.body.block.ops:
        if isinstance(op, Conv2dFilterGradientOp) and is_of_apart_images(op, job):
            join_images(op)
        if not isinstance(op, Conv2dOp) or op.is_depthwise:
            continue
        if not any(op.pads.iter_values()):
            continue
        if kind_of(op, job, device) == "cpu" and skips_pads(op, job, vector_bytes):
            continue
        key = op.input, op.pads, op.input_last, op.attributes.get("placement")
        if key not in padded:
            padded[key] = insert_pad(op)
        replace_op(op, without_pads(op, padded[key]))


def is_of_apart_images(op: Conv2dFilterGradientOp, job: JobOp) -> bool:
    """Whether a gradient of weights has terms that can be put equally far apart."""
    types = [tensor_type(value) for value in op.operands]
    if not all(type.has_static_shape() for type in types):
        return False
    if any(0 in type.get_shape() for type in types) or op.groups.value.data != 1:
        return False
    down, _ = op.windows
    images = types[0].get_shape()[0]
    is_apart = images > 1 or down.before > 0 or down.after > 0
    return is_apart and placement_of(op, job).single_device() is not None


def join_images(op: Conv2dFilterGradientOp) -> None:
    """Replace a gradient of weights by that of one tall image."""

    def insert(made: Operation) -> None:
        if placement := op.attributes.get("placement"):
            made.attributes["placement"] = placement
        made.location = op.location
        Rewriter.insert_op(made, InsertPoint.before(op))

    found = filter_gradient(OpBuilder(insert), op.input, op.grad, op.windows, 1)
    assert isinstance(found.owner, Operation), "has been made above"
    carry(op, found.owner)
    found.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(found)
    Rewriter.erase_op(op)


def skips_pads(op: Conv2dOp, job: JobOp, vector_bytes: int) -> bool:
    """Whether a convolution on a CPU packs windows, and can leave out pads."""
    types = [tensor_type(value) for value in (*op.operands, op.result)]
    if not all(type.has_static_shape() for type in types):
        return False
    if types[0].element_type not in (f32, f64) or op.groups.value.data != 1:
        return False
    if op.input_last is not None or op.result_last is not None:
        return False
    if placement_of(op, job).single_device() is None:
        return False
    is_alone = len(list(op.weights.uses)) == 1
    constant = is_alone and isinstance(op.weights.owner, VariableOp | ConstantOp)
    element = str(types[0].element_type)
    return all(
        packs_columns(op.nest(has_pads=has_pads), element, vector_bytes, constant)
        for has_pads in (True, False)
    )


def packs_columns(nest: Nest, element: str, vector_bytes: int, constant: bool) -> bool:
    """
    Whether columns would be packed for the sums of a convolution, whose weights can lie
    in panels if they are constant.
    """
    found = contraction_in(nest, element)
    if not isinstance(found, Contraction):
        return False
    facts = vector_bytes, 1, "a" if constant else ""
    schedule = schedule_or_refusal(found, *facts)
    return isinstance(schedule, ContractionAttr) and schedule.packed


def insert_pad(op: Conv2dOp) -> PadOp:
    """Insert the padding of a convolution's input before it."""
    pad = pad_of(op)
    if placement := op.attributes.get("placement"):
        pad.attributes["placement"] = placement
    pad.location = op.location
    if hint := op.input.name_hint:
        pad.result.name_hint = f"{hint}_padded"
    Rewriter.insert_op(pad, InsertPoint.before(op))
    return pad


def pad_of(op: Conv2dOp) -> PadOp:
    """The padding of a convolution's input."""
    top, left, bottom, right = op.pads.get_values()
    is_last = op.input_last is not None
    before, after = (
        placed([0, 0], pads, is_last) for pads in ([top, left], [bottom, right])
    )
    return PadOp(op.input, before, after)


def without_pads(op: Conv2dOp, pad: PadOp) -> Conv2dOp:
    """A convolution that reads the padded input, and adds no pads of its own."""
    return Conv2dOp.create(
        operands=[pad.result, *op.operands[1:]],
        result_types=[op.result.type],
        properties={**op.properties, "pads": int_list([0] * 4)},
        attributes=op.attributes,
        location=op.location,
    )


@dataclass(frozen=True)
class OpSplitPadsPass(ModulePass):
    """
    Replace convolutions with pads by padding and convolutions without, unless they can
    leave the padding out where they pack their windows.
    """

    name = "op-split-pads"

    device: str | None = None
    """The kind of device that `job-place` will move jobs to, if it will."""

    vector_bytes: int | None = None
    """The bytes of a vector: 16, 32 or 64. By default those of this CPU."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        width = checked_vector_bytes(self.vector_bytes)
        for job in jobs_and_bodies(op):
            split_pads(job, width, self.device)
