"""Ops for training: what gradients and updates of variables are made of."""

from penstock.dialects.op.training.attention_gradient import AttentionGradientOp
from penstock.dialects.op.training.batch_norm import (
    BatchNormGradientSumsOp,
    BatchNormStatisticsOp,
)
from penstock.dialects.op.training.cross_entropy import (
    SoftmaxCrossEntropyGradientOp,
    SoftmaxCrossEntropyOp,
)
from penstock.dialects.op.training.embedding_gradient import EmbeddingGradientOp
from penstock.dialects.op.training.filter_gradient import Conv2dFilterGradientOp
from penstock.dialects.op.training.max_pool_gradient import MaxPool2dGradientOp
from penstock.dialects.op.training.random import DropoutOp, RandomBitsOp
from penstock.dialects.op.training.row_gradients import (
    LayerNormGradientOp,
    LogSoftmaxGradientOp,
    RmsNormGradientOp,
    SoftmaxGradientOp,
)
from penstock.dialects.op.training.stop_gradient import StopGradientOp
from penstock.dialects.op.training.update_rows import UpdateRowsOp

OPS = (
    AttentionGradientOp,
    BatchNormGradientSumsOp,
    BatchNormStatisticsOp,
    Conv2dFilterGradientOp,
    DropoutOp,
    EmbeddingGradientOp,
    LayerNormGradientOp,
    LogSoftmaxGradientOp,
    MaxPool2dGradientOp,
    RandomBitsOp,
    RmsNormGradientOp,
    SoftmaxCrossEntropyGradientOp,
    SoftmaxCrossEntropyOp,
    SoftmaxGradientOp,
    StopGradientOp,
    UpdateRowsOp,
)
"""The ops of this package, as the dialect registers them."""
