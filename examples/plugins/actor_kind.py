"""A kind of actors: they deal pieces to several registers, or take them, by turns."""

from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("actor-kind", "by-turns")
def by_turns(request):
    """One register after the other, on the side where there are several."""
    reads, writes = request.reads, request.writes
    if len(reads) == 1:
        return [[*reads, each] for each in writes]
    return [[each, *writes] for each in reads]
