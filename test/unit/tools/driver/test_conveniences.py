"""Flags of `mlir-opt`, and those that all commands have: messages and files."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import penstock
from penstock.tools.cli import (
    compare_variants,
    import_model,
    opt,
    reduce,
    run,
    simulate,
    view,
)
from penstock.tools.cli.parsers import parsers
from penstock.tools.driver.ir_printing import diff_of
from penstock.tools.driver.pass_timing import PassTimes
from penstock.tools.driver.reproducer import unwrapped

ROOT = Path(__file__).parents[4]
TOOLS: dict[str, ModuleType] = {
    "penstock-compare": compare_variants,
    "penstock-import": import_model,
    "penstock-opt": opt,
    "penstock-reduce": reduce,
    "penstock-run": run,
    "penstock-simulate": simulate,
    "penstock-view": view,
}
GOOD = '"test.op"() : () -> ()\n'


def test_every_command_is_on_the_page_of_commands():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert sorted(parsers()) == sorted(scripts)


def outcome(
    tool: ModuleType, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """The exit code of a command, and what it prints."""
    try:
        code = tool.run_tool(arguments)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 1
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.mlir"
    path.write_text(GOOD, encoding="utf-8")
    return str(path)


def test_the_package_knows_its_version():
    assert penstock.__version__ == version("penstock")


@pytest.mark.parametrize("name", TOOLS)
def test_every_command_tells_its_version(name: str, capsys: pytest.CaptureFixture[str]):
    code, out, err = outcome(TOOLS[name], capsys, "--version")
    text = f"{name} {penstock.__version__} (xdsl {version('xdsl')}, "
    assert (code, out.startswith(text), out.count("\n"), err) == (0, True, 1, "")


@pytest.mark.parametrize("name", TOOLS)
def test_an_unknown_option_is_one_line_with_the_nearest(
    name: str, capsys: pytest.CaptureFixture[str]
):
    page = ("-o", "x") if name == "penstock-view" else ()
    code, out, err = outcome(TOOLS[name], capsys, "file", *page, "--versoin=3")
    text = f"{name}: error: unknown option '--versoin', did you mean '--version'?"
    assert (code, out) == (2, "")
    assert err.startswith(text)
    assert err.endswith(f" ({name} --help lists all)\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--timing-display=tre"],
            "argument --timing-display/--mlir-timing-display: unknown value 'tre', "
            "did you mean 'tree'? (known: tree, list)",
        ),
        (
            ["--completion=fsh"],
            "argument --completion: unknown value 'fsh', did you mean 'fish'? "
            "(known: bash, zsh, fish)",
        ),
        (
            ["--mlir-elide-elementsattrs-if-larger=few"],
            "argument --elide-elementsattrs-if-larger"
            "/--mlir-elide-elementsattrs-if-larger: "
            "expected a number of elements, got 'few'",
        ),
        (
            ["--print-ir-before=cse,canonicalise"],
            "unknown pass 'canonicalise', did you mean 'canonicalize'? "
            "(penstock-opt --list pass names them)",
        ),
        (
            ["--debug-only=regst-plan-memori"],
            "argument --debug-only: nothing that logs is called 'regst-plan-memori', "
            "did you mean 'regst-plan-memory'? "
            "(penstock-opt --list pass names them)",
        ),
        (
            ["--pass-pipeline-local-reproducer"],
            "--pass-pipeline-local-reproducer says how a --crash-reproducer is "
            "written: give that, too",
        ),
        (["a.mlir", "b.mlir"], "unexpected argument 'b.mlir'"),
        (["-t", "op-stats{format=yaml}"], "target 'op-stats': unknown format 'yaml'"),
    ],
)
def test_bad_values_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    code, out, err = outcome(opt, capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"penstock-opt: error: {message}")


def test_a_tree_of_dumps_has_a_folder_for_each_section(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "two.mlir"
    path.write_text(f"{GOOD}// -----\n{GOOD}", encoding="utf-8")
    folder = tmp_path / "a" / "b"
    arguments = [str(path), "--split-input-file", "-p", "cse,dce"]
    code, _, err = outcome(
        opt, capsys, *arguments, f"--print-ir-tree-dir={folder}", "--print-ir-diff"
    )
    assert (code, err) == (0, "")
    assert not folder.exists(), "nothing has changed"
    code, _, err = outcome(opt, capsys, *arguments, f"--print-ir-tree-dir={folder}")
    assert (code, err) == (0, "")
    found = sorted(str(x.relative_to(folder)) for x in folder.rglob("*.mlir"))
    first, second = "builtin_module_no-symbol-name", "builtin_module_no-symbol-name_1"
    assert found == [
        f"{name}/{file}"
        for name in (first, second)
        for file in ("0_cse.mlir", "1_dce.mlir")
    ]


def test_a_folder_that_cannot_be_made_is_told(
    good: str, capsys: pytest.CaptureFixture[str]
):
    code, _, err = outcome(
        opt, capsys, good, "-p", "cse", f"--print-ir-tree-dir={good}/x"
    )
    place = f"{good}/x/builtin_module_no-symbol-name"
    message = f"penstock-opt: error: cannot write {place}: not a directory\n"
    assert (code, err) == (2, message)


def test_a_reproducer_cannot_be_run_with_other_passes(
    good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = str(tmp_path / "again.mlir")
    outcome(opt, capsys, good, "-p", "cse", f"--generate-reproducer={path}")
    code, _, err = outcome(opt, capsys, path, "-p", "cse", "--run-reproducer")
    message = "--run-reproducer runs no other passes: leave out -p"
    assert (code, err) == (2, f"penstock-opt: error: {message}\n")


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ("{}", "mlir_reproducer has no pipeline of text"),
        ("{pipeline: 3}", "mlir_reproducer has no pipeline of text"),
        *(
            (
                f'{{pipeline: "cse", load: {load}}}',
                "mlir_reproducer names the files to load in no text that a shell would "
                "take",
            )
            for load in ("3", '"\'"')
        ),
    ],
)
def test_a_reproducer_without_a_pipeline_is_refused(
    resource: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "bad.mlir"
    block = f"{{-# external_resources: {{mlir_reproducer: {resource}}} #-}}\n"
    path.write_text(f"{GOOD}\n{block}", encoding="utf-8")
    code, out, err = outcome(opt, capsys, str(path))
    assert (code, out, err) == (1, "", f"{path}: error: {message}\n")


def test_pipelines_of_mlir_are_unwrapped():
    assert unwrapped("builtin.module(cse,canonicalize{a=(1)})") == (
        "cse,canonicalize{a=(1)}"
    )
    assert unwrapped(" any( cse )") == " cse "
    assert unwrapped("cse") == "cse"


def test_a_diff_of_equal_texts_is_empty():
    assert diff_of("a\n", "a\n", "cse") == ""


def test_times_add_up_to_the_total():
    times = PassTimes()
    with times.measure("outer", 0), times.measure("inner"), times.measure("inner"):
        pass
    with times.measure("outer", 0):
        pass
    (outer, _, _), total = times.as_json(), 0.0
    assert isinstance(outer, dict)
    found = json.loads(times.json_text())
    assert [row["name"] for row in found] == ["outer", "Rest", "Total"]
    assert [row["name"] for row in found[0]["passes"]] == ["inner"]
    assert found[0]["passes"][0]["passes"][0]["name"] == "inner"
    total = found[0]["wall"]["duration"] + found[1]["wall"]["duration"]
    assert total == pytest.approx(found[2]["wall"]["duration"], abs=2e-6)
    assert times.report(as_list=True).count("inner") == 1
    assert times.report().count("inner") == 2


def test_lists_are_json_if_that_is_asked_for(capsys: pytest.CaptureFixture[str]):
    arguments = "--list-passes", "--show-dialects", "--json"
    code, out, err = outcome(opt, capsys, *arguments)
    assert (code, err) == (0, "")
    found = json.loads(out)
    passes = {row["name"]: row for row in found["passes"]}
    assert passes["job-clean"]["of"] == "penstock"
    assert passes["regst-plan-memory"]["options"]
    assert {"name": "regst", "of": "penstock"} in found["dialects"]


@pytest.mark.parametrize("name", TOOLS)
def test_bash_completes_flags_and_values(name: str, capsys: pytest.CaptureFixture[str]):
    _, script, _ = outcome(TOOLS[name], capsys, "--completion", "bash")
    words = ("--vers", ""), ("--completion", "z"), ("--completion", "=")
    asks = "\n".join(
        f"COMP_WORDS=({name} {before} {current!r}); COMP_CWORD=2; "
        f'_{name.replace("-", "_")}; echo "${{COMPREPLY[*]}}"'
        for before, current in (("x", "--vers"), *words[1:])
    )
    text = f"complete() {{ :; }}\ncompopt() {{ :; }}\n{script}\n{asks}\n"
    done = subprocess.run(
        ["bash", "--norc", "-s"], input=text, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("--version\nzsh\nbash zsh fish\n", "")


def test_bash_completes_lists_of_passes(capsys: pytest.CaptureFixture[str]):
    _, script, _ = outcome(opt, capsys, "--completion", "bash")
    text = f"""
