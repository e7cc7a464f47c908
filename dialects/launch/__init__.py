"""
The launch dialect: programs of kernels, actors, registers and variables.

A *program* is everything one rank runs: chunks of memory, registers and variables at
fixed places in them, kernels with bodies of upstream ops on memrefs, and actors that
call the kernels. Nothing in it is left to decide: the executor allocates the chunks,
the `numba` target turns kernels into source, and each actor acts when its registers
let it.

    plan.plan  --convert-plan-to-launch-->  launch.program
"""

from xdsl.ir import Dialect

from penstock.dialects.launch.actors import (
    UNCHANGED,
    ActorOp,
    CallOp,
    CollectiveOp,
    CommitOp,
    CopyOp,
    FeedOp,
    FetchOp,
    KernelOp,
    ReceiveOp,
    ReleaseOp,
    SendOp,
)
from penstock.dialects.launch.control_flow import (
    CarryOp,
    IfOp,
    LoopOp,
    NumberOp,
    PlaceAttr,
    SubviewOp,
    local_names,
    loop_around,
    roots_within,
    sources_of,
    steps_within,
)
from penstock.dialects.launch.memory import (
    ChunkOp,
    ControlOp,
    Frames,
    RegisterOp,
    VariableOp,
    frames_of,
    memref_bytes,
    names_of,
    symbols,
)
from penstock.dialects.launch.packed_layout import PanelsAttr
from penstock.dialects.launch.program import ProgramOp, repetitions_of
from penstock.dialects.launch.schedules.cpu_attention import (
    AttentionAttr,
    AttentionGradientAttr,
)
from penstock.dialects.launch.schedules.cpu_map import MapAttr
from penstock.dialects.launch.schedules.cpu_matmul import ContractionAttr
from penstock.dialects.launch.schedules.cpu_vector_loops import VectorLoopsAttr
from penstock.dialects.launch.schedules.cpu_window import WindowsAttr
from penstock.dialects.launch.schedules.cpu_winograd import TransformAttr
from penstock.dialects.launch.schedules.cuda_attention import (
    GradientTilesAttr,
    QueriesAttr,
)
from penstock.dialects.launch.schedules.cuda_matmul import TilesAttr
from penstock.dialects.launch.schedules.cuda_rows import RowsAttr
from penstock.dialects.launch.schedules.cuda_window import WindowThreadsAttr
from penstock.dialects.launch.schedules.library import LibraryAttr
from penstock.dialects.launch.views import ViewAttr

__all__ = [
    "UNCHANGED",
    "ActorOp",
    "AttentionAttr",
    "AttentionGradientAttr",
    "CallOp",
    "CarryOp",
    "ChunkOp",
    "CollectiveOp",
    "CommitOp",
    "ContractionAttr",
    "ControlOp",
    "CopyOp",
    "FeedOp",
    "FetchOp",
    "Frames",
    "GradientTilesAttr",
    "IfOp",
    "KernelOp",
    "Launch",
    "LibraryAttr",
    "LoopOp",
    "MapAttr",
    "NumberOp",
    "PanelsAttr",
    "PlaceAttr",
    "ProgramOp",
    "QueriesAttr",
    "ReceiveOp",
    "RegisterOp",
    "ReleaseOp",
    "RowsAttr",
    "SendOp",
    "SubviewOp",
    "TilesAttr",
    "TransformAttr",
    "VariableOp",
    "VectorLoopsAttr",
    "ViewAttr",
    "WindowThreadsAttr",
    "WindowsAttr",
    "frames_of",
    "local_names",
    "loop_around",
    "memref_bytes",
    "names_of",
    "repetitions_of",
    "roots_within",
    "sources_of",
    "steps_within",
    "symbols",
]

Launch = Dialect(
    "launch",
    [
        ActorOp,
        CallOp,
        CarryOp,
        ChunkOp,
        CollectiveOp,
        CommitOp,
        ControlOp,
        CopyOp,
        FeedOp,
        FetchOp,
        IfOp,
        KernelOp,
        LoopOp,
        NumberOp,
        ProgramOp,
        ReceiveOp,
        RegisterOp,
        ReleaseOp,
        SendOp,
        SubviewOp,
        VariableOp,
    ],
    [
        AttentionAttr,
        AttentionGradientAttr,
        ContractionAttr,
        GradientTilesAttr,
        LibraryAttr,
        MapAttr,
        PanelsAttr,
        PlaceAttr,
        QueriesAttr,
        RowsAttr,
        TilesAttr,
        TransformAttr,
        VectorLoopsAttr,
        ViewAttr,
        WindowThreadsAttr,
        WindowsAttr,
    ],
)
