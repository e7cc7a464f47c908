"""
Train an LSTM to write, one character after another, the pages of `docs`.

Its steps are a loop in the job, and so are those of its gradient: the time to compile
does not depend on the length of the text.

    python examples/train_lstm.py [steps]
"""

import sys
from pathlib import Path
from typing import Annotated
from zlib import crc32

import numpy as np

import penstock
from penstock import Tensor, ops, optim

WIDTH, LENGTH, BATCH = 128, 50, 32
DOCS = Path(__file__).parents[1] / "docs"
TEXT = "".join(page.read_text() for page in sorted(DOCS.glob("*.md")))
CHARACTERS = sorted(set(TEXT))
Tokens = Annotated[Tensor, (LENGTH, BATCH), "i64"]


def weight(name, *shape):
    seed = crc32(name.encode())
    return penstock.variable(name, shape, init="normal", std=0.08, seed=seed)


def loss_of(tokens, following):
    by_input = weight("by_input", len(CHARACTERS), 4 * WIDTH)
    by_state = weight("by_state", WIDTH, 4 * WIDTH)
    bias = penstock.variable("bias", (4 * WIDTH,))

    def cell(state, gates):
        h, c = state
        i, f, o, g = np.split(gates + h @ by_state, 4, axis=1)
        c = ops.sigmoid(f + 1) * c + ops.sigmoid(i) * np.tanh(g)
        h = ops.sigmoid(o) * np.tanh(c)
        return (h, c), h

    zero = np.zeros((BATCH, WIDTH), np.float32)
    _, hidden = ops.loop(cell, (zero, zero), by_input[tokens] + bias)
    scores = hidden @ weight("out", WIDTH, len(CHARACTERS))
    return ops.cross_entropy(scores, following)


def main(steps=300):
    """Train, and return the mean loss of a character in text that was held back."""
    data = np.searchsorted(CHARACTERS, list(TEXT))
    split = len(data) * 9 // 10
    random = np.random.default_rng(0)
    optimizer = optim.Adam(optim.cosine(1e-2, total=steps), clip_norm=1.0)

    def batch(text):
        starts = random.integers(len(text) - LENGTH, size=BATCH)
        windows = text[starts + np.arange(LENGTH + 1)[:, None]]
        return windows[:-1].copy(), windows[1:].copy()

    with penstock.Session():

        @penstock.job
        def train(tokens: Tokens, following: Tokens):
            loss, gradients = penstock.value_and_grad(loss_of)(tokens, following)
            optimizer.update(gradients)
            return loss

        @penstock.job
        def validate(tokens: Tokens, following: Tokens):
            return loss_of(tokens, following)

        for step in range(steps):
            loss = train(*batch(data[:split]))
            if (step + 1) % 50 == 0:
                print(f"step {step + 1}: loss {loss:.2f}")
        held = float(np.mean([validate(*batch(data[split:])) for _ in range(20)]))
    print(f"held back: {held:.2f} a character; by chance {np.log(len(CHARACTERS)):.2f}")
    return held


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
