"""Where each op of a job runs: what placement, splitting and conversion agree on."""

from __future__ import annotations

from functools import cache, cached_property, lru_cache

from xdsl.ir import Operation

from penstock.dialects.job import (
    AfterOp,
    AssignOp,
    BoxingOp,
    CopyOp,
    DeviceAttr,
    ForeignInputOp,
    ForeignOutputOp,
    InputOp,
    JobOp,
    OutputOp,
    PlacementAttr,
    origin_of,
    placement_of,
)
from penstock.dialects.op.sbp import RECENT, devices_of
from penstock.dialects.op.tensor_op import TensorOp

ELSEWHERE = (
    AfterOp,
    AssignOp,
    BoxingOp,
    CopyOp,
    ForeignInputOp,
    ForeignOutputOp,
    InputOp,
    OutputOp,
)
"""The ops whose results may be made elsewhere than where they are placed."""


@cache
def may_be_elsewhere(op: type[Operation]) -> bool:
    """Whether ops of a class are among those of `ELSEWHERE`."""
    return issubclass(op, ELSEWHERE)


class JobDevices:
    """
    The devices of each op of one job: those that make its results.

    Inputs are made, and outputs are used, on the host of their placement's first
    device; a copy and a boxing make their results where they bring them to; a variable
    is assigned to where it is; what waits for others is where it was; all else runs
    where it is placed. A placement on one
    device has a hierarchy of one dimension, so that equal ones compare equal. The ports
    of a body are where all else of it is.
    """

    def __init__(self, job: JobOp, *, is_body: bool = False) -> None:
        self._job = job
        self._is_body = is_body
        self._known: dict[PlacementAttr, PlacementAttr] = {}
        self._hosts: dict[PlacementAttr, PlacementAttr] = {}
        self._on: dict[DeviceAttr, PlacementAttr] = {}

    @cached_property
    def of_job(self) -> PlacementAttr:
        """The placement of the ops that have none of their own."""
        return self._normal(self._job.placement)

    @property
    def has_several(self) -> bool:
        """Whether the job or an op of it is placed on several devices."""
        placements = dict.fromkeys(
            found
            for op in self._job.body.block.ops
            for found in (placement_of(op, self._job), self.used_on(op))
        )
        return any(len(placement.pairs) > 1 for placement in placements)

    def of(self, op: Operation) -> PlacementAttr:
        """Where the results of one op of the job are made, and its operands used."""
        if not may_be_elsewhere(type(op)):
            own = op.attributes.get("placement")
            return self._normal(own) if isinstance(own, PlacementAttr) else self.of_job
        match op:
            case AssignOp(target=target) if isinstance(target.owner, Operation):
                return self.of(target.owner)
            case AfterOp() if isinstance(maker := origin_of(op.value).owner, Operation):
                return self.of(maker)
            case CopyOp():
                return self._only(op.device)
            case BoxingOp():
                return self._normal(op.target_placement)
            case InputOp() | OutputOp() | ForeignInputOp() | ForeignOutputOp():
                return self._host(placement_of(op, self._job))
            case _:
                return self._normal(placement_of(op, self._job))

    def used_on(self, op: Operation) -> PlacementAttr:
        """Where the operands of one op of the job are used."""
        if isinstance(op, BoxingOp):
            return self._normal(op.source_placement)
        return self.of(op)

    def _normal(self, placement: PlacementAttr) -> PlacementAttr:
        if (known := self._known.get(placement)) is None:
            device = placement.single_device()
            known = placement if device is None else self._only(device)
            self._known[placement] = known
        return known

    def _host(self, placement: PlacementAttr) -> PlacementAttr:
        if self._is_body:
            return self._normal(placement)
        if (known := self._hosts.get(placement)) is None:
            known = self._only(devices_of(placement)[0].host)
            self._hosts[placement] = known
        return known

    def _only(self, device: DeviceAttr) -> PlacementAttr:
        if (known := self._on.get(device)) is None:
            known = self._on[device] = PlacementAttr.on(device)
        return known


@lru_cache(RECENT)
def zone_of(device: DeviceAttr) -> DeviceAttr:
    """The device that stands for all that work in the same memory."""
    return device.host if device.kind.data == "cpu" else device


def place_on(op: Operation, place: PlacementAttr, devices: JobDevices) -> None:
    """Place an op; where its job is it needs no placement of its own."""
    if place == devices.of_job:
        op.attributes.pop("placement", None)
    else:
        op.attributes["placement"] = place


def place_like(op: Operation, other: Operation) -> None:
    """Place an op where another one says that it is placed, if it does."""
    if (place := other.attributes.get("placement")) is not None:
        op.attributes["placement"] = place


def kind_of(op: TensorOp, job: JobOp, device: str | None) -> str:
    """The kind of device that an op will run on."""
    if device is not None and "placement" not in op.attributes:
        return device
    return placement_of(op, job).kind.data
