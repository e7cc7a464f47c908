"""An alias policy: only large results are written over operands."""

from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("alias-policy", "large-only")
def large_only(candidates):
    """Results of at least 4 KiB, and all views, largest first."""
    wanted = [i for i, x in enumerate(candidates) if x.is_view or x.size >= 4096]
    return sorted(wanted, key=lambda i: -candidates[i].size)
