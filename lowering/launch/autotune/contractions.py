"""
The built-in alternatives: rules, and for a contraction other tiles or loops.

`rules` is what passes and the source generator do with a kernel where nothing else is
chosen (`launch-schedule-contractions`). `tiles` are other schedules of the one
contraction in a kernel: the tiles of least modelled time, and variations of the rules'
own schedule (packed or not, in panels or not, other blocks, other distances of
fetching). `loops` leaves a small one without a schedule. Both have lower priority than
the rules, so that only a measurement chooses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE
from penstock.dialects.launch import KernelOp, PanelsAttr
from penstock.dialects.launch.packed_layout import PANELS
from penstock.dialects.launch.schedules.cpu_matmul import ContractionAttr
from penstock.lowering.codegen.body.contraction import Contraction, contraction_of
from penstock.lowering.codegen.body.epilogue import epilogue_in, stages_of
from penstock.lowering.codegen.body.sums_split import split_sums
from penstock.lowering.codegen.cpu.attention_schedule import schedule_attention
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.lowering.codegen.cpu.matmul_schedule import (
    depth_of,
    most_terms,
    reuse_block,
    transposed_length,
)
from penstock.lowering.codegen.cpu.packed_operands import (
    argument_of,
    element_count,
    misfit,
    panels_of,
    reads_windows,
)
from penstock.lowering.codegen.cpu.tile_model import (
    BYTES,
    fitting_tiles,
    tile_seconds,
    transposed_seconds,
    transposed_tiles,
)
from penstock.lowering.codegen.cpu.vector_width import REGISTERS
from penstock.lowering.codegen.cuda.kernel_schedule import PROCESSORS
from penstock.lowering.codegen.cuda.kernel_schedule import (
    schedule_kernel as schedule_tiles,
)
from penstock.lowering.launch.autotune.alternatives import Alternative, Request, Variant

PRODUCT_NS = 0.25
"""The time of a product of vectors in the model: one a cycle of 4 GHz."""
PACK_NS = 0.15
"""The time of packing an element in the model."""
MOST_TILES = 6
"""The tiles that are offered: those with the least modelled time."""
UPRIGHT_TILES = 4
"""The upright tiles that are offered."""
INNER_TILES = (1, 4), (1, 8), (2, 4), (2, 8), (4, 2), (4, 4)
"""Rows and columns of the tiles whose vectors run along terms."""
PREFETCHES = 0, 8
"""The rows of `b` to fetch ahead."""
MOST_LOOPED = 1 << 18
"""The products for which plain loops are worth a try."""


class Rules(Alternative):
    """The alternative of the passes and the source generator themselves."""

    name = "rules"
    targets = ("cpu", "cuda")
    is_applied_later = True

    def variants(self, request: Request) -> Iterable[Variant]:
        """The one that there is."""

        def model() -> float | None:
            found = site_of(request)
            if isinstance(found, str) or found.usual is None:
                return None
            return found.cost_ns(found.usual)

        yield Variant(lambda kernel: schedule(kernel, request), cost_ns=model)


def schedule(kernel: KernelOp, request: Request) -> None:
    """
    Schedule what has no schedule yet, as the passes do that come after the selection.
    """
    if request.target == "cuda":
        schedule_tiles(kernel, PROCESSORS)
    if request.target != "cpu":
        return
    width = request.vector_bytes
    if PANELS not in kernel.attributes:
        facts = request.parts, request.constants, request.matrices
        schedule_kernel(kernel, width, *facts)
    schedule_attention(kernel, width)


class Tiles(Alternative):
    """Other schedules for the one contraction of a kernel."""

    name = "tiles"
    priority = -10

    def refuse(self, request: Request) -> str | None:
        """Why a kernel has no other schedules."""
        found = place_of(request)
        return found if isinstance(found, str) else None

    def variants(self, request: Request) -> Iterable[Variant]:
        """Each schedule that fits, once, and that of the rules not at all."""
        site = site_of(request)
        assert isinstance(site, Site), "refused otherwise"
        if site.usual is None:
            return
        seen = {site.usual}
        for found in site.schedules():
            if found not in seen and site.fits(found):
                seen.add(found)
                yield site.variant(found)


class Loops(Alternative):
    """Plain loops, without a schedule."""

    name = "loops"
    priority = -20

    def refuse(self, request: Request) -> str | None:
        """Why plain loops are not worth a try."""
        found = place_of(request)
        if isinstance(found, str):
            return found
        products = products_of(found[2])
        if products > MOST_LOOPED:
            return f"{products} products are too many for plain loops"
        return None

    def variants(self, request: Request) -> Iterable[Variant]:
        """The one that there is."""
        site = site_of(request)
        assert isinstance(site, Site), "refused otherwise"
        if site.usual is None:
            return

        def apply(kernel: KernelOp) -> None:
            op = stages_of(kernel.body.block)[site.position]
            op.attributes[REFUSAL] = StringAttr("plain loops were selected")

        yield Variant(apply)


################################################################################
# One sum of products                                                          #
################################################################################


@dataclass(frozen=True)
class Site:
    """The one contraction of a kernel, and the schedule that the rules give it."""

    position: int
    """Among the stages."""
    op: Operation
    contraction: Contraction
    usual: ContractionAttr | None
    request: Request

    @property
    def lanes(self) -> int:
        """The elements of a vector."""
        return self.request.vector_bytes // BYTES[self.contraction.element]

    def cost_ns(self, schedule: ContractionAttr) -> float | None:
        """The modelled time: that of tiles, and of packing columns and rows."""
        tile = schedule.tile[0], schedule.tile[1]
        outer = prod(self.contraction.outer_extents)
        if schedule.is_transposed:
            found = transposed_seconds(self.contraction, tile, self.lanes)
            return None if found is None else found * PRODUCT_NS * outer
        if not schedule.is_outer:
            return None
        found = self.contraction
        if reads_windows(found, schedule):
            found = found.in_lines
            outer = prod(found.outer_extents)
        rows, columns, terms = found.extents
        steps = ceil(terms / schedule.terms_at_once)
        time = tile_seconds(tile, rows, columns, steps, self.lanes) * PRODUCT_NS
        if schedule.packed:
            time += ceil(rows / schedule.block[0]) * columns * terms * PACK_NS
        if schedule.reuse:
            panels = ceil(columns / schedule.columns)
            time += ceil(panels / schedule.reuse) * rows * terms * PACK_NS
        return time * outer

    def schedules(self) -> Iterator[ContractionAttr]:
        """Schedules that need not fit, some more than once."""
        assert self.usual is not None, "refused otherwise"
        for numbers in self._changes(self.usual):
            try:
                yield replace(self.usual, **numbers)
            except VerifyException:
                continue

    def _changes(self, usual: ContractionAttr) -> Iterator[Numbers]:
        (height, depth), (rows, vectors, lanes) = usual.block, usual.tile
        if usual.panels == "a" and self.contraction.starts:
            yield from self._transposed()
        if usual.is_transposed:
            for tile in self._tiles()[:2]:
                yield {"form": "outer", **self._of_tile(usual, tile, True)}
            return
        yield {"block": (height, ceil(depth / 2))}
        yield {"block": (height, 2 * depth)}
        yield {"block": (rounded(ceil(height / 2), rows), depth)}
        if not usual.is_outer:
            for most, columns in INNER_TILES:
                block = rounded(height, most), depth
                yield {"tile": (most, columns, lanes), "block": block}
            return
        for distance in PREFETCHES:
            yield {"prefetch": distance}
        yield self._reusing(usual, (rows, vectors))
        if usual.reuse:
            block = rounded(self.contraction.extents[0], rows), depth
            yield {"reuse": 0, "block": block}
        if usual.panels:
            for packed in (True, False):
                yield {"panels": "", "edge": 0, "packed": packed}
        tiles = self._tiles()
        for tile in ((rows, vectors), *tiles[:2]):
            yield self._of_tile(usual, tile, not usual.packed)
        for tile in tiles:
            yield self._of_tile(usual, tile, usual.packed)

    def _transposed(self) -> Iterator[Numbers]:
        """The upright tiles with the least modelled time, best first."""
        found = self.contraction
        timed = transposed_tiles(found, self.request.vector_bytes)
        for _, (most, vectors) in sorted(timed)[:UPRIGHT_TILES]:
            length = transposed_length(found, most, self.request.parts)
            tile, block = (most, vectors, self.lanes), (length, found.extents[2])
            more = {"packed": False, "edge": 0, "prefetch": 0}
            yield {"form": "upright", "tile": tile, "block": block, **more}

    def _of_tile(
        self, usual: ContractionAttr, tile: tuple[int, int], packed: bool
    ) -> Numbers:
        """
        The changes by another tile: blocks are as deep as the rules would have it.
        """
        if usual.reuse:
            return self._reusing(usual, tile)
        rows, vectors = tile
        found, width = self.contraction, vectors * self.lanes
        size, terms = BYTES[found.element], found.extents[2]
        depth = terms
        if packed or found.extents[0] > rows:
            stored = usual.panels == "a"
            most = most_terms(width, terms, size, packed, stored)
            depth = depth_of(found, most)
        block = rounded(usual.block[0], rows), depth
        of_tile = {"tile": (rows, vectors, usual.tile[2]), "block": block}
        return {**of_tile, "packed": packed, "edge": 0}

    def _reusing(self, usual: ContractionAttr, tile: tuple[int, int]) -> Numbers:
        """The changes where columns reuse a copy of rows."""
        found, parts = self.contraction, self.request.parts
        height, depth, reuse = reuse_block(found, tile, self.lanes, parts)
        of_tile = {"tile": (*tile, usual.tile[2]), "block": (height, depth)}
        more = {"packed": usual.panels != "b", "prefetch": 0, "edge": 0}
        return {**of_tile, **more, "reuse": reuse}

    def _tiles(self) -> list[tuple[int, int]]:
        """The tiles with the least modelled time, best first."""
        rows, columns, terms = self.contraction.extents
        tiles = [
            tile
            for tile in fitting_tiles(REGISTERS[self.request.vector_bytes])
            if tile[0] <= rows and tile[1] <= ceil(columns / self.lanes)
        ]

        def time(tile: tuple[int, int]) -> tuple[float, tuple[int, int]]:
            return tile_seconds(tile, rows, columns, terms, self.lanes), tile

        return sorted(tiles, key=time)[:MOST_TILES]

    def fits(self, schedule: ContractionAttr) -> bool:
        """Whether the elements lie as a schedule needs it."""
        if misfit(self.contraction, schedule) is not None:
            return False
        rows, columns, terms = self.contraction.extents
        if schedule.is_transposed:
            rows, columns = columns, ceil(rows / self.lanes)
        if schedule.tile[0] > rows or schedule.tile[1] > columns:
            return False
        if schedule.block[1] > rounded(terms, schedule.terms_at_once):
            return False
        return not schedule.panels or self.stored(schedule) is not None

    def stored(self, schedule: ContractionAttr) -> tuple[int, PanelsAttr] | None:
        """The argument that lies in panels, and which ones; None if it cannot."""
        found = self.contraction
        number = found.a if schedule.panels == "a" else found.b
        argument = argument_of(self.op.operands[number])
        if argument is None or argument.index not in self.request.constants:
            return None
        lies = panels_of(found, schedule, element_count(argument))
        return None if lies is None else (argument.index, lies)

    def variant(self, schedule: ContractionAttr) -> Variant:
        """The variant that gives the contraction a schedule."""

        def apply(kernel: KernelOp) -> None:
            op = stages_of(kernel.body.block)[self.position]
            assert isinstance(op, ContractOp), "a contraction is one"
            op = split_sums(op, epilogue_in(op, self.contraction)[1])
            op.attributes[SCHEDULE] = schedule
            if schedule.panels and (found := self.stored(schedule)) is not None:
                panels: list[Attribute] = [UnitAttr()] * len(kernel.body.block.args)
                panels[found[0]] = found[1]
                kernel.attributes[PANELS] = ArrayAttr(panels)

        label = str(schedule).removeprefix("#launch.contraction")
        return Variant(apply, label, self.cost_ns(schedule))


Numbers: TypeAlias = Mapping[str, Any]
"""Fields of a schedule by name."""


def rounded(number: int, step: int) -> int:
    """The least multiple of a step that is no less than a number."""
    return ceil(number / step) * step


def products_of(contraction: Contraction) -> int:
    """All products of elements."""
    return prod(contraction.extents) * prod(contraction.outer_extents)


def place_of(
    request: Request,
) -> tuple[int, Operation, Contraction] | str:
    """
    The one contraction of a kernel and its number among the stages, or why there is
    nothing to choose.
    """
    kernel = request.kernel
    if PANELS in kernel.attributes:
        return "its arguments lie in panels already"
    stages = stages_of(kernel.body.block)
    found = [
        (position, op, contraction)
        for position, op in enumerate(stages)
        if isinstance(contraction := contraction_of(op), Contraction)
    ]
    if len(found) != 1:
        return f"it has {len(found)} sums of products, not one"
    if SCHEDULE in found[0][1].attributes:
        return "it has a schedule already"
    if REFUSAL in found[0][1].attributes:
        return "it says that it has no schedule"
    return found[0]


def scheduled_in(kernel: KernelOp) -> Attribute | None:
    """The schedule of the one contraction of a kernel, if it has one."""
    for op in stages_of(kernel.body.block):
        if isinstance(contraction_of(op), Contraction):
            return op.attributes.get(SCHEDULE)
    return None


def site_of(request: Request) -> Site | str:
    """The one contraction of a kernel and its usual schedule, or why there is none."""
    found = place_of(request)
    if isinstance(found, str):
        return found
    position, op, contraction = found
    copy = request.kernel.clone()
    schedule(copy, request)
    usual = scheduled_in(copy)
    is_usual = isinstance(usual, ContractionAttr)
    return Site(position, op, contraction, usual if is_usual else None, request)
