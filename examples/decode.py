"""
A greedy decoder: each step takes the token that is most likely after the last one,
until that is the stop token, or there are 20.

The weights are random. All steps are one `op.loop` with a condition and a maximum: the
job is compiled once, whatever the number of steps is.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

import penstock
from penstock import Tensor

TOKENS, SIZE, MOST = 12, 16, 20
START, STOP = 0, 1

State = Annotated[Tensor, (SIZE,), "f32"]


def weights(seed: int) -> dict[str, Any]:
    """Random weights: of tokens, of states, and of both ways between them."""
    random = np.random.default_rng(seed)
    shapes = {"embed": (TOKENS, SIZE), "w": (SIZE, SIZE), "out": (SIZE, TOKENS)}
    return {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def decoder(values: dict[str, Any]) -> Any:
    """The job of a decoder with these weights."""

    @penstock.job
    def decode(state: State):
        embed, w, out = (values[name] for name in ("embed", "w", "out"))

        def step(carry: Any, _: Any) -> Any:
            state, token = carry
            chosen = penstock.ops.cast(np.arange(TOKENS) == token, "f32")
            state = penstock.ops.tanh(state @ w + chosen @ embed)
            token = penstock.ops.arg_max(state @ out, axis=0)[0]
            return (state, token), token

        def is_going(carry: Any) -> Any:
            return carry[1] != STOP

        first = state, np.asarray(START)
        (_, last), tokens = penstock.ops.loop(step, first, times=MOST, going=is_going)
        return {"tokens": tokens, "stopped": last == STOP}

    return decode


def decoded(values: dict[str, Any], state: Any) -> list[int]:
    """The same tokens, by NumPy."""
    token, tokens = START, list[int]()
    while token != STOP and len(tokens) < MOST:
        state = np.tanh(state @ values["w"] + values["embed"][token])
        token = int(np.argmax(state @ values["out"]))
        tokens.append(token)
    return tokens


def main() -> None:
    """Decode from some states, and compare."""
    values, random = weights(21), np.random.default_rng(7)
    job = decoder(values)
    for _ in range(4):
        state = random.standard_normal(SIZE).astype(np.float32)
        found, wanted = job(state), decoded(values, state)
        assert [*found["tokens"][: len(wanted)]] == wanted
        assert bool(found["stopped"]) == (wanted[-1] == STOP)
        print(len(wanted), "tokens:", *wanted)


if __name__ == "__main__":
    main()
