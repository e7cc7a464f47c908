"""
Train a small GPT to write, one character after another, the pages of `docs`.

The model is a plain function. `penstock.value_and_grad` derives it, and
`penstock.optim.AdamW` updates its variables, all in one job; another job reads the same
variables for validation.

    python examples/train_gpt.py [steps]
"""

import sys
from pathlib import Path
from typing import Annotated
from zlib import crc32

import numpy as np

import penstock
from penstock import Tensor, ops, optim

WIDTH, HEADS, LAYERS, LENGTH, BATCH = 128, 4, 2, 64, 16
DOCS = Path(__file__).parents[1] / "docs"
TEXT = "".join(page.read_text() for page in sorted(DOCS.glob("*.md")))
CHARACTERS = sorted(set(TEXT))
Tokens = Annotated[Tensor, (BATCH, LENGTH), "i64"]


def weight(name, *shape):
    seed = crc32(name.encode())
    return penstock.variable(name, shape, init="normal", std=0.08, seed=seed)


def norm(x, name):
    scale = penstock.variable(f"{name}/scale", (WIDTH,), init="ones")
    return ops.layer_norm(x, scale, penstock.variable(f"{name}/bias", (WIDTH,)))


def heads(x):
    return x.reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)


def block(x, name):
    h = norm(x, f"{name}/norm1")
    q, k, v = (heads(h @ weight(f"{name}/{part}", WIDTH, WIDTH)) for part in "qkv")
    seen = ops.attention(q, k, v, causal=0, scale=(WIDTH // HEADS) ** -0.5)
    seen = seen.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH)
    x = x + seen @ weight(f"{name}/out", WIDTH, WIDTH)
    h = norm(x, f"{name}/norm2") @ weight(f"{name}/up", WIDTH, 4 * WIDTH)
    return x + ops.gelu(h) @ weight(f"{name}/down", 4 * WIDTH, WIDTH)


def loss_of(tokens, following):
    # The table of characters is also the last layer.
    table = weight("table", len(CHARACTERS), WIDTH)
    x = table[tokens] + weight("places", LENGTH, WIDTH)
    for layer in range(LAYERS):
        x = block(x, f"layer{layer}")
    return ops.cross_entropy(norm(x, "norm") @ table.T, following)


def main(steps=300):
    """Train, and return the mean loss of a character in text that was held back."""
    data = np.searchsorted(CHARACTERS, list(TEXT))
    split = len(data) * 9 // 10
    random = np.random.default_rng(0)
    optimizer = optim.AdamW(
        optim.cosine(3e-3, total=steps, warmup=min(20, steps // 4)),
        groups={"*norm*": {"weight_decay": 0.0}},
        clip_norm=1.0,
    )

    def batch(text):
        starts = random.integers(len(text) - LENGTH, size=(BATCH, 1))
        windows = text[starts + np.arange(LENGTH + 1)]
        return windows[:, :-1].copy(), windows[:, 1:].copy()

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
