"""Gradients of convolutions, pools and batch normalization, in 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from central_differences import check_gradients, check_op
from draws import fresh

from penstock.dialects.op import (
    AveragePool2dOp,
    BatchNormOp,
    Conv2dOp,
    GlobalAveragePoolOp,
    MaxPool2dOp,
)
from penstock.dialects.op.training import BatchNormStatisticsOp


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(size=shape)


def apart(rng: np.random.Generator, *shape: int) -> Any:
    """Numbers that steps leave in their order."""
    return rng.permutation(int(np.prod(shape))).reshape(shape) / 8


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 2, 4, 5), (3, 2, 2, 3), {}),
    ((2, 2, 4, 5), (3, 2, 3, 2), {"pads": [1, 0, 2, 1]}),
    ((1, 2, 5, 6), (2, 2, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 2, 6, 5), (2, 2, 3, 1), {"strides": [2, 3], "pads": [0, 1, 1, 0]}),
    ((2, 3, 5, 4), (2, 3, 1, 1), {"strides": [2, 2]}),
    ((1, 2, 7, 6), (2, 2, 2, 3), {"dilations": [3, 2], "pads": [1, 1, 0, 2]}),
    ((1, 1, 9, 8), (2, 1, 3, 2), {"strides": [2, 4], "dilations": [2, 6]}),
    ((1, 1, 8, 9), (1, 1, 3, 3), {"strides": [3, 2], "dilations": [2, 3]}),
    ((2, 4, 4, 3), (6, 2, 2, 2), {"groups": 2, "strides": [1, 2]}),
    ((1, 3, 5, 6), (3, 1, 3, 3), {"groups": 3, "pads": [1, 1, 1, 1]}),
    ((1, 2, 5, 6), (4, 1, 3, 3), {"groups": 2, "strides": [2, 2]}),
    ((1, 1, 2, 2), (1, 1, 1, 1), {"pads": [3, 2, 2, 3], "strides": [2, 2]}),
    ((1, 1, 7, 5), (1, 1, 2, 1), {"strides": [4, 4]}),
]


@pytest.mark.parametrize(("input", "weights", "values"), CONVOLUTIONS)
def test_convolution(input: Any, weights: Any, values: dict[str, Any]) -> None:
    rng = fresh()
    check_op(Conv2dOp, normal(rng, *input), normal(rng, *weights), **values)


def test_convolution_with_a_bias_and_channels_at_the_end() -> None:
    rng = fresh()
    operands = [normal(rng, *s) for s in ((1, 3, 4, 2), (2, 2, 2, 2), (2,))]
    check_op(Conv2dOp, *operands, input_last=True, result_last=True, pads=[1, 0, 0, 1])


POOLS: list[dict[str, Any]] = [
    {"kernel": [2, 2], "strides": [2, 2]},
    {"kernel": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 0]},
    {"kernel": [3, 3], "strides": [2, 2], "ceil_mode": True},
    {"kernel": [2, 3], "strides": [3, 2], "pads": [0, 2, 1, 1], "ceil_mode": True},
]


@pytest.mark.parametrize("values", [*POOLS, {"kernel": [2, 3], "dilations": [3, 2]}])
def test_max_pool(values: dict[str, Any]) -> None:
    check_op(MaxPool2dOp, apart(fresh(), 1, 2, 5, 6), **values)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("values", POOLS)
def test_average_pool(values: dict[str, Any], counted: bool) -> None:
    x = normal(fresh(), 1, 2, 5, 6)
    check_op(AveragePool2dOp, x, count_include_pad=counted, **values)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 2, 3, 2)])
def test_global_average_pool(shape: Any) -> None:
    check_op(GlobalAveragePoolOp, normal(fresh(), *shape))


@pytest.mark.parametrize("shape", [(3, 2), (2, 3, 2), (2, 2, 3, 2)])
def test_batch_norm_of_known_statistics(shape: Any) -> None:
    rng = fresh()
    parameters = [normal(rng, shape[1]) for _ in range(3)]
    variance = 0.5 + np.square(normal(rng, shape[1]))
    check_op(BatchNormOp, normal(rng, *shape), *parameters, variance, epsilon=0.1)


@pytest.mark.parametrize("shape", [(4, 2), (2, 3, 2), (2, 2, 3, 2)])
def test_batch_norm_in_training(shape: Any) -> None:
    def build(o: Any, ins: Any) -> Any:
        statistics = o.results(BatchNormStatisticsOp, ins[0])
        return [o.one(BatchNormOp, *ins, *statistics), *statistics]

    rng = fresh()
    parameters = [normal(rng, shape[1]) for _ in range(2)]
    check_gradients(build, [normal(rng, *shape), *parameters])


@pytest.mark.parametrize("chosen", [0, 1])
def test_one_statistic(chosen: int) -> None:
    def build(o: Any, ins: Any) -> Any:
        return [o.results(BatchNormStatisticsOp, ins[0])[chosen]]

    check_gradients(build, [normal(fresh(), 3, 2, 4)])
