"""
Replace the kinds of actors that plug-ins have by the cycles that they say.

An actor of such a kind gets `kind "cyclic"`: its `lists` are the acts of the cycle,
each with the places of the registers of which it takes or makes a piece. The attribute
`rule` says which kind that was. So nothing of the plug-in is left to run, and all that
follows, `verify-program` among it, sees how often and in which order each register is
used.

Steps `on = @x` are done in acts that use that register, others in all acts: the op's
verifier asks that each act of the cycle uses what its steps name, and writes what it
hands on.

Example: `test/lowering/launch/launch-expand-kinds-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, ModuleOp, StringAttr, i64
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.launch import ActorOp, ProgramOp, names_of
from penstock.dialects.launch.actor_kinds import ACTOR_KINDS, CYCLIC
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.actor_cycles import ActorRequest, cycle_of

RULE = "rule"
"""The attribute of an actor with the kind that has said its cycle."""


def expand(actor: ActorOp) -> None:
    """Give an actor of a plug-in's kind its cycle. Raises `PluginError`."""
    kind, reads, writes = actor.kind_name, names_of(actor.reads), names_of(actor.writes)
    request = ActorRequest(actor.sym_name.data, reads, writes, actor.number_lists)
    acts = cycle_of(kind, request)
    actor.kind = StringAttr(CYCLIC)
    actor.lists = ArrayAttr(DenseArrayBase.from_list(i64, act) for act in acts)
    actor.attributes[RULE] = StringAttr(kind)


def misfit(actor: ActorOp, kind: str) -> str | None:
    """Why the steps of an actor do not fit the cycle of a kind; None if they do."""
    try:
        actor.verify(verify_nested_ops=False)
    except VerifyException as error:
        return f"the cycle of kind '{kind}' does not fit: {error}"
    return None


@dataclass(frozen=True)
class LaunchExpandKindsPass(ModulePass):
    """
    Replace the kinds of actors that plug-ins have by the cycles that they say.
    """

    name = "launch-expand-kinds"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found: list[Finding] = []
        for program in outermost(op, ProgramOp):
            for actor in program.actors:
                if (kind := actor.kind_name) not in ACTOR_KINDS:
                    expand(actor)
                    if (why := misfit(actor, kind)) is not None:
                        found.append((actor, why))
        fail_if_any(found)
