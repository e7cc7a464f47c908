"""Masks of all elements after a diagonal, told from other arrays."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.dialects.op.triangle import Triangle, filled, triangle_of

RANDOM = np.random.default_rng(12)


def mask(
    rows: int, columns: int, offset: int, inside: float = 0.0, outside: float = -np.inf
) -> NDArray[np.float32]:
    """Numbers by the places they are at."""
    numbers = [
        [inside if column <= row + offset else outside for column in range(columns)]
        for row in range(rows)
    ]
    return np.array(numbers, np.float32)


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (5, 5), (3, 9), (9, 3)])
def test_triangles_are_told_by_their_diagonal(rows: int, columns: int) -> None:
    for offset in range(-rows - 1, columns + 1):
        array = mask(rows, columns, offset)
        found = triangle_of(array)
        if len(np.unique(array)) == 1:
            assert found is None
        elif found is not None:
            assert found == Triangle(0.0, -np.inf, offset)
        else:
            # The least row and the first column are all that tells the number inside.
            assert offset < 1 - rows or offset > columns - 2


@pytest.mark.parametrize("offset", [-(2**63), -4, 5, 2**63 - 1])
def test_diagonals_may_be_far_away(offset: int) -> None:
    inside, outside = RANDOM.standard_normal((2, 4, 6)).astype(np.float32)
    found = filled((4, 6), [inside, outside], offset)
    np.testing.assert_array_equal(found, inside if offset > 0 else outside)


def test_stacks_have_the_same_matrix() -> None:
    stack = np.stack([mask(4, 6, 2)] * 3)[:, None]
    assert triangle_of(stack) == Triangle(0.0, -np.inf, 2)
    stack[2] = mask(4, 6, 1)
    assert triangle_of(stack) is None


def test_booleans_are_numbers() -> None:
    assert triangle_of(np.tri(4, dtype=np.bool_)) == Triangle(1.0, 0.0, 0)
    assert triangle_of(~np.tri(4, dtype=np.bool_)) == Triangle(0.0, 1.0, 0)


@pytest.mark.parametrize("odd", [1.0, -0.0, np.nan, np.inf])
def test_any_other_number_makes_another_array(odd: float) -> None:
    for _ in range(8):
        array = mask(6, 6, 0)
        row, column = RANDOM.integers(0, 6, 2)
        array[row, column] = odd
        assert triangle_of(array) is None


@pytest.mark.parametrize("shape", [(), (7,), (1, 7), (7, 1), (0, 7), (3, 0, 4)])
def test_there_are_rows_and_columns(shape: tuple[int, ...]) -> None:
    assert triangle_of(np.zeros(shape)) is None


def test_weights_are_none() -> None:
    assert triangle_of(RANDOM.standard_normal((5, 7))) is None
    assert triangle_of(np.full((3, 4), np.nan)) is None
    assert triangle_of(np.eye(5)) is None
    assert triangle_of(np.triu(np.ones((5, 5)), 1).T) == Triangle(1.0, 0.0, -1)
