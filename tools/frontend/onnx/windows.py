"""Windows of convolutions and pooling, as attributes of ONNX describe them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.dialects.kernel.windows import Window
from penstock.tools.frontend.onnx.graph import Node, Unsupported


def per_axis(node: Node, name: str, rank: int) -> list[int]:
    """A list of one number for each axis of an image, ones if it is left out."""
    values = node.ints(name) or [1] * rank
    if len(values) != rank:
        raise Unsupported(f"'{name}' should be {rank} numbers, got {values}")
    return values


def image_rank(node: Node) -> int:
    """The number of axes of an image besides batch and channels."""
    rank = len(node.shape()) - 2
    if rank < 1:
        raise Unsupported(f"an image has 3 axes or more, got {rank + 2}")
    return rank


def pads_of(
    node: Node, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """The pads before each axis, then those after it, as `pads` or `auto_pad` say."""
    auto = node.text("auto_pad", "NOTSET")
    if auto == "NOTSET":
        return node.ints("pads") or [0] * 2 * len(kernel)
    if auto == "VALID":
        return [0] * 2 * len(kernel)
    total = [
        max(0, (-(-extent // stride) - 1) * stride + (size - 1) * dilation + 1 - extent)
        for extent, size, stride, dilation in zip(
            node.shape()[2:], kernel, strides, dilations, strict=True
        )
    ]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return [*small, *large] if auto == "SAME_UPPER" else [*large, *small]


class Steps:
    """The windows over an image: one number for each axis, pads in pairs."""

    def __init__(
        self, strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
    ):
        self.strides = list(strides)
        self.dilations = list(dilations)
        self.before = list(pads[: len(strides)])
        self.after = list(pads[len(strides) :])

    @classmethod
    def of(cls, windows: Sequence[Window]) -> Steps:
        """The steps of windows, whose taps the weights say."""
        pads = [*(w.before for w in windows), *(w.after for w in windows)]
        strides = [window.stride for window in windows]
        return cls(strides, [window.dilation for window in windows], pads)

    def of_images(self) -> dict[str, list[int]]:
        """The properties of an op on the windows over an image of two axes."""
        pads = [*self.before, *self.after]
        return {"strides": self.strides, "pads": pads, "dilations": self.dilations}

    def single(self, taps: Sequence[int]) -> list[bool]:
        """Whether windows with so many taps are each element, along each axis."""
        facts = zip(taps, self.strides, self.before, self.after, strict=True)
        return [each == (1, 1, 0, 0) for each in facts]

    def without(self, axis: int) -> Steps:
        """The windows over all axes but one."""

        def left(numbers: Sequence[int]) -> list[int]:
            return [*numbers[:axis], *numbers[axis + 1 :]]

        pads = [*left(self.before), *left(self.after)]
        return Steps(left(self.strides), left(self.dilations), pads)

    def inner(self) -> Steps:
        """The windows over all axes but the first."""
        return self.without(0)

    def unpadded(self) -> Steps:
        """The windows over an image that is padded already."""
        return Steps(self.strides, self.dilations, [0] * 2 * len(self.strides))

    def widened(self) -> Steps:
        """The windows with one axis more, of extent 1, before the others."""
        pads = [0, *self.before, 0, *self.after]
        return Steps([1, *self.strides], [1, *self.dilations], pads)
