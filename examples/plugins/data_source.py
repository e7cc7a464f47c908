"""A data source: records of one size in a file, each a label and pixels."""

import numpy as np

from penstock import data
from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


class Records(data.Source):
    """Records of a file, which is read where a batch needs it."""

    def __init__(self, path, pixels):
        self._records = np.memmap(path, np.uint8, "r").reshape(-1, 1 + pixels)

    def __len__(self):
        return len(self._records)

    def read(self, numbers):
        rows = self._records[numbers]
        return {"label": rows[:, 0].astype(np.int64), "pixels": rows[:, 1:]}


@register("data-source", "records")
def records(path, pixels=3072):
    """The records of a file: a byte for the label, then so many pixels."""
    return Records(path, pixels)
