"""Accesses of kernels that are proven to stay inside of their memrefs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

import pytest
from draws import fresh_seed
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.hints import isa

from penstock.dialects.launch import KernelOp
from penstock.lowering.analysis.access_bounds import unproven_accesses
from penstock.tools.driver.compiler import installed_compiler

ARGUMENTS = (
    "%a: memref<2x4xf32>, %o: memref<4xf32>, %i: memref<4xi64>, %b: memref<3x5xf32>, "
    "%e: memref<0x4xf32>"
)
NUMBERS = {"m1": -1, "m4": -4, **{str(n): n for n in (0, 1, 2, 3, 4, 5, 8)}}


def kernel_of(body: str) -> KernelOp:
    """A kernel for a processor with this body, after constants."""
    numbers = "\n".join(
        f"%{name} = arith.constant {number} : index" for name, number in NUMBERS.items()
    )
    text = f"""
      launch.program @p rank 0 {{
        launch.kernel @k target "cpu" ({ARGUMENTS}) {{
          %zero = arith.constant 0.0 : f32
          {numbers}
          {body}
        }}
      }}"""
    module = installed_compiler()[0].parse(text.encode(), "kernel.mlir")
    module.verify()
    return next(op for op in module.walk() if isinstance(op, KernelOp))


def each(body: str, count: str = "%4") -> str:
    """A stage of independent turns with the index `%x`, below 4."""
    return f"""
      "scf.parallel"(%0, {count}, %1) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}>
      ({{
      ^bb0(%x: index):
        {body}
        "scf.reduce"() : () -> ()
      }}) : (index, index, index) -> ()"""


def load(row: str, column: str) -> str:
    return f"%v = memref.load %a[{row}, {column}] : memref<2x4xf32>"


def store(at: str) -> str:
    return f"memref.store %zero, %o[{at}] : memref<4xf32>"


LOADED = """
  %raw = memref.load %i[%x] : memref<4xi64>
  %n = arith.index_cast %raw : i64 to index
