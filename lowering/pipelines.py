"""The standard pipelines: the passes that `penstock-opt --pipeline NAME` runs."""

PIPELINES: dict[str, str] = {}
