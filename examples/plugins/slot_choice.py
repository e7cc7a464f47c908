"""A choice of slots: two for each register that may have them."""

from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("slot-choice", "double-buffer")
def double_buffer(request):
    """Two slots, so that one is written while the other one is read."""
    return [2 if queue.fixed is None else queue.fixed for queue in request.queues]
