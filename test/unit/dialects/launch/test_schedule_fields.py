"""Schedule attributes follow from their fields: text, limits, and xDSL's parameters."""

from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Dialect
from xdsl.utils.exceptions import VerifyException

from penstock.dialects import get_all_dialects
from penstock.dialects.launch.schedules.cpu_attention import AttentionAttr
from penstock.dialects.launch.schedules.cpu_matmul import ContractionAttr
from penstock.dialects.launch.schedules.cpu_window import WindowsAttr
from penstock.dialects.launch.schedules.cpu_winograd import TransformAttr
from penstock.dialects.launch.schedules.cuda_attention import QueriesAttr
from penstock.dialects.launch.schedules.cuda_matmul import TilesAttr
from penstock.dialects.launch.schedules.fields import (
    choice,
    flag,
    number,
    numbers,
    refuse,
    text,
    word,
)
from penstock.dialects.launch.schedules.library import LibraryAttr
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)
from penstock.tools.driver.compiler import Compiler, installed_compiler
from penstock.tools.driver.errors import Rejected


@schedule_definition
class LanesAttr(ScheduleAttr):
    """A schedule as a plug-in has it, with a field of each kind."""

    name = "acme.lanes"
    ops = (LinalgStructuredOperation,)

    form: str = choice("rows", "columns")
    label: str = text()
    tile: tuple[int, int] = numbers(2)
    lanes: int = number(least=2, most=64, power=True)
    ahead: int = number(least=0, default=0)
    stored: str = word("a", "b", default="")
    packed: bool = flag(default=False)

    def verify(self) -> None:
        refuse(self.packed and self.stored == "a", "a panel of a is not packed")


Acme = Dialect("acme", [], [LanesAttr])

KERNEL = """
launch.program @p rank 0 {
  launch.kernel @k target "cpu" (%a: memref<8x8xf32>, %o: memref<8x8xf32>) {
    linalg.matmul {schedule = SCHEDULE} ins(%a, %a : memref<8x8xf32>, memref<8x8xf32>)
      outs(%o : memref<8x8xf32>)
  }
}
"""


@cache
def compiler_with_acme() -> Compiler:
    """A compiler that knows the dialect above."""
    compiler, _ = installed_compiler()
    compiler.ctx.register_dialect("acme", lambda: Acme)
    return compiler


def parsed(schedule: str) -> ScheduleAttr:
    """The schedule of a matmul in a kernel, which a module in text states."""
    module = compiler_with_acme().parse(
        KERNEL.replace("SCHEDULE", schedule).encode(), "k.mlir"
    )
    assert isinstance(module, ModuleOp)
    found = [op.attributes["schedule"] for op in module.walk() if op.attributes]
    assert isinstance(found[-1], ScheduleAttr)
    return found[-1]


def test_a_schedule_of_a_plug_in_is_parsed_from_its_fields():
    found = parsed('#acme.lanes<rows, "x y", tile [6, 4], lanes 8, packed, ahead 3>')
    assert found == LanesAttr("rows", "x y", (6, 4), 8, ahead=3, packed=True)


def test_defaults_are_not_printed_and_the_others_are_in_the_order_of_the_class():
    least = LanesAttr("columns", 'say "so"', (6, 4), 8)
    assert str(least) == r'#acme.lanes<columns, "say \22so\22", tile [6, 4], lanes 8>'
    most = LanesAttr("rows", "x", (6, 4), 8, packed=True, stored="b", ahead=1)
    assert str(most).endswith("lanes 8, ahead 1, stored b, packed>")
    assert parsed(str(least)) == least
    assert parsed(str(most)) == most


BAD = {
    '#acme.lanes<up, "x", tile [6, 4], lanes 8>': "unknown form 'up', expected one of",
    '#acme.lanes<rows, "", tile [6, 4], lanes 8>': "a label has a name",
    '#acme.lanes<rows, "x", tile [6, 0], lanes 8>': "each number of tile should be",
    '#acme.lanes<rows, "x", tile [6], lanes 8>': "tile takes 2 numbers, got 1",
    '#acme.lanes<rows, "x", tile [6, 4], lanes 9>': "a power of 2 from 2 to 64, got 9",
    '#acme.lanes<rows, "x", tile [6, 4]>': "lanes of #acme.lanes is missing",
    '#acme.lanes<rows, "x", lanes 8>': "Expected 'tile'",
    '#acme.lanes<rows, "x", tile [6, 4], lanes 8, ahead 1, ahead 1>': "given twice",
    '#acme.lanes<rows, "x", tile [6, 4], lanes 8, stored a, packed>': "is not packed",
}


@pytest.mark.parametrize("schedule", BAD)
def test_what_fields_do_not_take_is_refused(schedule: str):
    with pytest.raises(Rejected, match=BAD[schedule]):
        parsed(schedule)


WRONG: tuple[dict[str, Any], ...] = ({"tile": [6, 4]}, {"lanes": True}, {"packed": 1})


@pytest.mark.parametrize("values", WRONG, ids=str)
def test_values_in_python_are_checked_as_those_in_text_are(values: dict[str, Any]):
    with pytest.raises(VerifyException):
        replace(LanesAttr("rows", "x", (1, 1), 2), **values)


SOME = (
    AttentionAttr("columns", (6, 4, 16), (4, 3), 126),
    ContractionAttr("outer", (6, 4, 16), (12, 8), packed=True, prefetch=2),
    ContractionAttr("outer", (6, 2, 16), (6, 8), packed=True, group=4, reuse=1),
    LanesAttr("rows", "x", (6, 4), 8, stored="a"),
    LibraryAttr("cublas"),
    QueriesAttr("tiles", 64, 32),
    TilesAttr((128, 128, 32), warp=(64, 32), stages=4),
    TransformAttr(16),
    WindowsAttr(16, 8),
    WindowsAttr(16, 1, vectors=4, looped=True),
)


@pytest.mark.parametrize("schedule", SOME, ids=str)
def test_parameters_of_xdsl_are_the_values_of_fields(schedule: ScheduleAttr):
    assert type(schedule).new(schedule.parameters) == schedule
    names = [name for name, _ in schedule.get_irdl_definition().parameters]
    assert names == [*schedule.fields()]
    wrong = [*schedule.parameters]
    Random(1).shuffle(wrong)
    with pytest.raises(VerifyException):
        type(schedule).new([UnitAttr(), *wrong[1:]])


def test_parameters_of_other_kinds_are_refused() -> None:
    with pytest.raises(VerifyException, match="no value of a schedule: unit"):
        LanesAttr.new([UnitAttr()] * len(LanesAttr.fields()))


def test_each_schedule_of_ours_states_its_fields_and_ops():
    attributes = get_all_dialects()["launch"]().attributes
    ours = [each for each in attributes if issubclass(each, ScheduleAttr)]
    assert len(ours) == 13
    assert all(each.fields() and each.ops for each in ours)
