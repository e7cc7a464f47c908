"""
The limits of this processor: bandwidths by the bytes that are touched, and peaks.

Loops in LLVM's text, with vectors of as many bytes as are asked for, on as many
threads: reads, writes (those past the caches too, where they are faster), copies, and
chains of products in registers. The best of several runs counts.
"""

# llvmlite has no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

LEAST_BYTES, MOST_BYTES = 1 << 14, 1 << 26
"""The bytes that are touched by the smallest and by the largest measurement."""
CHAINS = 12
"""The products in flight: latency times units, and the accumulators fit registers."""
SECONDS, ROUNDS = 0.002, 5
"""The least time of a run, and the number of runs."""
STREAMS = 4
"""The vectors of a turn of a loop over memory."""

PRODUCTS = {
    "f32": ("float", 4, 2, "", "fma"),
    "f64": ("double", 8, 2, "", "fma"),
    "bf16": ("float", 4, 4, "avx512bf16", "avx512bf16.dpbf16ps"),
    "u8": ("i32", 4, 8, "avx512vnni", "avx512.vpdpbusd"),
}
"""By types: that of sums in LLVM, and its bytes; operations on a sum in an instruction;
the feature that has it; its name. Where it is missing, the peak of `f32` counts."""

Kernel = Callable[[int, int, int, int], None]
"""Works on a target and a source of so many bytes, so many times."""


@dataclass(frozen=True)
class Limits:
    """The rates that so many threads can reach, in bytes and operations a second."""

    reads: Mapping[int, float]
    writes: Mapping[int, float]
    copies: Mapping[int, float]
    """Read and written, by the bytes that are touched."""
    peaks: Mapping[str, float]
    """By types."""

    def seconds(self, read: int, written: int, flops: int, type: str) -> float:
        """The least time in which bytes can be moved and operations made."""
        size = rung(read + written)
        both = min(read, written)
        moving = 2 * both / self.copies[size]
        moving += (read - both) / self.reads[size]
        moving += (written - both) / self.writes[size]
        peak = self.peaks.get(type, self.peaks["f32"])
        return max(moving, flops / peak)


def rung(count: int) -> int:
    """The power of two, among those that are measured, that holds so many bytes."""
    return min(MOST_BYTES, max(LEAST_BYTES, 1 << max(0, count - 1).bit_length()))


@cache
def measured(threads: int, vector_bytes: int) -> Limits:
    """The limits of a number of threads with vectors of so many bytes."""
    sizes = [
        1 << n for n in range(LEAST_BYTES.bit_length() - 1, MOST_BYTES.bit_length())
    ]
    reading, writing, copying = (
        kernel(memory_text(name, vector_bytes)) for name in ("read", "write", "copy")
    )
    past = [
        kernel(memory_text(name, vector_bytes, past=True)) for name in ("write", "copy")
    ]
    rates: dict[str, dict[int, float]] = {"read": {}, "write": {}, "copy": {}}
    for size in sizes:
        part = size // threads
        rates["read"][size] = rate([reading], part, 1, threads)
        rates["write"][size] = rate([writing, past[0]], part, 1, threads)
        rates["copy"][size] = rate([copying, past[1]], part, 2, threads)
    peaks = {
        type: operations(type, vector_bytes, threads)
        for type in PRODUCTS
        if has_products(type, vector_bytes)
    }
    return Limits(rates["read"], rates["write"], rates["copy"], peaks)


