"""
Libraries as alternatives: matmuls on GPUs by cuBLAS, convolutions by cuDNN.

A library is only taken where it was measured to be faster, as nobody knows before
whether it is there, nor what it gains; what it computes was compared then with what the
generated kernel does. Where it is missing when a program is loaded, that says so
(`penstock.runtime.cuda.libraries.registry`).
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.library import LibraryAttr
from penstock.lowering.codegen.body.epilogue import stages_of
from penstock.lowering.codegen.body.sums_split import split_sums
from penstock.lowering.codegen.cuda.library_calls import (
    CONVOLUTION,
    PRODUCT,
    LibraryContraction,
    library_contraction_of,
    unfit_of_libraries,
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
            op = split_sums(found.op, unfit_of_libraries(found.op))
            op.attributes[SCHEDULE] = LibraryAttr(self.name)

        yield Variant(apply)


def site_of(kernel: KernelOp) -> LibraryContraction | str:
    """The one contraction of a kernel, or why a library cannot compute it."""
    sums = [library_contraction_of(op) for op in stages_of(kernel.body.block)]
    found = [each for each in sums if each is not None]
    if len(found) != 1:
        return f"it has {len(found)} sums of products, not one"
    if isinstance(found[0], str):
        return found[0]
    if SCHEDULE in found[0].op.attributes:
        return "it has a schedule already"
    op = found[0].op
    if op.held is None:
        return "its result does not hold the sums"
    if (count := found[0].count) < LEAST_PRODUCTS:
        return f"{count} products are too few for a library"
    return found[0]
