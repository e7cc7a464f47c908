"""
Policies for numbers of slots, by name: ours, and plug-ins of the kind `slot-choice`.

A policy is a function of a `SlotRequest` that returns a number of slots for each queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from penstock.lowering.algorithms.slot_counts import Queue, least_interval, overflows
from penstock.plugins import PlugIn, plugin_of

KIND = "slot-choice"

INTERVAL = "interval"
"""The policy that is taken where nothing is said."""


class SlotRequest(NamedTuple):
    """The registers of a plan that are to be given slots."""

    queues: Sequence[Queue]
    """When each register is in use in one act, its bytes, and slots that are fixed."""
    names: Sequence[str]
    """The names of the registers."""
    limits: Mapping[int, int]
    """The bytes that a memory may take, by the number of the memory."""
    interval: int
    """The nanoseconds from the begin of an act to that of the next one, at least."""
    headers: Mapping[int, int] = {}
    """Registers that have the slots of another one."""


Policy: TypeAlias = Callable[[SlotRequest], Sequence[int] | None]
"""None if not even one slot each fits."""


def by_interval(request: SlotRequest) -> Sequence[int] | None:
    """The slots that let an act begin at the shortest interval at which all fits."""
    queues, limits, least = request.queues, request.limits, request.interval
    interval = least_interval(queues, limits, least)
    return None if interval is None else [queue.slots(interval) for queue in queues]


BUILT_IN: Mapping[str, Policy] = {INTERVAL: by_interval}


def slot_policy(name: str) -> Policy:
    """The policy of a name. Raises `PluginError` if there is none."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    plugin = plugin_of(KIND, name)

    def policy(request: SlotRequest) -> Sequence[int]:
        slots = plugin.integers(plugin.call(request))
        check_slots(plugin, request, slots)
        return slots

    return policy


MOST_SLOTS = 1 << 20
"""No register has more slots: a slip of the pen is refused, not allocated."""


def check_slots(plugin: PlugIn, request: SlotRequest, slots: Sequence[int]) -> None:
    """Raise `PluginError` unless all registers have slots, and all fits."""
    names, queues = request.names, request.queues
    if len(slots) != len(queues):
        plugin.refuse(f"returns {len(slots)} numbers for {len(queues)} registers")
    for name, queue, count in zip(names, queues, slots, strict=True):
        if not 1 <= count <= MOST_SLOTS:
            plugin.refuse(f"gives register '{name}' {count} slots")
        if queue.fixed is not None and count != queue.fixed:
            plugin.refuse(
                f"gives register '{name}' {count} slots, not its {queue.fixed}"
            )
    for header, owner in request.headers.items():
        if slots[header] != slots[owner]:
            pair = f"'{names[header]}' other slots than its register '{names[owner]}'"
            plugin.refuse(f"gives the header {pair}")
    chosen = [q._replace(fixed=n) for q, n in zip(queues, slots, strict=True)]
    for memory, peak in overflows(chosen, request.limits, request.interval).items():
        plugin.refuse(
            f"takes {peak.bytes} bytes of memory {memory}, but the limit is "
            f"{request.limits[memory]}"
        )


def interval_of(queues: Sequence[Queue], slots: Sequence[int], least: int) -> int:
    """The shortest interval, not below `least`, at which acts can begin."""
    needed = (
        -(-(queue.end - queue.start) // count)
        for queue, count in zip(queues, slots, strict=True)
        if queue.fixed is None and count
    )
    return max(least, *needed, 1)
