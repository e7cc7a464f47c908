"""
Data for training: sources of samples, and loaders that make batches of them.

    from penstock import data

    train = data.Loader(data.npz("train.npz"), 64, shuffle=True, seed=1, prefetch=2)
    for batch in train.epochs(10):
        loss = step(batch["x"], batch["y"])

    source              samples, by their numbers or one after the other
        |  Loader       order of an epoch, shard, batches, in a thread if asked for
        v
    batch               arrays by name, with a first axis for the samples
        |
    Loader.state()      the cursor, plain data for a checkpoint

A source is a plug-in, see `docs/plugins/data-source.md`.
"""

from penstock.tools.data.errors import DataError
from penstock.tools.data.loader import Loader
from penstock.tools.data.progress import progress
from penstock.tools.data.scalars import ScalarLog
from penstock.tools.data.sources import (
    arrays,
    images,
    iterator,
    npz,
    safetensors,
    source,
    text,
)
from penstock.tools.data.types import Samples, Source

__all__ = [
    "DataError",
    "Loader",
    "Samples",
    "ScalarLog",
    "Source",
    "arrays",
    "images",
    "iterator",
    "npz",
    "progress",
    "safetensors",
    "source",
    "text",
]
