"""Ops of the main job of a linked plan, which launches jobs by their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    eq,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job.ports import I64List, verify_name
from penstock.dialects.utils.attributes import KnownAttributes

MAIN_JOB = "System-Main"
"""The job that launches all others."""

NUMBER = TensorType(i64, [])
"""The type of the number of a job or of a section."""

IsNumber = eq(NUMBER)
Names = ArrayAttr.constr(StringAttr)


def strings(names: Sequence[str]) -> ArrayAttr[StringAttr]:
    """The attribute that lists some names."""
    return ArrayAttr(map(StringAttr, names))


def number_lists(lists: Sequence[Sequence[int]]) -> ArrayAttr[DenseArrayBase]:
    """The attribute that holds some lists of numbers."""
    return ArrayAttr([DenseArrayBase.from_list(i64, x) for x in lists])


def verify_names(what: str, names: ArrayAttr[StringAttr]) -> None:
    """Raise `VerifyException` unless there are names, each of them once."""
    listed = [name.data for name in names]
    if not listed:
        raise VerifyException(f"there should be at least one {what}")
    if doubled := next((x for i, x in enumerate(listed) if x in listed[:i]), None):
        raise VerifyException(f"{what} '{doubled}' is listed twice")


def verify_counts(
    what: str, names: ArrayAttr[StringAttr], lists: ArrayAttr[DenseArrayBase]
) -> None:
    """Raise `VerifyException` unless there is a list for each name."""
    if len(names) != len(lists):
        raise VerifyException(
            f"there should be a list for each {what}, got {len(lists)} for {len(names)}"
        )


@irdl_op_definition
class WaitAndSendIdsOp(IRDLOperation):
    """
    Take the number of a job, and produce the numbers of its sections, one after the
    other. `jobs` names the jobs by number.

    ```mlir
    %s = job.wait_and_send_ids %j jobs ["a", "b"] lists [array<i64: 0>, array<i64: 1>]
    ```
    """

    name = "job.wait_and_send_ids"

    number = operand_def(IsNumber)
    jobs = prop_def(Names)
    lists = prop_def(ArrayAttr.constr(I64List))
    result = result_def(IsNumber)

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$number `jobs` $jobs `lists` $lists attr-dict"

    def __init__(
        self,
        number: SSAValue | Operation,
        jobs: Sequence[str],
        lists: Sequence[Sequence[int]],
    ):
        super().__init__(
            operands=[number],
            properties={"jobs": strings(jobs), "lists": number_lists(lists)},
            result_types=[NUMBER],
        )

    def verify_(self) -> None:
        verify_names("job", self.jobs)
        verify_counts("job", self.jobs, self.lists)
        for job, sections in zip(self.jobs, self.lists, strict=True):
            if not len(sections):
                raise VerifyException(f"job '{job.data}' has no section")


@irdl_op_definition
class ReentrantLockOp(IRDLOperation):
    """
    Take the numbers of sections that are asked for, and of those that are given back,
    and produce those that are granted. `lists` has for each section those that may not
    be held at the same time. Sections are granted in the order of asking: as long as
    one of these is held, or was asked for before, a section waits; the same section may
    be held several times.

    ```mlir
    %g = job.reentrant_lock %s, %d sections ["a/total", "b/total"]
      lists [array<i64: 1>, array<i64: 0>]
    ```
    """

    name = "job.reentrant_lock"

    wanted = operand_def(IsNumber)
    returned = operand_def(IsNumber)
    sections = prop_def(Names)
    lists = prop_def(ArrayAttr.constr(I64List))
    result = result_def(IsNumber)

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = (
        "$wanted `,` $returned `sections` $sections `lists` $lists attr-dict"
    )

    def __init__(
        self,
        wanted: SSAValue | Operation,
        returned: SSAValue | Operation,
        sections: Sequence[str],
        lists: Sequence[Sequence[int]],
    ):
        super().__init__(
            operands=[wanted, returned],
            properties={"sections": strings(sections), "lists": number_lists(lists)},
            result_types=[NUMBER],
        )

    @property
    def rivals(self) -> list[list[int]]:
        """For each section those that may not be held at the same time."""
        return [list(numbers.get_values()) for numbers in self.lists]

    def verify_(self) -> None:
        verify_names("section", self.sections)
        verify_counts("section", self.sections, self.lists)
        rivals = self.rivals
        for section, others in enumerate(rivals):
            for other in others:
                if not 0 <= other < len(rivals):
                    raise VerifyException(
                        f"section {section} lists {other}, but there are {len(rivals)}"
                    )
                if section not in rivals[other]:
                    raise VerifyException(
                        f"section {section} lists {other}, which does not list it"
                    )


@irdl_op_definition
class CaseOp(IRDLOperation):
    """
    Take a number, and signal the one of that number among the control registers that
    the task signals. `names` says what each is for.

    ```mlir
    job.case %g ["a/total", "b/total"]
    ```
    """

    name = "job.case"

    number = operand_def(IsNumber)
    names = prop_def(Names)

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$number $names attr-dict"

    def __init__(self, number: SSAValue | Operation, names: Sequence[str]):
        super().__init__(operands=[number], properties={"names": strings(names)})

    def verify_(self) -> None:
        verify_names("branch", self.names)


@irdl_op_definition
class EsacOp(IRDLOperation):
    """
    Take a piece from any of the control registers that the task waits for, and produce
    the number of that one among them. `names` says what each is from.

    ```mlir
    %d = job.esac ["a/total", "b/total"]
    ```
    """

    name = "job.esac"

    names = prop_def(Names)
    result = result_def(IsNumber)

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$names attr-dict"

    def __init__(self, names: Sequence[str]):
        super().__init__(properties={"names": strings(names)}, result_types=[NUMBER])

    def verify_(self) -> None:
        verify_names("branch", self.names)


@irdl_op_definition
class CallbackNotifyOp(IRDLOperation):
    """
    Tell the caller the number of a job that has come to its end, by a buffer of this
    name.

    ```mlir
    job.callback_notify "System-Finished", %n
    ```
    """

    name = "job.callback_notify"

    buffer = prop_def(StringAttr)
    number = operand_def(IsNumber)

    traits = traits_def(KnownAttributes(), MemoryWriteEffect())

    assembly_format = "$buffer `,` $number attr-dict"

    def __init__(self, buffer: str, number: SSAValue | Operation):
        super().__init__(operands=[number], properties={"buffer": StringAttr(buffer)})

    def verify_(self) -> None:
        verify_name("buffer", self.buffer)