"""


def generic(map: str, target: str = "%o : memref<4xf32>") -> str:
    """A computation on the elements of `%b` that a map says."""
    return f"""
      linalg.generic {{indexing_maps = [{map}, affine_map<(d0) -> (d0)>],
        iterator_types = ["parallel"]}}
        ins(%b : memref<3x5xf32>) outs({target}) {{
      ^bb0(%s: f32, %t: f32):
        linalg.yield %s : f32
      }}"""


PROVEN = {
    "constants": load("%1", "%3"),
    "indices of loops": each(load("%0", "%x")),
    "sums": each(
        f"%y = arith.subi %3, %x : index\n{load('%1', '%y')}\n{store('%y')}",
    ),
    "clamped": each(
        f"""{LOADED}
        %p = arith.maxsi %n, %0 : index
        %q = arith.minsi %p, %3 : index
        {store("%q")}"""
    ),
    "checked": each(
        f"""{LOADED}
        %f = arith.cmpi slt, %n, %0 : index
        %g = arith.addi %n, %4 : index
        %p = arith.select %f, %g, %n : index
        %l = arith.cmpi sge, %p, %0 : index
        %h = arith.cmpi slt, %p, %4 : index
        %c = arith.andi %l, %h : i1
        cf.assert %c, "out of range"
        {store("%p")}"""
    ),
    "checked without sign": each(
        f"""{LOADED}
        %c = arith.cmpi ult, %n, %4 : index
        scf.if %c {{
          {store("%n")}
        }}"""
    ),
    "else": each(
        f"""{LOADED}
        %c = arith.cmpi slt, %n, %0 : index
        %d = arith.cmpi sgt, %n, %3 : index
        %e1 = arith.ori %c, %d : i1
        scf.if %e1 {{
        }} else {{
          {store("%n")}
        }}"""
    ),
    "remainders": each(
        f"""{LOADED}
        %p = arith.remui %x, %2 : index
        %q = arith.divsi %x, %2 : index
        {load("%p", "%q")}"""
    ),
    "mirrored": each(
        f"""
        %p = arith.subi %x, %3 : index
        %q = arith.subi %3, %x : index
        %r = arith.maxsi %p, %q : index
        {store("%r")}"""
    ),
    "taps of windows": each(
        f"""
        %s = arith.subi %x, %2 : index
        %u = arith.subi %0, %s : index
        %l = arith.maxsi %u, %0 : index
        %f = arith.subi %4, %s : index
        %h = arith.minsi %f, %5 : index
        scf.for %t = %l to %h step %1 {{
          %p = arith.addi %s, %t : index
          {store("%p")}
        }}"""
    ),
    "taps two apart": each(
        f"""
        %s = arith.subi %x, %2 : index
        %u = arith.subi %1, %s : index
        %w = arith.divsi %u, %2 : index
        %l = arith.maxsi %w, %0 : index
        %f = arith.subi %5, %s : index
        %g = arith.divsi %f, %2 : index
        %h = arith.minsi %g, %5 : index
        scf.for %t = %l to %h step %1 {{
          %d = arith.muli %t, %2 : index
          %p = arith.addi %s, %d : index
          {store("%p")}
        }}"""
    ),
    "carried": each(
        f"""
        %r = scf.for %t = %0 to %4 step %1 iter_args(%c = %0) -> (index) {{
          %f = arith.cmpi eq, %t, %x : index
          %n = arith.select %f, %t, %c : index
          {store("%c")}
          scf.yield %n : index
        }}
        {store("%r")}"""
    ),
    "no turns": each(load("%5", "%5"), "%0"),
    "views": """
      %w = memref.collapse_shape %a [[0, 1]] : memref<2x4xf32> into memref<8xf32>
      linalg.fill ins(%zero : f32) outs(%w : memref<8xf32>)""",
    "maps": generic("affine_map<(d0) -> (2, d0 + 1)>"),
    "padding": """
      %p = kernel.padded %b low [0, 1] high [0, 2]
        : memref<3x5xf32> to memref<3x8xf32>
      linalg.generic {indexing_maps = [affine_map<(d0) -> (0, d0 + 4)>,
        affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
        ins(%p : memref<3x8xf32>) outs(%o : memref<4xf32>) {
      ^bb0(%s: f32, %t: f32):
        linalg.yield %s : f32
      }""",
}

UNPROVEN = {
    "constants": (load("%2", "%0"), "memref.load"),
    "negative": (load("%0", "%m1"), "memref.load"),
    "far": (each(f"%y = arith.muli %x, %8 : index\n{store('%y')}"), "memref.store"),
    "one too far": (
        each(f"%y = arith.addi %x, %1 : index\n{store('%y')}"),
        "memref.store",
    ),
    "loaded": (each(LOADED + store("%n")), "memref.store"),
    "checked on one side": (
        each(
            f"""{LOADED}
            %c = arith.cmpi slt, %n, %4 : index
            cf.assert %c, "too large"
            {store("%n")}"""
        ),
        "memref.store",
    ),
    "checked behind": (
        each(
            f"""{LOADED}
            {store("%n")}
            %c = arith.cmpi ult, %n, %4 : index
            cf.assert %c, "too late" """
        ),
        "memref.store",
    ),
    "checked elsewhere": (
        each(
            f"""{LOADED}
            %c = arith.cmpi ult, %n, %4 : index
            scf.if %c {{
              cf.assert %c, "here alone"
            }}
            {store("%n")}"""
        ),
        "memref.store",
    ),
    "checked in turns that there may not be": (
        each(
            f"""{LOADED}
            %c = arith.cmpi ult, %n, %4 : index
            scf.for %t = %0 to %x step %1 {{
              cf.assert %c, "here alone"
            }}
            {store("%n")}"""
        ),
        "memref.store",
    ),
    "one of two": (
        each(
            f"""{LOADED}
            %l = arith.cmpi sge, %n, %0 : index
            %h = arith.cmpi slt, %n, %4 : index
            %c = arith.ori %l, %h : i1
            cf.assert %c, "either"
            {store("%n")}"""
        ),
        "memref.store",
    ),
    "wraps around": (
        each(
            f"""
            %raw = memref.load %i[%x] : memref<4xi64>
            %n = arith.trunci %raw : i64 to i8
            %big = arith.constant 127 : i8
            %p = arith.maxsi %n, %big : i8
            %one = arith.constant 1 : i8
            %q = arith.addi %p, %one : i8
            %r = arith.index_cast %q : i8 to index
            %s = arith.minsi %r, %3 : index
            {store("%s")}"""
        ),
        "memref.store",
    ),
    "runs down": (
        f"""{
            each(f'''
          scf.for %t = %3 to %m4 step %m1 {{
            {store("%t")}
          }}''')
        }""",
        "memref.store",
    ),
    "carried": (
        each(
            f"""
            %r = scf.for %t = %0 to %4 step %1 iter_args(%c = %0) -> (index) {{
              %n = arith.addi %c, %2 : index
              {store("%c")}
              scf.yield %n : index
            }}"""
        ),
        "memref.store",
    ),
    "carried out": (
        each(
            f"""
            %r = scf.for %t = %0 to %4 step %1 iter_args(%c = %0) -> (index) {{
              %n = arith.addi %t, %1 : index
              scf.yield %n : index
            }}
            {store("%r")}"""
        ),
        "memref.store",
    ),
    "larger views": (
        "%w = memref.collapse_shape %a [[0, 1]] : memref<2x4xf32> into memref<99xf32>",
        "memref.collapse_shape",
    ),
    "views with more groups": (
        "%w = memref.expand_shape %o [[0, 1]] output_shape [4, 4] "
        ": memref<4xf32> into memref<4x4xf32>",
        "memref.expand_shape",
    ),
    "wider views": (
        "%w = memref.collapse_shape %a [[0, 1]] : memref<2x4xf32> into memref<8xf64>",
        "memref.collapse_shape",
    ),
    "maps by other ways": (
        generic("affine_map<(d0) -> (2, d0 floordiv 2)>"),
        "linalg.generic",
    ),
    "loads in computations": (
        generic("affine_map<(d0) -> (2, d0 + 1)>").replace(
            "linalg.yield", load("%5", "%5") + "\nlinalg.yield"
        ),
        "linalg.generic",
    ),
    "other views": (
        """%w = "memref.cast"(%a) : (memref<2x4xf32>) -> memref<?x4xf32>""",
        "memref.cast",
    ),
    "other loops": (
        f"""scf.while () : () -> () {{
          %c = arith.constant true
          scf.condition(%c)
        }} do {{
          {store("%0")}
          scf.yield
        }}""",
        "scf.while",
    ),
}


@pytest.mark.parametrize("body", PROVEN.values(), ids=PROVEN)
def test_accesses_that_stay_inside(body: str):
    assert not unproven_accesses(kernel_of(body))


@pytest.mark.parametrize(("body", "name"), UNPROVEN.values(), ids=UNPROVEN)
def test_accesses_that_may_not(body: str, name: str):
    assert [op.name for op in unproven_accesses(kernel_of(body))] == [name]


# Random indices ----------------------------------------------------------------------


DIVIDE = ("divsi", "remsi", "floordivsi", "ceildivsi")


def random_body(chance: random.Random) -> str:
    """A stage that stores at places made of its index by random ops."""
    names = ["%x", *(f"%{name}" for name in NUMBERS)]
    lines: list[str] = []
    for number in range(chance.randrange(2, 9)):
        new, (a, b) = f"%r{number}", chance.choices(names, k=2)
        by = chance.choice(["%1", "%2", "%3", "%5"])
        op = chance.choice(
            [
                "addi",
                "subi",
                "minsi",
                "maxsi",
                "muli",
                "select",
                "check",
                "for",
                *DIVIDE,
            ]
        )
        if op in DIVIDE:
            b = by
        relation = chance.choice(["slt", "sle", "sgt", "sge", "eq", "ne", "ult", "uge"])
        match op:
            case "select":
                c, d = chance.choices(names, k=2)
                lines.append(f"%c{number} = arith.cmpi {relation}, {a}, {b} : index")
                lines.append(f"{new} = arith.select %c{number}, {c}, {d} : index")
            case "check":
                lines.append(f"%c{number} = arith.cmpi {relation}, {a}, {b} : index")
                lines.append(f'cf.assert %c{number}, "unlucky"')
                continue
            case "for":
                lines.append(
                    f"%f{number} = scf.for %t{number} = {a} to {b} step {by} "
                    f"iter_args(%i{number} = {chance.choice(names)}) -> (index) {{"
                )
                lines.append(f"  {store(f'%t{number}')}")
                lines.append(f"  {store(f'%i{number}')}")
                carried = chance.choice([*names, f"%t{number}", f"%i{number}"])
                lines.append(f"  scf.yield {carried} : index\n}}")
                new = f"%f{number}"
            case _:
                lines.append(f"{new} = arith.{op} {a}, {b} : index")
        names.append(new)
    stores = [store(name) for name in names if name.startswith(("%r", "%f"))]
    return each("\n".join([*lines, *stores]))


class Failed(Exception):
    """An assertion that does not hold, or numbers that are not followed any more."""


def places(
    op: Operation, known: dict[SSAValue, int]
) -> Iterator[tuple[Operation, int]]:
    """The stores of an op that is run with these values, each with its place."""
    numbers = [known.get(value, 0) for value in op.operands]
    match op:
        case memref.StoreOp():
            yield op, known[op.indices[0]]
        case scf.ForOp():
            variable, carried = op.body.block.args
            known[op.results[0]] = known[op.iter_args[0]]
            if numbers[1] - numbers[0] > 50:
                raise Failed
            for index in range(*numbers[:3]):
                known[variable], known[carried] = index, known[op.results[0]]
                yield from places_in(op.body.block, known)
                last = op.body.block.last_op
                assert last is not None
                known[op.results[0]] = known[last.operands[0]]
        case _ if op.name == "cf.assert":
            if not numbers[0]:
                raise Failed
        case _ if op.results:
            known[op.results[0]] = computed(op, numbers)
            if abs(known[op.results[0]]) > 1 << 62:
                raise Failed
        case _:
            pass


def places_in(
    block: Block, known: dict[SSAValue, int]
) -> Iterator[tuple[Operation, int]]:
    for op in block.ops:
        yield from places(op, known)


def truncated(a: int, b: int) -> int:
    return abs(a) // b * (1 if a >= 0 else -1)


def computed(op: Operation, numbers: Sequence[int]) -> int:
    """The result of a scalar op on indices that are not large."""
    if op.name == "arith.select":
        return numbers[1] if numbers[0] else numbers[2]
    a, b = numbers
    if isinstance(op, arith.CmpiOp):
        u, v = a % (1 << 64), b % (1 << 64)
        relations = [a == b, a != b, a < b, a <= b, a > b, a >= b]
        relations += [u < v, u <= v, u > v, u >= v]
        return relations[op.predicate.value.data]
    results: Mapping[str, int] = {
        "addi": a + b,
        "subi": a - b,
        "muli": a * b,
        "minsi": min(a, b),
        "maxsi": max(a, b),
    }
    if (name := op.name.removeprefix("arith.")) in results:
        return results[name]
    quotients = {"floordivsi": a // b, "ceildivsi": -(-a // b)}
    if name == "remsi":
        return a - b * truncated(a, b)
    return quotients.get(name, truncated(a, b))


@pytest.mark.slow
def test_what_is_proven_of_random_indices_holds():
    chance = random.Random(fresh_seed())
    proven = 0
    for _ in range(150):
        kernel = kernel_of(random_body(chance))
        unproven = set(unproven_accesses(kernel))
        (stage,) = (op for op in kernel.walk() if isinstance(op, scf.ParallelOp))
        stores = {op for op in stage.walk() if isinstance(op, memref.StoreOp)}
        proven += len(stores - unproven)
        for x in range(4):
            known: dict[SSAValue, int] = {
                op.results[0]: op.value.value.data
                for op in kernel.body.block.ops
                if isinstance(op, arith.ConstantOp) and isa(op.value, IntegerAttr)
            }
            known[stage.body.block.args[0]] = x
            try:
                for op, place in places_in(stage.body.block, known):
                    assert op in unproven or 0 <= place < 4, (str(kernel), x)
            except Failed:
                pass
    assert proven > 100
