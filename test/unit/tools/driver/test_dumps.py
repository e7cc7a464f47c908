"""
Every dump of every standard pipeline can be read back and resumed.

`python test/unit/tools/driver/test_dumps.py [PART]` checks all that IR files of ours
lead to (whose name contains PART), which takes most of an hour.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Sequence
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest
from xdsl.dialects.builtin import BytesAttr, ModuleOp, StringAttr, SymbolRefAttr, i32
from xdsl.dialects.test import TestOp as AnyOp
from xdsl.passes import ModulePass

from penstock.dialects.utils.exact_printer import ExactPrinter
from penstock.dialects.utils.value_names import name_value
from penstock.lowering.pipelines import PIPELINES
from penstock.tools.cli import entry
from penstock.tools.driver.compiler import Compiler, installed_compiler
from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.driver.pass_pipeline import make_passes
from penstock.tools.driver.verifier import module_errors

sys.path.insert(0, str(Path(__file__).parents[3] / "helpers"))

from draws import fresh_seed

ROOT = Path(__file__).parents[4]
ALWAYS = (
    "examples/plan.mlir",
    "test/lowering/verify/verify-memory-invalid.mlir#2",
    "test/lowering/verify/verify-plan-main.mlir#0",
)
SPLIT = re.compile(r"^// -----[ \t\r]*$", re.MULTILINE)


def sections(part: str = "") -> dict[str, str]:
    """The sections of IR files of ours, by the file's name and their number."""
    paths = sorted(ROOT.glob("test/**/*.mlir")) + sorted(ROOT.glob("examples/*.mlir"))
    return {
        f"{name}#{number}": text
        for path in paths
        if part in (name := str(path.relative_to(ROOT)))
        for number, text in enumerate(SPLIT.split(path.read_text("utf-8")))
    }


class Dumps:
    """
    Checks what passes leave, and remembers what is known of a text, as most passes
    leave most texts alone, and pipelines have most passes in common.

    A dump is read back, and printed again; then the pipeline is resumed. All passes
    that have made it have to leave it as it is, and the next one has to make of it what
    it made before it was read: so what follows is what the next dump leads to. Where
    passes do not leave it alone, the rest is run, to the end.
    """

    def __init__(self, compiler: Compiler, *, generic: bool = False) -> None:
        self._compiler = compiler
        self._generic = generic
        self._after: dict[tuple[str, str], str] = {}
        """The text after a pass."""
        self._resumed: set[tuple[str, str]] = set()
        """Passes that make the same of a text that is read back."""
        self._left: dict[str, set[str]] = {}
        """The passes that leave a text that has been read back as it is."""
        self.dumps = self.unlike = 0
        """The number of texts, and the number of different ones."""

    def check(self, source: str, passes: Sequence[ModulePass]) -> None:
        """Check the dumps of a pipeline over a text, as far as it is accepted."""
        texts = self._run(source, passes)
        is_refused = len(texts) <= len(passes)
        for number, dump in enumerate(texts):
            if dump in texts[number + 1 :]:
                continue
            if is_refused:
                # There is no end that a dump could lead to.
                self._read_back(dump, self._parse(dump))
                continue
            self._check(dump, passes[:number], passes[number:], texts[number:])
        self.dumps += max(0, len(texts) - 1)

    def _run(self, source: str, passes: Sequence[ModulePass]) -> list[str]:
        """The text as it is, and after each pass."""
        try:
            module: ModuleOp | None = self._parse(source)
        except Rejected:
            return []
        if module_errors(module):
            return []
        texts = [text_of(module)]
        for each in passes:
            known = self._after.get((texts[-1], spec_of(each)))
            if known is not None:
                module = None
                texts.append(known)
                continue
            module = module or self._parse(texts[-1])
            try:
                self._compiler.apply(module, [each])
            except Rejected:
                break
            texts.append(text_of(module))
            self._after[texts[-2], spec_of(each)] = texts[-1]
        return texts

    def _check(
        self,
        dump: str,
        before: Sequence[ModulePass],
        after: Sequence[ModulePass],
        texts: Sequence[str],
    ) -> None:
        """Check a text that some passes left, and what it leads to."""
        left = self._left.get(dump)
        new = [x for x in before if left is None or spec_of(x) not in left]
        following = after[: len(texts) - 1]
        if left is not None and not new and self._is_resumed(dump, following):
            return
        module = self._parse(dump)
        if left is None:
            self._read_back(dump, module)
        self._compiler.apply(module, new)
        if text_of(module) != dump:
            self._compiler.apply(module, following)
            assert text_of(module) == texts[-1], "it ends otherwise"
            return
        self._left.setdefault(dump, set()).update(map(spec_of, new))
        if following and not self._is_resumed(dump, following):
            self._compiler.apply(module, following[:1])
            assert text_of(module) == texts[1], (
                f"{following[0].name} makes other IR of it"
            )
            self._resumed.add((dump, spec_of(following[0])))

    def _is_resumed(self, dump: str, following: Sequence[ModulePass]) -> bool:
        return not following or (dump, spec_of(following[0])) in self._resumed

    def _read_back(self, dump: str, module: ModuleOp) -> None:
        self.unlike += 1
        assert text_of(module) == dump, "it is printed otherwise when it is read back"
        assert not module_errors(module), "it does not verify when it is read back"
        if self._generic:
            again = text_of(self._parse(text_of(module, generic=True)))
            assert again == dump, "its generic form means something else"

    def _parse(self, text: str) -> ModuleOp:
        return self._compiler.parse(text.encode(), "dump.mlir")


