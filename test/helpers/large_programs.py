"""Programs of many tasks, made without a compiler: for pages that show them."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import MemRefType, NameLoc, NoneAttr, StringAttr, f32
from xdsl.ir import Block, Region

from penstock.dialects.job import DeviceAttr
from penstock.dialects.launch import ActorOp, ChunkOp, ProgramOp, RegisterOp
from penstock.dialects.regst import MemoryCaseAttr

SIZE = 1024
"""The bytes of each register."""


class ProgramBuilder:
    """A program of tasks that show what they read; each writes one register."""

    def __init__(self) -> None:
        self._chunk = ChunkOp("c0", MemoryCaseAttr(0, "host"), 64 * SIZE)
        self._device = DeviceAttr(0, "cpu", 0)
        self._type = MemRefType(f32, [SIZE // 4])
        self._registers: list[RegisterOp] = []
        self._actors: list[ActorOp] = []

    def __len__(self) -> int:
        return len(self._actors)

    def add(self, scope: str, name: str, reads: Iterable[str]) -> str:
        """A task by the node that it was made of; its register."""
        number = len(self._actors)
        register = f"{name}_{number}/out"
        offset = number % 64 * SIZE
        self._registers.append(RegisterOp(register, "c0", offset, 1, self._type))
        actor = ActorOp(
            f"{name}_{number}",
            self._device,
            0,
            [*dict.fromkeys(reads)],
            [register],
            Region(Block()),
        )
        actor.location = NameLoc(StringAttr(f"{scope}/{name}"), NoneAttr())
        self._actors.append(actor)
        return register

    def build(self, name: str) -> ProgramOp:
        """The program."""
        ops = [self._chunk, *self._registers, *self._actors]
        return ProgramOp(name, 0, Region(Block(ops)))


def gpt(layers: int, heads: int = 1) -> ProgramOp:
    """A decoder: all layers read one mask; heads are computed apart if several."""
    made = ProgramBuilder()
    mask = made.add("", "mask", [])
    x = made.add("", "embed", [])
    for layer in range(layers):
        scope = f"/layers.{layer}"
        attention = f"{scope}/attn"
        normed = made.add(attention, "norm", [x])
        parts = [made.add(f"{attention}/{name}", "linear", [normed]) for name in "qkv"]
        mixed: list[str] = []
        for head in range(heads):
            inner = f"{attention}/head.{head}" if heads > 1 else attention
            scores = made.add(inner, "scores", parts[:2])
            weights = made.add(inner, "softmax", [scores, mask])
            mixed.append(made.add(inner, "mix", [weights, parts[2]]))
        joined = mixed[0] if heads == 1 else made.add(attention, "concat", mixed)
        x = made.add(scope, "add", [made.add(attention, "proj", [joined]), x])
        normed = made.add(f"{scope}/mlp", "norm", [x])
        up = made.add(f"{scope}/mlp", "up", [normed])
        down = made.add(
            f"{scope}/mlp", "down", [made.add(f"{scope}/mlp", "gelu", [up])]
        )
        x = made.add(scope, "add", [down, x])
    return made.build("gpt")


def inception(blocks: int) -> ProgramOp:
    """Blocks of four branches each."""
    made = ProgramBuilder()
    x = made.add("", "stem", [])
    for block in range(blocks):
        scope = f"/block.{block}"
        one = made.add(scope, "conv1", [x])
        two = made.add(scope, "conv3", [made.add(scope, "reduce3", [x])])
        three = made.add(scope, "conv5", [made.add(scope, "reduce5", [x])])
        four = made.add(scope, "project", [made.add(scope, "pool", [x])])
        x = made.add(scope, "concat", [one, two, three, four])
    return made.build("inception")


def training(layers: int) -> ProgramOp:
    """Forward and backward, whose tasks lie in the same scopes, and an update."""
    made = ProgramBuilder()
    x = made.add("", "embed", [])
    kept: list[tuple[str, str]] = []
    for layer in range(layers):
        scope = f"/layers.{layer}"
        linear = made.add(scope, "linear", [x])
        gelu = made.add(scope, "gelu", [linear])
        kept.append((x, linear))
        x = made.add(scope, "add", [gelu, x])
    gradient = made.add("/loss", "loss", [x])
    for layer in reversed(range(layers)):
        scope = f"/layers.{layer}"
        x, linear = kept[layer]
        inner = made.add(scope, "gelu_grad", [gradient, linear])
        weight = made.add(scope, "weight_grad", [inner, x])
        made.add(scope, "update", [weight])
        gradient = made.add(scope, "linear_grad", [inner, gradient])
    return made.build("training")
