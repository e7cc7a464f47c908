"""
Figures of PyTorch that tests compare with, as no test needs PyTorch itself.

    python benchmarks/torch_figures.py

writes `test/unit/lowering/job/torch_figures.json` anew: the variables of 20 updates by
each optimizer, tables with their states by those that take rows, and the losses of 20
steps of small models, in f64 and in f32.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "test/helpers"))

from torch_models import (
    FIGURES,
    MODELS,
    RESNET,
    RESNET_STEPS,
    START,
    STEPS,
    TABLE,
    batch_of,
    gradient,
    rows_of,
    weights_of,
)


def optimizers() -> dict[str, list[float]]:
    """The variable after 20 updates by each optimizer."""
    torch: Any = import_module("torch")

    made: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
        "a": (torch.optim.SGD, {"lr": 1e-3}),
        "b": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.1}),
        "c": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
        "d": (
            torch.optim.SGD,
            {"lr": 1e-3, "momentum": 0.8, "dampening": 0.5, "weight_decay": 0.2},
        ),
        "e": (torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9, "nesterov": True}),
        "f": (torch.optim.Adam, {"lr": 0.01}),
        "g": (torch.optim.Adam, {"lr": 1e-3, "weight_decay": 0.1, "eps": 1e-4}),
        "h": (torch.optim.Adam, {"lr": 1e-3, "amsgrad": True, "betas": (0.9, 0.5)}),
        "i": (torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 0.01}),
        "j": (
            torch.optim.AdamW,
            {"lr": 1e-3, "weight_decay": 0.3, "betas": (0.8, 0.9)},
        ),
        "k": (torch.optim.RMSprop, {"lr": 0.01}),
        "l": (
            torch.optim.RMSprop,
            {
                "lr": 0.01,
                "momentum": 0.5,
                "centered": True,
                "alpha": 0.9,
                "eps": 0.01,
            },
        ),
        "m": (torch.optim.Adagrad, {"lr": 0.01}),
        "n": (
            torch.optim.Adagrad,
            {"lr": 0.01, "lr_decay": 0.1, "initial_accumulator_value": 0.5},
        ),
    }
    found: dict[str, list[float]] = {}
    for name, (kind, parameters) in made.items():
        w = torch.nn.Parameter(torch.tensor(START))
        optimizer = kind([w], **parameters)
        for step in range(1, STEPS + 1):
            w.grad = torch.tensor(gradient(step))
            optimizer.step()
        found[name] = w.detach().tolist()
    return found


def tables() -> dict[str, list[float]]:
    """A table and the states of its rows after 20 updates by gradients of rows."""
    torch: Any = import_module("torch")

    made: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
        "sparse_adam": (torch.optim.SparseAdam, {"lr": 0.1}),
        "sgd": (torch.optim.SGD, {"lr": 0.1}),
        "adagrad": (torch.optim.Adagrad, {"lr": 0.1}),
    }
    states = {"exp_avg": "m", "exp_avg_sq": "v", "sum": "sum"}
    found: dict[str, list[float]] = {}
    for name, (kind, parameters) in made.items():
        w = torch.nn.Parameter(torch.tensor(TABLE))
        optimizer = kind([w], **parameters)
        for step in range(1, STEPS + 1):
            indices, values = map(torch.tensor, rows_of(step))
            w.grad = torch.sparse_coo_tensor(indices[None], values, w.shape)
            optimizer.step()
        found[name] = w.detach().flatten().tolist()
        for key, state in optimizer.state[w].items():
            if key in states:
                kept = f"{name}/{name}/{states[key]}"
                found[kept] = state.flatten().tolist()
    return found


def losses(model: str, type_name: str) -> list[float]:
    """The losses of 20 steps of a model."""
    torch: Any = import_module("torch")
    f: Any = torch.nn.functional

    dtype = getattr(torch, type_name)
    w = {
        name: torch.nn.Parameter(torch.tensor(value, dtype=dtype))
        for name, value in weights_of(model).items()
    }

    def mlp(x: Any) -> Any:
        return torch.tanh(x @ w["w1"] + w["b1"]) @ w["w2"] + w["b2"]

    def cnn(x: Any) -> Any:
        h = f.conv2d(x, w["c1"], padding=1)
        h = f.batch_norm(h, None, None, w["scale"], w["shift"], training=True)
        h = f.max_pool2d(torch.relu(h), 2)
        h = torch.relu(f.conv2d(h, w["c2"], stride=2, padding=1))
        return h.reshape(4, 32) @ w["f"] + w["fb"]

    def gpt(x: Any) -> Any:
        h = w["table"][x] + w["places"]
        for a in "ab":
            n = f.layer_norm(h, (8,), w[a + "s1"], w[a + "h1"])
            q, k, v = (
                (n @ w[a + part]).reshape(2, 8, 2, 4).transpose(1, 2) for part in "qkv"
            )
            seen = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + seen.transpose(1, 2).reshape(2, 8, 8) @ w[a + "o"]
            n = f.layer_norm(h, (8,), w[a + "s2"], w[a + "h2"])
            h = h + f.gelu(n @ w[a + "up"] + w[a + "upb"]) @ w[a + "down"]
        return h @ w["table"].T

    def lstm(x: Any) -> Any:
        h = c = torch.zeros(4, 8, dtype=dtype)
        made: list[Any] = []
        for gates in w["by_input"][x] + w["bias"]:
            i, g, o, z = torch.chunk(gates + h @ w["by_state"], 4, dim=1)
            c = torch.sigmoid(g) * c + torch.sigmoid(i) * torch.tanh(z)
            h = torch.sigmoid(o) * torch.tanh(c)
            made.append(h)
        return torch.stack(made) @ w["out"]

    networks: dict[str, Callable[[Any], Any]] = {
        "mlp": mlp,
        "cnn": cnn,
        "gpt": gpt,
        "lstm": lstm,
    }
    network = networks.get(model, lambda x: RESNET["torch_scores"](w, x))
    optimizers: dict[str, Callable[[Any], Any]] = {
        "mlp": lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.01),
        "cnn": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
        "gpt": lambda p: torch.optim.Adam(p, lr=0.01),
        "lstm": lambda p: torch.optim.RMSprop(p, lr=0.01),
        "resnet18": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    }
    optimizer = optimizers[model](list(w.values()))
    found: list[float] = []
    for step in range(RESNET_STEPS if model == "resnet18" else STEPS):
        x, labels = map(torch.tensor, batch_of(model, step))
        scores = network(x if x.dtype == torch.int64 else x.to(dtype))
        loss = f.cross_entropy(scores.flatten(0, -2), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        if model == "gpt":
            torch.nn.utils.clip_grad_norm_(w.values(), 1.0)
        optimizer.step()
        found.append(loss.item())
    return found


def main() -> None:
    """Write all figures."""
    torch: Any = import_module("torch")

    torch.set_num_threads(1)
    made = {
        "torch": torch.__version__,
        "optimizers": optimizers(),
        "tables": tables(),
        "losses": {
            model: {name: losses(model, name) for name in ("float64", "float32")}
            for model in MODELS
        },
    }
    FIGURES.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
