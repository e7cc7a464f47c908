"""Tuning a model: what is measured, kept, chosen, and told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block, Dialect, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from penstock import plugins
from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.launch import KernelOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import TaskOp
from penstock.dialects.utils.tensors import element_count, tensor_type
from penstock.lowering.analysis.constant_arguments import called_kernels
from penstock.lowering.codegen.cpu.vector_width import vector_bytes_here
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.kernel_times.database import Entry, KernelDatabase, Time
from penstock.lowering.kernel_times.keys import Key
from penstock.lowering.launch.autotune import registry
from penstock.lowering.launch.autotune.alternatives import (
    Alternative,
    Request,
    Variant,
)
from penstock.lowering.launch.autotune.choice import WORTH
from penstock.lowering.launch.autotune.contractions import schedule
from penstock.lowering.pipelines import (
    PipelineOptions,
    job_passes,
    kernel_passes,
    pipeline,
    plan_passes,
    timing,
)
from penstock.plugins import PluginError, register
from penstock.runtime.jit.cpu import CompiledKernel
from penstock.runtime.observe.kernel_timer import Contender
from penstock.runtime.observe.timing_rounds import (
    Array,
    Effort,
    Result,
    relative_error,
)
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.pipeline_edits import Edit
from penstock.tools.driver.plugins import unload
from penstock.tools.session import tuning as tuning_module
from penstock.tools.session.options import CompileOptions
from penstock.tools.session.session import KERNELS, Model, Session
from penstock.tools.session.tuning import (
    MOST_CANDIDATES,
    Subject,
    Tuning,
    confirmed,
    problem_lines,
    tune,
    tuning_lines,
    usable,
)

ADDERS = Path(__file__).parents[3] / "plugin" / "Inputs" / "adders.py"
EFFORT = Effort(warm_up=2, rounds=15, seconds=5)

SUM = """
job.job @sum placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<64xf32>
  %y = job.input "y" : tensor<64xf32>
  %s = op.add %x, %y {in_place = [#op.hint<never over 0>, #op.hint<never over 1>]}
    : tensor<64xf32>, tensor<64xf32> -> tensor<64xf32>
  job.output "s", %s : tensor<64xf32>
}
"""
"""A sum that lies over no operand, so that its kernel has three arguments."""

PRODUCT = """
job.job @product placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<24x40xf32>
  %w = job.variable "w" init <he_normal, seed = 7> : tensor<40x48xf32>
  %h = op.matmul %x, %w : tensor<24x40xf32>, tensor<40x48xf32> -> tensor<24x48xf32>
  %r = op.relu %h : tensor<24x48xf32> -> tensor<24x48xf32>
  job.output "y", %r : tensor<24x48xf32>
}
"""


@pytest.fixture
def adders() -> Iterator[None]:
    """Alternatives for sums, for one test."""
    _ = installed_compiler([str(ADDERS)])
    yield
    unload()


def model_of(text: str) -> Model:
    """A model of a text."""
    compiler, _ = installed_compiler()
    module = compiler.parse(text.encode(), "model.mlir")
    compiler.verify(module)
    return Model(module, {}, Path())


def tuned(
    text: str, path: Path, threads: int = 1, most: int = MOST_CANDIDATES
) -> list[Subject]:
    """Measure what the kernels of a model take."""
    tuning = Tuning(
        CompileOptions(threads=threads, database=path), most=most, effort=EFFORT
    )
    return tune(installed_compiler(), model_of(text), tuning)


def entries_of(path: Path) -> list[Entry]:
    """The rows of kernels in a database."""
    with KernelDatabase(path) as database:
        return [entry for entry in database.entries() if entry.op != "task"]


def selected(session: Session) -> list[str]:
    """The selection for each kernel of a session, with the reasons."""
    ops = session.program.body.block.ops
    kernels = [op for op in ops if isinstance(op, KernelOp)]
    texts = [kernel.attributes["selected"] for kernel in kernels]
    return [str(text).strip('"') for text in texts]


# What is chosen -----------------------------------------------------------------------


@pytest.mark.usefixtures("adders")
def test_the_measured_best_is_chosen(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    with Session(model_of(SUM)) as session:
        assert selected(session) == ["adders-slow: priority 10, rules has 0"]
    (subject,) = tuned(SUM, path)
    times = {entry.alternative: entry.time.median_ns for entry in entries_of(path)}
    assert times == subject.times
    assert {*times} == {"adders-slow", "adders-fast", "rules"}
    assert times["adders-slow"] > 20 * times["adders-fast"]
    least = min(times.values())
    with Session(model_of(SUM), kernels=path) as session:
        (text,) = selected(session)
        best, _, reason = text.partition(": ")
        # Two may take the same time.
        assert times[best] == least
        assert reason.startswith(f"{least:.0f} ns measured, adders-slow ")
        x, y = np.random.default_rng(5).normal(size=(2, 64)).astype(np.float32)
        np.testing.assert_array_equal(session.run({"x": x, "y": y})["s"], x + y)


def test_times_of_an_alternative_are_those_of_its_code(tmp_path: Path) -> None:
    path, file = tmp_path / "kernels.db", tmp_path / "adders.py"
    text = ADDERS.read_text(encoding="utf-8")
    try:
        file.write_text(text, encoding="utf-8")
        _ = installed_compiler([str(file)])
        tuned(SUM, path)
        kept = {entry.alternative: entry.time.source for entry in entries_of(path)}
        assert kept.pop("rules") == "penstock"
        assert all(source.startswith("adders.py ") for source in kept.values())
        # A line of it changes: nothing is known of it any more.
        file.write_text(f"{text}\n# changed\n", encoding="utf-8")
        _ = installed_compiler([str(file)])
        with Session(model_of(SUM), kernels=path) as session:
            (chosen,) = selected(session)
            assert chosen.startswith("rules: ")
            assert chosen.endswith(" ns measured, nothing else was")
        (subject,) = tuned(SUM, path)
        assert {*subject.times} == {"adders-slow", "adders-fast", "rules"}
        now = {entry.alternative: entry.time.source for entry in entries_of(path)}
        assert all(now[name] != source for name, source in kept.items())
    finally:
        unload()


@pytest.mark.usefixtures("adders")
def test_what_computes_something_else_is_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    subjects = tuned(SUM, path)
    assert [*subjects[0].problems] == ["adders-wrong"]
    assert problem_lines(subjects) == [
        "kernel @add_0: adders-wrong is left out: "
        + subjects[0].problems["adders-wrong"]
    ]
    assert "argument 2 differs by" in subjects[0].problems["adders-wrong"]
    *_, last = tuning_lines(subjects)
    assert last.startswith("tuned 1 of 1 kernels: ")
    assert last.endswith(" us, 1 candidates left out")
    assert "adders-wrong" not in {entry.alternative for entry in entries_of(path)}


CHAIN = """
job.job @chain placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<64xf32>
  %a = op.exp %x : tensor<64xf32> -> tensor<64xf32>
  %y = op.neg %a : tensor<64xf32> -> tensor<64xf32>
  job.output "y", %y : tensor<64xf32>
}
"""


def test_kernels_of_an_edited_pipeline_are_measured(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    edits = (Edit("skip", "op-fuse-elementwise"),)
    asked = CompileOptions(database=path, pipeline="cpu{threads=2}", edits=edits)
    subjects = tune(installed_compiler(), model_of(CHAIN), Tuning(asked, effort=EFFORT))
    assert len(subjects) == 2
    # They are those that it runs.
    with Session(model_of(CHAIN), asked) as session:
        assert all(
            " ns measured" in text or "rules" in text for text in selected(session)
        )
        assert len(selected(session)) == 2


def test_a_pipeline_without_tasks_to_measure_is_refused(tmp_path: Path) -> None:
    edits = (Edit("skip", "launch-select-kernels"),)
    asked = CompileOptions(database=tmp_path / "kernels.db", edits=edits)
    message = (
        "--tune measures what the pass launch-select-kernels is given, but the "
        "pipeline has no such pass"
    )
    with pytest.raises(UsageError, match=message):
        tune(installed_compiler(), model_of(CHAIN), Tuning(asked))


@pytest.mark.slow
def test_schedules_of_a_product_are_measured_and_right(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    (subject,) = tuned(PRODUCT, path)
    assert subject.problems == {}
    assert len(subject.times) >= 8
    assert any(name.startswith("tiles <outer") for name in subject.times)
    times = subject.times
    best = min(times, key=lambda name: times[name])
    expected = "rules" if times[best] > WORTH * times["rules"] else best
    x = np.random.default_rng(3).normal(size=(24, 40)).astype(np.float32)
    with Session(model_of(PRODUCT)) as session:
        plain = session.run({"x": x})["y"]
    with Session(model_of(PRODUCT), kernels=path) as session:
        (text,) = selected(session)
        assert text.startswith(f"{expected}: ")
        assert relative_error(session.run({"x": x})["y"], plain) < 1e-5


def test_what_was_fastest_by_chance_is_found_out() -> None:
    """
    A candidate that had luck once is measured again, and so is the fastest one then.
    """
    truth = {"rules": 100.0, "a": 105.0, "b": 120.0, "c": 125.0, "d": 90.0}
    lucky = {**truth, "a": 70.0, "b": 80.0, "c": 85.0, "d": 91.0}
    kernel = CompiledKernel("k", 0, 1, False)
    contenders = [Contender(name, kernel, []) for name in truth]
    asked: list[list[str]] = []

    def times_of(some: Sequence[Contender], seed: int) -> list[Result]:
        names = [contender.name for contender in some]
        asked.append(names)
        return [Result(name, [truth[name]]) for name in names]

    first = [Result(name, [time]) for name, time in lucky.items()]
    found = confirmed(contenders, first, times_of)
    assert {result.name: result.median_ns for result in found} == truth
    # "d", which nobody looked at before, is the fastest after the first final.
    assert asked[0] == ["rules", "a", "b", "c"]
    assert asked[1] == ["rules", "a", "d"]
    assert len(asked) == 2


def test_nothing_is_confirmed_where_the_rules_are_fastest() -> None:
    def times_of(some: Sequence[Contender], seed: int) -> list[Result]:
        raise AssertionError(some)

    kernel = CompiledKernel("k", 0, 1, False)
    contenders = [Contender(name, kernel, []) for name in ("rules", "a", "failed")]
    first = [Result("rules", [1.0]), Result("a", [2.0]), Result("failed", [])]
    assert confirmed(contenders, first, times_of) == first
    assert confirmed(contenders[2:], first[2:], times_of) == first[2:]


def test_every_schedule_that_is_offered_is_right(tmp_path: Path) -> None:
    """Each one is taken in turn, as if it had been measured to be the fastest."""
    path = tmp_path / "kernels.db"
    (subject,) = tuned(PRODUCT, path)
    x = np.random.default_rng(4).normal(size=(24, 40)).astype(np.float32)
    results: dict[str, Array] = {}
    weights: Array = np.empty(0)
    for name in subject.times:
        with KernelDatabase(path, write=True) as database:
            times = database.times(subject.key)
            planted = {
                other: type(time)(1.0 if other == name else 9.0, 1.0, 1, "")
                for other, time in times.items()
            }
            database.record(subject.key, planted)
        with Session(model_of(PRODUCT), kernels=path) as session:
            assert selected(session)[0].startswith(f"{name}: 1 ns measured")
            results[name] = session.run({"x": x})["y"]
            weights = session.state()["w"]
    expected = np.maximum(x.astype(np.float64) @ weights.astype(np.float64), 0)
    for name, found in results.items():
        assert relative_error(found, expected) < 1e-5, name


def test_rules_are_measured_as_the_passes_leave_kernels() -> None:
    """An encoder has attention, products with and without epilogues, and rows."""
    front = installed_compiler()
    path = Path(__file__).parents[4] / "examples" / "encoder.mlir"
    module = front[0].parse(path.read_bytes(), "encoder.mlir")
    run_pipeline(*front, module, (*job_passes(PipelineOptions("cpu")), *plan_passes()))
    sources: dict[str, str] = {}
    for kernel, constants in called_kernels(module):
        copy, width = kernel.clone(), vector_bytes_here()
        schedule(copy, Request(kernel, frozenset(constants), 1, width))
        sources[kernel.sym_name.data] = kernel_source(copy)
    run_pipeline(*front, module, kernel_passes())
    for kernel, _ in called_kernels(module):
        assert kernel_source(kernel) == sources.pop(kernel.sym_name.data)
    assert sources == {}


# What is kept -------------------------------------------------------------------------


def test_what_is_known_is_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    tuned(PRODUCT, path)
    before = entries_of(path)
    (subject,) = tuned(PRODUCT, path)
    assert subject.sources == {}
    assert entries_of(path) == before
    assert subject.times == {e.alternative: e.time.median_ns for e in before}
    # Another number of threads is another question.
    tuned(PRODUCT, path, threads=2)
    assert len(entries_of(path)) > len(before)


def test_few_candidates_are_measured_if_few_are_wanted(tmp_path: Path) -> None:
    (subject,) = tuned(PRODUCT, tmp_path / "kernels.db", most=2)
    assert len(subject.times) == 2
    assert "rules" in subject.times


def test_tasks_get_the_times_of_their_kernels(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    (subject,) = tuned(PRODUCT, path)
    model = model_of(PRODUCT)
    options = PipelineOptions("cpu", database=str(path))
    steps = *job_passes(options), *timing(options)
    run_pipeline(*installed_compiler(), model.module, steps)
    tasks = [op for op in model.module.walk() if isinstance(op, TaskOp)]
    found = {t.task_name.data: t.attributes.get("time_ns") for t in tasks}
    times = {name: time for name, time in found.items() if time is not None}
    assert subject.chosen_ns is not None
    assert [str(time) for time in times.values()] == [
        f"{round(subject.chosen_ns)} : i64"
    ]


GROUP = """
job.job @group placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<64xf32>
  %a = op.exp %x : tensor<64xf32> -> tensor<64xf32>
  %b = op.add %a, %x : tensor<64xf32>, tensor<64xf32> -> tensor<64xf32>
  %y = op.neg %b : tensor<64xf32> -> tensor<64xf32>
  job.output "y", %y : tensor<64xf32>
}
"""
"""A sum in the middle of what is fused with it."""


class Sums(Alternative):
    """Sums alone, as the rules compute them; it absorbs no other ops."""

    name, ops, priority = "sums", ("op.add",), -1

    def variants(self, request: Request) -> Iterable[Variant]:
        yield Variant(lambda kernel: None)


class Greedy(Sums):
    """Sums with all that is fused with them."""

    name, absorbs = "greedy", None


@pytest.fixture
def offered(request: pytest.FixtureRequest) -> Iterator[None]:
    """An alternative of this file, for one test."""
    registry.register_alternative(request.param())
    yield
    plugins.forget(__name__)


def plant(monkeypatch: pytest.MonkeyPatch, **planted: float) -> None:
    """Let kernels that compute groups and single ops take so many nanoseconds."""

    def measure(subject: Subject, _: Tuning, database: KernelDatabase) -> None:
        is_group = len(subject.request.computes) > 1
        taken = planted["group"] if is_group else planted["single"]
        times = {
            x.name: Time(taken, taken, 1, "2026-01-01", x.alternative.code)
            for x in subject.candidates
        }
        database.record(subject.key, times)
        subject.times.update({name: time.median_ns for name, time in times.items()})

    def compiled(subjects: Sequence[Subject]) -> None:
        """Stand in for what takes time."""

    monkeypatch.setattr(tuning_module, "compile_subjects", compiled)
    monkeypatch.setattr(tuning_module, "measure", measure)


@pytest.mark.parametrize("offered", [Sums], indirect=True)
@pytest.mark.usefixtures("offered")
def test_a_group_is_split_where_its_parts_were_measured_to_take_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernels.db"
    plant(monkeypatch, group=5000, single=1000)
    subjects = tuned(GROUP, path)
    # The group; its three parts, and these again as the session will have them.
    assert [subject.is_part for subject in subjects] == [False, *[True] * 6]
    assert tuning_lines(subjects)[-2:] == [
        "tuned 0 of 1 kernels: 0.0 -> 0.0 us",
        "measured 6 kernels of models with fused ops in parts",
    ]
    with Session(model_of(GROUP), kernels=path) as session:
        exp, add, neg = selected(session)
        assert exp.startswith("rules: 1000 ns measured")
        assert add.startswith("rules: 1000 ns measured, ")
        assert neg.startswith("rules: 1000 ns measured")
        x = np.linspace(1, 2, 64, dtype=np.float32)
        found = np.asarray(session.run({"x": x})["y"], np.float32)
        np.testing.assert_allclose(found, -(np.exp(x) + x), rtol=1e-6)


@pytest.mark.parametrize("offered", [Sums], indirect=True)
@pytest.mark.usefixtures("offered")
def test_a_group_stays_one_where_its_parts_take_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernels.db"
    # 3 * 1000 + 2 * 500 ns for two tasks more
    plant(monkeypatch, group=4000, single=1000)
    tuned(GROUP, path)
    with Session(model_of(GROUP), kernels=path) as session:
        (text,) = selected(session)
        assert text == "rules: 4000 ns measured, nothing else was"


@pytest.mark.parametrize("offered", [Greedy], indirect=True)
@pytest.mark.usefixtures("offered")
def test_what_absorbs_a_group_is_measured_with_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, group=5000, single=1000)
    (subject,) = tuned(GROUP, tmp_path / "kernels.db")
    assert {*subject.times} == {"rules", "greedy"}


# Databases that cannot be used --------------------------------------------------------


def test_a_broken_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    path.write_text("This is a text, and it is no database at all, however long.\n" * 9)
    with pytest.raises(UsageError, match="file is not a database"):
        tuned(PRODUCT, path)


def test_what_is_no_database_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    assert usable(path) is None
    assert (path.stat().st_size, path.stat().st_mode & 0o777) == (0, 0o600)
    assert usable(path) is None
    KernelDatabase(path, write=True).close()
    assert usable(path) is None
    path.write_text("no database" * 99)
    aside = tmp_path / "kernels.db.broken"
    assert usable(path) == aside
    assert aside.read_text().startswith("no database")
    assert path.stat().st_size == 0
    path.write_text("no database" * 99)
    aside.unlink()
    aside.mkdir()
    (aside / "file").touch()
    with pytest.raises(UsageError, match=r"cannot rename .*kernels\.db: "):
        usable(path)


def test_a_database_that_others_can_write_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    KernelDatabase(path, write=True).close()
    path.chmod(0o666)
    assert usable(path) == tmp_path / "kernels.db.broken"
    assert path.stat().st_mode & 0o777 == 0o600


def test_paths_that_no_pass_option_can_hold_are_refused(tmp_path: Path) -> None:
    path = tmp_path / 'a"b.db'
    with pytest.raises(UsageError, match="the path of a kernel database has no quotes"):
        Session(model_of(SUM), kernels=path)


def test_the_environment_names_a_database_for_all_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernels.db"
    (subject,) = tuned(SUM, path)
    monkeypatch.setenv(KERNELS, str(path))
    with Session(model_of(SUM)) as session:
        time = subject.times["rules"]
        assert selected(session) == [f"rules: {time:.0f} ns measured, nothing else was"]
    path.write_text("no database" * 99)
    warning = "nothing counts as measured: cannot use .*: file is not a database"
    with (
        pytest.warns(RuntimeWarning, match=warning),
        Session(model_of(SUM)) as session,
    ):
        assert selected(session) == ["rules: nothing else is offered"]


# The registry -------------------------------------------------------------------------


class Nameless(Alternative):
    """Has no name."""


class Rival(Alternative):
    """Has the name of another one."""

    name = "rules"


def test_what_is_registered_is_an_alternative_with_a_name_of_its_own() -> None:
    with pytest.raises(PluginError, match="a kernel needs a name"):
        registry.register_alternative(Nameless())
    with pytest.raises(PluginError, match="there already is a kernel 'rules'"):
        registry.register_alternative(Rival())
    with pytest.raises(PluginError, match="kernel 'five' is no Alternative but of int"):
        register("kernel", "five")(5)


def installed_as(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Let an installed package offer what has this path, as `theirs`."""
    entries = EntryPoints([EntryPoint("theirs", value, "penstock.kernels")])
    monkeypatch.setattr(plugins, "entry_points", lambda: entries)
    plugins.look_again()


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Look for installed alternatives anew after a test."""
    yield
    plugins.look_again()


@pytest.mark.usefixtures("forgotten")
def test_an_installed_package_offers_alternatives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = "penstock.lowering.launch.autotune.registry"
    installed_as(monkeypatch, f"{place}:BUILT_IN")
    expected = f"kernel 'theirs' of {place}:BUILT_IN is no Alternative but of tuple"
    with pytest.raises(PluginError, match=expected):
        registry.alternatives()
    installed_as(monkeypatch, f"{place}:nothing")
    expected = "kernel 'theirs' of .* cannot be loaded: AttributeError: "
    with pytest.raises(PluginError, match=expected):
        registry.alternatives()
    monkeypatch.setattr(registry, "THEIRS", Nameless(), raising=False)
    installed_as(monkeypatch, f"{place}:THEIRS")
    with pytest.raises(PluginError, match="kernel 'theirs' has no name of its own"):
        registry.alternatives()
    monkeypatch.setattr(registry, "THEIRS", Rival(), raising=False)
    with pytest.raises(PluginError, match="'rules' is offered by both penstock and "):
        registry.alternatives()
    monkeypatch.setattr(Rival, "name", "rival")
    assert "rival" in [found.name for found in registry.alternatives()]


def test_an_alternative_has_to_say_its_variants() -> None:
    with pytest.raises(NotImplementedError, match=r"Rival\.variants"):
        Rival().variants(Request(KernelOp("k", "cpu", Region(Block()))))


# The command --------------------------------------------------------------------------


def run(*args: object, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `penstock-run` in a new process."""
    tool = Path(sys.executable).parent / "penstock-run"
    return subprocess.run(
        [str(tool), *map(str, args)],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "0", **more},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
