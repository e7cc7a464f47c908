"""
The errors of single ops, in units in the last place of exact results, ours and peers'.

An exact result is that of PyTorch's expression on the same operands in `f64`. Ours is
computed with each width of vectors, as other widths have other schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from benchmarks.harness import Field, Run
from benchmarks.op_cases import CASES, adds_up, is_named
from benchmarks.ops import (
    OURS,
    open_penstock,
    open_torch,
    openers_of,
)
from benchmarks.report import Section, Table

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

TEXT = """\
The largest and the mean error of an op in units in the last place (ulp) of the exact
result, which is that of PyTorch in `f64`; of whole numbers, whether any is wrong. Of
ops that add up, an ulp is that of the largest element of the result, else that of the
element. Operands are random, and have 2^17 elements. Ours is computed with vectors of
64 bytes, of 32 and of 16, whose schedules differ."""

SIZE = "L2"
WIDTHS = {OURS: 64, "Penstock, 32 bytes": 32, "Penstock, 16 bytes": 16}
"""The widths of vectors by contenders."""
EXACT = "exact"


@dataclass(frozen=True)
class Error:
    """An error in ulp."""

    largest: float
    mean: float


def error_of(found: Sequence[Array], exact: Sequence[Array], *, sums: bool) -> Error:
    """The error of results, of which each may have a type of its own."""
    import numpy as np

    errors = np.concatenate(
        [_ulps(a, b, sums=sums).ravel() for a, b in zip(found, exact, strict=True)]
    )
    return Error(float(errors.max(initial=0)), float(errors.mean()))


def _ulps(found: Array, exact: Array, *, sums: bool) -> Array:
    """The error of each element."""
    import numpy as np

    if found.dtype.kind in "biu":
        return np.asarray(found != exact, np.float64)
    wide = exact.astype(np.float64)
    size = np.abs(wide)
    if sums:
        size = np.broadcast_to(size.max(initial=0), size.shape)
    return np.abs(found.astype(np.float64) - wide) / spacing(size, found.dtype)


def spacing(size: Array, dtype: object) -> Array:
    """The distance of neighbours of a type at numbers of f64."""
    import ml_dtypes
    import numpy as np

    facts = cast("Any", ml_dtypes).finfo(dtype)
    least = float(facts.smallest_normal)
    _, exponent = np.frexp(np.maximum(size, least))
    return np.ldexp(float(facts.eps), exponent - 1)


def openers(name: str) -> dict[str, Callable[[], Run]]:
    """All that compute a case, and the exact result."""
    found: dict[str, Callable[[], Run]] = {
        width: partial(open_penstock, name, SIZE, 1) for width in WIDTHS
    }
    for peer, opener in openers_of(name, SIZE, 1).items():
        if not peer.startswith(OURS):
            found[peer] = opener
    return {**found, EXACT: partial(open_torch, name, SIZE, 1, wide=True)}


def accuracy(words: Sequence[str] = ()) -> Section:
    """The errors of the ops whose names have one of these words, or of all."""
    names = [
        name
        for name, case in CASES.items()
        if case.torch and case.is_exact and is_named(name, words)
    ]
    environments = {
        name: {"PENSTOCK_VECTOR_BYTES": str(width)} for name, width in WIDTHS.items()
    }
    rows: list[Sequence[str]] = []
    data: dict[str, dict[str, float]] = {}
    problems: list[str] = []
    with Field(environments) as field:
        for name in names:
            found, failed = errors_of(name, field)
            problems += [f"{name}: {who}: {problem}" for who, problem in failed.items()]
            rows.append([name, *cells_of(found)])
            data[name] = {who: error.largest for who, error in found.items()}
    return Section(
        "Accuracy of single ops", TEXT, [Table(HEADER, rows)], data, problems
    )


def errors_of(name: str, field: Field) -> tuple[dict[str, Error], dict[str, str]]:
    """The errors of a case by contenders, and why others have none."""
    contenders = field.open(openers(name))
    results = {each.name: each.outputs for each in contenders if not each.problem}
    failed = {each.name: each.problem for each in contenders if each.problem}
    for contender in contenders:
        contender.leave()
    if (exact := results.pop(EXACT, None)) is None:
        return {}, failed
    sums = adds_up(name)
    errors = {who: error_of(x, exact, sums=sums) for who, x in results.items()}
    return errors, failed


HEADER = (
    *("case", "ulp", "mean", "ulp, 32 bytes", "ulp, 16 bytes"),
    *("ONNX Runtime ulp", "PyTorch eager ulp"),
)


def cells_of(found: Mapping[str, Error]) -> list[str]:
    """The errors of a case in the order of the header."""

    def text(who: str) -> str:
        return f"{found[who].largest:.2f}" if who in found else ""

    wide, *narrow = WIDTHS
    mean = f"{found[wide].mean:.3f}" if wide in found else ""
    return [text(wide), mean, *map(text, (*narrow, "ONNX Runtime", "PyTorch eager"))]
