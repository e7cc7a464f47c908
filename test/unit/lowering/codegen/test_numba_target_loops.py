"""The loop nest of `linalg` ops: accesses, merging and order."""

from __future__ import annotations

import pytest
from xdsl.ir.affine import AffineExpr, AffineMap

from penstock.dialects.kernel.loops import (
    Access,
    Nest,
    Order,
    access_of,
    extents_of,
    loop_order,
    merged,
    row_major,
)

D0, D1, D2 = (AffineExpr.dimension(position) for position in range(3))


def nest(
    kinds: str, extents: tuple[int, ...], *strides: tuple[int, ...], offset: int = 0
) -> Nest:
    """A nest; `kinds` has a letter a loop: p or r."""
    accesses = tuple(Access(each, offset) for each in strides)
    return Nest(extents, tuple(kind == "r" for kind in kinds), accesses)


def test_row_major_strides() -> None:
    assert row_major((2, 3, 4)) == (12, 4, 1)
    assert row_major(()) == ()


def test_access_is_linear_in_the_loops() -> None:
    map = AffineMap(3, 0, (D1 * 2 + D2, AffineExpr.constant(3) + D0))
    assert access_of(map, (8, 10)) == Access((1, 20, 10), 3)


@pytest.mark.parametrize("expr", [D0 % 2, D0.ceil_div(2), D0 // 2 + D1])
def test_other_maps_have_no_access(expr: AffineExpr) -> None:
    assert access_of(AffineMap(2, 0, (expr,)), (8,)) is None


def test_extents_follow_from_bare_loops() -> None:
    maps = [AffineMap(3, 0, (D0 + D2, D1)), AffineMap(3, 0, (D2, D0))]
    assert extents_of(maps, [(8, 5), (3, 6)]) == [6, 5, 3]


def test_contiguous_loops_merge() -> None:
    dense, row = (20, 5, 1), (0, 0, 1)
    assert merged(nest("ppp", (3, 4, 5), dense, dense)) == nest("p", (60,), (1,), (1,))
    assert merged(nest("ppp", (3, 4, 5), row, dense)) == nest(
        "pp", (12, 5), (0, 1), (5, 1)
    )


def test_loops_of_two_kinds_or_layouts_stay_apart() -> None:
    kinds = nest("pr", (4, 5), (5, 1), (1, 0))
    transposed = nest("pp", (4, 5), (1, 4), (5, 1))
    assert merged(kinds) == kinds
    assert merged(transposed) == transposed


def test_loops_that_run_once_go() -> None:
    once = nest("pprp", (1, 4, 1, 5), (7, 1, 3, 4), (9, 5, 0, 1), offset=2)
    assert merged(once) == nest("pp", (4, 5), (1, 4), (5, 1), offset=2)


@pytest.mark.parametrize(
    ("kinds", "strides", "order"),
    [
        ("ppp", [(12, 4, 1), (1, 3, 12)], Order((0, 1, 2), in_register=False)),
        # o[i, j] += a[i, k] * b[k, j]
        ("ppr", [(9, 0, 1), (0, 1, 6), (6, 1, 0)], Order((0, 2, 1), in_register=False)),
        # o[i, j] += a[i, k] * b[j, k]
        ("ppr", [(9, 0, 1), (0, 9, 1), (6, 1, 0)], Order((0, 1, 2), in_register=True)),
        # o[i, j] += a[k, i] * b[k, j]
        ("ppr", [(1, 0, 5), (0, 1, 6), (6, 1, 0)], Order((0, 2, 1), in_register=False)),
        # o[i] += a[i, k]
        ("pr", [(9, 1), (1, 0)], Order((0, 1), in_register=True)),
        # o[i] += a[k, i]
        ("rp", [(9, 1), (0, 1)], Order((0, 1), in_register=False)),
        # o += a[k]
        ("r", [(1,), (0,)], Order((0,), in_register=True)),
        # o[i, j] += a[k, 2 * i] * b[2 * j, k]: nothing is contiguous
        (
            "ppr",
            [(2, 0, 9), (0, 18, 1), (6, 1, 0)],
            Order((0, 2, 1), in_register=False),
        ),
        # o[i, 2 * j] += a[k, i] * b[k, j]
        ("ppr", [(1, 0, 9), (0, 1, 6), (12, 2, 0)], Order((0, 1, 2), in_register=True)),
    ],
)
def test_loop_order(kinds: str, strides: list[tuple[int, ...]], order: Order) -> None:
    extents = (4, 5, 6)[: len(kinds)]
    assert loop_order(nest(kinds, extents, *strides)) == order
