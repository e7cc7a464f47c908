"""Streams, devices and memories as reports write them."""

from __future__ import annotations

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import StreamAttr
from penstock.dialects.regst import MemoryCaseAttr
from penstock.lowering.analysis.acting_order import Stream


def stream_text(stream: Stream) -> str:
    """A stream as the plan writes it, such as `<0, cpu:0> <compute, 0>`."""
    device, queue = stream
    return f"{device_text(device)} {queue_text(queue)}"


def device_text(device: DeviceAttr) -> str:
    """A device as the plan writes it."""
    return f"<{device.rank.data}, {device.kind.data}:{device.index.data}>"


def queue_text(stream: StreamAttr) -> str:
    """A stream of a device as the plan writes it."""
    return f"<{stream.kind.data}, {stream.index.data}>"


def case_text(case: MemoryCaseAttr) -> str:
    """A memory case as the plan writes it."""
    text = f"{case.rank.data}, {case.kind.data}"
    if isinstance(case.device, DeviceAttr):
        text += f" {case.device.kind.data}:{case.device.index.data}"
    return f"<{text}>"
