"""
Write a model of PyTorch with random weights as ONNX.

    python -m penstock.tools.reports.compare.exports.export bert bert.onnx --small
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from penstock.tools.reports.compare.exports.convolutional import MobileNet, ResNet
from penstock.tools.reports.compare.exports.transformers import (
    Bert,
    Gpt2,
    Llama,
    Size,
    Vit,
    WhisperEncoder,
)

Example = tuple[nn.Module, dict[str, Tensor]]
"""A model, and inputs for it by name."""


def tokens(size: Size) -> Tensor:
    """One row of random words."""
    return torch.randint(0, size.words, (1, size.length))


def images(extent: int) -> Tensor:
    """One random image."""
    return torch.randn(1, 3, extent, extent)


def bert(small: bool) -> Example:
    """BERT-base with 128 tokens."""
    size = Size(2, 64, 4, 16) if small else Size(12, 768, 12, 128, 30522)
    given = tokens(size)
    return Bert(size), {"tokens": given, "segments": given % 2}


def gpt2(small: bool) -> Example:
    """GPT-2 small with 128 tokens."""
    size = Size(2, 64, 4, 16) if small else Size(12, 768, 12, 128, 50257)
    return Gpt2(size), {"tokens": tokens(size)}


def vit(small: bool) -> Example:
    """ViT-B/16."""
    size = Size(2, 64, 4, 16) if small else Size(12, 768, 12, 196)
    image, patch = (32, 8) if small else (224, 16)
    return Vit(size, image, patch), {"images": images(image)}


def resnet(small: bool) -> Example:
    """ResNet-50."""
    model = ResNet([1, 1], 16) if small else ResNet([3, 4, 6, 3], 64)
    return model, {"images": images(32 if small else 224)}


def mobilenet(small: bool) -> Example:
    """MobileNet v2."""
    return MobileNet(2 if small else 7), {"images": images(32 if small else 224)}


def llama(small: bool) -> Example:
    """A decoder of twelve layers with 128 tokens; three queries share a key."""
    size = Size(2, 48, 6, 16, groups=2)
    if not small:
        size = Size(12, 768, 12, 128, 32000, groups=4)
    return Llama(size), {"tokens": tokens(size)}


def whisper(small: bool) -> Example:
    """The encoder of Whisper tiny for 30 seconds."""
    size = Size(2, 64, 4, 16) if small else Size(4, 384, 6, 1500)
    return WhisperEncoder(size), {"spectrum": torch.randn(1, 80, 2 * size.length)}


MODELS: Mapping[str, Callable[[bool], Example]] = {
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "mobilenet": mobilenet,
    "resnet": resnet,
    "vit": vit,
    "whisper": whisper,
}
"""The models by name, each in full size or small."""


def randomize(model: nn.Module) -> None:
    """
    Random weights with which values neither vanish nor explode, statistics of batches
    among them, which all differ.
    """
    for part in model.modules():
        weight = getattr(part, "weight", None)
        if isinstance(part, nn.Linear | nn.Conv1d | nn.Conv2d):
            nn.init.normal_(part.weight, std=1 / math.sqrt(weight[0].numel()))
        elif isinstance(weight, Tensor):
            nn.init.normal_(weight, 1.0, 0.1)
        if isinstance(bias := getattr(part, "bias", None), Tensor):
            nn.init.normal_(bias, std=0.1)
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight)
        if isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.running_mean, std=0.1)
            nn.init.uniform_(part.running_var, 0.5, 1.5)


def example(name: str, *, small: bool = False) -> Example:
    """A model, which is always the same, and inputs for it."""
    torch.manual_seed(11)
    model, inputs = MODELS[name](small)
    randomize(model)
    return model.eval(), inputs


def export(name: str, path: Path, *, small: bool, opset: int = 18) -> Example:
    """
    Write a model, which is always the same; returns it and inputs for it. PyTorch
    writes opsets up to 20 by itself; newer ones need the package `onnxscript`.
    """
    model, inputs = example(name, small=small)
    with warnings.catch_warnings(), torch.no_grad():
        # That one of the two ways to export is the old one.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            tuple(inputs.values()),
            str(path),
            input_names=list(inputs),
            opset_version=opset,
            dynamo=find_spec("onnxscript") is not None,
            external_data=False,
            verbose=False,
        )
    return model, inputs


def main() -> None:
    """Write the model that the command line names."""
    parser = argparse.ArgumentParser(description="Write a model as ONNX.")
    parser.add_argument("name", choices=sorted(MODELS))
    parser.add_argument("path", type=Path)
    parser.add_argument("--small", action="store_true", help="a few small layers")
    parser.add_argument("--opset", type=int, default=18)
    args = parser.parse_args()
    export(args.name, args.path, small=args.small, opset=args.opset)


if __name__ == "__main__":
    main()
