"""A kernel alternative: Numba source for negations."""

from math import prod

from xdsl.dialects.builtin import StringAttr

from penstock.lowering.launch.autotune.alternatives import Alternative, Variant
from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"

SOURCE = """
from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel, f32

@c_kernel
def kernel(args, part, parts):
    x, y = buffer_f32(args, 0, 2), buffer_f32(args, 1, 2)
    for i in range({count}):
        y[i] = -x[i]
    return 0
"""


class Negation(Alternative):
    """Negates by a loop of its own."""

    name = "own-negation"
    ops = ("op.neg",)
    dtypes = ("f32",)
    priority = 10

    def refuse(self, request):
        count = len(request.kernel.arguments)
        return None if count == 2 else f"has {count} arguments, not 2"

    def variants(self, request):
        count = prod(request.kernel.arguments[0].get_shape())

        def apply(kernel):
            kernel.attributes["source"] = StringAttr(SOURCE.format(count=count))

        yield Variant(apply)


register("kernel", Negation.name)(Negation())
