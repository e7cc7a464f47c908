"""SBP candidates: weights are split by columns, so that each device has a share."""

from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("sbp-candidates", "split-weights")
def split_weights(request):
    """Variables split along their last axis, where they have two; all else as it is."""
    numbers = list(range(len(request.signatures)))
    if request.op == "job.variable" and len(request.results[0]) == 2:
        numbers.sort(key=lambda i: request.signatures[i].results != ("S(1)",))
    return numbers