def test_a_person_tunes_a_model_and_runs_it(tmp_path: Path) -> None:
    (tmp_path / "product.mlir").write_text(PRODUCT)
    common = "product.mlir", "--random-inputs", "1", "--check", "numpy"
    first = run(*common, "--tune", "--kernels", "my.db", folder=tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    table = first.stdout.splitlines()
    assert " ".join(table[0].split()) == "kernel op rules us best us gain selected"
    assert table[1].startswith("fused_matmul_0  op.fused(matmul)")
    assert table[2].startswith("tuned 1 of 1 kernels: ")
    again = run(*common, "--tune", "--kernels", "my.db", folder=tmp_path)
    assert again.stdout.splitlines()[:3] == table[:3]
    later = run(*common, "--kernels", "my.db", folder=tmp_path)
    assert (later.returncode, later.stderr) == (0, "")
    assert "check against numpy: y differs by" in later.stdout
    assert "tuned" not in later.stdout


@pytest.mark.slow
def test_a_file_brings_kernels_to_a_run(tmp_path: Path) -> None:
    (tmp_path / "sum.mlir").write_text(SUM)
    common = "sum.mlir", "--random-inputs", "1", "--check", "numpy", "--load", ADDERS
    done = run(*common, "--tune", "--kernels", "my.db", folder=tmp_path)
    assert done.returncode == 0
    assert "warning: kernel @add_0: adders-wrong is left out: " in done.stderr
    assert "adders-slow" not in done.stdout
    assert "1 candidates left out" in done.stdout


@pytest.mark.slow
def test_a_database_of_ours_that_is_broken_is_made_anew(
    tmp_path: Path, cold_cache: Path
) -> None:
    (tmp_path / "sum.mlir").write_text(SUM)
    (cold_cache / "kernels.db").write_text("no database" * 99)
    args = "sum.mlir", "--random-inputs", "1", "--tune"
    done = run(*args, folder=tmp_path, PENSTOCK_CACHE_DIR=str(cold_cache))
    assert done.returncode == 0
    assert "kernels.db was no kernel database that can be used, and is" in done.stderr
    entries = entries_of(cold_cache / "kernels.db")
    assert {entry.alternative for entry in entries} == {"rules"}


@pytest.mark.slow
def test_what_is_asked_of_plans_and_databases_that_cannot_be_is_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "sum.mlir").write_text(SUM)
    common = "sum.mlir", "--random-inputs", "1"
    missing = run(*common, "--kernels", "none.db", folder=tmp_path)
    assert missing.returncode == 1
    assert "cannot read none.db: no such file" in missing.stderr
    saved = run(*common, "--save-plan", "sum.penstock", folder=tmp_path)
    assert saved.returncode == 0
    plan = run("sum.penstock", "--random-inputs", "1", "--tune", folder=tmp_path)
    assert plan.returncode == 2
    assert "--tune and --kernels are for what is compiled" in plan.stderr


