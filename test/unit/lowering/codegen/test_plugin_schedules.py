"""Kernel forms and their schedules from plug-ins: computed, refused and wrong ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Attribute

from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.library import LibraryAttr
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.body.printer_table import Facts
from penstock.lowering.codegen.body.statements import BodyPrinter
from penstock.lowering.codegen.cpu.stage_printer import CpuStagePrinter
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.pipelines import PipelineOptions, pipeline
from penstock.plugins import PluginError, forget, plugin_of, register
from penstock.tools.cli.plugin_list import list_text
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.errors import Rejected
from penstock.tools.driver.plugins import unload
from penstock.tools.session.model import Model
from penstock.tools.session.session import Session

PLUGINS = Path(__file__).parents[4] / "examples" / "plugins"
FORM, SCHEDULE = (str(PLUGINS / f"kernel_{name}.py") for name in ("form", "schedule"))
BOTH = FORM, SCHEDULE

JOB = """
job.job @smooth placement <cpu, [0:0]> {{
  %x = job.input "x" : {type}
  %y = my.average %x decay 7.500000e-01 : {type} -> {type}
  job.output "y", %y : {type}
}}"""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget(__name__)
    unload()


def model(files: Sequence[str], shape: str, type: str = "f32") -> tuple[Model, Any]:
    """The job of an average of a shape, and the compiler that knows these files."""
    front = installed_compiler(files)
    text = JOB.format(type=f"tensor<{shape}x{type}>")
    module = front[0].parse(text.encode(), "job.mlir")
    return Model(module, {}, Path()), front


def kernel_of(files: Sequence[str], shape: str) -> KernelOp:
    """The kernel of the average, as it is scheduled."""
    made, (compiler, passes) = model(files, shape)
    run_pipeline(compiler, passes, made.module, pipeline(PipelineOptions("cpu")))
    return next(op for op in made.module.walk() if isinstance(op, KernelOp))


def averages(x: Any) -> Any:
    """Moving averages in float64."""
    y = x.astype(np.float64)
    for i in range(1, x.shape[1]):
        y[:, i] = 0.75 * y[:, i - 1] + 0.25 * y[:, i]
    return y


@pytest.mark.parametrize(
    ("files", "shape", "type"),
    [((FORM,), (8, 19), "f32"), (BOTH, (8, 19), "f32"), (BOTH, (16, 1), "f64")],
)
def test_a_model_runs_through_a_form_and_its_schedule(
    files: Sequence[str], shape: tuple[int, int], type: str
) -> None:
    made, front = model(files, f"{shape[0]}x{shape[1]}", type)
    x = np.random.default_rng(2).normal(size=shape)
    x = x.astype(np.float32 if type == "f32" else np.float64)
    with Session(made, compiler=front) as session:
        found: Any = session.run({"x": x})["y"]
    np.testing.assert_allclose(found, averages(x), 1e-5, 1e-6)


def test_a_stage_says_its_schedule_or_why_it_has_none() -> None:
    assert "schedule = #rows.together<rows 4>" in str(kernel_of(BOTH, "8x9"))
    refused = kernel_of(BOTH, "6x9")
    assert 'plain_loops = ["my.moving: 6 rows are no groups of 4"]' in str(refused)
    assert "plain_loops" not in str(kernel_of((FORM,), "8x9"))


def test_forms_and_schedules_are_listed() -> None:
    installed_compiler(BOTH)
    forms, schedules = (list_text({}, f"kernel-{x}") for x in ("form", "schedule"))
    assert "\nkernel.row " in forms
    assert "\nmy.moving " in forms
    assert "\ncuda:kernel.row:launch.rows " in schedules
    assert "kernel_schedule.py:" in schedules


ATTRIBUTE = "attributes {schedule = #rows.together<rows 4>}"
SCHEDULED = f"""
launch.kernel @k target "cpu" (%x: memref<6x9xf32>, %y: memref<6x9xf32>) {{
  my.moving decay 7.500000e-01 ins(%x : memref<6x9xf32>) outs(%y : memref<6x9xf32>)
    {ATTRIBUTE}
}}"""


def test_a_schedule_that_is_written_has_to_fit() -> None:
    compiler, _ = installed_compiler(BOTH)
    module = compiler.parse(SCHEDULED.encode(), "job.mlir")
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    with pytest.raises(LocatedPassFailure, match="<rows 4> does not divide 6 rows"):
        kernel_source(kernel)


def test_an_op_that_is_no_registered_form_is_in_no_kernel(tmp_path: Path) -> None:
    text = Path(FORM).read_text(encoding="utf-8")
    file = tmp_path / "form.py"
    file.write_text(text.replace('register("kernel-form"', "# "), encoding="utf-8")
    compiler, _ = installed_compiler((str(file),))
    module = compiler.parse(SCHEDULED.replace(ATTRIBUTE, "").encode(), "job.mlir")
    with pytest.raises(Rejected, match=r"my\.moving is no op of a kernel"):
        compiler.verify(module)


class Printer(CpuStagePrinter):
    """A printer that does nothing."""

    SCHEDULES = (LibraryAttr,)
    given: Any = LibraryAttr("cublas")

    @classmethod
    def schedule_of(cls, op: StructuredOp, facts: Facts) -> Attribute | str:
        if isinstance(cls.given, Exception):
            raise cls.given
        return cls.given

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        return None

    def __init__(self, printer: BodyPrinter, op: StructuredOp, number: int):
        self.names = set()

    @property
    def parts(self) -> int:
        return 1

    def definitions(self) -> Sequence[str]:
        return ()

    def print(self, is_split: bool) -> None:
        raise ValueError("out of ink")


def told(printer: type[Any], files: Sequence[str] = (FORM,)) -> str:
    """The error of compiling a model with a wrong printer."""
    made, front = model(files, "8x9")
    printer.OP = plugin_of("kernel-form", "my.moving").thing
    register("kernel-schedule", "my-own")(printer)
    with pytest.raises(Rejected) as caught:
        Session(made, compiler=front)
    return str(caught.value)


def line_of(text: str) -> str:
    """The place of the line of this file that begins so."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(i for i, line in enumerate(lines, 1) if line.strip() == text)
    return f"{__file__}:{number}"


