"""A target: the ops of a module, counted."""

from collections import Counter
from dataclasses import dataclass

from xdsl.utils.target import Target

from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("target", "op-counts")
@dataclass(frozen=True)
class OpCounts(Target):
    """The number of ops of each name."""

    name = "op-counts"

    def emit(self, ctx, module, output):
        for name, count in sorted(Counter(op.name for op in module.walk()).items()):
            print(f"{count:6} {name}", file=output)
