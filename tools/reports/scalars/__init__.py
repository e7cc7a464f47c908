"""The page of a log of scalars: a curve of each over the steps of a training run."""
