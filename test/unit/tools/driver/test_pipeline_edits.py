"""Texts of pipelines and of their edits: what they stand for, and what is wrong."""

import pytest
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline

from penstock.lowering import get_all_passes
from penstock.lowering.pipelines import (
    LEVELS,
    STANDARD,
    PipelineOptions,
    call,
    get_all_pipelines,
    pipeline,
    text_of,
)
from penstock.tools.cli import pipeline_options
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.edited_pipeline import dump, expanded, passes_of
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.pass_pipeline import make_passes, parse_specs
from penstock.tools.driver.pipeline_edits import Edit, edit_of, edits_of, parse_edit

KNOWN = get_all_pipelines(), installed_compiler()[1]


def names(text: str, *edits: str, level: str | None = None) -> list[str]:
    """The passes of a text after some edits, up to a level."""
    return [spec.name for spec in passes_of(text, edits_of(edits), level, *KNOWN)]


@pytest.mark.parametrize("name", [*STANDARD, "cpu{threads=4 winograd=true waves=true}"])
def test_dumped_passes_are_read_as_the_same(name: str):
    passes = make_passes(KNOWN[1], expanded(name, *KNOWN))
    text = dump(passes)
    assert make_passes(KNOWN[1], parse_specs(text)) == passes
    assert text.count("\n") == len(passes) - 1


def test_options_of_a_pipeline_are_those_of_all_pipelines():
    wanted = pipeline(PipelineOptions("cpu", 4, winograd=True, guard="none"))
    found = expanded('cpu{threads=4 winograd=true guard="none"}', *KNOWN)
    assert found == wanted
    assert expanded("jobs{device=cuda}", *KNOWN) == pipeline(
        PipelineOptions("cuda", merge=True)
    )
    # Both are about all jobs of a program.
    for option in ("main", "model-jobs"):
        merged = expanded(f"cpu{{merge=true {option}=true}}", *KNOWN)
        assert expanded(f"cpu{{{option}=true}}", *KNOWN) == merged


def test_a_text_is_a_list_of_pipelines_and_passes_with_any_space():
    text = ' cse ,\n cpu{ threads=2 }, op-fold-constants{ max-elements=3 }\n,"x'
    with pytest.raises(UsageError, match="malformed pass pipeline"):
        expanded(text, *KNOWN)
    found = expanded(text.removesuffix(',"x'), *KNOWN)
    inner = pipeline(PipelineOptions("cpu", 2))
    fold = call("op-fold-constants", max_elements=3)
    assert found == (call("cse"), *inner, fold)


VALUES = [
    *(1e-5, 1.5, 1e22, -2.0, True, False, 3, -4, "", "a b", "true", "3", "{, }"),
    'a"b\\c\n\t d',
]


@pytest.mark.parametrize("value", VALUES)
def test_values_are_read_as_they_were_printed(value: str | float | bool):
    spec = ArgSpec("x", {"y": (value,), "z": (value, value)})
    (found,) = parse_pipeline(text_of([spec]))
    assert repr(found) == repr(spec)
    assert repr(parse_specs(text_of([spec]))) == repr((spec,))


def test_edits_have_one_text_form():
    edit = parse_edit("insert-after cse = dce,mem2reg{x=a}")
    assert edit == Edit("insert-after", "cse", text="dce,mem2reg{x=a}")
    assert str(edit) == "insert-after cse=dce,mem2reg{x=a}"
    assert edit.flag == "--insert-after 'cse=dce,mem2reg{x=a}'"
    assert (
        parse_edit("--skip cse#2") == Edit("skip", "cse#2") == edit_of("skip", "cse#2")
    )
    edit = Edit("set", "cse#1", "a-b", "c=d")
    assert parse_edit("set cse#1.a_b=c=d") == edit == parse_edit(str(edit))
    assert edits_of(["skip cse", edit]) == (Edit("skip", "cse"), edit)


def test_edits_see_what_those_before_them_left():
    assert (
        names("cse,dce,cse", "insert-after cse=cse")
        == ["cse"] * 2 + ["dce"] + ["cse"] * 2
    )
    assert names("cse,dce,cse", "replace cse#2=mem2reg") == ["cse", "dce", "mem2reg"]
    assert names("cse,dce,cse", "insert-before dce=cse", "skip cse#2") == [
        "cse",
        "dce",
        "cse",
    ]


