"""A cost of transfers: the network adds, so that a sum on all devices costs little."""

from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("sbp-cost", "adding-network")
def adding_network(transfer):
    """Bytes that devices send; sums are made on the way, once for all devices."""
    have, want, devices, size, is_elsewhere = transfer
    if is_elsewhere:
        return devices * size if want == "B" else size
    if have in ("B", want):
        return 0
    if have == "P":
        return size if want == "B" else size * (devices - 1) + size // devices
    return (devices - 1) * size if want == "B" else size - size // devices
