"""What `xdsl-opt` and every other xDSL tool finds when Penstock is installed."""

from xdsl.universe import Universe

from penstock.dialects import get_all_dialects
from penstock.lowering import get_all_passes

PENSTOCK_UNIVERSE = Universe(
    all_dialects=get_all_dialects(),
    all_passes=get_all_passes(),
)
