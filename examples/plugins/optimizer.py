"""An optimizer: steps of the sign of a momentum, as Lion takes them."""

from dataclasses import dataclass

from penstock.dialects.op.training.optimizers import Optimizer
from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@dataclass(frozen=True, kw_only=True)
class Lion(Optimizer):
    """The sign of a mean of the momentum and the gradient."""

    rate: float = 1.0e-4
    beta1: float = 0.9
    beta2: float = 0.99

    def states(self):
        return {"m": 0.0}

    def rule(self, o, w, g, states, scalars):
        (m,), (rate,) = states, scalars
        mean = o.add(o.mul(m, self.beta1), o.mul(g, 1 - self.beta1))
        signs = o.greater(mean, 0), o.greater(0, mean)
        sign = o.sub(*(o.cast(x, o.element(w)) for x in signs))
        step = o.add(sign, o.mul(w, self.weight_decay))
        new = o.add(o.mul(m, self.beta2), o.mul(g, 1 - self.beta2))
        return [o.sub(w, o.mul(step, rate)), new]


register("optimizer", "lion")(Lion)
