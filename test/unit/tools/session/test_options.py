"""The options of compiling as one record, and the keywords of sessions."""

from dataclasses import fields
from pathlib import Path

import pytest

from penstock.lowering.convert.collective_tasks import CHOICES
from penstock.runtime.errors import PenstockError
from penstock.tools.cli.pipeline_options import COLLECTIVES
from penstock.tools.cli.run_arguments import arguments, options_of
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.pipeline_edits import Edit
from penstock.tools.session.model import Model
from penstock.tools.session.options import (
    DEFAULTS,
    FLAGS,
    CompileOptions,
    Keywords,
    flags_of,
    joined,
    with_keywords,
)
from penstock.tools.session.session import Session

JOB = """
job.job @double placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = op.add %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
"""


def model() -> Model:
    module = installed_compiler()[0].parse(JOB.encode(), "job.mlir")
    return Model(module, {}, Path())


def test_equal_options_are_one_key():
    one, other = CompileOptions("cpu", 2), CompileOptions("cpu", threads=2)
    assert {one: 1}[other] == 1
    assert one != DEFAULTS


def test_options_that_are_as_by_default_are_not_changed():
    assert DEFAULTS.changed == []
    assert CompileOptions(threads=1, guard=None).changed == []
    changed = CompileOptions(winograd=True, simulate_ranks=True).changed
    assert changed == ["simulate_ranks", "winograd"]


def test_options_are_checked_once_they_are_made():
    with pytest.raises(PenstockError, match="unknown device 'gpu'"):
        CompileOptions("gpu")
    with pytest.raises(PenstockError, match="threads must be at least 1, got 0"):
        CompileOptions(threads=0)
    with pytest.raises(PenstockError, match="threads must be at most 4096, got 4097"):
        CompileOptions(threads=4097)


def test_sessions_take_options_by_their_old_keywords():
    given = with_keywords(
        DEFAULTS,
        {
            "device": "cuda",
            "threads": 3,
            "simulate_ranks": True,
            "model_jobs": True,
            "strategy": "memory",
            "kernels": Path("kernels.db"),
            "allow_winograd": True,
            "plain_loops": True,
            "guard": "all",
            "pipeline": "cpu",
            "edits": ["skip cse"],
            "load": [Path("acme.py")],
        },
    )
    assert given == CompileOptions(
        device="cuda",
        threads=3,
        simulate_ranks=True,
        model_jobs=True,
        strategy="memory",
        database=Path("kernels.db"),
        winograd=True,
        plain_loops=True,
        guard="all",
        pipeline="cpu",
        edits=(Edit("skip", "cse"),),
        load=("acme.py",),
    )


def test_each_option_has_a_keyword_but_that_of_shared_variables():
    renamed = {"kernels": "database", "allow_winograd": "winograd"}
    named = {renamed.get(name, name) for name in Keywords.__annotations__}
    assert {field.name for field in fields(CompileOptions)} - named == {"panels"}


def test_an_unknown_keyword_is_refused():
    unknown = {"panels": False}
    with pytest.raises(TypeError, match="unexpected keyword argument 'panels'"):
        Session(model(), **unknown)  # pyright: ignore[reportArgumentType] -- refused


def test_keywords_change_the_options_that_a_session_is_given():
    options = CompileOptions(threads=2)
    with Session(model(), options) as one, Session(model(), options, threads=1) as two:
        threads = [session.executor.program.threads for session in (one, two)]
    assert threads == [2, 1]


def test_the_command_line_gives_options_with_the_same_defaults():
    assert options_of(arguments().parse_args(["model.onnx"])) == DEFAULTS


def test_each_option_of_the_command_line_has_a_flag_to_name():
    line = (
        "--device cpu --threads 2 --simulate-ranks --collectives ring --kernels k.db "
        "--allow-winograd --plain-loops --separate-weights --guard all --pipeline cpu "
        "--skip cse --set cse.x=1 --load acme.py"
    )
    options = options_of(arguments().parse_args(["model.onnx", *line.split()]))
    assert flags_of(options) == line
    names = {field.name for field in fields(CompileOptions)}
    assert names - {*options.changed} == {"model_jobs", "strategy", "panels"}
    assert {*FLAGS, "edits"} == names
    others = CompileOptions(model_jobs=True, strategy="memory", panels=False)
    assert flags_of(others) == "model_jobs=True strategy memory panels=False"


def test_the_command_line_knows_the_collectives_of_the_pass():
    assert COLLECTIVES == CHOICES


def test_files_are_told_in_no_folder():
    options = CompileOptions(database=Path("/a b/k 1.db"), load=("/a/x.py", "y z.py"))
    assert flags_of(options) == "--kernels 'k 1.db' --load x.py --load 'y z.py'"


def test_options_of_a_job_are_joined_with_those_of_its_session():
    skip, other = Edit("skip", "cse"), Edit("skip", "dce")
    session = CompileOptions(threads=2, pipeline="cpu", edits=(skip,), load=("a", "b"))
    assert joined(session, DEFAULTS) == session
    own = CompileOptions(pipeline="jobs", edits=(other,), load=("b", "c"))
    files = "a", "b", "c"
    assert joined(session, own) == CompileOptions(
        threads=2, pipeline="jobs", edits=(skip, other), load=files
    )


def test_a_single_text_is_no_list_of_files():
    with pytest.raises(PenstockError, match="files to load are a list of paths, got"):
        with_keywords(DEFAULTS, {"load": "acme.py"})
