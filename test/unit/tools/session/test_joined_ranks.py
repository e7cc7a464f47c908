"""The programs of several ranks as one program, to be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64

from penstock.dialects.launch import ProgramOp
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.joined_ranks import join_ranks


def programs_in(path: Path) -> list[ProgramOp]:
    """All programs of a file of tests, whose sections are modules."""
    compiler, _ = installed_compiler()
    found: list[ProgramOp] = []
    for text in path.read_text(encoding="utf-8").split("// -----"):
        module = compiler.parse(text.encode(), path.name)
        found += [op for op in module.walk() if isinstance(op, ProgramOp)]
    return found


OPS = Path(__file__).parents[3] / "dialects" / "launch"
FILES = ("control-flow", "messages", "ops", "rates", "updates", "views")


@pytest.mark.parametrize("file", FILES)
def test_names_of_several_ranks_are_told_apart_everywhere(file: str) -> None:
    for program in programs_in(OPS / f"{file}.mlir"):
        other = program.clone()
        other.sym_name = StringAttr(f"{program.sym_name.data}_1")
        ranks = [program.rank.value.data + i for i in range(2)]
        other.rank = IntegerAttr(ranks[1], i64)
        before = [str(each) for each in (program, other)]
        made = join_ranks([program, other])
        # The programs themselves stay as they are.
        assert [str(each) for each in (program, other)] == before
        ops = [*made.program.body.block.ops]
        halves = ops[: len(ops) // 2], ops[len(ops) // 2 :]
        for rank, half in zip(ranks, halves, strict=True):
            text = "\n".join(map(str, half)).replace(f" of rank {rank}", "")
            wanted = "\n".join(map(str, program.body.block.ops))
            assert text.replace('"', "") == wanted.replace('"', "")


def test_names_of_one_rank_stay_and_plans_give_theirs() -> None:
    text = """
launch.program @job_0 rank 0 {
  launch.chunk @c0 on <0, host> size 64
  launch.control @a slots 1
}
launch.program @job_1 rank 1 {
  launch.chunk @c0 on <1, host> size 64
  launch.control @b slots 1
}
"""
    compiler, _ = installed_compiler()
    module: ModuleOp = compiler.parse(text.encode(), "test")
    first, second = (op for op in module.walk() if isinstance(op, ProgramOp))
    made = join_ranks([first, second])
    assert made.program.sym_name.data == "job"
    assert [*made.program.symbol_table()] == [
        "c0 of rank 0",
        "a",
        "c0 of rank 1",
        "b",
    ]
    assert made.names == {
        "job_0": {"c0": "c0 of rank 0"},
        "job_1": {"c0": "c0 of rank 1"},
    }
    assert join_ranks([first]).program is first
    second.sym_name = StringAttr("other")
    assert join_ranks([first, second]).program.sym_name.data == "job_0, other"
