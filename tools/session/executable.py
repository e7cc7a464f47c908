"""
The executable: all that is needed to load a compiled program, to save it, and to tell
of it. It comes from IR (`program_export.py`) or from a file (`saved_plan/plan.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from penstock.notebook import Displayed
from penstock.runtime.errors import KernelError, PenstockError
from penstock.runtime.program.executable import ProgramImage

if TYPE_CHECKING:
    from penstock.dialects.launch import ProgramOp
    from penstock.runtime.loading.initializers import Array, Start
    from penstock.tools.session.origin import Origin
    from penstock.tools.session.ranks import Ranks, Share
    from penstock.tools.session.report import Report


class Executable(Displayed, ABC):
    """A compiled program, ready to be loaded."""

    @cached_property
    @abstractmethod
    def image(self) -> ProgramImage:
        """The program in plain values."""

    @cached_property
    @abstractmethod
    def sources(self) -> Mapping[str, str]:
        """The source of each kernel by its name."""

    @property
    @abstractmethod
    def own_sources(self) -> Sequence[str]:
        """
        The kernels that come with a source of their own, in place of one that is
        printed from their body.
        """

    @property
    @abstractmethod
    def constants(self) -> Mapping[str, Array]:
        """The value of each constant by its name."""

    @cached_property
    @abstractmethod
    def report(self) -> Report:
        """The report for a person."""

    @cached_property
    @abstractmethod
    def origin(self) -> Origin:
        """The passes that made it, with the code of others that had a part in it."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """The workers that it is meant for."""

    @property
    @abstractmethod
    def objections(self) -> Sequence[str]:
        """Why it is only run if that is allowed, each with its place if it is known."""

    @cached_property
    @abstractmethod
    def text(self) -> str:
        """The launch program as text."""

    @cached_property
    @abstractmethod
    def program(self) -> ProgramOp:
        """The launch program."""

    @property
    @abstractmethod
    def given(self) -> Mapping[str, Array]:
        """The whole arrays that are given for variables, by the names of these."""

    @property
    @abstractmethod
    def starts(self) -> Mapping[str, Start]:
        """The starts of variables by name; given arrays take their place."""

    @property
    @abstractmethod
    def directory(self) -> Path:
        """The folder in which files of initialisers are looked up."""

    @property
    @abstractmethod
    def share(self) -> Share | None:
        """The share that the program is of what several ranks run, if it is one."""

    @contextmanager
    def opened_weights(self) -> Generator[Mapping[str, Array]]:
        """
        The whole arrays that variables start from, by the names that they are given by,
        each of them read when it is asked for.
        """
        from penstock.runtime.loading.initializers import InitialValues, WeightFiles

        with WeightFiles(self.directory) as files:
            yield InitialValues(self.given, self.starts, files)

    @abstractmethod
    def without_weights(self) -> Self:
        """The same without what variables start from, which may be large."""

    @abstractmethod
    def locate(self, error: KernelError) -> None:
        """Raise the error of a kernel's own source at its place, if that is known."""

    def check_ranks(self, ranks: Ranks | None) -> None:
        """
        Raise UsageError for the program of another process than this one, of several
        `ranks` or alone, unless it has just been compiled in it.
        """

    @property
    def devices(self) -> list[str]:
        """The kinds of devices that it works on, in memory of the host or not."""
        return devices_of(self.image)

    def values(self) -> dict[str, Array]:
        """
        The initial values of variables and constants, by their own names. Raises
        PenstockError with all arrays that are missing, do not fit, or have no variable.
        """
        # It may import Numba, which has to know before whether CUDA is simulated.
        from penstock.runtime.loading.loader import part_of, raise_if_any

        values = dict(self.constants)
        problems: list[str] = []
        ports = {x: x.port for x in self.image.variables if x.port is not None}
        with self.opened_weights() as weights:
            for variable, port in ports.items():
                try:
                    values[variable.name] = part_of(variable, weights[port])
                except PenstockError as error:
                    problems.append(str(error))
            unused = sorted(set(weights) - set(ports.values()))
        if unused:
            problems.append(f"the program has no variables {', '.join(unused)}")
        raise_if_any(problems)
        return values

    def check_kernels(self) -> None:
        """
        Raise PenstockError if a kernel is only run if that is allowed: it comes with
        Python source of its own, or may reach outside of its memory.
        """
        for objection in self.objections:
            raise PenstockError(objection)


def devices_of(image: ProgramImage) -> list[str]:
    """The kinds of devices that a program works on, in memory of the host or not."""
    memories = {memory.device for memory in image.chunks}
    return sorted({"cpu", *memories, *(actor.device for actor in image.actors)})