# Keys ---------------------------------------------------------------------------------

FORMS = """
job.job @forms placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x3x12x12xf32>
  %k = job.variable "k" init <he_normal, seed = 1> : tensor<8x3x3x3xf32>
  %b = job.variable "b" init <ones> : tensor<8xf32>
  %w = job.variable "w" init <he_normal, seed = 2> : tensor<8x16xf32>
  %i = job.input "i" : tensor<5xi64>
  %c = op.conv2d %x, %k, %b pads [1, 1, 1, 1]
    : tensor<1x3x12x12xf32>, tensor<8x3x3x3xf32>, tensor<8xf32> -> tensor<1x8x12x12xf32>
  %r = op.relu %c : tensor<1x8x12x12xf32> -> tensor<1x8x12x12xf32>
  %p = op.max_pool2d %r kernel [2, 2] strides [2, 2]
    : tensor<1x8x12x12xf32> -> tensor<1x8x6x6xf32>
  %n = op.group_norm %p, %b groups 2
    : tensor<1x8x6x6xf32>, tensor<8xf32> -> tensor<1x8x6x6xf32>
  %m = op.reduce_mean %n axes [2, 3] : tensor<1x8x6x6xf32> -> tensor<1x8xf32>
  %h = op.matmul %m, %w : tensor<1x8xf32>, tensor<8x16xf32> -> tensor<1x16xf32>
  %t = raised.product %h, %h : tensor<1x16xf32>, tensor<1x16xf32> -> tensor<1x1xf32>
  %s = op.softmax %h axis 1 : tensor<1x16xf32> -> tensor<1x16xf32>
  %g = op.gather %n[%i] axis 1
    : tensor<1x8x6x6xf32>, tensor<5xi64> -> tensor<1x5x6x6xf32>
  %e = op.exp %g : tensor<1x5x6x6xf32> -> tensor<1x5x6x6xf32>
  job.output "t", %t : tensor<1x1xf32>
  job.output "s", %s : tensor<1x16xf32>
  job.output "e", %e : tensor<1x5x6x6xf32>
}
"""
"""Kernels that are raised, and such as are built as structured ops or loops."""


