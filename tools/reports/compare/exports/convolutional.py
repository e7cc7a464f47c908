"""Convolutional networks: ResNet and MobileNet."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional


def conv(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """A convolution that keeps extents but for its stride, and a normalisation."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, 1, groups, False),
        nn.BatchNorm2d(outputs),
    )


class Bottleneck(nn.Module):
    """Three convolutions, added to what they are made of."""

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        outputs = 4 * width
        self.first = conv(inputs, width, 1)
        self.second = conv(width, width, 3, stride)
        self.third = conv(width, outputs, 1)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else conv(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.first(x))
        y = self.third(functional.relu(self.second(y)))
        return functional.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """An image in, a number for each of 1000 classes out."""

    def __init__(self, counts: Sequence[int], width: int):
        super().__init__()
        self.stem = conv(3, width, 7, 2)
        blocks: list[nn.Module] = []
        inputs = width
        for stage, count in enumerate(counts):
            own = width * 2**stage
            for index in range(count):
                stride = 2 if stage and not index else 1
                blocks.append(Bottleneck(inputs, own, stride))
                inputs = 4 * own
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, 1000)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.stem(images)), 3, 2, 1)
        return self.head(self.blocks(x).mean((2, 3)))


class Inverted(nn.Module):
    """A wide convolution of each channel alone, between two of single pixels."""

    def __init__(self, inputs: int, outputs: int, stride: int, factor: int):
        super().__init__()
        wide = inputs * factor
        layers: list[nn.Module] = []
        if factor != 1:
            layers += [conv(inputs, wide, 1), nn.ReLU6()]
        layers += [conv(wide, wide, 3, stride, wide), nn.ReLU6()]
        layers += [conv(wide, outputs, 1)]
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return x + y if self.adds else y


class MobileNet(nn.Module):
    """An image in, a number for each of 1000 classes out."""

    STAGES = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    """
    The factor of its inner width, its channels, the number of such blocks, and the
    stride.
    """

    def __init__(self, stages: int):
        super().__init__()
        layers: list[nn.Module] = [conv(3, 32, 3, 2), nn.ReLU6()]
        inputs = 32
        for factor, outputs, count, stride in self.STAGES[:stages]:
            for index in range(count):
                own = 1 if index else stride
                layers.append(Inverted(inputs, outputs, own, factor))
                inputs = outputs
        layers += [conv(inputs, 1280, 1), nn.ReLU6()]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(1280, 1000)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.layers(images).mean((2, 3)))
