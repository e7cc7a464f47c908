"""A stream policy: tasks take turns on the streams that they may have."""

from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("stream-policy", "round-robin")
def round_robin(request):
    """One stream after the other, whatever tasks read."""
    return [
        (task, job.lanes[task % len(job.lanes)])
        for task, job in enumerate(request.jobs)
    ]