def test_options_are_set_one_after_the_other():
    edits = edits_of(["set job-place.device=cpu", "set job-place.device=cuda"])
    (spec,) = passes_of("job-place{device=x}", edits, None, *KNOWN)
    assert spec == ArgSpec("job-place", {"device": ("cuda",)})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", (5,)),
        ("true", (True,)),
        ('"5"', ("5",)),
        ("1,2", (1, 2)),
        ("/tmp/a b.db", ("/tmp/a b.db",)),
        ("x} y{", ("x} y{",)),
        ('"', ('"',)),
        ("1 x=2", ("1 x=2",)),
    ],
)
def test_a_value_is_as_in_a_pipeline_or_else_a_string(
    text: str, value: tuple[object, ...]
):
    (spec,) = passes_of("cse", edits_of([f"set cse.x={text}"]), None, *KNOWN)
    assert spec.parameters == {"x": value}


def test_levels_end_before_the_passes_to_the_next_one():
    whole = names("cpu")
    parts = [names("cpu", level=level) for level in LEVELS]
    for name, part in zip(LEVELS.values(), parts, strict=True):
        assert part == whole[: None if name is None else whole.index(name)]
    assert tuple(LEVELS) == pipeline_options.LEVELS


def test_a_level_ends_where_it_did_before_edits():
    edits = (
        "insert-before plan-create-registers=cse",
        "insert-after plan-create-registers=mem2reg",
        "replace plan-create-registers=dce",
    )
    assert names("cpu", *edits, level="plan")[-1] == "cse"
    after = names("cpu", *edits, level="memory")
    assert after[after.index("dce") :][:2] == ["dce", "mem2reg"]
    assert "cse" not in names("cpu", "skip convert-job-to-plan", level="job")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("skipp cse", "unknown edit 'skipp', did you mean 'skip'? (known: "),
        ("zzz", "unknown edit 'zzz' (known: insert-after, insert-before, replace, "),
        ("skip", "skip wants PASS, got ''"),
        ("skip cse=dce", "skip wants PASS, got 'cse=dce'"),
        ("skip cse=", "skip wants PASS, got 'cse='"),
        ("replace cse", "replace wants PASS=PASSES, got 'cse'"),
        ("replace cse=", "replace wants PASS=PASSES, got 'cse='"),
        ("insert-after =cse", "insert-after wants PASS=PASSES, got '=cse'"),
        ("set cse=3", "set wants PASS.OPTION=VALUE, got 'cse=3'"),
        ("set cse.=3", "set wants PASS.OPTION=VALUE, got 'cse.=3'"),
        ("set .x=3", "set wants PASS.OPTION=VALUE, got '.x=3'"),
    ],
)
def test_texts_that_are_no_edits_are_told(text: str, message: str):
    with pytest.raises(UsageError) as caught:
        parse_edit(text)
    assert str(caught.value).startswith(message)


def test_edits_are_no_single_text():
    with pytest.raises(UsageError, match="edits are a list of texts, got 'skip cse'"):
        edits_of("skip cse")


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (
            "skip op-fuse-row",
            "skip op-fuse-row: the pipeline has no pass 'op-fuse-row', did you mean "
            "'op-fuse-rows'? (--dump-pipeline prints its passes)",
        ),
        ("skip cse#2", "skip cse#2: pass 'cse' is in the pipeline once, got '#2'"),
        (
            "skip job-clean#0",
            "skip job-clean#0: pass 'job-clean' is in the pipeline 3 times, got '#0'",
        ),
        ("skip cse#x", "skip cse#x: pass 'cse' is in the pipeline once, got '#x'"),
        (
            "replace cse=canonicalise",
            "unknown pass 'canonicalise', did you mean 'canonicalize'? "
            "(penstock-opt --list pass names them)",
        ),
        (
            "set regst-plan-memory.algoritm=best",
            "pass 'regst-plan-memory' has no option 'algoritm', did you mean "
            "'algorithm'? (its options: algorithm, guard, steps, budget-ms)",
        ),
    ],
)
def test_edits_that_do_not_fit_the_pipeline_are_told(edits: str, message: str):
    with pytest.raises(UsageError) as caught:
        make_passes(KNOWN[1], passes_of("cpu", edits_of([edits]), None, *KNOWN))
    assert str(caught.value) == message


def test_a_pipeline_that_does_not_end_a_level_is_told():
    message = "the pipeline has no pass 'convert-job-to-plan', before which the level "
    with pytest.raises(UsageError, match=f"{message}'job' ends"):
        names("cse", level="job")
    with pytest.raises(UsageError, match="unknown level 'plann', did you mean 'plan'"):
        names("cpu", level="plann")


def test_pipelines_are_not_called_like_passes():
    assert not set(get_all_passes()) & set(STANDARD)
