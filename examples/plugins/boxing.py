"""A way of boxings: sums go by way of splits, one dimension of devices at a time."""

from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("boxing", "scatter-gather")
def scatter_gather(request):
    """Each device adds its share of a sum, and then all shares are gathered."""
    lies, way, cut = list(request.have), [], []
    for dim, pair in enumerate(zip(request.have, request.want, strict=True)):
        for axis in range(len(request.shape)) if pair == ("P", "B") else ():
            shares = [*lies[:dim], f"S({axis})", *lies[dim + 1 :]]
            if request.misfit(shares) is None:
                lies = shares
                way.append(tuple(lies))
                cut.append(dim)
                break
    for dim in reversed(cut):
        lies[dim] = "B"
        way.append(tuple(lies))
    return way if way and way[-1] != request.want else way[:-1]
