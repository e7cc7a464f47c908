"""
Kernels for sums of two vectors, with sources of their own: one that wastes time and
says that it is better than what is built in, one that is right, and one that is not.
"""

from collections.abc import Iterable

from xdsl.dialects.builtin import StringAttr

from penstock.dialects.launch import KernelOp
from penstock.lowering.launch.autotune.alternatives import Alternative, Request, Variant
from penstock.lowering.launch.autotune.registry import register_alternative

SOURCE = """
from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel, f32


@c_kernel
def kernel(args, part, parts):
    a = buffer_f32(args, 0, 3)
    b = buffer_f32(args, 1, 3)
    o = buffer_f32(args, 2, 3)
    number = args
    for turn in range({turns}):
        number = number * 6364136223846793005 + 1442695040888963407
    if number == 7:
        return 9
    for i in range({count}):
        o[i] = f32(a[i] {sign} b[i])
    return 0
"""


class Adder(Alternative):
    """Adds vectors of `f32`."""

    ops = ("op.add",)
    dtypes = ("f32",)

    def __init__(self, name: str, priority: int, turns: int, sign: str):
        self.name, self.priority = name, priority
        self._turns, self._sign = turns, sign

    def refuse(self, request: Request) -> str | None:
        """Refuses what is not three buffers: operands and a result apart."""
        count = len(request.kernel.arguments)
        return None if count == 3 else f"has {count} arguments, not 3"

    def variants(self, request: Request) -> Iterable[Variant]:
        """The one that there is."""
        (count,) = request.kernel.arguments[0].get_shape()
        text = SOURCE.format(turns=self._turns, sign=self._sign, count=count)

        def apply(kernel: KernelOp) -> None:
            kernel.attributes["source"] = StringAttr(text)

        yield Variant(apply)


register_alternative(Adder("adders-slow", 10, 500_000, "+"))
register_alternative(Adder("adders-fast", -5, 0, "+"))
register_alternative(Adder("adders-wrong", -6, 0, "-"))
