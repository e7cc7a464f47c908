"""A schedule of a kernel form on CPUs: several moving averages at once."""

from xdsl.ir import Dialect

from penstock.dialects.launch.schedules.fields import number
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)
from penstock.lowering.codegen.cpu.stage_printer import CpuStagePrinter
from penstock.plugins import plugin_of, register

PENSTOCK_INTERFACE = "0.2"

MovingOp = plugin_of("kernel-form", "my.moving").thing


@schedule_definition
class TogetherAttr(ScheduleAttr):
    """The schedule of a few rows at a time: `#rows.together<rows 4>`."""

    name = "rows.together"
    ops = (MovingOp,)

    rows: int = number(most=16, power=True)


@register("kernel-schedule", "rows-together")
class TogetherPrinter(CpuStagePrinter):
    """Steps of rows that do not wait for each other."""

    OP = MovingOp
    SCHEDULES = (TogetherAttr,)

    @classmethod
    def schedule_of(cls, op, facts):
        rows, times = op.x.type.get_shape()
        if rows % 4 or times == 0:
            return f"{rows} rows are no groups of 4"
        return TogetherAttr(4)

    @classmethod
    def misfit(cls, op, schedule):
        rows = op.x.type.get_shape()[0]
        if rows % schedule.rows:
            return f"{schedule} does not divide {rows} rows"
        return None

    def __init__(self, printer, op, number):
        self.printer, self.op = printer, op
        self.at_once = op.attributes["schedule"].rows
        self.element = str(op.x.type.element_type)
        self.names = {self.element}

    @property
    def parts(self):
        rows, _ = self.op.x.type.get_shape()
        return max(1, min(rows // self.at_once, self.op.work() // 65536))

    def definitions(self):
        return []

    def print(self, is_split):
        out, (rows, times) = self.printer, self.op.x.type.get_shape()
        x, y = out.name(self.op.x), out.name(self.op.y)
        groups, decay = rows // self.at_once, self.op.decay.value.data
        bounds = f"{groups} * part // parts, {groups} * (part + 1) // parts"
        group, i = out.new_loop(), out.new_loop()
        values = [out.new_value() for _ in range(self.at_once)]
        starts = [
            f"({group} * {self.at_once} + {n}) * {times}" for n in range(self.at_once)
        ]
        with out.block(f"for {group} in range({bounds if is_split else groups}):"):
            for value, start in zip(values, starts, strict=True):
                out.line(f"{value} = {y}[{start}] = {x}[{start}]")
            with out.block(f"for {i} in range(1, {times}):"):
                for value, start in zip(values, starts, strict=True):
                    a, b = (f"{self.element}({each})" for each in (decay, 1 - decay))
                    out.line(f"{value} = {a} * {value} + {b} * {x}[{start} + {i}]")
                    out.line(f"{y}[{start} + {i}] = {value}")


register("dialect", "rows")(Dialect("rows", [], [TogetherAttr]))
