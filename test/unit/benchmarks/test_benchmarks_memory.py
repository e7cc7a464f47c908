"""The benchmarks of order and memory: what they read, count and say; none is timed."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks import ordering, packing, recompute, run, scaling
from benchmarks.models import LIGHT, light_models, passes_between
from benchmarks.packers import RULES, installed_peer, others, packed, timed
from benchmarks.report import Section, Table
from penstock.lowering.algorithms.packing import Budget, Lifetime, Problem
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.reports.compare.lifetimes import read_problem

CSV = "id,lower,upper,size\n0,0,2,8\n1,1,3,4\n2,2,4,8\n3,3,5,2\n"
"""Of the four, at most 12 bytes are needed at once."""

JOB = """
!t = tensor<16x16xf32>
job.job @small placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> : !t
  %a = op.matmul %x, %w : !t, !t -> !t
  %b = op.relu %a : !t -> !t
  %c = op.matmul %b, %w : !t, !t -> !t
  job.output "y", %c : !t
}
"""
"""Without aliases three values of 1 KiB, of which two are needed at once."""


@pytest.fixture(autouse=True)
def _own_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test waits for a benchmark that somebody runs."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def small_job() -> ModuleOp:
    return installed_compiler()[0].parse(JOB.encode(), "small")


@pytest.fixture
def one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the only model be a small one."""

    def models() -> Iterator[tuple[str, ModuleOp]]:
        yield "small", small_job()

    monkeypatch.setattr(packing, "light_models", models)
    monkeypatch.setattr(packing, "exported_models", lambda: iter(()))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a problem of each kind."""
    for name, file in (("minimalloc", "A.1048576.csv"), ("training", "net.csv")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text(CSV)
    return tmp_path


# Packing


def test_problems_are_read_with_last_steps_and_shuffled(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    rows = (f"{i},{i},{i + 2},9\n" for i in range(50))
    path.write_text("id,lower,upper,size\n" + "".join(rows))
    problem = read_problem(path)
    assert sorted(problem.lifetimes) == [(i, i + 1, 9) for i in range(50)]
    assert list(problem.lifetimes) != sorted(problem.lifetimes)
    assert problem.lifetimes == read_problem(path).lifetimes


def test_what_is_no_layout_is_refused() -> None:
    problem = Problem([Lifetime(0, 1, 4), Lifetime(1, 2, 4)])
    assert timed(problem, lambda: [0, 4]).peak == 8
    with pytest.raises(ValueError, match="no layout: puts buffers 0 and 1 on common"):
        timed(problem, lambda: [0, 2])


@pytest.mark.slow
def test_all_single_algorithms_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(CSV)
    problem = read_problem(path)
    assert problem.bound == 12
    found = others(problem, 0.01)
    assert set(found) >= {*RULES, "local"}
    assert min(result.peak for result in found.values()) == 12
    assert packed(problem, "best", Budget(seconds=0.01)).peak == 12


@pytest.mark.slow
@pytest.mark.usefixtures("one_model")
def test_packing_compares_all_kinds_of_problems(data: Path) -> None:
    section = packing.packing(data, 0.01)
    told, trained, light = section.tables
    assert not section.problems
    assert [row[0] for row in told.rows] == [
        "A",
        "total",
        "geometric mean",
        "worst",
        "at the bound",
    ]
    assert told.header[:5] == (
        "MiniMalloc",
        "buffers",
        "bound / capacity",
        "told s",
        "best, 0.01 s",
    )
    assert told.rows[0][:3] == ["A", "4", "0.000"]
    assert trained.rows[0][:2] == ["net", "4"]
    row = dict(zip(light.header, light.rows[0], strict=True))
    assert (row["registers"], row["plan"], row["of plain"]) == ("3", "1.0000", "1.000")
    for table in section.tables:
        assert len({len(row) for row in (table.header, *table.rows)}) == 1
    assert isinstance(section.data, dict)
    models = "ONNX's light models: small"
    assert list(section.data) == ["minimalloc A", "training net", models]


@pytest.mark.usefixtures("one_model")
def test_what_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_peer(seconds: float) -> None:
        return None

    monkeypatch.setattr(packing, "installed_peer", no_peer)
    section = packing.packing(tmp_path, 0.01)
    assert len(section.tables) == 1
    assert f"No problems of `minimalloc` in {tmp_path}." in section.text
    assert f"No problems of `training` in {tmp_path}." in section.text
    assert "omnimalloc is not installed." in section.text
    assert "No exported models: PyTorch is not installed." in section.text


def test_a_peer_that_is_not_installed_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "omnimalloc", None)
    assert installed_peer(0.01) is None
    assert "omnimalloc" not in others(Problem([Lifetime(0, 1, 4)]), 0.01)


def test_layouts_above_the_capacity_are_a_problem(data: Path) -> None:
    path = data / "minimalloc" / "A.1048576.csv"
    path.write_text(f"id,lower,upper,size\n0,0,2,{packing.CAPACITY + 1}\n")
    found = packing.Found()
    packing.add_minimalloc(found, [path], 0.01)
    assert found.problems == ["A: 1048577 bytes, more than 1048576"]


def test_what_was_packed_is_read_from_the_report() -> None:
    module = small_job()
    assert packing.plan(module) > 0
    problem = packing.problem_of(module)
    # The ReLU works in place: x, a with b over it, c.
    assert [life.size for life in problem.lifetimes] == [1024] * 3
    assert problem.bound == 2048
    assert packing.peak_by_size(small_job(), packing.NO_ORDER) == 2048
    assert packing.peak_by_size(small_job(), packing.NO_FUSION) == 2048


def test_a_pass_that_is_left_out_has_to_be_there() -> None:
    with pytest.raises(AssertionError, match="a pass has another name"):
        packing.peak_by_size(small_job(), {"plan-order-task"})


# Order


def test_passes_are_taken_from_the_standard_pipeline() -> None:
    names = passes_between("plan-order-tasks", "plan-create-registers").split(",")
    bare = [name.partition("{")[0] for name in names]
    assert bare[0] == "plan-order-tasks"
    assert bare[-1] == "plan-create-registers"
    first = passes_between(None, "job-clean").split(",")
    names = [name.partition("{")[0] for name in first]
    assert names[0] == "op-infer-shapes"
    assert names[-3:] == ["op-unroll-loops", "op-select-branches", "job-clean"]


def test_there_are_nine_light_models() -> None:
    names = [path.stem for path in sorted(LIGHT.glob("*.onnx"))]
    assert len(names) == 9
    first, module = next(light_models())
    assert names[0] == f"light_{first}"
    module.verify()


def test_figures_of_an_order_are_live_bytes() -> None:
    """Three gradients of 4 bytes wait for their updates, which come last."""
    job = ordering.JobBuilder()
    gradients = [job.add((), 4) for _ in range(3)]
    for gradient in gradients:
        job.add((gradient,))
    found = ordering.figures(job.problem())
    assert [found[k] for k in ("tasks", "source", "early", "found", "limit")] == [
        6,
        12,
        4,
        4,
        4,
    ]
    assert ordering.row("job", found)[2:5] == ["0.333", "0.333", "0.333"]
    mean = ordering.mean_row("mean", [found, {**found, "source": 3, "limit": 3}])
    assert mean == ["mean", "", "0.667", "0.667", "0.577", "", "1.155"]


def test_training_jobs_have_their_updates_last() -> None:
    problem = ordering.training(4, seed=4)
    updates = [task for task in problem.tasks if not task.makes]
    assert len(updates) == 4
    assert list(problem.tasks[-4:]) == updates


# Recompute


@pytest.mark.slow
def test_budgets_of_a_training_are_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """By plans for 16 layers; PyTorch is left out."""

    def no_peer(function: object, name: str) -> int:
        return 0

    monkeypatch.setattr(recompute, "apart", no_peer)
    (name,) = recompute.DEEP
    section = recompute.recompute([name])
    assert not section.problems
    (row,) = section.tables[0].rows
    found = recompute.measured(name)
    assert found.peaks[1] <= found.budgets[1] < found.budgets[0] < found.ours
    assert 0 < found.again[0] < found.again[1]
    assert row[0] == name
    assert row[5:] == ("", "", "", "")


def test_budgets_that_are_missed_are_a_problem() -> None:
    found = recompute.Found(
        ours=9,
        min_cut=6,
        min_cut_again=0,
        budgets=[8, 4],
        peaks=[8, 5],
        again=[0.2, 0.1],
        torch=18,
        torch_min_cut=8,
    )
    section = recompute.section_of({"job": found})
    assert section.problems == [
        "job: a plan for 4 bytes needs 5",
        "job: smaller budgets make less again",
    ]
    assert section.tables[0].rows[0][-2:] == ("0.33", "0.75")


# Scaling


def test_each_pass_of_a_plan_is_measured() -> None:
    count, seconds = scaling.pass_seconds(40)
    assert count >= 40
    wanted = {
        "job-place",
        "job-infer-sbp",
        "job-insert-boxing",
        "convert-job-to-plan",
        "plan-order-tasks",
        "plan-assign-streams",
        "plan-create-registers",
        "regst-alias-registers",
        "regst-choose-slots",
        "regst-plan-memory",
        "plan-reduce-events",
        "verify-plan",
        "verify-deadlock",
    }
    assert wanted <= set(seconds)
    assert "verify" not in seconds
    assert min(seconds.values()) > 0


def test_growth_is_told_from_the_second_size_on() -> None:
    assert scaling.exponent([1, 10, 100], [9.0, 1.0, 10.0]) == pytest.approx(1)
    assert scaling.exponent([1, 10, 100], [9.0, 1.0, 100.0]) == pytest.approx(2)
    times = [{"p": 0.001}, {"p": 0.01}, {"p": 1.0}]
    row = scaling.scaling_row([1, 10, 100], times, "p")
    assert row == ["p", "1", "10", "1000", "2.00"]


@pytest.mark.slow
def test_plans_do_not_depend_on_hashes() -> None:
    assert len(set(scaling.digests(60, ["0", "7"]))) == 1


# The command line


@pytest.fixture
def named_benchmarks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let benchmarks note that they ran."""
    ran: list[str] = []

    def function(name: str) -> Callable[[run.Options], Section]:
        def benchmark(options: run.Options) -> Section:
            ran.append(name)
            return Section(name, "", [Table(("a",), [])], {})

        return benchmark

    benchmarks = {name: function(name) for name in run.BENCHMARKS}
    monkeypatch.setattr(run, "BENCHMARKS", benchmarks)
    return ran


def test_what_takes_minutes_runs_on_request(named_benchmarks: list[str]) -> None:
    assert run.main([]) == 0
    assert {"speed", "memory", "ordering"} <= set(named_benchmarks)
    assert not run.ON_REQUEST & set(named_benchmarks)
    named_benchmarks.clear()
    run.main(["--only", "packing"])
    assert named_benchmarks == ["packing"]
    named_benchmarks.clear()
    run.main(["--all"])
    assert set(named_benchmarks) > run.ON_REQUEST


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere"], "invalid folder value: 'nowhere'"),
        (["--seconds", "0"], "invalid seconds value: '0'"),
        (["--all", "--only", "memory"], "not allowed with argument --all"),
    ],
)
def test_bad_command_lines_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        run.main(arguments)
    assert raised.value.code == 2
    assert message in capsys.readouterr().err
