"""Reduction: what is left out, and how a test decides."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.tools.cli.reduce import run_tool
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.reduction import Case, Reduction, kept

TEXT = """
func.func @f(%a: i32, %n: i1) {
  %0 = arith.addi %a, %a : i32
  %1 = arith.muli %0, %a {acme.note = 3} : i32
  %2 = arith.subi %1, %0 : i32
  scf.if %n {
    "test.op"(%2) {needed, other} : (i32) -> ()
    "test.op"() : () -> ()
  }
  func.return
}
func.func @g() {
  func.return
}
"""


def reduced(wanted: str, passes: Sequence[str] = ()) -> tuple[str, Reduction]:
    """The text of what remains of TEXT as long as it has a part."""
    module = installed_compiler()[0].parse(TEXT.encode(), "text.mlir")
    reduction = Reduction(
        Case(module, tuple(passes)), lambda case: wanted in str(case.module)
    )
    return str(reduction.run().module), reduction


def test_all_goes_but_the_op_and_what_it_needs():
    text, reduction = reduced("needed")
    assert text == (
        "builtin.module {\n"
        "  func.func @f(%a: i32, %n: i1) {\n"
        "    scf.if %n {\n"
        '      "test.op"(%a) {needed} : (i32) -> ()\n'
        "    }\n"
        "    func.return\n"
        "  }\n"
        "}"
    )
    assert reduction.case.ops == 5
    assert reduction.tests < 60


def test_results_are_replaced_by_earlier_values():
    text, _ = reduced("arith.subi")
    assert "arith.subi %a, %a" in text
    assert "arith.addi" not in text


def test_all_passes_go_that_are_not_needed():
    module = installed_compiler()[0].parse(b"", "text.mlir")
    passes = tuple("abcdefghij")
    case = Reduction(
        Case(module, passes), lambda case: {"c", "h"} <= {*case.passes}
    ).run()
    assert case.passes == ("c", "h")


@pytest.mark.parametrize("size", [0, 1, 7, 64])
def test_a_list_is_shrunk_to_what_is_needed(size: int):
    items = list(range(size))
    assert [*kept(items, lambda rest: True)] == []
    assert [*kept(items, lambda rest: False)] == items
    last = items[-1:]
    assert [*kept(items, lambda rest: [*rest][-1:] == last and bool(last))] == last


def test_ir_that_does_not_verify_may_stay_so():
    text = b'func.func @f() {\n  "arith.addi"() : () -> ()\n  func.return\n}\n'
    module = installed_compiler()[0].parse(text, "bad.mlir")
    reduction = Reduction(Case(module), lambda case: "arith.addi" in names(case))
    assert names(reduction.run())[1:] == ["func.func", "arith.addi"]


def names(case: Case) -> list[str]:
    """The names of all ops of a case."""
    return [op.name for op in case.module.walk()]


class Tool:
    """Runs `penstock-reduce` in a folder."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture
        self.file = folder / "case.mlir"
        self.file.write_text(TEXT, encoding="utf-8")

    def script(self, condition: str) -> str:
        """Write a script that ends with 1 if a condition of the `text` holds."""
        path = self.folder / "script.py"
        body = "import sys; text = open(sys.argv[-1]).read()"
        line = f"{body}; sys.exit(bool({condition}))"
        path.write_text(f"#!{sys.executable}\n{line}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = run_tool([str(self.file), *arguments])
        out, err = self._capture.readouterr()
        return code, out, err


@pytest.fixture
def tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(tmp_path, capsys)


@pytest.mark.slow
def test_a_script_decides(tool: Tool):
    script = tool.script("'@g' in text and sys.argv[1] == 'a'")
    code, out, err = tool("--test", script, "--test-arg", "a", "--json")
    assert (code, out) == (
        0,
        "builtin.module {\n  func.func @g() -> ()\n}\n",
    )
    found = json.loads(err)
    assert (found["ops"], found["passes"]) == ([11, 1], [0, 0])


def test_passes_are_told_of_where_there_are_any(tool: Tool):
    tool.file.write_text("func.func @g() -> ()", encoding="utf-8")
    err = tool("--test", tool.script("'@g' in text"))[2]
    assert err.startswith("1 -> 1 ops, ")
    assert "passes" not in err


def test_scripts_of_llvm_reduce_end_with_0_for_what_is_interesting(tool: Tool):
    script = tool.script("True")
    code, out, err = tool("--test", script, "--interesting", "zero")
    message = f"penstock-reduce: error: {script} does not find the file interesting\n"
    assert (code, out, err) == (1, "", message)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "nothing can fail: give --test SCRIPT or -p PASSES"),
        (("-p", "cse"), 1, "the passes do not fail"),
        (("-p", "cse", "--message", "no"), 1, "the passes do not fail with 'no'"),
        (
            ("--test", "x", "--message", "no"),
            2,
            "--message is for passes: the script of --test decides alone",
        ),
        (("--test", "none.sh"), 2, "cannot run none.sh: no such file or directory"),
        (
            ("-p", "csee"),
            2,
            "unknown pass 'csee', did you mean 'cse'? "
            "(penstock-opt --list pass names them)",
        ),
    ],
)
def test_messages(tool: Tool, arguments: tuple[str, ...], code: int, message: str):
    assert tool(*arguments) == (code, "", f"penstock-reduce: error: {message}\n")


def test_a_file_that_is_missing(tool: Tool):
    tool.file.unlink()
    message = f"cannot read {tool.file}: no such file or directory"
    assert tool("-p", "cse") == (2, "", f"penstock-reduce: error: {message}\n")
