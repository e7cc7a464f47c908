"""
Libraries as alternatives: matmuls on GPUs by cuBLAS, convolutions by cuDNN.

A library is only taken where it was measured to be faster, as nobody knows before
whether it is there, nor what it gains; what it computes was compared then with what the
generated kernel does. Where it is missing when a program is loaded, that says so
(`penstock.runtime.cuda.libraries.registry`).
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.library import LibraryAttr
from penstock.lowering.codegen.body.epilogue import Unfit, stages_of
from penstock.lowering.codegen.body.sums_split import split_sums
from penstock.lowering.codegen.cuda.library_calls import (
    CONVOLUTION,
    PRODUCT,
    LibraryContraction,
    library_contraction_of,
)
from penstock.lowering.launch.autotune.alternatives import Alternative, Request, Variant

LEAST_PRODUCTS = 1 << 18
"""The products of elements from which a library is worth a try."""


WORDS = {PRODUCT: "product of matrices", CONVOLUTION: "convolution"}


class Library(Alternative):
    """
    The one contraction of a kernel by a library that computes one kind of them, all
    else as it is.
    """

    targets = ("cuda",)
    priority = -10
    has_to_be_measured = True

    def __init__(self, name: str, kind: str = PRODUCT):
        self.name, self._kind = name, kind

    def refuse(self, request: Request) -> str | None:
        """Why the library is not for a kernel."""
        found = site_of(request.kernel)
        if isinstance(found, str):
            return found
        if found.kind != self._kind:
            return f"it is a {WORDS[found.kind]}"
        return None

    def variants(self, request: Request) -> Iterable[Variant]:
        """The one that there is."""

        def apply(kernel: KernelOp) -> None:
            found = site_of(kernel)
            assert not isinstance(found, str), "refused otherwise"
            folds, op = int(found.start is not None), found.op
            if isinstance(op, ContractOp):
                op = split_sums(op, unfit_of(op))
            op.attributes[SCHEDULE] = LibraryAttr(self.name, folds)

        yield Variant(apply)


def unfit_of(op: ContractOp) -> Unfit:
    """The start and finish that a library leaves to stages before and after it."""
    is_started = op.start is not None and not op.is_started_by_itself
    return Unfit(
        "a library starts at zero" if is_started else None,
        "a library stores sums" if op.finish is not None else None,
    )


def site_of(kernel: KernelOp) -> LibraryContraction | str:
    """The one contraction of a kernel, or why a library cannot compute it."""
    stages = stages_of(kernel.body.block)
    sums = [library_contraction_of(op, stages) for op in stages]
    found = [each for each in sums if each is not None]
    if len(found) != 1:
        return f"it has {len(found)} sums of products, not one"
    if isinstance(found[0], str):
        return found[0]
    if SCHEDULE in found[0].op.attributes:
        return "it has a schedule already"
    op = found[0].op
    if isinstance(op, ContractOp) and op.held is None:
        return "its result does not hold the sums"
    if (count := found[0].count) < LEAST_PRODUCTS:
        return f"{count} products are too few for a library"
    return found[0]
