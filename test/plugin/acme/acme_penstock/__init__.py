"""Ops and a pass of a third party, found by Penstock when this package is installed."""

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe


def _get_acme() -> Dialect:
    from acme_penstock.dialect import Acme

    return Acme


def _get_expand_swish() -> type[ModulePass]:
    from acme_penstock.expand_swish import AcmeExpandSwishPass

    return AcmeExpandSwishPass


ACME_UNIVERSE = Universe(
    all_dialects={"acme": _get_acme},
    all_passes={"acme-expand-swish": _get_expand_swish},
)
