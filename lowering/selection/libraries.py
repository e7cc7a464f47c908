"""
Libraries as alternatives: products of matrices on devices by cuBLAS.

A library is only taken where it was measured to be faster, as nobody knows before
whether it is there, nor what it gains; what it computes was compared then with what the
generated kernel does. Where it is missing when a program is loaded, that says so
(`penstock.runtime.cuda_libraries`).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.library import LibraryAttr
from penstock.dialects.launch.schedule import SCHEDULE
from penstock.lowering.cuda.libraries import arguments_of, facts_of, start_of
from penstock.lowering.numba.contractions import (
    DEVICE_ELEMENTS,
    Contraction,
    contraction_of,
)
from penstock.lowering.numba.finishing import phases_of
from penstock.lowering.selection.alternatives import Alternative, Request, Variant

LEAST_PRODUCTS = 1 << 18
"""The products of elements from which a library is worth a try."""


class Library(Alternative):
    """The one sum of products of a kernel by a library, all else as it is."""

    targets = ("cuda",)
    priority = -10
    has_to_be_measured = True

    def __init__(self, name: str):
        self.name = name

    def refuse(self, request: Request) -> str | None:
        """Why the library is not for a kernel."""
        found = site_of(request.kernel)
        return found if isinstance(found, str) else None

    def variants(self, request: Request) -> Iterable[Variant]:
        """The one that there is."""

        def apply(kernel: KernelOp) -> None:
            found = site_of(kernel)
            assert not isinstance(found, str), "refused otherwise"
            op, has_start = found
            op.attributes[SCHEDULE] = LibraryAttr(self.name, int(has_start))

        yield Variant(apply)


def site_of(kernel: KernelOp) -> tuple[LinalgStructuredOperation, bool] | str:
    """
    The one sum of products of a kernel, and whether the phase before it sets its result
    to 0; or why a library cannot compute it.
    """
    phases = phases_of(kernel.body.block)
    found = [
        (op, contraction)
        for op in phases
        if isinstance(op, LinalgStructuredOperation)
        and isinstance(contraction := contraction_of(op, DEVICE_ELEMENTS), Contraction)
    ]
    if len(found) != 1:
        return f"it has {len(found)} sums of products, not one"
    op, contraction = found[0]
    if SCHEDULE in op.attributes:
        return "it has a schedule already"
    count = prod(contraction.extents) * prod(contraction.outer_extents)
    if count < LEAST_PRODUCTS:
        return f"{count} products are too few for a library"
    has_start = start_of(op, phases) is not None
    facts = facts_of(contraction, adds=not has_start)
    if isinstance(facts, str):
        return facts
    if arguments_of(op, contraction) is None:
        return "its operands are no arguments"
    return op, has_start
