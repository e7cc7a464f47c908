"""
The kernel dialect: the stages of kernels that say their meaning, and views of memrefs.

A stage is a *structured op* where a schedule or a second target must know the roles of
its operands and loops; any other one is an op of `linalg`, `memref` or `scf`:

    op.softmax  --convert-plan-to-launch-->  kernel.row
      --convert-kernel-to-loops-->  scf.parallel

`penstock.dialects.kernel.builder` builds them.
"""

from collections.abc import Mapping

from xdsl.ir import Dialect

from penstock.dialects.kernel.attention import AttentionOp
from penstock.dialects.kernel.attention_gradient import AttentionGradientOp
from penstock.dialects.kernel.body_ops import (
    AllReduceOp,
    Fold,
    FoldAttr,
    IndexOp,
    KeepOp,
    YieldOp,
)
from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.gather import GatherOp
from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.kernel.pool import Pool, PoolAttr, PoolOp
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.kernel.scatter import ScatterOp
from penstock.dialects.kernel.tile_transform import TileTransformOp
from penstock.dialects.kernel.views import PaddedOp

__all__ = [
    "FORMS",
    "AllReduceOp",
    "AttentionGradientOp",
    "AttentionOp",
    "ContractOp",
    "Fold",
    "FoldAttr",
    "GatherOp",
    "IndexOp",
    "KeepOp",
    "Kernel",
    "PaddedOp",
    "Pool",
    "PoolAttr",
    "PoolOp",
    "RowOp",
    "ScatterOp",
    "StructuredOp",
    "TileTransformOp",
    "YieldOp",
]

Kernel = Dialect(
    "kernel",
    [
        AllReduceOp,
        AttentionGradientOp,
        AttentionOp,
        ContractOp,
        GatherOp,
        IndexOp,
        KeepOp,
        PaddedOp,
        PoolOp,
        RowOp,
        ScatterOp,
        TileTransformOp,
        YieldOp,
    ],
    [FoldAttr, PoolAttr],
)

FORMS: Mapping[str, type[StructuredOp]] = {
    op.name: op for op in Kernel.operations if issubclass(op, StructuredOp)
}
"""The structured ops by their names."""


def __getattr__(name: str) -> object:
    """A name of the module that stood here in 0.1."""
    from penstock.moved import name_of

    return name_of(__name__, name)
