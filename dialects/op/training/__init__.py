"""Ops for training: what gradients and updates of variables are made of."""

from penstock.dialects.op.training.stop_gradient import StopGradientOp

OPS = (StopGradientOp,)
"""The ops of this package, as the dialect registers them."""