def text_of(module: ModuleOp, *, generic: bool = False) -> str:
    """The text of a module as the driver prints it, or its generic form."""
    text = StringIO()
    ExactPrinter(text, print_generic_format=generic).print_op(module)
    return text.getvalue()


def spec_of(each: ModulePass) -> str:
    """The text of a pass, with its options."""
    return str(each.pipeline_pass_spec())


def compiler_and_pipelines() -> tuple[Compiler, dict[str, Sequence[ModulePass]]]:
    """A compiler that does not verify by itself, and the standard pipelines."""
    compiler, table = installed_compiler()
    compiler.disable_verify = True
    return compiler, {name: make_passes(table, x) for name, x in PIPELINES.items()}


NAMES = (
    "naïve",
    "Ελληνικά",
    "重み・가중치",
    "🚀👩‍🚀",
    "שלום مرحبا",
    'a "b" \\ c\td\ne',
    "e\u0301\u200d",
)
"""Accents, Greek, Chinese and Korean, emoji, right to left, escapes, combined signs."""

JOBS = """
job.job @"{0}" placement <cpu, [0:0]> {{
  %x = job.input "{1}" : tensor<4xf32>
  %w = job.variable "{2}" init <zeros> : tensor<4xf32>
  %y = op.add %x, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "{3}", %y : tensor<4xf32>
}}
job.job @"{4}" placement <cpu, [0:0]> {{
  %x = job.input "{5}" : tensor<4xf32>
  %w = job.variable "{2}" init <zeros> : tensor<4xf32>
  %y = op.mul %x, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.assign %y to %w : tensor<4xf32>
  job.output "{6}", %y : tensor<4xf32>
}}
"""


@pytest.mark.slow
def test_names_of_every_script_are_read_back():
    compiler, pipelines = compiler_and_pipelines()
    checks = Dumps(compiler)
    checks.check(JOBS.format(*map(escaped, NAMES)), pipelines["main"])
    assert checks.dumps == len(pipelines["main"])


@pytest.mark.parametrize("name", NAMES)
def test_strings_are_read_back(name: str):
    compiler, _ = installed_compiler()
    attribute = StringAttr(name)
    op = AnyOp(attributes={"x": attribute, name: SymbolRefAttr(name, [name])})
    text = str(ModuleOp([op]))
    assert text.isascii()
    again = compiler.parse(text.encode(), "text.mlir").body.block.first_op
    assert again is not None
    assert again.attributes == op.attributes


def test_names_of_values_are_read_back():
    compiler, _ = installed_compiler()
    op = AnyOp(result_types=[i32, i32])
    name_value(op.results[0], "xé")
    name_value(op.results[1], "x")
    text = str(ModuleOp([op]))
    assert "%x" in text
    assert str(compiler.parse(text.encode(), "text.mlir")) == text


def test_tools_print_any_name_in_any_locale(monkeypatch: pytest.MonkeyPatch):
    printed = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(printed, "ascii"))
    monkeypatch.setattr(sys, "stderr", TextIOWrapper(BytesIO(), "ascii"))
    monkeypatch.setattr(sys, "argv", ["penstock-opt", "--show-dialects"])
    with pytest.raises(SystemExit, match="0"):
        entry.opt()
    print("é")
    sys.stdout.flush()
    assert printed.getvalue().endswith(b"\\xe9\n")


def test_bytes_that_are_no_text_stay_bytes():
    compiler, _ = installed_compiler()
    module = ModuleOp([AnyOp(attributes={"x": BytesAttr(b"\xff\xc3")})])
    assert str(compiler.parse(str(module).encode(), "text.mlir")) == str(module)


def escaped(name: str) -> str:
    """A name as it is written in a string literal."""
    table = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"}
    return "".join(table.get(c, c) for c in name)


@pytest.mark.slow
def test_dumps_of_files_are_read_back_and_resumed():
    known = sections()
    always = [name for name in known if name.startswith(ALWAYS)]
    chance = random.Random(fresh_seed()).sample(sorted(known.keys() - set(always)), 8)
    compiler, pipelines = compiler_and_pipelines()
    for name in (*always, *chance):
        print(name)
        checks = Dumps(compiler)
        for passes in pipelines.values():
            checks.check(known[name], passes)


def main() -> None:
    """Check all sections, and tell how much that is."""
    part = "".join(sys.argv[1:2])
    compiler, pipelines = compiler_and_pipelines()
    start, dumps, unlike, wrong = time.process_time(), 0, 0, 0
    for name, text in sections(part).items():
        checks = Dumps(compiler, generic=True)
        for pipeline, passes in pipelines.items():
            try:
                checks.check(text, passes)
            except Exception as error:
                wrong += 1
                print(f"{name}, {pipeline}: {type(error).__name__}: {error}")
        dumps, unlike = dumps + checks.dumps, unlike + checks.unlike
    seconds = time.process_time() - start
    print(f"{dumps} dumps, {unlike} unlike, {wrong} wrong, {seconds:.0f} s of CPU")


if __name__ == "__main__":
    main()