complete() {{ :; }}
compopt() {{ :; }}
{script}
COMP_WORDS=(penstock-opt -p canonicalize,job-inf); COMP_CWORD=2
_penstock_opt; echo "${{COMPREPLY[*]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-s"], input=text, capture_output=True, text=True, check=True
    )
    assert done.stdout == "canonicalize,job-infer-sbp\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_every_flag(shell: str, capsys: pytest.CaptureFixture[str]):
    code, script, _ = outcome(opt, capsys, "--completion", shell)
    assert code == 0
    lines = script.splitlines()
    name = "--print-ir-after-all" if shell == "zsh" else "-l print-ir-after-all "
    assert sum(name in line for line in lines) == 1
    # Each quote is closed on its own line.
    assert all(line.count("'") % 2 == 0 for line in lines)
    kind = "#compdef penstock-opt" if shell == "zsh" else "complete -c penstock-opt"
    assert script.startswith(kind)


def test_help_imports_no_pass_and_no_reports():
    code = (
        "import sys\n"
        "from penstock.tools.cli.opt import run_tool\n"
        "try:\n    run_tool(['--help'])\nexcept SystemExit:\n    pass\n"
        "names = ('pass_statistics', 'ir_printing', 'completion', 'logs')\n"
        "print(*(n for n in sys.modules if n.endswith(names)), file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "\n"


LOSSY = """
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition


@irdl_op_definition
class Lossy(IRDLOperation):
    name = "acme.lossy"

    @classmethod
    def parse(cls, parser):
        return cls.create()

    def print(self, printer):
        pass


@irdl_op_definition
class Mute(IRDLOperation):
    name = "acme.mute"

    @classmethod
    def parse(cls, parser):
        parser.raise_error("nothing can be said")

    def print(self, printer):
        pass


Acme = Dialect("acme", [Lossy, Mute])
"""


def test_what_is_not_read_back_the_same_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    plugin, path = tmp_path / "acme.py", tmp_path / "a.mlir"
    plugin.write_text(LOSSY, encoding="utf-8")
    words = str(path), "--load", str(plugin), "--verify-roundtrip"
    path.write_text('"acme.lossy"() {acme.note} : () -> ()\n', encoding="utf-8")
    code, out, err = outcome(opt, capsys, *words)
    head, *diff = err.splitlines()
    message = "error: --verify-roundtrip: the custom form is read back otherwise"
    assert (code, out, head) == (1, "", f"{path}:1:1: {message}")
    assert '-  "acme.lossy"() {acme.note} : () -> ()' in diff
    path.write_text('"acme.mute"() : () -> ()\n', encoding="utf-8")
    code, out, err = outcome(opt, capsys, *words)
    head, note, *_ = err.splitlines()
    message = "error: --verify-roundtrip: the custom form is not read back"
    assert (code, out, head) == (1, "", f"{path}:1:1: {message}")
    assert note.startswith("<custom form>:")
    assert note.endswith("error: nothing can be said")


def test_the_report_about_memory_is_json_if_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    job = ROOT / "examples" / "digits.mlir"
    words = "--pipeline", "cpu", "--compile-to", "memory", "-t", "memory-report"
    code, out, _ = outcome(opt, capsys, str(job), *words, "--json")
    assert code == 0
    assert json.loads(out)["version"] >= 2
