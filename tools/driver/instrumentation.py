"""
Instrumentations: objects that a compiler tells of each pass before and after it runs.

IR printing, statistics of passes, reproducers and the bisection of a pipeline are such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class Step:
    """A pass of a pipeline, and its position there, from 0."""

    position: int
    module_pass: ModulePass
    is_last: bool = False

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.module_pass.name


class PassInstrumentation:
    """
    The base of instrumentations, which does nothing. Of `after_pass` and
    `after_failure` one is called for each pass that began. A pass that leaves bad IR
    has failed; that is known at once if each pass is verified, else after the last one.
    """

    def before_pipeline(self, passes: Sequence[ModulePass], module: ModuleOp) -> None:
        """Called with the module before the first of the passes."""

    def before_pass(self, step: Step, module: ModuleOp) -> None:
        """Called with the module that a pass is going to be applied to."""

    def after_pass(self, step: Step, module: ModuleOp) -> None:
        """Called with the module that a pass has left."""

    def after_failure(self, step: Step, module: ModuleOp) -> None:
        """Called with the module as it is after a pass that has failed."""
