"""
Transformers on clusters that are simulated: how long their plans take to make, and
what an iteration is predicted to take.

    python benchmarks/run.py --only clusters
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.report import Section, Table
from benchmarks.scaling import exponent
from penstock.dialects.plan import PlanOp
from penstock.lowering.analysis.cluster import parse_cluster
from penstock.lowering.analysis.cluster_run import predict
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.reports.cluster import time_text
from penstock.tools.session.model import Model, lower
from penstock.tools.session.options import CompileOptions

TEXT = """\
Training steps of transformers with the sizes of GPT-3 (12,288 wide, 96 heads, 2,048
tokens), whose layers are dealt to stages and split over the devices of each. A device
is a rank, and collectives are done as such (`--collectives ring`). *Plan* is the time
from text to the places of bytes on all ranks, by one process; *predict* that of four
iterations on the virtual clock. `exponent` is that of the growth of both with the
number of tasks, from the row before. Nothing is computed, so no kernels are made. The
second table has the passes that take most of the time of the last plan.
"""

CLUSTER = """\
[devices.cpu]
gflops = 19500
gbytes = 1555
task_ns = 4000

[nodes]
ranks = 8

[links.inside]
gbytes = 300
latency_ns = 2000
topology = "switch"

[links.between]
gbytes = 200
latency_ns = 5000
topology = "switch"
"""
"""Accelerators with the rates of an A100 for f32, eight to a node."""

ITERATIONS = 4


@dataclass(frozen=True)
class Transformer:
    """A training step of layers over stages, each of which splits its layers."""

    layers: int
    stages: int
    shards: int
    """The devices of a stage."""
    width: int = 12288
    heads: int = 96
    tokens: int = 2048
    _lines: list[str] = field(default_factory=list[str], repr=False)
    _weights: list[tuple[str, str]] = field(
        default_factory=list[tuple[str, str]], repr=False
    )

    @property
    def devices(self) -> int:
        """The number of devices of all stages."""
        return self.stages * self.shards

    def __str__(self) -> str:
        self._lines.clear()
        self._weights.clear()
        last = self.stages - 1
        tokens = self._type(self.tokens, self.width)
        self._put("x", f'job.input "x" {self._at(0, "B")} : {tokens}')
        self._put("t", f'job.input "t" {self._at(last, "B")} : {tokens}')
        value = "x"
        for layer in range(self.layers):
            value = self._layer(layer, value)
        self._op("d", f"op.sub %{value}, %t", last, "B", [tokens] * 2, tokens)
        self._op("e", "op.mul %d, %d", last, "B", [tokens] * 2, tokens)
        mean = "op.reduce_mean %e axes [0, 1]"
        self._op("loss", mean, last, "B", [tokens], "tensor<f32>")
        self._put("rate", "op.constant dense<0.1> : tensor<f32>")
        names = ", ".join(f"%{name}" for name, _ in self._weights)
        gradients = ", ".join(f"%d_{name}" for name, _ in self._weights)
        types = ", ".join(["tensor<f32>", *(type for _, type in self._weights)])
        lines = [
            f"{gradients} = job.gradients of %loss by {names} : {types}",
            *(
                f"job.update %{name} by %d_{name} with <sgd> rate %rate : {type}"
                for name, type in self._weights
            ),
            f'job.output "loss", %loss {{{self._place(last)}}} : tensor<f32>',
        ]
        body = "\n".join(f"  {line}" for line in [*self._lines, *lines])
        first = (
            self._place(0).partition("#job.")[2].replace("placement<", "placement <")
        )
        return f"job.job @transformer {first} {{\n{body}\n}}\n"

    def _layer(self, layer: int, x: str) -> str:
        """Attention and a network of two products, each with its sum."""
        stage, size = layer * self.stages // self.layers, self.width // self.heads
        n, h = self.tokens, self.heads
        whole, wide = self._type(n, self.width), self._type(n, 4 * self.width)
        cut, turned = self._type(n, h, size), self._type(h, n, size)
        scores, square = self._type(h, n, n), self._type(self.width, self.width)
        row = self._type(self.width)

        def op(name: str, text: str, sbp: str, ins: list[str], out: str) -> str:
            own = f"{name}_{layer}"
            return self._op(own, text, stage, sbp, ins, out)

        def weight(name: str, sbp: str, *shape: int) -> str:
            own, type = f"{name}_{layer}", self._type(*shape)
            text = f'job.variable "{own}" init <zeros> {self._at(stage, sbp)} : {type}'
            self._weights.append((own, type))
            return self._put(own, text)

        scale, shift = (
            weight("scale", "B", self.width),
            weight("shift", "B", self.width),
        )
        text = f"op.layer_norm %{x}, %{scale}, %{shift} axis 1"
        y = op("norm", text, "B", [whole, row, row], whole)
        heads: list[str] = []
        for c in "qkv":
            w = weight(f"w{c}", "S(1)", self.width, self.width)
            a = op(f"{c}0", f"op.matmul %{y}, %{w}", "S(1)", [whole, square], whole)
            text = f"op.reshape %{a} to [{n}, {h}, {size}]"
            b = op(f"{c}1", text, "S(1)", [whole], cut)
            text = f"op.transpose %{b} by [1, 0, 2]"
            heads.append(op(c, text, "S(0)", [cut], turned))
        q, k, v = heads
        text = f"op.matmul %{q}, %{k} transpose_b"
        s = op("s", text, "S(0)", [turned, turned], scores)
        p = op("p", f"op.softmax %{s} axis 2", "S(0)", [scores], scores)
        a = op("a0", f"op.matmul %{p}, %{v}", "S(0)", [scores, turned], turned)
        a = op("a1", f"op.transpose %{a} by [1, 0, 2]", "S(1)", [turned], cut)
        text = f"op.reshape %{a} to [{n}, {self.width}]"
        a = op("a2", text, "S(1)", [cut], whole)
        w = weight("wo", "S(0)", self.width, self.width)
        a = op("a3", f"op.matmul %{a}, %{w}", "P", [whole, square], whole)
        r = op("r", f"op.add %{x}, %{a}", "B", [whole, whole], whole)
        up, down = (self.width, 4 * self.width), (4 * self.width, self.width)
        w = weight("up", "S(1)", *up)
        f = op("f0", f"op.matmul %{r}, %{w}", "S(1)", [whole, self._type(*up)], wide)
        f = op("f1", f"op.gelu %{f}", "S(1)", [wide], wide)
        w = weight("down", "S(0)", *down)
        f = op("f2", f"op.matmul %{f}, %{w}", "P", [wide, self._type(*down)], whole)
        return op("z", f"op.add %{r}, %{f}", "B", [whole, whole], whole)

    def _op(
        self, name: str, text: str, stage: int, sbp: str, ins: list[str], out: str
    ) -> str:
        types = f"{', '.join(ins)} -> {out}"
        return self._put(name, f"{text} {self._at(stage, sbp)} : {types}")

    def _put(self, name: str, text: str) -> str:
        self._lines.append(f"%{name} = {text}")
        return name

    def _at(self, stage: int, sbp: str) -> str:
        return f"{{{self._place(stage)}, sbp = #job.sbp<{sbp}>}}"

    def _place(self, stage: int) -> str:
        first = stage * self.shards
        ranks = ", ".join(f"{first + i}:0" for i in range(self.shards))
        return f"placement = #job.placement<cpu, [{ranks}]>"

    @staticmethod
    def _type(*shape: int) -> str:
        return f"tensor<{'x'.join(map(str, shape))}xf32>"


SIZES = (
    Transformer(2, 2, 2),
    Transformer(8, 4, 4),
    Transformer(24, 4, 8),
    Transformer(96, 8, 8),
)
"""The last one is GPT-3 with all of its layers."""


@dataclass(frozen=True)
class Found:
    """The seconds of a plan and its prediction, and what is predicted."""

    model: Transformer
    tasks: int
    plan: float
    simulation: float
    iteration_ns: float
    spent: Sequence[tuple[str, float]]
    """The seconds of each pass, longest first."""


def found_of(model: Transformer) -> Found:
    """Plan a transformer and predict an iteration."""
    front = installed_compiler()
    start = time.perf_counter()
    module = front[0].parse(str(model).encode(), "transformer.mlir")
    compiled = Model(module, {}, Path())
    options = CompileOptions(collectives="ring")
    lower(*front, compiled, options, "memory")
    plans = [op for op in compiled.entries if isinstance(op, PlanOp)]
    middle = time.perf_counter()
    run = predict(plans, parse_cluster(CLUSTER), ITERATIONS)
    end = time.perf_counter()
    spent = front[0].times.by_name()
    return Found(model, run.tasks, middle - start, end - middle, run.iteration, spent)


def rows_of(found: list[Found]) -> Iterator[list[str]]:
    """A row for each size."""
    for i, one in enumerate(found):
        growth = [""] * 2
        if i:
            pair = found[i - 1 : i + 1]
            tasks = [x.tasks for x in pair]
            growth = [
                f"{exponent(tasks, times):.2f}"
                for times in ([x.plan for x in pair], [x.simulation for x in pair])
            ]
        yield [
            f"{one.model.layers} layers, {one.model.devices} devices",
            f"{one.tasks:,}",
            f"{one.plan:.1f} s",
            growth[0],
            f"{one.simulation:.1f} s",
            growth[1],
            time_text(one.iteration_ns),
        ]


def passes_of(found: Found) -> list[list[str]]:
    """A row for each pass that takes a fiftieth of a plan."""
    return [
        [name, f"{seconds:.1f} s", f"{seconds / found.plan:.0%}"]
        for name, seconds in found.spent
        if seconds >= found.plan / 50
    ]


def clusters() -> Section:
    """Plan and predict transformers of several sizes."""
    found = [found_of(model) for model in SIZES]
    header = "model", "tasks", "plan", "exponent", "predict", "exponent", "iteration"
    data = [
        {
            "layers": x.model.layers,
            "devices": x.model.devices,
            "tasks": x.tasks,
            "plan_seconds": x.plan,
            "predict_seconds": x.simulation,
            "iteration_ns": x.iteration_ns,
            "passes": [[name, seconds] for name, seconds in x.spent],
        }
        for x in found
    ]
    passes = Table(("pass, of the last row", "time", "share"), passes_of(found[-1]))
    return Section(
        "Clusters", TEXT, [Table(header, list(rows_of(found))), passes], data
    )
