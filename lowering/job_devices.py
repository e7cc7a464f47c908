"""On which device each op of a job runs: what placement and conversion agree on."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from penstock.dialects.job import (
    CopyOp,
    DeviceAttr,
    InputOp,
    JobOp,
    OutputOp,
    PlacementAttr,
    placement_of,
)


class JobDevices:
    """
    The device of each op of one job: the one that makes its results.

    Inputs are made, and outputs are used, on the host of their placement's device; a
    copy makes its result on the device it copies to; all else runs where it is placed.
    Every placement has a single device; `placement_complaints` finds those that have
    not.
    """

    def __init__(self, job: JobOp) -> None:
        self._job = job
        self._devices: dict[PlacementAttr, DeviceAttr] = {}

    @property
    def of_job(self) -> DeviceAttr:
        """The device of the ops that have no placement of their own."""
        return self._only_device(self._job.placement)

    def of(self, op: Operation) -> DeviceAttr:
        """The device of one op of the job."""
        if isinstance(op, CopyOp):
            return op.device
        device = self._only_device(placement_of(op, self._job))
        return device.host if isinstance(op, InputOp | OutputOp) else device

    def _only_device(self, placement: PlacementAttr) -> DeviceAttr:
        if (known := self._devices.get(placement)) is not None:
            return known
        device = placement.single_device()
        assert device is not None, "placements on several devices are errors before"
        return self._devices.setdefault(placement, device)


def placement_complaints(job: JobOp) -> Iterator[tuple[Operation, str]]:
    """The job and the ops of it that are placed on several devices, with the error."""
    placements: list[tuple[Operation, PlacementAttr]] = [(job, job.placement)]
    for op in job.body.block.ops:
        if isinstance(own := op.attributes.get("placement"), PlacementAttr):
            placements.append((op, own))
    for op, placement in placements:
        if len(placement.pairs) > 1:
            yield (
                op,
                "placements on several devices need SBP, which this version does "
                f"not split, got {placement}",
            )
