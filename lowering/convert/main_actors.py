"""The actors that tasks of a main job become."""

from __future__ import annotations

from xdsl.ir import Operation

from penstock.dialects.job import CaseOp, EsacOp, ReentrantLockOp, WaitAndSendIdsOp


def kind_of(op: Operation) -> str | None:
    """The kind of actor that does what an op of a main job says, None for others."""
    match op:
        case WaitAndSendIdsOp():
            return "send_ids"
        case ReentrantLockOp():
            return "lock"
        case CaseOp():
            return "case"
        case EsacOp():
            return "esac"
        case _:
            return None


def lists_of(op: Operation) -> list[list[int]] | None:
    """The lists that an op of a main job knows by number, None for others."""
    if not isinstance(op, WaitAndSendIdsOp | ReentrantLockOp):
        return None
    return [list(numbers.get_values()) for numbers in op.lists]
