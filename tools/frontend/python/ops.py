"""
The ops of the `op` dialect as functions: `penstock.ops.softmax(x, axis=1)`.

They are made from the definitions of the ops, see `calls`; `help(penstock.ops.softmax)`
shows what an op does, `dir(penstock.ops)` which there are. Those with bodies take
functions: `penstock.ops.loop(body, carry, slices)`, `penstock.ops.while_loop` and
`penstock.ops.cond`. Functions of several ops are the losses,
`penstock.ops.cross_entropy`, `binary_cross_entropy`, `squared_error`, `absolute_error`
and `huber`, and `conv2d_transposed`.
"""

from __future__ import annotations

from penstock.tools.frontend.python.bodies import cond as cond
from penstock.tools.frontend.python.bodies import loop as loop
from penstock.tools.frontend.python.bodies import while_loop as while_loop
from penstock.tools.frontend.python.calls import OpFunction, functions_of
from penstock.tools.frontend.python.convolutions import (
    conv2d_transposed as conv2d_transposed,
)
from penstock.tools.frontend.python.losses import absolute_error as absolute_error
from penstock.tools.frontend.python.losses import (
    binary_cross_entropy as binary_cross_entropy,
)
from penstock.tools.frontend.python.losses import cross_entropy as cross_entropy
from penstock.tools.frontend.python.losses import huber as huber
from penstock.tools.frontend.python.losses import squared_error as squared_error

COMPOSED = (
    *("absolute_error", "binary_cross_entropy", "conv2d_transposed", "cross_entropy"),
    *("huber", "squared_error"),
)


def __getattr__(name: str) -> OpFunction:
    if name.startswith("__") or name not in (known := functions_of("op")):
        raise AttributeError(f"the op dialect has no op '{name}' on tensors")
    return known[name]


def __dir__() -> list[str]:
    return sorted([*functions_of("op"), *COMPOSED, "cond", "loop", "while_loop"])
