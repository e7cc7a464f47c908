"""
Conflicts between members of a wave, from the bytes that they use.

Members may run in any order and at once, so none may write a byte that another one
uses. Verifiers ask it of all waves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.lowering.algorithms.byte_ranges import ByteRanges, Range


class Bytes(NamedTuple):
    """The bytes that a member may write, and all that it uses."""

    writes: Sequence[Range]
    uses: Sequence[Range]


def conflicts_of(members: Sequence[Bytes]) -> Iterator[int]:
    """The members that write what ones before them use, or use what these write."""
    written, used = ByteRanges(), ByteRanges()
    for number, (writes, uses) in enumerate(members):
        if any(map(used.meets, writes)) or any(map(written.meets, uses)):
            yield number
        for range in writes:
            written.add(range)
        for range in uses:
            used.add(range)
