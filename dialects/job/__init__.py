"""
The job dialect: jobs, their ops' placement and layouts, and the ports between them.

A *job* is a symbol with one block of ops on tensors. Values enter it by `job.input` and
`job.variable` and leave it by `job.output` and `job.assign`; the ops between them are
those of the `op` dialect or of other packages. Where an op runs is its *placement*: its
own `placement` attribute where it has one, else that of its job. Job inputs and outputs
lie in the memory of the host. On several devices the attribute `sbp` of an op says how
its results lie on them.

    job.job  --job-place-->  job.job + job.copy
             --job-infer-sbp-->  job.job with sbp
             --job-insert-boxing-->  job.job + job.boxing
             --convert-job-to-plan-->  plan.plan
"""

from xdsl.ir import Dialect

from penstock.dialects.job.collectives import (
    MESSAGES,
    CollectiveOp,
    Exchange,
    can_add,
)
from penstock.dialects.job.control import AfterOp, CommitOp, origin_of
from penstock.dialects.job.cuts import CutAttr, CutList, Cuts, verify_cuts
from penstock.dialects.job.gradients import GradientsOp
from penstock.dialects.job.init import INITIALIZERS, InitAttr
from penstock.dialects.job.layouts import (
    BroadcastAttr,
    Entry,
    PartialAttr,
    SbpAttr,
    SplitAttr,
    misfit,
    sbp_entry_text,
    verify_layout,
)
from penstock.dialects.job.main import (
    MAIN_JOB,
    CallbackNotifyOp,
    CaseOp,
    EsacOp,
    ReentrantLockOp,
    WaitAndSendIdsOp,
)
from penstock.dialects.job.ops import (
    BoxingOp,
    CopyOp,
    JobOp,
    is_there_always,
    placement_of,
)
from penstock.dialects.job.placements import (
    MAX_DEVICES,
    DeviceAttr,
    PlacementAttr,
    verify_device_kind,
)
from penstock.dialects.job.ports import (
    AssignOp,
    ForeignInputOp,
    ForeignOutputOp,
    I64List,
    InputOp,
    Names,
    OutputOp,
    StateOp,
    VariableOp,
    place_in_whole,
    verify_names,
    verify_part,
    verify_winograd,
)
from penstock.dialects.job.sections import (
    SECTIONS,
    SectionAttr,
    SinkTickOp,
    SourceTickOp,
    sections_of,
)
from penstock.dialects.job.training import (
    STEP,
    OptimizerAttr,
    ScheduleAttr,
    ScheduleOp,
    UpdateOp,
    made_of,
    rate_type,
)
from penstock.dialects.job.transfers import ReceiveOp, SendOp, verify_tag

__all__ = [
    "INITIALIZERS",
    "MAIN_JOB",
    "MAX_DEVICES",
    "MESSAGES",
    "SECTIONS",
    "STEP",
    "AfterOp",
    "AssignOp",
    "BoxingOp",
    "BroadcastAttr",
    "CallbackNotifyOp",
    "CaseOp",
    "CollectiveOp",
    "CommitOp",
    "CopyOp",
    "CutAttr",
    "CutList",
    "Cuts",
    "DeviceAttr",
    "Entry",
    "EsacOp",
    "Exchange",
    "ForeignInputOp",
    "ForeignOutputOp",
    "GradientsOp",
    "I64List",
    "InitAttr",
    "InputOp",
    "Job",
    "JobOp",
    "Names",
    "OptimizerAttr",
    "OutputOp",
    "PartialAttr",
    "PlacementAttr",
    "ReceiveOp",
    "ReentrantLockOp",
    "SbpAttr",
    "ScheduleAttr",
    "ScheduleOp",
    "SectionAttr",
    "SendOp",
    "SinkTickOp",
    "SourceTickOp",
    "SplitAttr",
    "StateOp",
    "UpdateOp",
    "VariableOp",
    "WaitAndSendIdsOp",
    "can_add",
    "is_there_always",
    "made_of",
    "misfit",
    "origin_of",
    "place_in_whole",
    "placement_of",
    "rate_type",
    "sbp_entry_text",
    "sections_of",
    "verify_cuts",
    "verify_device_kind",
    "verify_layout",
    "verify_names",
    "verify_part",
    "verify_tag",
    "verify_winograd",
]

Job = Dialect(
    "job",
    [
        AfterOp,
        AssignOp,
        BoxingOp,
        CallbackNotifyOp,
        CaseOp,
        CollectiveOp,
        CommitOp,
        CopyOp,
        EsacOp,
        ForeignInputOp,
        ForeignOutputOp,
        GradientsOp,
        InputOp,
        JobOp,
        OutputOp,
        ReceiveOp,
        ReentrantLockOp,
        ScheduleOp,
        SendOp,
        SinkTickOp,
        SourceTickOp,
        StateOp,
        UpdateOp,
        VariableOp,
        WaitAndSendIdsOp,
    ],
    [
        BroadcastAttr,
        CutAttr,
        DeviceAttr,
        InitAttr,
        OptimizerAttr,
        PartialAttr,
        PlacementAttr,
        SbpAttr,
        ScheduleAttr,
        SectionAttr,
        SplitAttr,
    ],
)
