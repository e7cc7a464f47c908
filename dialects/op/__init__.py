"""
The op dialect: ops on tensors with value semantics.

Each op is defined in one place, its class: operands, properties and syntax, and what
`penstock.dialects.op.tensor_op.TensorOp` asks for: type inference, cost, in-place
pairs, its meaning in NumPy and its kernel body. `op.fused` holds ops that are computed
together, `op.wave` independent ops.
"""

from xdsl.ir import Dialect

from penstock.dialects.op.activation import (
    ClipOp,
    GeluOp,
    LeakyReluOp,
    ReluOp,
    SigmoidOp,
    TanhOp,
)
from penstock.dialects.op.all_finite import AllFiniteOp
from penstock.dialects.op.attention import AttentionOp
from penstock.dialects.op.bits import (
    BitAndOp,
    BitcastOp,
    BitOrOp,
    BitXorOp,
    ShiftLeftOp,
    ShiftRightOp,
)
from penstock.dialects.op.body import YieldOp
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.comparison import (
    EqualOp,
    GreaterEqualOp,
    GreaterOp,
    LessEqualOp,
    LessOp,
    LogicalAndOp,
    LogicalNotOp,
    LogicalOrOp,
    LogicalXorOp,
    NotEqualOp,
    WhereOp,
)
from penstock.dialects.op.condition import IfOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.counted.compaction import CompressOp, NonZeroOp
from penstock.dialects.op.counted.non_max_suppression import NonMaxSuppressionOp
from penstock.dialects.op.counted.unique import UniqueOp
from penstock.dialects.op.elementwise import (
    AbsOp,
    AddOp,
    DivOp,
    MaximumOp,
    MinimumOp,
    MulOp,
    NegOp,
    PowOp,
    ReciprocalOp,
    SubOp,
)
from penstock.dialects.op.group_norm import GroupNormOp
from penstock.dialects.op.groups.fused import FusedOp
from penstock.dialects.op.in_place import HintAttr
from penstock.dialects.op.indexing import (
    GatherElementsOp,
    GatherNdOp,
    ScatterElementsOp,
    ScatterModeAttr,
    ScatterNdOp,
)
from penstock.dialects.op.linear import GemmOp, MatmulOp
from penstock.dialects.op.loop import LoopOp
from penstock.dialects.op.movement import ExpandOp, GatherOp, ReshapeOp, TransposeOp
from penstock.dialects.op.multirate import AccOp, LastOp, PackOp, RepeatOp, UnpackOp
from penstock.dialects.op.normalization import (
    BatchNormOp,
    LayerNormOp,
    LogSoftmaxOp,
    RmsNormOp,
    SoftmaxOp,
)
from penstock.dialects.op.padding import PadModeAttr, PadOp
from penstock.dialects.op.reduction import (
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceSumOp,
)
from penstock.dialects.op.requirement import RequireOp
from penstock.dialects.op.response_norm import LocalResponseNormOp
from penstock.dialects.op.rounding import Log1pOp, RemOp, RoundOp
from penstock.dialects.op.scan import CumProdOp, CumSumOp
from penstock.dialects.op.selection import ArgMaxOp, ArgMinOp, TopKOp
from penstock.dialects.op.slicing import ConcatOp, SliceOp, SplitOp
from penstock.dialects.op.training import OPS as TRAINING
from penstock.dialects.op.triangle import TriangleOp
from penstock.dialects.op.trigonometry import (
    AcoshOp,
    AcosOp,
    AsinhOp,
    AsinOp,
    AtanhOp,
    AtanOp,
    CoshOp,
    CosOp,
    SinhOp,
    SinOp,
    TanOp,
)
from penstock.dialects.op.unary_math import (
    CeilOp,
    ErfOp,
    ExpOp,
    FloorOp,
    LogOp,
    RsqrtOp,
    SqrtOp,
)
from penstock.dialects.op.wave import WaveOp, YieldWaveOp
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.op.windows.pooling import (
    AveragePool2dOp,
    GlobalAveragePoolOp,
    MaxPool2dOp,
)
from penstock.dialects.op.windows.winograd import WinogradJoinOp, WinogradSplitOp

Op = Dialect(
    "op",
    [
        AbsOp,
        AccOp,
        AcosOp,
        AcoshOp,
        AddOp,
        AllFiniteOp,
        ArgMaxOp,
        ArgMinOp,
        AsinOp,
        AsinhOp,
        AtanOp,
        AtanhOp,
        AttentionOp,
        AveragePool2dOp,
        BatchNormOp,
        BitAndOp,
        BitOrOp,
        BitXorOp,
        BitcastOp,
        CastOp,
        CeilOp,
        ClipOp,
        CompressOp,
        ConcatOp,
        ConstantOp,
        Conv2dOp,
        CosOp,
        CoshOp,
        CumProdOp,
        CumSumOp,
        DivOp,
        EqualOp,
        ErfOp,
        ExpOp,
        ExpandOp,
        FloorOp,
        FusedOp,
        GatherElementsOp,
        GatherNdOp,
        GatherOp,
        GeluOp,
        GemmOp,
        GlobalAveragePoolOp,
        GreaterEqualOp,
        GreaterOp,
        GroupNormOp,
        LayerNormOp,
        IfOp,
        LastOp,
        LeakyReluOp,
        LessEqualOp,
        LessOp,
        LocalResponseNormOp,
        Log1pOp,
        LogOp,
        LogSoftmaxOp,
        LoopOp,
        LogicalAndOp,
        LogicalNotOp,
        LogicalOrOp,
        LogicalXorOp,
        MatmulOp,
        MaxPool2dOp,
        MaximumOp,
        MinimumOp,
        MulOp,
        NegOp,
        NonMaxSuppressionOp,
        NonZeroOp,
        NotEqualOp,
        PackOp,
        PadOp,
        PowOp,
        ReciprocalOp,
        ReduceMaxOp,
        ReduceMeanOp,
        ReduceMinOp,
        ReduceProdOp,
        ReduceSumOp,
        ReluOp,
        RemOp,
        RepeatOp,
        RequireOp,
        ReshapeOp,
        RmsNormOp,
        RoundOp,
        RsqrtOp,
        ScatterElementsOp,
        ScatterNdOp,
        ShiftLeftOp,
        ShiftRightOp,
        SigmoidOp,
        SinOp,
        SinhOp,
        SliceOp,
        SoftmaxOp,
        SplitOp,
        SqrtOp,
        SubOp,
        TanOp,
        TanhOp,
        TopKOp,
        TransposeOp,
        TriangleOp,
        UniqueOp,
        UnpackOp,
        WaveOp,
        WhereOp,
        WinogradJoinOp,
        WinogradSplitOp,
        YieldOp,
        YieldWaveOp,
        *TRAINING,
    ],
    [
        HintAttr,
        PadModeAttr,
        ScatterModeAttr,
    ],
)
