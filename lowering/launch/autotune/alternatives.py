"""
Kernel variants: the interface of a way of computing kernels.

An `Alternative` says which kernels it is for (targets, ops, dtypes), refuses the others
with a reason, and offers *variants* of itself for the rest. The choice is made in
`penstock.lowering.launch.autotune.choice`. A plug-in derives a class of its own and
offers an object of it (`penstock.lowering.launch.autotune.registry`).
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from penstock.dialects.launch import KernelOp
from penstock.plugins import PluginError

AlternativeError = PluginError
"""The name of the interface 0.1 for an alternative that fails, or that is not there."""


@dataclass(frozen=True)
class Request:
    """A kernel that is to be computed, and what is known of where it will run."""

    kernel: KernelOp
    """Not to be changed: what is applied gets a kernel of its own."""
    constants: frozenset[int] = frozenset()
    """The arguments that are always the same variables, and may lie in panels."""
    parts: int = 1
    """The number of threads that may share the work."""
    vector_bytes: int = 16
    """The bytes of a vector of the CPU."""
    matrices: bool = False
    """Whether the CPU has AMX tile registers for 8-bit integers."""

    @property
    def op(self) -> str:
        """The op that the kernel computes, or nothing where it is not told."""
        return "" if self.kernel.cost is None else self.kernel.cost[0]

    @property
    def computes(self) -> Sequence[str]:
        """The ops that it computes, in order: those of a group, or the one."""
        return self.kernel.computes

    @property
    def target(self) -> str:
        """The kind of device: `cpu`, `cuda`..."""
        return self.kernel.compiled_for

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The element types of the arguments, each once, as `f32`."""
        types = (str(type.element_type) for type in self.kernel.arguments)
        return tuple(dict.fromkeys(types))

    def __str__(self) -> str:
        name = self.kernel.sym_name.data
        op = f" ({self.op})" if self.op else ""
        return f"kernel @{name}{op} for {self.target}, {', '.join(self.dtypes)}"


@dataclass(frozen=True)
class Variant:
    """A variant of an alternative."""

    apply: Callable[[KernelOp], None]
    """Changes a kernel, but for its arguments."""
    label: str = ""
    """The difference to others of the same alternative, in one line."""
    cost_ns: float | Callable[[], float | None] | None = None
    """Modelled nanoseconds, or a function that models them, if there is a model."""

    @cached_property
    def modelled_ns(self) -> float | None:
        """Modelled nanoseconds, if there is a model."""
        return self.cost_ns() if callable(self.cost_ns) else self.cost_ns


class Alternative:
    """
    A way in which kernels can be computed; derive from it.

    The fastest one by measurement is taken; without, that with the highest `priority`,
    then the least modelled time, then the first name.
    """

    name: str = ""
    """Unique; it stands in the IR and in the kernel database."""
    targets: Sequence[str] = ("cpu",)
    """The kinds of devices that it is for."""
    ops: Sequence[str] | None = None
    """
    The ops (such as `op.matmul`) whose kernels it is for, None for all; `op.fused` for
    those of all groups.
    """
    absorbs: Sequence[str] | None = ()
    """
    The ops that it computes along with those of `ops`, where they are one group, None
    for all: it is offered for the kernels of groups of such ops, too.
    """
    dtypes: Sequence[str] | None = None
    """The element types that the arguments may have, None for all."""
    priority: int = 0
    """That of the built-in rules is 0."""
    is_applied_later: bool = False
    """Whether nothing is to be changed, as a later pass does it."""

    has_to_be_measured: bool = False
    """Whether it is only taken where its time is known, whatever its priority."""

    def refuse(self, request: Request) -> str | None:
        """Why it cannot compute a kernel, in words; None if it can."""
        return None

    def variants(self, request: Request) -> Iterable[Variant]:
        """The ways in which it can compute a kernel that it does not refuse."""
        raise NotImplementedError(f"{type(self).__name__}.variants")

    def refusal(self, request: Request) -> str | None:
        """Why it is not for a kernel, by what it says it is for, or in its words."""
        if request.target not in self.targets:
            return f"is for {', '.join(self.targets)}"
        if reason := self.other_ops(request.op, request.computes):
            return reason
        if self.dtypes is not None and not {*request.dtypes} <= {*self.dtypes}:
            return f"is for {', '.join(self.dtypes)}"
        return self.refuse(request)

    def other_ops(self, label: str, computes: Sequence[str]) -> str | None:
        """
        Why it is not for an op by the names of `ops`: by the one that tables show, or
        by those of the ops that its kernel computes.
        """
        if (ops := self.ops) is None:
            return None
        kind = label.partition("(")[0]
        if label in ops or kind in ops:
            return None
        held = dict.fromkeys(computes)
        if not any(op in ops for op in held):
            return f"is for {', '.join(ops)}"
        if self.absorbs is None:
            return None
        known = {*ops, *self.absorbs} if self.absorbs else set[str]()
        left = [op for op in held if op not in known]
        return f"does not absorb groups of {', '.join(left)}" if left else None

    @property
    def source(self) -> str:
        """The origin of the alternative: `penstock`, or the module of a plug-in."""
        module = type(self).__module__
        return "penstock" if module.startswith("penstock.lowering.") else module

    @property
    def code(self) -> str:
        """
        The origin with a digest of the module's text: what was measured of a plug-in is
        no longer true when a line of it has changed.
        """
        return "penstock" if self.source == "penstock" else code_of_module(self.source)


@cache
def code_of_module(module: str) -> str:
    """The file of a module with a digest of its text, or its name if it has none."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or not os.path.isfile(file):
        return module
    with open(file, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return f"{os.path.basename(file)} {digest[:32]}"
