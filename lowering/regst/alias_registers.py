"""
Let registers lie on others, where ops can work in place or need to move nothing.

Ops name pairs of an operand and a result that may share bytes (`in_place_pairs`). Tasks
are looked at in an order in which they can act. The result of a task becomes an `alias`
where one of its pairs allows it; the first one does that can, but pairs that must come
before those that may. Such a task writes over its operand, or, where all of its pairs
are views, does nothing at all: a reshape, or a slice whose elements are contiguous.
Last, operands that lie in their result as views (those of a concatenation along the
first axis that is not 1) become aliases of parts of the result, all or none, so that
their writers write to where they belong.

Aliases name the register whose bytes they are directly, also where that is an alias of
an alias. Where only the order of a stream says that the last reader of some bytes comes
before the task that overwrites them, a control register is added. An alias with fewer
slots than the register below it gets as many. Memory of one host that is pinned for a
device, or registered for transfers, serves as memory that is not: registers on common
bytes lie in memory that serves as that of all.

*New values of variables* lie on these where an assignment says so (`in_place`) and all
other readers of the variable act before the task that writes there, and again only
after it: a control register of one slot lets them, as `plan-order-updates` writes it.

*Hints* on an op (`in_place`, see `#op.hint`) choose among its pairs. Of a result that
`may` lie over some operands only these count; a result that `must` lie over one does,
or is an error; and a result that is `never` to lie over one does not, under any name.
*Aliases of the input* stay: they are an error where a rule keeps them from lying there,
and others are found around them. A register that says `no_alias` already is made none.
For results that must, and for aliases of the input, also tasks of other streams that
read the bytes and are listed before are made to come before.

The reason why a pair is not used is in the attribute `no_alias` of the result's
register, as `<rule>: <why>`. A result that lies over one operand and is hinted over
others, too, says why it is not over these: `rejected`, as `over <operand>: <rule>:
<why>`.

* `policy`: the policy does not want it: `views` takes no result that is written over an
  operand, `none` nothing at all, but for hints, and plug-ins (see
  `docs/plugins/alias-policy.md`) as they say;
* `kernel`: a hint names a pair that the op cannot do in place;
* `never`, `may`: hints keep the result off the operand, or name others;
* `no_alias`, `given`: the register says that it is none, or is one already elsewhere;
* `source`: an alias of the input lies on a register that its task does not read;
* `variable`: variables are written over by new values alone, and are not moved into
  another register;
* `update`: a new value cannot be written there, as its task can fail, or another task
  writes there;
* `interface`: a register that several jobs share (`regst-mark-interfaces`) has bytes of
  its own, which only views lie on; but what a loop carries may be written over what it
  was in the iteration before;
* `memory`, `slots`: no kind of memory serves as those of both, or the result has more
  slots, or slots of another size, or other slots than the registers on it already;
* `type`: only tensors of one type are overwritten;
* `dynamic`: a register with its shape in a header lies alone;
* `alignment`: a part starts at an element of the whole, on a GPU at a multiple of 16
  bytes;
* `operand`: the op reads the bytes as another operand too, which cannot work in place;
* `reader`: another task may read the bytes later, under any name;
* `input`: an input of one slot is read where the caller of a run has it, and would have
  to be copied if a result were written over it; a hint that asks for it has its way;
* `must`: another task has to write over the bytes;
* `part`: an operand is only a part of the register below it, or lies in another result;
* `twice`: two operands lie on the same bytes, or the result lies on another operand;
* `peak`: the bytes in use at once, in the kinds of memory concerned together, would be
  more, as bytes that are used only in part are kept for longer; aliases of the input,
  and results that must, may. Views for which one alone takes more are judged together
  with all others of the same bytes and the views of these, or else without those, since
  one keeps these bytes as long as all do.

A pair that must be used and cannot is an error. Plans that have blocks are left alone.

In a plan with rates only new values of variables become aliases, and results of
`op.repeat` and `op.unpack`, of the whole operand: n slots in each of its slots, which
are the whole piece or its parts, act after act. The rules are `no_alias`, `given`,
`never`, `variable`, `interface`, `memory` and `alignment` as above, and

* `source`: the operand lies on another register itself, or is listed later;
* `slots`: readers hold the operand for longer then, and its slots do not let tasks act
  as often as their rates want.

Example: `test/lowering/regst/regst-alias-registers-example.mlir`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from penstock.dialects.plan import PlanOp
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.pass_events import count
from penstock.lowering.algorithms.alias_policies import ALL, alias_policy
from penstock.lowering.analysis.body_plans import plans_and_bodies
from penstock.lowering.analysis.plan_waits import PlanWaits, findings_about_waits
from penstock.lowering.analysis.repetitions import rates_of
from penstock.lowering.regst.alias_decisions import bad_hints
from penstock.lowering.regst.alias_forest import Timeline
from penstock.lowering.regst.alias_frames import show_frames
from penstock.lowering.regst.alias_writing import (
    decided,
    lay_on_variables,
    write_decided,
)

log = logging.getLogger(__name__)

################################################################################
# Writing it down                                                              #
################################################################################


def findings_about(plan: PlanOp, timeline: Timeline) -> Iterator[Finding]:
    """All that keeps a plan from being looked at."""
    if any(task.results_ for task in plan.tasks):
        yield plan, "tasks hand on values, run plan-create-registers first"
    elif timeline.stuck:
        yield from findings_about_waits(plan, PlanWaits.of(plan))
    else:
        yield from bad_hints(plan)


@dataclass(frozen=True)
class RegstAliasRegistersPass(ModulePass):
    """
    Let registers lie on others, where ops can work in place or need to move nothing.
    """

    name = "regst-alias-registers"

    policy: str = ALL
    """`all`, `views`, `none`, or a plug-in's: the pairs that are tried."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        policy = alias_policy(self.policy)
        plans = plans_and_bodies(op)
        plans = [plan for plan in plans if not plan.has_places]
        rated = [plan for plan in plans if rates_of(plan).is_rated]
        for plan in rated:
            show_frames(plan)
            lay_on_variables(plan)
        # The last user of a piece is not the same task in each act.
        plans = [plan for plan in plans if plan not in rated]
        timelines = {plan: Timeline(plan) for plan in plans}
        fail_if_any(x for pair in timelines.items() for x in findings_about(*pair))
        found = {plan: decided(plan, x, policy) for plan, x in timelines.items()}
        fail_if_any(x for aliasing in found.values() for x in aliasing.failures)
        for plan, aliasing in found.items():
            write_decided(plan, aliasing)
            aliases = [x for x in plan.registers if x.target is not None]
            count("aliases", len(aliases))
            for register in aliases:
                log.debug("alias %s", register.register_name.data)