def made(**members: object) -> type[Any]:
    """A class of printers."""
    return type("Wrong", (Printer,), {"__module__": __name__, **members})


def test_what_is_no_schedule_is_told_with_its_place() -> None:
    text = told(made(given=4))
    assert (
        "kernel schedule 'my-own' gives my.moving the schedule 4, no LibraryAttr"
        in (text)
    )


def test_an_error_is_told_with_its_line() -> None:
    text = told(made(given=ValueError("no luck")))
    assert "kernel schedule 'my-own' fails: ValueError: no luck" in text
    assert f"({line_of('raise cls.given')})" in text


def test_an_error_of_printing_is_told_with_its_line() -> None:
    installed_compiler(BOTH)
    printer: Any = plugin_of("kernel-schedule", "rows-together").thing
    (schedule,) = printer.SCHEDULES
    text = told(made(SCHEDULES=(schedule,), given=schedule(4)), BOTH)
    assert "kernel schedule 'my-own' fails: ValueError: out of ink" in text
    place = line_of('raise ValueError("out of ink")')
    assert f"({place})" in text


def test_what_is_missing_is_told() -> None:
    class Unfinished(CpuStagePrinter):
        SCHEDULES = (LibraryAttr,)

    text = told(Unfinished)
    assert "kernel schedule 'my-own' has no __init__ and no definitions and no" in text
    assert f"({line_of('class Unfinished(CpuStagePrinter):')})" in text
    forget(__name__)
    assert "has no SCHEDULES, a tuple of the classes" in told(made(SCHEDULES=()))


def test_what_is_no_printer_is_refused() -> None:
    with pytest.raises(PluginError, match=r"kernel schedule 'my-own' .*StagePrinter"):
        register("kernel-schedule", "my-own")(KernelOp)
    with pytest.raises(PluginError, match=r"kernel form 'my-own' .*StructuredOp"):
        register("kernel-form", "my-own")(KernelOp)
