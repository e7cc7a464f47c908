"""An initialiser: normal numbers, none of which is far from zero."""

import numpy as np

from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("initialiser", "truncated_normal")
def truncated_normal(shape, generator, std=1.0, cut=2.0):
    """Normal numbers of `std`, drawn again beyond `cut` times that."""
    found = generator.normal(0.0, std, shape)
    while (far := np.abs(found) > cut * std).any():
        found[far] = generator.normal(0.0, std, far.sum())
    return found
