"""Memory that serves several uses at once."""

from __future__ import annotations

import pytest

from penstock.dialects.job import DeviceAttr
from penstock.dialects.regst import MemoryCaseAttr

FIRST, SECOND = DeviceAttr(0, "cuda", 1), DeviceAttr(0, "cuda", 2)
HOST = MemoryCaseAttr(0, "host")
NETWORK = MemoryCaseAttr(0, "network")
PINNED = MemoryCaseAttr(0, "pinned", FIRST)
PINNED_2 = MemoryCaseAttr(0, "pinned", SECOND)
BOTH = MemoryCaseAttr(0, "pinned_network", FIRST)
BOTH_2 = MemoryCaseAttr(0, "pinned_network", SECOND)
DEVICE = MemoryCaseAttr(0, "device", FIRST)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (HOST, HOST, HOST),
        (DEVICE, DEVICE, DEVICE),
        (HOST, NETWORK, NETWORK),
        (HOST, PINNED, PINNED),
        (HOST, BOTH, BOTH),
        (NETWORK, PINNED, BOTH),
        (NETWORK, BOTH, BOTH),
        (PINNED, BOTH, BOTH),
        (PINNED_2, BOTH, BOTH_2),
    ],
)
def test_memory_is_all_that_either_use_needs(
    one: MemoryCaseAttr, other: MemoryCaseAttr, both: MemoryCaseAttr
):
    assert one.joined(other) == both
    if one.device == other.device or HOST in (one, other) or NETWORK in (one, other):
        assert other.joined(one) == both


def test_memory_is_pinned_for_the_device_of_the_first():
    assert PINNED.joined(PINNED_2) == PINNED
    assert PINNED_2.joined(PINNED) == PINNED_2


@pytest.mark.parametrize(
    ("one", "other"),
    [(HOST, DEVICE), (DEVICE, PINNED), (HOST, MemoryCaseAttr(1, "host"))],
)
def test_memory_of_two_places_is_not_one(one: MemoryCaseAttr, other: MemoryCaseAttr):
    with pytest.raises(ValueError, match="no memory is both"):
        one.joined(other)
