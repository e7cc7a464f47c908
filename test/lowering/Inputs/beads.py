"""An alternative for devices that nothing else computes on."""

from collections.abc import Iterable

from penstock.lowering.launch.autotune.alternatives import Alternative, Request, Variant
from penstock.lowering.launch.autotune.registry import register_alternative


class Beads(Alternative):
    """Computes one op on an abacus."""

    name = "acme-beads"
    targets = ("abacus",)

    def refuse(self, request: Request) -> str | None:
        """Refuses all ops but one."""
        return None if request.op == "acme.count" else "moves no beads"

    def variants(self, request: Request) -> Iterable[Variant]:
        """The one that there is."""
        yield Variant(lambda kernel: None)


register_alternative(Beads())