@irdl_op_definition
class ProductOp(TensorOp):
    """A product `a b'` whose kernel is an op of linalg, which is raised."""

    name = "raised.product"

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$a `,` $b attr-dict `:` type($a) `,` type($b) `->` type($result)"

    def infer_types(self) -> Sequence[TensorType]:
        a, b = (tensor_type(value).get_shape() for value in self.operands)
        return (TensorType(f32, [a[0], b[0]]),)

    def flops(self) -> int:
        return 2 * element_count(self.result.type)

    def evaluate(self, *operands: Any) -> Sequence[Any]:
        a, b = operands
        return (a @ b.T,)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        m, n, t = map(AffineExpr.dimension, range(3))
        maps = [AffineMap(3, 0, each) for each in ((m, t), (n, t), (m, n))]
        k.fill(outs[0], 0)
        iterators = ["parallel", "parallel", "reduction"]

        def body(k: KernelBuilder, values: Sequence[SSAValue]) -> SSAValue:
            a, b, total = values
            return k.add_term(total, k.mul(a, b))

        k.generic(ins, outs[0], maps, iterators, body)


@pytest.fixture
def raised() -> Iterator[None]:
    """The dialect of the product, for one test."""
    register("dialect", "raised")(Dialect("raised", [ProductOp]))
    yield
    plugins.forget(__name__)


@pytest.mark.usefixtures("raised")
@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_measured_is_looked_up_by_the_same_keys(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, told = tmp_path / "kernels.db", dict[str, Key]()

    def nothing(*_: object) -> None:
        """Stand in for what takes time."""

    def record(model: Model, tasks: dict[str, Key], *_: object) -> None:
        told.update(tasks)

    monkeypatch.setattr(tuning_module, "record_tasks", record)
    for name in ("compile_subjects", "measure"):
        monkeypatch.setattr(tuning_module, name, nothing)
    measured = {subject.key.text for subject in tuned(FORMS, path, threads)}
    read: list[str] = []

    def times(database: KernelDatabase, key: Key) -> dict[str, Time]:
        read.append(key.text)
        return {}

    monkeypatch.setattr(KernelDatabase, "times", times)
    options = PipelineOptions("cpu", threads=threads, database=str(path))
    model = model_of(FORMS)
    run_pipeline(*installed_compiler(), model.module, pipeline(options))
    kinds = [json.loads(text)["kind"] for text in read]
    assert len(measured) == kinds.count("kernel") > 7
    wanted = measured | {key.text for key in told.values()}
    assert wanted == {*read}
