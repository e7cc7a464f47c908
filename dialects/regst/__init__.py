"""
The register dialect: registers between tasks, and their places in blocks and chunks.

A *register* is a queue of equally sized slots that one task fills and others read; its
slots are the credits of the task that fills it. A *control* register holds no bytes
and only orders tasks. Memory planning lays the registers out in *blocks*, and blocks
in one *chunk* for each memory case, which is allocated once:

    regst.register  --regst-plan-memory-->  regst.chunk + regst.block + regst.register

A register that is an `alias` lies where another one lies, or in a part of it.
"""

from xdsl.ir import Dialect

from penstock.dialects.regst.ops import (
    BlockOp,
    ChunkOp,
    Place,
    RegisterOp,
    alias_place,
    alias_root,
    is_dynamic,
    verify_headers,
)
from penstock.dialects.regst.types import (
    MAX_BYTES,
    BlockType,
    ChunkType,
    ControlType,
    DataType,
    MemoryCaseAttr,
    part_alignment,
)

__all__ = [
    "MAX_BYTES",
    "BlockOp",
    "BlockType",
    "ChunkOp",
    "ChunkType",
    "ControlType",
    "DataType",
    "MemoryCaseAttr",
    "Place",
    "RegisterOp",
    "Regst",
    "alias_place",
    "alias_root",
    "is_dynamic",
    "part_alignment",
    "verify_headers",
]

Regst = Dialect(
    "regst",
    [
        BlockOp,
        ChunkOp,
        RegisterOp,
    ],
    [
        BlockType,
        ChunkType,
        ControlType,
        DataType,
        MemoryCaseAttr,
    ],
)
