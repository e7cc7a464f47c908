"""Launch programs with loops and conditions, written by hand: for executors."""

from collections.abc import Sequence

from loaded_programs import load_program

from penstock.dialects.launch import ProgramOp
from penstock.lowering.verify.program import findings_in
from penstock.runtime.loading.loader import LoadedProgram
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.kernel_sources import kernel_sources

KERNELS = """
  launch.kernel @step target "cpu" (%x: memref<2xf64>, %h: memref<2xf64>,
      %o: memref<2xf64>) {
    linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>,
        affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]
    } ins(%x, %h : memref<2xf64>, memref<2xf64>) outs(%o : memref<2xf64>) {
    ^bb0(%a: f64, %b: f64, %c: f64):
      %half = arith.constant 0.5 : f64
      %d = arith.mulf %b, %half : f64
      %e = arith.addf %d, %a : f64
      linalg.yield %e : f64
    }
  }
  launch.kernel @step_over target "cpu" (%x: memref<2xf64>, %o: memref<2xf64>) {
    linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]
    } ins(%x : memref<2xf64>) outs(%o : memref<2xf64>) {
    ^bb0(%a: f64, %b: f64):
      %half = arith.constant 0.5 : f64
      %d = arith.mulf %b, %half : f64
      %e = arith.addf %d, %a : f64
      linalg.yield %e : f64
    }
  }
  launch.kernel @less target "cpu" (%i: memref<i64>, %n: memref<i64>,
      %o: memref<i1>) {
    linalg.generic {
      indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>,
        affine_map<() -> ()>],
      iterator_types = []
    } ins(%i, %n : memref<i64>, memref<i64>) outs(%o : memref<i1>) {
    ^bb0(%a: i64, %b: i64, %c: i1):
      %d = arith.cmpi slt, %a, %b : i64
      linalg.yield %d : i1
    }
  }
  launch.kernel @add target "cpu" (%i: memref<i64>, %n: memref<i64>,
      %o: memref<i64>) {
    linalg.generic {
      indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>,
        affine_map<() -> ()>],
      iterator_types = []
    } ins(%i, %n : memref<i64>, memref<i64>) outs(%o : memref<i64>) {
    ^bb0(%a: i64, %b: i64, %c: i64):
      %d = arith.addi %a, %b : i64
      linalg.yield %d : i64
    }
  }
  launch.kernel @add_over target "cpu" (%n: memref<i64>, %o: memref<i64>) {
    linalg.generic {
      indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>],
      iterator_types = []
    } ins(%n : memref<i64>) outs(%o : memref<i64>) {
    ^bb0(%a: i64, %b: i64):
      %d = arith.addi %a, %b : i64
      linalg.yield %d : i64
    }
  }
  launch.kernel @below target "cpu" (%i: memref<i64>, %n: memref<i64>,
      %o: memref<i64>) {
    linalg.generic {
      indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>,
        affine_map<() -> ()>],
      iterator_types = []
    } ins(%i, %n : memref<i64>, memref<i64>) outs(%o : memref<i64>) {
    ^bb0(%a: i64, %b: i64, %c: i64):
      %e = arith.cmpi slt, %a, %b : i64
      cf.assert %e, "a number is too large"
      %d = arith.addi %a, %b : i64
      linalg.yield %d : i64
    }
  }
"""


def checked(text: str) -> ProgramOp:
    """A program from the text of its ops, which is right."""
    compiler, _ = installed_compiler()
    whole = f"launch.program @p rank 0 {{\n{text}\n}}"
    module = compiler.parse(whole.encode(), "p.mlir")
    compiler.verify(module)
    op = module.body.block.first_op
    assert isinstance(op, ProgramOp)
    found = [text for _, text in findings_in(op)]
    assert not found, found
    return op


def loaded(text: str, *, threads: int = 1) -> LoadedProgram:
    """A program from the text of its ops, in memory."""
    op = checked(KERNELS + text)
    return load_program(op, kernel_sources(op, ["cpu"]), threads=threads)


def memory(registers: Sequence[tuple[str, str, int]], size: int = 256) -> str:
    """A chunk with registers of these names, types and slots, `size` bytes for each."""
    lines = [f"launch.chunk @bytes on <0, host> size {8 * size * len(registers)}"]
    at = 0
    for name, type, slots in registers:
        lines.append(
            f"launch.register @{name} in @bytes at {at} slots {slots} : {type}"
        )
        at += size * 8
    return "\n".join(lines)


def actor(
    reads: Sequence[str],
    writes: Sequence[str],
    body: str,
    work: Sequence[str] = (),
    *,
    can_fail: bool = False,
) -> str:
    """
    Actors that feed and fetch, and one between them that does steps; `work` are
    registers that it alone uses.
    """
    feeds = "\n".join(
        f"launch.actor @{name}_ on <0, cpu:0> stream 0 reads [] writes [@{name}] {{\n"
        f'  launch.feed "{name}" to @{name}\n}}'
        for name in reads
    )
    fetches = "\n".join(
        f"launch.actor @{name}_ on <0, cpu:0> stream 0 reads [@{name}] writes [] {{\n"
        f'  launch.fetch "{name}" from @{name}\n}}'
        for name in writes
    )
    taken = ", ".join(f"@{name}" for name in reads)
    made = ", ".join(f"@{name}" for name in (*writes, *work))
    says = "can_fail " if can_fail else ""
    return (
        f"{feeds}\nlaunch.actor @a on <0, cpu:0> stream 1 {says}reads [{taken}] "
        f"writes [{made}] {{\n{body}\n}}\n{fetches}\n"
    )
