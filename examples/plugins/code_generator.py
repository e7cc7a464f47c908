"""A code generator: vector instructions for a device that interprets them."""

import ctypes
import json

import numpy as np
from xdsl.ir.affine import AffineMap

from penstock.plugins import register
from penstock.runtime.loading.devices import Cpu

PENSTOCK_INTERFACE = "0.2"

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 3)
INSTRUCTIONS = {
    "arith.addf": np.add,
    "arith.maximumf": np.maximum,
    "arith.mulf": np.multiply,
    "math.tanh": np.tanh,
}


@register("code-generator", "vector")
def instructions(kernel):
    """A list of vector instructions in JSON, for elementwise kernels of f32."""
    arguments, program = list(kernel.body.block.args), []
    for stage in kernel.body.block.ops:
        whole = AffineMap.identity(len(getattr(stage, "iterator_types", ())))
        if stage.name != "linalg.generic" or any(
            each.data != whole for each in stage.indexing_maps
        ):
            raise NotImplementedError(f"there is no instruction for {stage.name}")
        number = {}
        for value, operand in zip(stage.body.block.args, stage.operands, strict=True):
            number[value] = len(program)
            program.append(["load", arguments.index(operand)])
        for op in stage.body.block.ops:
            operands = [number[value] for value in op.operands]
            if op.name == "linalg.yield":
                for value, out in zip(operands, stage.outputs, strict=True):
                    program.append(["store", value, arguments.index(out)])
            elif op.name == "arith.constant":
                number[op.results[0]] = len(program)
                program.append(["constant", op.value.value.data])
            elif op.name in INSTRUCTIONS:
                number[op.results[0]] = len(program)
                program.append([op.name, *operands])
            else:
                raise NotImplementedError(f"there is no instruction for {op.name}")
    sizes = [each.type.element_count() for each in arguments]
    return json.dumps({"sizes": sizes, "program": program})


@register("device", "vector")
class Vector(Cpu):
    """An emulator: it runs vector instructions on memory apart from the host's."""

    is_simulated = True

    def __init__(self):
        super().__init__()
        self.kept = []

    def call(self, kernel, source, args):
        facts = json.loads(source)

        def run(words, part, parts):
            if part == 0:
                interpret(facts["program"], arrays_at(words, facts["sizes"]))
            return 0

        self.kept.append(FUNCTION(run))
        address = ctypes.cast(self.kept[-1], ctypes.c_void_p).value
        return self.call_at(address, args)


def arrays_at(words, sizes):
    """The arrays whose addresses stand in a row of words."""
    addresses = (ctypes.c_int64 * len(sizes)).from_address(words)
    pairs = zip(sizes, addresses, strict=True)
    return [
        np.frombuffer((ctypes.c_float * n).from_address(at), "f4") for n, at in pairs
    ]


def interpret(program, arrays):
    """Run the instructions in their order."""
    values = []
    for name, *operands in program:
        value = None
        if name == "load":
            value = arrays[operands[0]].copy()
        elif name == "store":
            arrays[operands[1]][:] = values[operands[0]]
        elif name == "constant":
            value = np.float32(operands[0])
        else:
            value = INSTRUCTIONS[name](*(values[index] for index in operands))
        values.append(value)
