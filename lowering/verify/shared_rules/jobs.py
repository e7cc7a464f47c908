"""
Rules on the memory of several jobs, for `verify-plan` and `verify-program`.

A job's registers are in use while it runs; variables, headers and interfaces last from
run to run. So

* registers of different owners share no bytes, and jobs that exclude each other are one
  owner;
* all registers of one interface start at the same byte.

Registers of one job share bytes by the rules of `shared_rules.memory`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.ir import Operation

from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.byte_spans import Span, shared_by


class Owner(NamedTuple):
    """The owner of bytes: the only user of them. Owners share no bytes."""

    kind: str
    """`variable`, `header`, `interface`, `group` (of exclusive jobs) or `job`."""
    name: str

    @property
    def lasts(self) -> bool:
        """Whether the bytes are in use between runs of a job, too."""
        return self.kind in ("variable", "header", "interface")


class Held(NamedTuple):
    """A register with bytes of its own, and their owner."""

    op: Operation
    name: str
    """Its name in messages."""
    span: Span
    job: str | None
    owner: Owner
    interface: str | None
    """The interface that it is one of the registers of."""


def bad_sharing(held: Sequence[Held]) -> Iterator[Finding]:
    """All that is wrong between jobs, and with interfaces."""
    yield from between_jobs(held)
    yield from torn_interfaces(held)


def between_jobs(held: Sequence[Held]) -> Iterator[Finding]:
    """
    Registers of different owners that share bytes: for each that does with some that
    start before it, the one of each owner that goes on longest.
    """
    known: dict[Owner, list[Held]] = {}
    ends: dict[Owner, int] = {}
    some = [register for register in held if register.span.start < register.span.end]
    for register in sorted(some, key=lambda x: x.span.start):
        owner, span = register.owner, register.span
        for other, end in ends.items():
            if other != owner and span.start < end:
                # That one's slots may lie around this one's.
                shared = [x for x in known[other] if shared_by(x.span, span)]
                if shared:
                    yield from clash(max(shared, key=lambda x: x.span.end), register)
        known.setdefault(owner, []).append(register)
        ends[owner] = max(ends.get(owner, 0), span.end)


def clash(first: Held, second: Held) -> Iterator[Finding]:
    """That registers of two owners share bytes, unless their job's own rules say so."""
    interface = "interface" in (first.owner.kind, second.owner.kind)
    if first.job == second.job and not interface:
        return
    if lasting := [x.name for x in (first, second) if x.owner.lasts]:
        reason = f"{lasting[0]} lasts from run to run"
    else:
        reason = f"jobs '{first.job}' and '{second.job}' may run at the same time"
    message = f"registers {first.name} and {second.name} share bytes, but {reason}"
    yield second.op, message


def torn_interfaces(held: Sequence[Held]) -> Iterator[Finding]:
    """Interfaces that do not start at the same byte for all jobs."""
    seen: dict[str, Held] = {}
    for register in held:
        if (interface := register.interface) is None:
            continue
        first = seen.setdefault(interface, register)
        if first.span.start != register.span.start:
            yield (
                register.op,
                f"registers {first.name} and {register.name} are interface "
                f"'{interface}', but lie apart",
            )
