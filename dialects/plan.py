"""
The plan dialect: tasks on devices and streams, and the registers between them.

A *plan* is a symbol with one block of *tasks*. A task belongs to one device and one
*stream* of it; the tasks of a stream run one after the other. Its body is the one op it
executes. First tasks produce tensors as SSA values; then each of these values becomes a
register that the tasks read and write, and *control* registers order tasks that no data
orders:

    %h = plan.task  --plan-create-registers-->  regst.register + plan.task ... outs(%h)

A task acts when each register it reads or waits for has a full slot and each register
it writes or signals has a free one. So the plan is a marked graph: full and free slots
are its tokens. `verify-plan` checks what must hold of the whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntAttr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    UnitAttr,
    i8,
    i32,
    i64,
)
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    ParametrizedAttribute,
    Region,
    SSAValue,
)
from xdsl.irdl import (
    AtLeast,
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    eq,
    irdl_attr_definition,
    irdl_op_definition,
    lazy_traits_def,
    opt_prop_def,
    opt_region_def,
    param_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import (
    AssignOp,
    CallbackNotifyOp,
    CaseOp,
    CollectiveOp,
    CommitOp,
    CopyOp,
    DeviceAttr,
    EsacOp,
    ForeignInputOp,
    ForeignOutputOp,
    InputOp,
    OutputOp,
    ReceiveOp,
    ReentrantLockOp,
    SendOp,
    SinkTickOp,
    SourceTickOp,
    StateOp,
    VariableOp,
    WaitAndSendIdsOp,
)
from penstock.dialects.op.body import FlowOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.tensor_op import can_fail
from penstock.dialects.regst import (
    BlockOp,
    ChunkOp,
    ControlType,
    DataType,
    RegisterOp,
    verify_headers,
)
from penstock.dialects.utils.assembly import Body
from penstock.dialects.utils.attributes import OF_PLANS, KnownAttributes
from penstock.dialects.utils.diagnostics import Finding, refuse_if_any
from penstock.dialects.utils.python_values import properties_of
from penstock.dialects.utils.quick_accessors import quick_accessors
from penstock.dialects.utils.walk import ops_of

################################################################################
# Attributes                                                                   #
################################################################################


@irdl_attr_definition
class StreamAttr(ParametrizedAttribute):
    """
    One queue of work of a device, such as `<compute, 0>` or `<copy_h2d, 0>`. The tasks
    of a stream run one after the other.
    """

    name = "plan.stream"

    kind: StringAttr = param_def(converter=StringAttr.get)
    index: IntAttr = param_def(converter=IntAttr.get)

    def verify(self) -> None:
        if self.index.data < 0:
            raise VerifyException(
                f"stream index must not be negative, got {self.index.data}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            kind = parser.parse_identifier()
            parser.parse_punctuation(",")
            index = parser.parse_integer(allow_boolean=False)
        return StringAttr(kind), IntAttr(index)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.kind.data}, {self.index.data}")


################################################################################
# Operations                                                                   #
################################################################################


@quick_accessors
@irdl_op_definition
class PlanOp(IRDLOperation):
    """
    All tasks of a job, and the registers they hand data through; or those of one `rank`
    of it. Or those of several
    jobs: then each task says its `job`, but for variables that several jobs read. Jobs
    in one list of `exclusive` never run at the same time.

    ```mlir
    plan.plan @double {
      %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
        %v = job.input "x" : tensor<4xf32>
        plan.yield %v : tensor<4xf32>
      }
      plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) {
      ^bb0(%v: tensor<4xf32>):
        job.output "y", %v : tensor<4xf32>
        plan.yield
      }
    }
    ```
    """

    name = "plan.plan"

    sym_name = prop_def(SymbolNameConstraint())
    rank = opt_prop_def(IntegerAttr.constr(i64))
    exclusive = opt_prop_def(ArrayAttr[ArrayAttr[StringAttr]])
    body = region_def("single_block")

    traits = traits_def(
        KnownAttributes(*OF_PLANS),
        NoTerminator(),
        IsolatedFromAbove(),
        SymbolOpInterface(),
    )

    assembly_format = (
        "$sym_name (`rank` $rank^)? (`exclusive` $exclusive^)? "
        "attr-dict-with-keyword custom<Body>($body)"
    )

    custom_directives = (Body,)

    def __init__(
        self, sym_name: str, body: Region, exclusive: Sequence[Sequence[str]] = ()
    ):
        groups = [ArrayAttr(map(StringAttr, jobs)) for jobs in exclusive]
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "exclusive": ArrayAttr(groups) if groups else None,
            },
            regions=[body],
        )

    @property
    def tasks(self) -> list[TaskOp]:
        """The tasks, as they are listed."""
        return ops_of(self.body.block, TaskOp)

    @property
    def registers(self) -> list[RegisterOp]:
        """The registers, as they are listed."""
        return ops_of(self.body.block, RegisterOp)

    @property
    def chunks(self) -> list[ChunkOp]:
        """The chunks, as they are listed."""
        return ops_of(self.body.block, ChunkOp)

    @property
    def is_on_values(self) -> bool:
        """
        Whether tasks still produce SSA values: no register of the plan holds bytes.
        """
        types = (register.register.type for register in self.registers)
        return all(isinstance(type, ControlType) for type in types)

    @property
    def has_places(self) -> bool:
        """Whether registers have places already: the memory has been planned."""
        return bool(ops_of(self.body.block, BlockOp))

    @property
    def jobs(self) -> list[str]:
        """The jobs that tasks name, as they are listed."""
        jobs = (task.job.data for task in self.tasks if task.job is not None)
        return list(dict.fromkeys(jobs))

    @property
    def is_merged(self) -> bool:
        """Whether it is of jobs: tasks name them, or it has what their plans said."""
        return "jobs" in self.attributes or bool(self.jobs)

    @property
    def exclusive_jobs(self) -> list[list[str]]:
        """The groups of jobs that never run at the same time."""
        groups = () if self.exclusive is None else self.exclusive
        return [[job.data for job in group] for group in groups]

    def verify_(self) -> None:
        if self.body.block.args:
            raise VerifyException("the block of a plan takes no arguments")
        refuse_if_any(self._of_other_ranks())
        refuse_if_any(self._doubled_names())
        verify_headers(self.registers)
        refuse_if_any(self._misused_registers())
        refuse_if_any(self._torn_chains())
        self._verify_jobs()

    def _of_other_ranks(self) -> Iterator[Finding]:
        if self.rank is None:
            return
        own = self.rank.value.data
        for task in self.tasks:
            if (rank := task.device.rank.data) != own:
                name = task.task_name.data
                yield (
                    task,
                    f"task '{name}' is on rank {rank}, its plan is of rank {own}",
                )

    def _doubled_names(self) -> Iterator[Finding]:
        seen: set[str] = set()
        for task in self.tasks:
            if task.task_name.data in seen:
                yield task, f"two tasks are named '{task.task_name.data}'"
            seen.add(task.task_name.data)
        seen.clear()
        for register in self.registers:
            if (name := register.register_name.data) in seen:
                yield register, f"two registers are named '{name}'"
            seen.add(name)

    def _misused_registers(self) -> Iterator[Finding]:
        producers: dict[SSAValue, TaskOp] = {}
        for task in self.tasks:
            _, outs, _, signals = task.ports
            for register in (*outs, *signals):
                if (other := producers.get(register)) is not None:
                    text = (
                        f"register '{name_of(register)}' is written by both "
                        f"'{other.task_name.data}' and '{task.task_name.data}'"
                    )
                    yield task, text
                producers[register] = task
        for task in self.tasks:
            ins, _, waits, _ = task.ports
            for register in (*ins, *waits):
                if isinstance(register.owner, RegisterOp) and register not in producers:
                    text = (
                        f"task '{task.task_name.data}' reads register "
                        f"'{name_of(register)}', which no task writes"
                    )
                    yield task, text

    def _torn_chains(self) -> Iterator[Finding]:
        streams: dict[int, TaskOp] = {}
        for task in self.tasks:
            if task.chain is None:
                continue
            number = task.chain.value.data
            first = streams.setdefault(number, task)
            if (task.device, task.stream) != (first.device, first.stream):
                text = (
                    f"chain {number} has tasks on two streams: "
                    f"'{first.task_name.data}' and '{task.task_name.data}'"
                )
                yield task, text

    def _verify_jobs(self) -> None:
        jobs = self.jobs
        refuse_if_any(
            (task, f"task '{task.task_name.data}' belongs to no job, but others do")
            for task in (self.tasks if jobs else ())
            if task.job is None and task.kind != "variable"
        )
        seen: set[str] = set()
        for job in (job for group in self.exclusive_jobs for job in group):
            if job not in jobs:
                raise VerifyException(f"no task belongs to job '{job}'")
            if job in seen:
                raise VerifyException(f"job '{job}' is in two exclusive groups")
            seen.add(job)


def name_of(register: SSAValue) -> str:
    """The name of a register, for messages."""
    if isinstance(owner := register.owner, RegisterOp):
        return owner.register_name.data
    return register.name_hint or "?"


@quick_accessors
@irdl_op_definition
class YieldOp(IRDLOperation):
    """
    The terminator of a task's body: the values that the task produces.

    ```mlir
    plan.yield %r : tensor<4xf32>
    ```
    """

    name = "plan.yield"

    values = var_operand_def(TensorType)

    traits = lazy_traits_def(
        lambda: (KnownAttributes(), HasParent(TaskOp), IsTerminator(), Pure())
    )

    assembly_format = "($values^ `:` type($values))? attr-dict"

    def __init__(self, *values: SSAValue | Operation):
        super().__init__(operands=[values])


KINDS: dict[str, tuple[type[Operation], ...]] = {
    "assign": (AssignOp,),
    "commit": (CommitOp,),
    "input": (InputOp, ForeignInputOp),
    "output": (OutputOp, ForeignOutputOp, CallbackNotifyOp),
    "main": (CaseOp, EsacOp, ReentrantLockOp, WaitAndSendIdsOp),
    "variable": (StateOp, VariableOp),
    "tick": (SourceTickOp, SinkTickOp),
    "copy": (CopyOp,),
    "send": (SendOp,),
    "receive": (ReceiveOp,),
    "collective": (CollectiveOp,),
}
"""The kinds of tasks that do not compute, by the ops that these execute."""


@cache
def kind_of_tasks(op: type[Operation]) -> str:
    """The kind of the tasks that execute ops of a class."""
    return next((kind for kind, ops in KINDS.items() if issubclass(op, ops)), "compute")


def kind_of_task(op: Operation) -> str:
    """The kind of the task that executes an op."""
    # Not `isinstance`, which xDSL makes slow, as this is asked for often.
    if type(op) is ConstantOp and op.splat is None:
        return "variable"
    return kind_of_tasks(type(op))


class Ports(NamedTuple):
    """The operands of a task by use."""

    ins: Sequence[SSAValue]
    outs: Sequence[SSAValue]
    waits: Sequence[SSAValue]
    signals: Sequence[SSAValue]


SEGMENTS = struct.Struct("<4i")
"""The number of operands of a task for each of these, as bytes of the attribute."""


def segments_of(ports: Ports) -> DenseArrayBase:
    """The numbers of operands of a task by use, as the property that holds them."""
    return segments_attribute(tuple(map(len, ports)))


@lru_cache(maxsize=4096)
def segments_attribute(sizes: tuple[int, ...]) -> DenseArrayBase:
    """Numbers of operands, which few tasks alone have, as one attribute for all."""
    return DenseArrayBase.from_list(i32, sizes)


@quick_accessors
@irdl_op_definition
class TaskOp(IRDLOperation):
    """
    One op on one device. It either has results (before there are registers) or writes
    the registers `outs`; the arguments of its body are the tensors it reads, and the
    body yields those it writes. It acts after the registers it `waits` for and before
    those it `signals`. `order` is its place among the tasks of its stream. The tasks of
    one `chain` are all on one stream. In a plan of several jobs it says its `job`. One
    whose act may end in an error says that it `can_fail`, as it has to if its op can.
    A loop or condition has a plan of each of its bodies, `with` which it runs, and the
    last register that it writes is their memory.

    ```mlir
    plan.task "r" on <0, cpu:0> stream <compute, 0> chain 3 order 1
        ins(%x : !regst.data<tensor<4xf32>>) outs(%h : !regst.data<tensor<4xf32>>)
        waits(%k : !regst.control) {
    ^bb0(%v: tensor<4xf32>):
      %r = op.relu %v : tensor<4xf32> -> tensor<4xf32>
      plan.yield %r : tensor<4xf32>
    }
    ```
    """

    name = "plan.task"

    task_name = prop_def(StringAttr)
    job = opt_prop_def(StringAttr)
    device = prop_def(DeviceAttr)
    stream = prop_def(StreamAttr)
    chain = opt_prop_def(IntegerAttr.constr(eq(i64), value=AtLeast(0)))
    order = opt_prop_def(IntegerAttr.constr(eq(i64), value=AtLeast(0)))
    can_fail = opt_prop_def(UnitAttr)
    ins = var_operand_def(base(TensorType) | base(DataType))
    outs = var_operand_def(DataType)
    waits = var_operand_def(ControlType())
    signals = var_operand_def(ControlType())
    results_ = var_result_def(TensorType)
    body = region_def("single_block")
    plans = opt_region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(
        KnownAttributes(
            "collective",
            "group",
            "max_shape",
            "no_wave",
            "slots",
            "time_ns",
            "waits_for",
        ),
        IsolatedFromAbove(),
        NoTerminator(),
        MemoryReadEffect(),
        MemoryWriteEffect(),
    )

    assembly_format = (
        "$task_name (`job` $job^)? `on` $device `stream` $stream (`chain` $chain^)? "
        "(`order` $order^)? (`can_fail` $can_fail^)? "
        "`ins` `(` ($ins^ `:` type($ins))? `)` "
        "(`outs` `(` $outs^ `:` type($outs) `)`)? "
        "(`waits` `(` $waits^ `:` type($waits) `)`)? "
        "(`signals` `(` $signals^ `:` type($signals) `)`)? "
        "(`->` type($results_)^)? attr-dict-with-keyword $body (`with` $plans^)?"
    )

    def __init__(
        self,
        task_name: str,
        device: DeviceAttr,
        stream: StreamAttr,
        body: Region,
        *,
        chain: int | None = None,
        order: int | None = None,
        ins: Sequence[SSAValue] = (),
        outs: Sequence[SSAValue] = (),
        waits: Sequence[SSAValue] = (),
        signals: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
    ):
        super().__init__(
            operands=[ins, outs, waits, signals],
            properties=properties_of(
                TaskOp,
                task_name=task_name,
                device=device,
                stream=stream,
                chain=chain,
                order=order,
            ),
            result_types=[result_types],
            regions=[body, []],
        )

    @property
    def bodies(self) -> list[PlanOp]:
        """The plans of the bodies of its op: of a loop, or of each branch."""
        _, *others = self.regions
        return [op for region in others for op in region.ops if isinstance(op, PlanOp)]

    @property
    def op(self) -> Operation:
        """The op that the task executes."""
        # The accessors of the region and its block take longer than all else here.
        block = self.regions[0]._first_block  # pyright: ignore[reportPrivateUsage]
        assert block is not None, "checked by the verifier"
        op = block._first_op  # pyright: ignore[reportPrivateUsage]
        assert op is not None, "checked by the verifier"
        return op

    @property
    def ports(self) -> Ports:
        """All operands by use. To ask for each alone takes far longer."""
        segments = self.properties["operandSegmentSizes"]
        assert isinstance(segments, DenseArrayBase), "checked by the verifier"
        ins, outs, waits, _ = SEGMENTS.unpack(segments.data.data)
        operands = tuple(self._operands)
        outs += ins
        waits += outs
        return Ports(
            operands[:ins], operands[ins:outs], operands[outs:waits], operands[waits:]
        )

    def connect(self, ports: Ports) -> None:
        """Give the task other operands."""
        self.properties["operandSegmentSizes"] = segments_of(ports)
        self.operands = list(chain.from_iterable(ports))

    @property
    def is_uncertain(self) -> bool:
        """
        Whether a piece may never get past the task: it can fail, or waits for a section
        of its job to be granted.
        """
        return self.can_fail is not None or isinstance(self.op, SourceTickOp)

    @property
    def kind(self) -> str:
        """
        `assign`, `commit`, `input`, `main`, `output`, `tick`, `variable`, `copy` or
        `compute`, by the op that it executes.
        """
        return kind_of_task(self.op)

    def verify_(self) -> None:
        ins, outs, _, _ = self.ports
        if self.results_ and outs:
            raise VerifyException("a task has either results or registers it writes")
        block = self.body.block
        if len(block.ops) != 2 or not isinstance(block.last_op, YieldOp):
            raise VerifyException("the body of a task should be one op and plan.yield")
        verify_payloads("reads", ins, [arg.type for arg in block.args])
        if self.plans is not None:
            verify_plans(self)
        # The memory of the bodies of its op is the last register, and no result of it.
        own = outs[:-1] if self.plans is not None else outs
        written = own or self.results_
        yielded = [value.type for value in block.last_op.values]
        verify_payloads("writes", written, yielded)
        if self.kind == "main":
            verify_main(self)
        if self.can_fail is None and can_fail(self.op):
            raise VerifyException(
                f"{self.op.name} can fail, so its task has to say can_fail"
            )


def verify_plans(task: TaskOp) -> None:
    """Raise `VerifyException` unless a task has a plan of each body of its op."""
    op = task.op
    if not isinstance(op, FlowOp):
        raise VerifyException(f"{op.name} has no bodies that plans could be of")
    plans, count = task.bodies, len(op.regions)
    if len(plans) != count or len(task.regions[1].block.ops) != count:
        raise VerifyException(
            f"there should be a plan of each body of {op.name}, which has {count}"
        )
    outs = task.outs
    if outs and not is_memory(outs[-1].type):
        raise VerifyException(
            "the last register that a task with plans writes should be their memory, "
            f"of bytes, got {outs[-1].type}"
        )


def is_memory(type: Attribute) -> bool:
    """Whether a register holds the memory of bodies: bytes, one after the other."""
    if not isinstance(type, DataType):
        return False
    payload = type.payload
    return payload.element_type == i8 and payload.get_num_dims() == 1


def verify_payloads(
    what: str, outside: Sequence[SSAValue], inside: Sequence[Attribute]
) -> None:
    """Raise `VerifyException` unless a task's body fits its registers."""
    types = [
        type.payload if isinstance(type := value.type, DataType) else type
        for value in outside
    ]
    if types != list(inside):
        got = ", ".join(map(str, inside))
        expected = ", ".join(map(str, types))
        raise VerifyException(f"the task {what} ({expected}), but its body has ({got})")


def verify_main(task: TaskOp) -> None:
    """
    Raise `VerifyException` unless a task has what its op of a main job reads, in order,
    and a control register for each of its branches.
    """
    op = task.op
    if tuple(op.operands) != task.body.block.args:
        raise VerifyException(f"the task of {op.name} reads what that does, in order")
    waits, signals = len(task.waits), len(task.signals)
    if isinstance(op, CaseOp | EsacOp):
        found = signals if isinstance(op, CaseOp) else waits
        if found != len(op.names):
            names = ", ".join(name.data for name in op.names)
            raise VerifyException(
                f"{op.name} needs a control register for each of {names}, got {found}"
            )
    has_waits, has_signals = isinstance(op, EsacOp), isinstance(op, CaseOp)
    if (waits and not has_waits) or (signals and not has_signals):
        raise VerifyException(
            f"the task of {op.name} waits for, or signals, more than its branches"
        )


Plan = Dialect(
    "plan",
    [
        PlanOp,
        TaskOp,
        YieldOp,
    ],
    [
        StreamAttr,
    ],
)
