"""
Predicted iterations of training on several ranks beside real ones: a cluster file is
measured for this machine, and `examples/ranks`, made larger, run in processes.

    python benchmarks/run.py --only predictions
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Section, Table
from penstock.dialects.plan import PlanOp
from penstock.lowering.analysis.cluster import parse_cluster
from penstock.lowering.analysis.cluster_run import Prediction, predict
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.reports.cluster import time_text
from penstock.tools.session.model import Model, lower
from penstock.tools.session.options import CompileOptions
from penstock.tools.session.session import Session

TEXT = """\
The first iteration of a plan on the virtual clock of `penstock-simulate` beside that of
real processes on this machine, the least of forty. The cluster file has what
this machine was measured to do just before: products of matrices of one rank, copies,
tasks, and messages of 8 bytes and 4 MiB there and back. More ranks than cores share
them. *Waits* is the share of time in which ranks compute nothing, as predicted and as
the time says that all products of matrices take: in a pipeline, its bubble.
"""

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "ranks"
RUNS = 40
WARM = 5

SIZES: Mapping[str, Mapping[str, str]] = {
    "data_parallel": {
        "rows": "256x512",
        "hidden": "256x1024",
        "scores": "256x128",
        "wide": "512x1024",
        "long": "1024",
        "tall": "1024x128",
    },
    "pipeline": {"batch": "512x512", "rows": "128x512", "square": "512x512"},
}
"""The types of an example, by their names, of such a size that tasks take a while."""

START = """
import sys
from penstock.tools.cli.start_ranks import start_ranks
sys.exit(start_ranks("benchmarks.predictions", sys.argv[1:2], int(sys.argv[2])))
"""

PING = """\
!t = tensor<{size}xf32>
job.job @ping placement <cpu, [0:0]> {{
  %x = job.input "x" : !t
  %y = op.relu %x {{placement = #job.placement<cpu, [1:0]>}} : !t -> !t
  %z = op.relu %y : !t -> !t
  job.output "z", %z : !t
}}
"""
"""A message to another rank, and one back."""

SMALL, LARGE = 2, 1 << 20
"""The elements of messages."""


def placed(name: str, ranks: int) -> str:
    """The text of an example for so many ranks, in its larger size."""
    text = (EXAMPLES / f"{name}.mlir").read_text()
    for alias, shape in SIZES[name].items():
        text, count = re.subn(
            rf"(!{alias} = tensor<)[\dx]+xf32", rf"\g<1>{shape}xf32", text
        )
        assert count == 1, f"{name} has a type {alias}"
    if name == "pipeline":
        return re.sub(
            r"\[(\d):0\]", lambda found: f"[{int(found[1]) * ranks // 4}:0]", text
        )
    devices = ", ".join(f"{rank}:0" for rank in range(ranks))
    return text.replace("[0:0, 1:0]", f"[{devices}]")


def least(session: Session, inputs: Mapping[str, NDArray[np.float32]]) -> float:
    """The seconds of the quickest run."""
    for _ in range(WARM):
        session.run(inputs)
    found = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        session.run(inputs)
        found = min(found, time.perf_counter() - start)
    return found


def inputs_of(session: Session) -> dict[str, NDArray[np.float32]]:
    """Random inputs of a model."""
    random = np.random.default_rng(1)
    return {
        name: random.uniform(-1, 1, port.shape).astype(np.float32)
        for name, port in session.inputs().items()
    }


def run_rank(folder: Path, ranks: int) -> None:
    """Run all models of a folder as one of its ranks; the first one writes times."""
    times: dict[str, float] = {}
    for path in sorted(folder.glob("*.mlir")):
        with Session.open(path, ranks=ranks) as session:
            times[path.stem] = least(session, inputs_of(session))
            is_first = session.ranks is not None and session.ranks.is_first
        if is_first:
            (folder / "times.json").write_text(json.dumps(times))


def on_ranks(texts: Mapping[str, str], ranks: int) -> dict[str, float]:
    """The seconds of an iteration of each model, in so many processes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for stem, text in texts.items():
            (folder / f"{stem}.mlir").write_text(text)
        (folder / "ranks").write_text(str(ranks))
        path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        subprocess.run(
            [sys.executable, "-P", "-c", START, folder, str(ranks)],
            check=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        return json.loads((folder / "times.json").read_text())


################################################################################
# This machine as a cluster                                                    #
################################################################################


def products(count: int, size: int) -> str:
    """A job of products of matrices, one after the other."""
    type = f"tensor<{size}x{size}xf32>"
    init = "init <xavier_uniform, seed = 1>"
    lines = [f'%y0 = job.input "x" : {type}', f'%w = job.variable "w" {init} : {type}']
    lines += [
        f"%y{i + 1} = op.matmul %y{i}, %w : {type}, {type} -> {type}"
        for i in range(count)
    ]
    lines.append(f'job.output "y", %y{count} : {type}')
    body = "\n".join(f"  {line}" for line in lines)
    return f"job.job @products placement <cpu, [0:0]> {{\n{body}\n}}\n"


def time_of_product(size: int, few: int = 2, many: int = 18) -> float:
    """The nanoseconds of a product, by what several more of them add."""
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        for count in (few, many):
            path = Path(name) / f"products{count}.mlir"
            path.write_text(products(count, size))
            with Session.open(path) as session:
                seconds.append(least(session, inputs_of(session)))
    return (seconds[1] - seconds[0]) / (many - few) * 1e9


def bytes_a_nanosecond() -> float:
    """The bytes that a copy in memory reads and writes in a nanosecond."""
    source = np.ones(1 << 23, np.float32)
    target = np.empty_like(source)
    found = float("inf")
    for _ in range(20):
        start = time.perf_counter_ns()
        np.copyto(target, source)
        found = min(found, time.perf_counter_ns() - start)
    return 2 * source.nbytes / found


def share_of_core(ranks: int) -> float:
    """The share of a core that each of so many ranks has."""
    return min(1.0, len(os.sched_getaffinity(0)) / ranks)


@dataclass(frozen=True)
class Rates:
    """Rates of this machine, as they were measured."""

    gflops: float
    gbytes: float
    task_ns: float
    link_gbytes: float
    latency_ns: float

    @classmethod
    def measured(cls) -> Rates:
        """Those of one rank, and of messages between two."""
        task = time_of_product(4)
        gflops = 2 * 512**3 / (time_of_product(512) - task)
        gbytes = bytes_a_nanosecond()
        pings = {f"ping{x}": PING.format(size=x) for x in (SMALL, LARGE)}
        found = on_ranks(pings, 2)
        small, large = (found[f"ping{x}"] * 1e9 for x in (SMALL, LARGE))
        # Two messages, and two ops that read and write as many bytes.
        size = 4 * LARGE
        message = (large - small) / 2 - 2 * size / gbytes
        latency = max(0.0, small / 2 - 3 * task)
        return cls(gflops, gbytes, task, size / max(message, 1.0), latency)

    def cluster(self, ranks: int) -> str:
        """The cluster file of so many ranks on this machine."""
        share = share_of_core(ranks)
        return (
            f"[devices.cpu]\ngflops = {self.gflops * share}\n"
            f"gbytes = {self.gbytes * share}\ntask_ns = {self.task_ns / share}\n"
            f"[nodes]\nranks = {ranks}\n"
            f"[links.inside]\ngbytes = {self.link_gbytes * share}\n"
            f"latency_ns = {self.latency_ns / share}\n"
        )


################################################################################
# Predictions beside runs                                                      #
################################################################################


def predicted(text: str, cluster: str) -> Prediction:
    """The prediction of one iteration of a job alone."""
    compiler, passes = installed_compiler()
    model = Model(compiler.parse(text.encode(), "job.mlir"), {}, Path())
    lower(compiler, passes, model, CompileOptions("cpu", 1), "memory")
    plans = [op for op in model.entries if isinstance(op, PlanOp)]
    return predict(plans, parse_cluster(cluster), 1)


@dataclass(frozen=True)
class Compared:
    """An example on some ranks, predicted and run."""

    name: str
    ranks: int
    prediction: Prediction
    seconds: float
    gflops: float
    """The rate of a rank."""

    @property
    def ratio(self) -> float:
        """The predicted time by the real one."""
        return self.prediction.first / (self.seconds * 1e9)

    @property
    def waits(self) -> float:
        """The share of the real time in which ranks do not compute."""
        flops = sum(device.flops for device in self.prediction.devices)
        return 1 - flops / self.gflops / self.ranks / (self.seconds * 1e9)

    @property
    def row(self) -> list[str]:
        """Its row of the table."""
        return [
            f"{self.name}, {self.ranks} ranks",
            time_text(self.prediction.first),
            time_text(self.seconds * 1e9),
            f"{self.ratio:.2f}",
            f"{self.prediction.bubble:.0%}",
            f"{self.waits:.0%}",
        ]


def predictions(counts: Sequence[int] = (2, 4)) -> Section:
    """Measure this machine, and compare predictions with runs on it."""
    rates = Rates.measured()
    found: list[Compared] = []
    for ranks in counts:
        cluster = rates.cluster(ranks)
        texts = {name: placed(name, ranks) for name in SIZES}
        times = on_ranks(texts, ranks)
        gflops = share_of_core(ranks) * rates.gflops
        found += [
            Compared(name, ranks, predicted(text, cluster), times[name], gflops)
            for name, text in texts.items()
        ]
    header = "example", "predicted", "real", "ratio", "waits, predicted", "waits, real"
    machine = [[key, f"{value:,.1f}"] for key, value in asdict(rates).items()]
    data = {
        "rates": asdict(rates),
        "examples": [
            {
                "name": x.name,
                "ranks": x.ranks,
                "predicted_ns": x.prediction.first,
                "real_ns": x.seconds * 1e9,
                "predicted_waits": x.prediction.bubble,
                "real_waits": x.waits,
            }
            for x in found
        ],
    }
    tables = [
        Table(("rate", "measured"), machine),
        Table(header, [x.row for x in found]),
    ]
    return Section("Predictions", TEXT, tables, data)


if __name__ == "__main__":
    own = Path(sys.argv[1])
    run_rank(own, int((own / "ranks").read_text()))
