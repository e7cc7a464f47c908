"""Alternatives for kernels, as a file that is loaded with `--load` registers them."""

from collections.abc import Iterable

from xdsl.dialects.builtin import MemRefType, StringAttr, f32

from penstock.dialects.launch import KernelOp
from penstock.lowering.launch.autotune.alternatives import Alternative, Request, Variant
from penstock.lowering.launch.autotune.registry import register_alternative


def note(text: str) -> Variant:
    """A variant that leaves a note on the kernel."""

    def apply(kernel: KernelOp) -> None:
        kernel.attributes["acme.note"] = StringAttr(text)

    return Variant(apply)


class Swish(Alternative):
    """Replaces what is built in."""

    name = "acme-swish"
    ops = ("acme.swish",)
    priority = 10

    def refuse(self, request: Request) -> str | None:
        """Refuses arguments of one element."""
        return "one element is not worth it" if has_one(request) else None

    def variants(self, request: Request) -> Iterable[Variant]:
        """The one that there is."""
        yield note("swished")


class Modelled(Alternative):
    """Has a model, in two variants, and the priority of what is built in."""

    name = "acme-modelled"
    ops = ("acme.modelled",)
    dtypes = ("f32",)

    def variants(self, request: Request) -> Iterable[Variant]:
        """A slow one and a fast one."""
        for label, cost in (("slow", 90.0), ("fast", 80.0)):
            yield Variant(note(label).apply, label, cost)


class Broken(Alternative):
    """Raises."""

    name = "acme-broken"
    ops = ("acme.broken",)

    def variants(self, request: Request) -> Iterable[Variant]:
        """Fails."""
        raise KeyError("tile")


class Greedy(Alternative):
    """Adds an argument, which it may not."""

    name = "acme-greedy"
    ops = ("acme.greedy",)
    priority = 1

    def variants(self, request: Request) -> Iterable[Variant]:
        """The one that there is."""

        def apply(kernel: KernelOp) -> None:
            kernel.body.block.insert_arg(MemRefType(f32, [1]), 0)

        yield Variant(apply)


class Checked(Alternative):
    """Has a source of its own, which may return any code."""

    name = "acme-checked"
    ops = ("acme.checked",)
    priority = 1

    def variants(self, request: Request) -> Iterable[Variant]:
        """The one that there is."""

        def apply(kernel: KernelOp) -> None:
            kernel.attributes["source"] = StringAttr("int kernel(void);")

        yield Variant(apply)


def has_one(request: Request) -> bool:
    """Whether all arguments have one element."""
    return all(type.get_shape() == (1,) for type in request.kernel.arguments)


for alternative in (Swish(), Modelled(), Broken(), Greedy(), Checked()):
    register_alternative(alternative)
