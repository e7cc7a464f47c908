"""A schedule: the inverse square root of the step."""

from dataclasses import dataclass

from penstock.dialects.op.training.schedules import Schedule
from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@dataclass(frozen=True, kw_only=True)
class InverseRoot(Schedule):
    """A rate that falls as the square root of the step grows."""

    def rate(self, o, step):
        return o.div(self.base, o.sqrt(o.add(step, 1)))


register("schedule", "inverse_root")(InverseRoot)
