"""A pipeline: the passes of `cpu`, and a check that no task waits for itself."""

from dataclasses import dataclass

from penstock.lowering.pipelines import CpuPipeline, Pipeline, call
from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("pipeline", "my-checked")
@dataclass(frozen=True)
class MyCheckedPipeline(Pipeline):
    """The passes of `cpu`, with a search for deadlocks in the plan."""

    name = "my-checked"

    threads: int = 1
    budget: int = 1000

    def passes(self):
        found = []
        for spec in CpuPipeline(threads=self.threads).passes():
            if spec.name == "convert-plan-to-launch":
                found.append(call("verify-deadlock", budget=self.budget))
            found.append(spec)
        return tuple(found)
