"""The decisions of `regst-alias-registers`, task by task: which pairs are aliases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.in_place import IN_PLACE, verify_hints
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.plan import PlanOp, TaskOp, name_of
from penstock.dialects.regst import alias_place
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.alias_policies import Candidate, Policy, take_all
from penstock.lowering.analysis.aliases import (
    bytes_of,
    lies_as_paired,
    operand_register,
)
from penstock.lowering.analysis.in_place_pairs import Pairs, Refusal, earlier_readers
from penstock.lowering.regst.alias_forest import Forest, Timeline, Version
from penstock.lowering.regst.alias_rules import Rules, quoted
from penstock.lowering.regst.alias_updates import UpdatesInPlace

APART = "policy: it keeps them apart"
"""The reason of pairs that the policy does not want."""


class Aliasing:
    """Decides which registers of a plan become aliases."""

    def __init__(
        self,
        plan: PlanOp,
        timeline: Timeline,
        pairs: Mapping[TaskOp, Pairs],
        orders: Sequence[tuple[TaskOp, TaskOp]],
        policy: Policy = take_all,
    ) -> None:
        self.timeline = timeline
        self.updates = UpdatesInPlace(plan)
        self._policy = policy
        self._kept_apart: dict[TaskOp, Refusal | None] = {}
        """Why the policy lets no operand and result of a task be views."""
        self.forest = Forest(plan, timeline)
        self._plan = plan
        self._pairs = pairs
        self._rules = Rules(timeline, self.forest, self._pairs)
        self.refusals: dict[SSAValue, list[Refusal]] = {}
        """Why the pairs of a result are not used."""
        self.rejections: dict[SSAValue, list[Refusal]] = {}
        """Why hints that a result may lie over operands are not followed."""
        self._part_refusals: dict[SSAValue, list[Refusal]] = {}
        """Why operands are no parts of results."""
        index = timeline.index
        self.orders = {(index[a], index[b]): 1 for a, b in orders}
        """The tasks that have to end before another one begins, and its slots."""
        self._viewers: dict[SSAValue, list[TaskOp]] = {}
        """The tasks whose results are views of a register, by the register."""
        for task in timeline.tasks:
            if pairs[task].takes_parts:
                self._viewers.setdefault(viewed(task, pairs[task]), []).append(task)
        self._shown: set[TaskOp] = set()
        """The tasks whose results lie on their operands as views."""
        self._judged: set[TaskOp] = set()
        """The tasks whose views were judged together with others of the same bytes."""
        self.failures: list[Finding] = []
        """The pairs that must be used and cannot, and aliases that are not sound."""
        self._note_musts()

    def decide(self) -> None:
        """Look at all tasks."""
        gathered: list[TaskOp] = []
        for index, task in enumerate(self.timeline.tasks):
            for pair, refusal in self._pairs[task].rejected_hints():
                self._refuse(task, pair, refusal)
            ins, outs, _, _ = task.ports
            if not all(register in self.forest for register in (*ins, *outs)):
                continue
            if self._pairs[task].takes_parts:
                self._show_results(task)
            elif not self._pairs[task].is_gathered:
                self._overwrite_operands(index, task)
            elif self._pairs[task].is_fixed:
                self._gather_operands(task)
            else:
                gathered.append(task)
        for task in gathered:
            self._gather_operands(task)
        self.failures += self._bad_aliases()

    def _note_musts(self) -> None:
        for index, task in enumerate(self.timeline.tasks):
            for pair in self._pairs[task].wanted:
                operand = operand_register(task, pair.operand)
                if pair.must and not pair.view and operand in self.forest:
                    for version in self.forest.shown(operand):
                        version.musts.append(index)

    def _refuse(self, task: TaskOp, pair: InPlacePair, refusal: Refusal) -> None:
        result = task.outs[pair.result]
        self.refusals.setdefault(result, []).append(refusal)
        if self._pairs[task].is_hinted(pair):
            rejection = f"over {pair.operand}: {refusal}"
            self.rejections.setdefault(result, []).append(rejection)
        if pair.must:
            operand = name_of(operand_register(task, pair.operand))
            self.failures.append(
                (
                    task.op,
                    f"{task.op.name} must write '{name_of(result)}' over '{operand}', "
                    f"but {refusal}",
                )
            )

    def _chosen(self, task: TaskOp, pairs: Sequence[InPlacePair]) -> list[InPlacePair]:
        """The pairs of a task that the policy wants, the best first."""
        if not pairs:
            return []
        candidates = [self._candidate(task, pair) for pair in pairs]
        return [pairs[index] for index in self._policy(candidates)]

    def _candidate(self, task: TaskOp, pair: InPlacePair) -> Candidate:
        result = task.outs[pair.result]
        return Candidate(
            task.task_name.data,
            task.op.name,
            name_of(operand_register(task, pair.operand)),
            name_of(result),
            bytes_of(result),
            pair.view,
            self._pairs[task].is_hinted(pair),
        )

    def _policy_rule(self, task: TaskOp) -> Refusal | None:
        """Whether the policy keeps views of a task apart: all of them, or none."""
        if task not in self._kept_apart:
            views = self._pairs[task].views
            is_asked = not self._pairs[task].is_fixed
            wanted = self._chosen(task, views) if is_asked else views
            self._kept_apart[task] = None if len(wanted) == len(views) else APART
        return self._kept_apart[task]

    # Results that show bytes of operands

    def _show_results(self, task: TaskOp) -> None:
        if task in self._shown:
            return
        views = self._pairs[task].views
        refusal = self._view_refusal(task)
        if refusal is None and not self._pairs[task].is_fixed:
            refusal = next(self._peak_rule([task]), None)
            if refusal is not None and (others := self._views_beside(task)):
                for other in others:
                    # Those of views that are shown now lie elsewhere than before.
                    if self._view_refusal(other) is None:
                        self._show(other)
                return
        if refusal is None:
            self._show(task)
            return
        for pair in views:
            self._refuse(task, pair, refusal)

    def _view_refusal(self, task: TaskOp) -> Refusal | None:
        """Why results of a task cannot be views, however much memory that takes."""
        views = self._pairs[task].views
        refusals = (next(self._rules.view(task, pair), None) for pair in views)
        return next(filter(None, refusals), None) or self._policy_rule(task)

    def _peak_rule(self, tasks: Sequence[TaskOp]) -> Iterator[Refusal]:
        """Whether views of one tree that these tasks make would take more memory."""
        parts = [
            self.forest.spot(task.outs[pair.result]).tree
            for task in tasks
            for pair in self._pairs[task].views
        ]
        source = viewed(tasks[0], self._pairs[tasks[0]])
        return self._rules.peak(parts, self.forest.spot(source).tree)

    def _views_beside(self, task: TaskOp) -> Sequence[TaskOp]:
        """
        All tasks, this one among them, whose results may be views of what lies where
        its operand does, with the views of these, or else without them, if together
        they take no more memory than copies; else none. One view alone keeps all of the
        bytes alive, and frees those of one copy.
        """
        if task in self._judged:
            return ()
        tree = self.forest.spot(viewed(task, self._pairs[task])).tree
        beside = self._possible_views(tree.registers)
        self._judged.update(beside)
        sets = [self._with_their_views(beside), beside]
        found = (x for x in sets if next(self._peak_rule(x), None) is None)
        return next(found, ())

    def _possible_views(self, registers: Iterable[SSAValue]) -> list[TaskOp]:
        """The tasks whose results may be views of some registers, and are not yet."""
        return [
            other
            for register in registers
            for other in self._viewers.get(register, ())
            if other not in self._shown and self._view_refusal(other) is None
        ]

    def _with_their_views(self, tasks: Sequence[TaskOp]) -> list[TaskOp]:
        """Tasks that make views, and all that make views of those, parents first."""
        found = list(tasks)
        # It grows while it is read.
        for task in found:
            found += self._possible_views(task.outs)
        return found

    def _show(self, task: TaskOp) -> None:
        """Let results of a task be views of its operands."""
        self._shown.add(task)
        for pair in self._pairs[task].views:
            source = operand_register(task, pair.operand)
            result = task.outs[pair.result]
            self._lie_on(source, result, pair.offset)
            self.forest.show(result, source)

    def _lie_on(self, source: SSAValue, result: SSAValue, offset: int) -> None:
        """Let the tree of a result lie on an operand."""
        tree, start, _ = self.forest.spot(source)
        self.forest.join(self.forest.spot(result).tree, tree, start + offset)

    # Results that are written over operands

    def _overwrite_operands(self, index: int, task: TaskOp) -> None:
        pairs = [
            (not lies_as_paired(task, pair), not pair.must, pair)
            for pair in self._pairs[task].wanted
            if not pair.view
        ]
        pairs.sort(
            key=lambda p: (*p[:2], -bytes_of(task.outs[p[2].result]), p[2].operand)
        )
        asked = [pair for is_free, may, pair in pairs if is_free and may]
        chosen = self._chosen(task, asked)
        for pair in asked:
            if pair not in chosen:
                self._refuse(task, pair, APART)
        fixed = [
            (is_free, pair) for is_free, may, pair in pairs if not is_free or not may
        ]
        done = self._update_variables(task, [pair for _, _, pair in pairs])
        for is_free, pair in (*fixed, *((True, pair) for pair in chosen)):
            if task.outs[pair.result] in self.updates.found:
                continue
            if pair.result in done:
                if pair.must or self._pairs[task].is_hinted(pair):
                    refusal = "twice: it already lies on another operand"
                    self._refuse(task, pair, refusal)
                continue
            refusal = next(
                self._rules.overwrite(
                    index, task, pair, is_fixed=pair.must or not is_free
                ),
                None,
            )
            if refusal is None:
                done.add(pair.result)
                self._overwrite(index, task, pair)
            else:
                self._refuse(task, pair, refusal)

    def _update_variables(self, task: TaskOp, pairs: Sequence[InPlacePair]) -> set[int]:
        """Let results of a task lie on variables, where it may write over these."""
        done: set[int] = set()
        for pair in pairs:
            result = task.outs[pair.result]
            update = self.updates.found.get(result)
            source = operand_register(task, pair.operand)
            if update is None:
                if (refusal := self.updates.refusals.get(result)) is not None:
                    self.refusals.setdefault(result, []).append(refusal)
            elif source is update.variable and pair.result not in done:
                # Controls order all that reads the variable.
                self._lie_on(source, result, 0)
                done.add(pair.result)
        return done

    def _overwrite(self, index: int, task: TaskOp, pair: InPlacePair) -> None:
        source, result = operand_register(task, pair.operand), task.outs[pair.result]
        spot = self.forest.spot(source)
        written = self.forest.shown(result)
        for version in self.forest.overlapping(spot):
            version.overwriters.append(index)
            for user in version.users:
                if user != index:
                    self.orders[user, index] = spot.tree.slots
            if spot.start <= version.start and version.end <= spot.end:
                spot.tree.versions.remove(version)
        self._lie_on(source, result, 0)
        spot.tree.versions += written

    # Operands that are parts of a result

    def _gather_operands(self, task: TaskOp) -> None:
        views = self._pairs[task].views
        is_fixed = self._pairs[task].is_fixed
        refusal = next(self._rules.gather(task, is_fixed=is_fixed), None)
        refusal = refusal or self._policy_rule(task)
        if refusal is not None:
            for pair in views:
                self._refuse(task, pair, refusal)
                operand = operand_register(task, pair.operand)
                self._part_refusals.setdefault(operand, []).append(refusal)
            return
        whole, start, _ = self.forest.spot(task.outs[0])
        (own,) = self.forest.shown(task.outs[0])
        for pair in views:
            operand = operand_register(task, pair.operand)
            shown, part = self.forest.shown(operand), self.forest.spot(operand).tree
            self.forest.join(part, whole, start - pair.offset)
            # Whoever writes there later, writes over these as well.
            whole.versions += part.versions
            self._hand_on(shown, own)
            own.parts += shown

    def _hand_on(self, shown: Sequence[Version], own: Version) -> None:
        """Let the users of a result use the bytes of an operand instead."""
        for version in shown:
            for overwriter in own.overwriters:
                self.orders.update(((user, overwriter), 1) for user in version.users)
            version.overwriters += own.overwriters
            version.users += own.users
            version.musts += own.musts

    # Aliases that were there

    def _bad_aliases(self) -> Iterator[Finding]:
        """The registers that do not lie where they were said to."""
        for register in self._plan.registers:
            value = register.register
            if register.target is None or value not in self.forest:
                continue
            if self._rules.lies_by_hand(register) == self.forest.spot(value)[:2]:
                continue
            root, _ = alias_place(value)
            found = [
                *self.refusals.get(value, ()),
                *self._part_refusals.get(value, ()),
            ]
            why = next(
                (refusal for refusal in found if not refusal.startswith("given:")),
                "source: its task reads nothing that lies there",
            )
            names = quoted(name_of(value)), quoted(name_of(root))
            yield register, f"register {names[0]} cannot lie on {names[1]}: {why}"


def viewed(task: TaskOp, pairs: Pairs) -> SSAValue:
    """The register whose parts the results of a task are."""
    return operand_register(task, pairs.views[0].operand)


def bad_hints(plan: PlanOp) -> Iterator[Finding]:
    """The findings about hints of ops that do not verify them themselves."""
    for task in plan.tasks:
        op = task.op
        if IN_PLACE in op.attributes and not isinstance(op, TensorOp):
            try:
                verify_hints(op)
            except VerifyException as error:
                yield op, str(error)


def orders_wanted(
    timeline: Timeline, pairs: Mapping[TaskOp, Pairs]
) -> list[tuple[TaskOp, TaskOp]]:
    """
    The tasks that could be made to end before others begin, so that these can write
    over what they read: where they have to, or do by hand, and nothing orders the two,
    those that come first in the list.
    """
    tasks = timeline.tasks
    return [
        (tasks[first], tasks[second])
        for first, second in earlier_readers(tasks, pairs)
        if not timeline.is_done(first, second)
    ]
