"""An importer: a list of layers in JSON, with random weights."""

import json
from itertools import pairwise

import numpy as np

from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("importer", "layers")
def layers(path):
    """Dense layers in a row, as {"rows": 4, "widths": [8, 16, 2]}."""
    spec = json.loads(path.read_text(encoding="utf-8"))
    (rows, first), widths = (spec["rows"], spec["widths"][0]), spec["widths"]
    text = [
        "job.job @layers placement <cpu, [0:0]> {",
        f'  %x0 = job.input "x" : tensor<{rows}x{first}xf32>',
    ]
    weights, random = {}, np.random.default_rng(spec.get("seed", 0))
    for i, (m, n) in enumerate(pairwise(widths)):
        weights[f"w{i}"] = random.normal(0, m**-0.5, (m, n)).astype(np.float32)
        a, w, b = (
            f"tensor<{rows}x{m}xf32>",
            f"tensor<{m}x{n}xf32>",
            f"tensor<{rows}x{n}xf32>",
        )
        text += [
            f'  %w{i} = job.variable "w{i}" init <zeros> : {w}',
            f"  %m{i} = op.matmul %x{i}, %w{i} : {a}, {w} -> {b}",
            f"  %x{i + 1} = op.relu %m{i} : {b} -> {b}",
        ]
    out = f"%x{len(widths) - 1} : tensor<{rows}x{widths[-1]}xf32>"
    return "\n".join([*text, f'  job.output "y", {out}', "}"]), weights