def rate(kernels: Sequence[Kernel], size: int, arrays: int, threads: int) -> float:
    """The bytes a second of the fastest of kernels that share `size` by arrays."""
    part = size // arrays
    memory = [ctypes.create_string_buffer(size + 8192) for _ in range(threads)]
    starts = [-(-ctypes.addressof(each) // 4096) * 4096 for each in memory]
    # The source lies half a page off, or loads would wait for stores of its page.
    places = [
        (start, start + part * (arrays - 1) + 2048 * (arrays - 1)) for start in starts
    ]
    best = max(
        1 / seconds_of(function, [(*place, part) for place in places])
        for function in kernels
    )
    return best * size * threads


def has_products(type: str, vector_bytes: int) -> bool:
    """Whether code with such vectors may use the instruction of a type."""
    from llvmlite import binding

    feature = PRODUCTS[type][3]
    if not feature:
        return True
    return vector_bytes == 64 and binding.get_host_cpu_features().get(feature, False)


def operations(type: str, vector_bytes: int, threads: int) -> float:
    """The operations a second of chains of products."""
    memory = ctypes.create_string_buffer(4096)
    places = [(ctypes.addressof(memory), 0, 64)] * threads
    _, size, each, _, _ = PRODUCTS[type]
    seconds = seconds_of(kernel(product_text(type, vector_bytes)), places)
    return 64 * each * (vector_bytes // size) * CHAINS * threads / seconds


def seconds_of(function: Kernel, calls: Sequence[tuple[int, int, int]]) -> float:
    """The least time of one of a kernel's turns, which all threads make at once."""

    def run(turns: int) -> float:
        start = time.perf_counter()
        running = [pool.submit(function, *call, turns) for call in calls]
        for each in running:
            each.result()
        return time.perf_counter() - start

    with ThreadPoolExecutor(len(calls)) as pool:
        turns = 1
        while run(turns) < SECONDS:
            turns *= 2
        return min(run(turns) for _ in range(ROUNDS)) / turns


################################################################################
# Code                                                                         #
################################################################################


@cache
def kernel(text: str) -> Kernel:
    """The machine code of a function `run`."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
    )
    module = binding.parse_assembly(text)
    module.verify()
    engine = binding.create_mcjit_compiler(module, target)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
    found = kind(engine.get_function_address("run"))
    _KEPT.append(engine)
    return found


_KEPT: list[Any] = []
"""The engines that own machine code."""


def memory_text(name: str, vector_bytes: int, *, past: bool = False) -> str:
    """A loop that reads, writes or copies an array, past the caches if so."""
    type = f"<{vector_bytes // 8} x i64>"
    body: list[str] = []
    for number in range(STREAMS):
        body.append(f"%o{number} = add i64 %at, {number * vector_bytes}")
        value = f"%kept{number}"
        if name != "write":
            body += [
                f"%s{number} = add i64 %source, %o{number}",
                f"%p{number} = inttoptr i64 %s{number} to {type}*",
                f"%v{number} = load {type}, {type}* %p{number}, align {vector_bytes}",
                f"%n{number} = xor {type} {value}, %v{number}",
            ]
        else:
            body.append(f"%n{number} = add {type} {value}, {value}")
        if name != "read":
            stored = f"%v{number}" if name == "copy" else value
            hint = ", !nontemporal !0" if past else ""
            body += [
                f"%t{number} = add i64 %target, %o{number}",
                f"%q{number} = inttoptr i64 %t{number} to {type}*",
                f"store {type} {stored}, {type}* %q{number}, "
                f"align {vector_bytes}{hint}",
            ]
    return _loops(type, STREAMS, body, STREAMS * vector_bytes)


def product_text(type: str, vector_bytes: int) -> str:
    """A loop of chains of products in registers."""
    element, size, _, feature, called = PRODUCTS[type]
    lanes = vector_bytes // size
    vector = given = f"<{lanes} x {element}>"
    name = f"@llvm.x86.{called}.{8 * vector_bytes}"
    if not feature:
        name = f"@llvm.{called}.v{lanes}f{8 * size}"
    if type == "bf16":
        given = f"<{2 * lanes} x bfloat>"
    body: list[str] = []
    for n in range(CHAINS):
        operands = [f"{vector} %kept{n}", f"{given} %x", f"{given} %x"]
        if not feature:
            operands = [*operands[1:], operands[0]]
        body.append(f"%n{n} = call {vector} {name}({', '.join(operands)})")
    loads = [
        f"%place = inttoptr i64 %target to {given}*",
        f"%x = load volatile {given}, {given}* %place, align 4",
    ]
    kinds = [vector, given, given]
    declared = f"declare {vector} {name}({', '.join(kinds)})"
    return f"{declared}\n{_loops(vector, CHAINS, body, 1, loads)}"


def _loops(
    type: str, kept: int, body: Sequence[str], step: int, before: Sequence[str] = ()
) -> str:
    """Turns of a loop in which values go from one turn to the next."""
    zero = "zeroinitializer"
    outer = [
        f"%first{n} = phi {type} [ {zero}, %entry ], [ %n{n}, %ends ]"
        for n in range(kept)
    ]
    inner = [
        f"%kept{n} = phi {type} [ %first{n}, %turn ], [ %n{n}, %loop ]"
        for n in range(kept)
    ]
    # An array of what the chains hold is never read, but has to be made.
    stores = [
        line
        for n in range(kept)
        for line in (
            f"%e{n} = getelementptr {type}, {type}* %out, i64 {n}",
            f"store volatile {type} %n{n}, {type}* %e{n}, align 64",
        )
    ]
    return f"""
define void @run(i64 %target, i64 %source, i64 %bytes, i64 %turns) {{
entry:
  %out = alloca {type}, i64 {kept}, align 64
  {chr(10).join(before)}
  br label %turn
turn:
  %round = phi i64 [ 0, %entry ], [ %next, %ends ]
  {chr(10).join(outer)}
  br label %loop
loop:
  %at = phi i64 [ 0, %turn ], [ %on, %loop ]
  {chr(10).join(inner)}
  {chr(10).join(body)}
  %on = add i64 %at, {step}
  %more = icmp ult i64 %on, %bytes
  br i1 %more, label %loop, label %ends
ends:
  call void asm sideeffect "", "~{{memory}}"()
  %next = add i64 %round, 1
  %again = icmp ult i64 %next, %turns
  br i1 %again, label %turn, label %done
done:
  {chr(10).join(stores)}
  ret void
}}
!0 = !{{i32 1}}
"""
