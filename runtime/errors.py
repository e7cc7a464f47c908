"""The errors of loading and running a program, and how to install what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires


def printable(text: str) -> str:
    """Escape what would confuse a terminal."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text
    )


class PenstockError(Exception):
    """
    The base of every error that Penstock raises.

    Names in its text are those of models and plans, whose escape sequences never reach
    a terminal.
    """

    is_told = False
    """Whether another rank tells of it, so that this one need not."""
    is_shared = False
    """Whether all ranks know of it, so that none waits for this one any more."""

    def __str__(self) -> str:
        return printable(self.wording())

    def wording(self) -> str:
        """The text, with names as they are."""
        return super().__str__()


class OutOfMemory(PenstockError):
    """
    A device has no memory for so many bytes; `where` says which it is, `device` is its
    number if it is known, and `task` needs them if it is not for what all share.
    """

    def __init__(
        self,
        size: int,
        where: str,
        free: int | None = None,
        device: int | None = None,
        task: str = "",
    ):
        left = "" if free is None else f", {free} are free"
        use = f": task '{task}' needs them besides its arguments" if task else ""
        super().__init__(f"there is no memory for {size} bytes on {where}{left}{use}")
        self.device = device
        self._facts = size, where, free, device

    def needed_by(self, task: str) -> OutOfMemory:
        """The same, with the task that needs the bytes."""
        return OutOfMemory(*self._facts, task)


class KernelError(PenstockError):
    """
    The source of `kernel` cannot be compiled, for the `reason` in one line; `line` is
    that of the source, if it is known. The exception that says so is the cause.
    """

    def __init__(self, kernel: str, reason: str, line: int | None):
        super().__init__(kernel, reason, line)
        self.kernel = kernel
        self.reason = reason
        self.line = line

    def wording(self) -> str:
        where = "" if self.line is None else f" (line {self.line} of it)"
        return f"kernel @{self.kernel}: its source fails: {self.reason}{where}"


class TaskError(PenstockError):
    """
    A kernel of the actor `task` returned `code` in act number `act` of the run.

    `message` says what the code means, if the program knows. If the kernel is a Python
    callback, its exception is the cause of this one, and part of its text; if that is
    one of Penstock, it is all of the text. `place` is where the task was written, as
    `file:line:column`, if that is known, with which the text begins. `iterations`
    are the numbers of those of the loops around the kernel, the outermost first.
    """

    def __init__(self, task: str, act: int, code: int, message: str | None = None):
        super().__init__(task, act, code, message)
        self.place: str | None = None
        self.task = task
        self.act = act
        self.code = code
        self.message = message
        self.iterations: tuple[int, ...] = ()

    def wording(self) -> str:
        return self.reason if self.place is None else f"{self.place}: {self.reason}"

    @property
    def reason(self) -> str:
        """The text without the place."""
        where = f"task '{self.task}' failed at act {self.act}{self._of_loops()}"
        text = f"{where} with code {self.code}"
        if self.message:
            return f"{text}: {self.message}"
        cause = self.__cause__
        if isinstance(cause, PenstockError):
            told = cause.reason if isinstance(cause, TaskError) else cause
            return f"{where}: {told}"
        if cause is not None:
            return f"{text}: {type(cause).__name__}: {cause}"
        return text

    def _of_loops(self) -> str:
        if not self.iterations:
            return ""
        numbers = ", ".join(map(str, self.iterations))
        return f", iteration{'s' if len(self.iterations) > 1 else ''} {numbers}"


def failure_of_callback(error: TaskError, cause: BaseException | None) -> TaskError:
    """
    The error of a task whose callback has raised an exception. An error of another
    task, which it has only been told of, becomes one at the act of its own.
    """
    if isinstance(cause, TaskError):
        told = TaskError(cause.task, error.act, cause.code, cause.message)
        told.iterations = cause.iterations
        return told
    error.__cause__ = cause
    return error


class DeadlockError(PenstockError):
    """No actor can act; `stuck` has one line per actor: what it is and waits for."""

    def __init__(self, stuck: Sequence[str]):
        super().__init__(stuck)
        self.stuck = stuck

    def wording(self) -> str:
        return "\n  ".join(["no actor can act", *self.stuck])


class WatchdogError(PenstockError):
    """
    No actor made progress for `seconds`; `stuck` has one line per actor that had acts
    left: what it did or waited for.
    """

    def __init__(self, seconds: float, stuck: Sequence[str]):
        super().__init__(seconds, stuck)
        self.seconds = seconds
        self.stuck = stuck

    def wording(self) -> str:
        return "\n  ".join([self.summary, *self.stuck])

    @property
    def summary(self) -> str:
        """The text without the actors."""
        return f"the run made no progress for {self.seconds:g} s"


class MessageError(PenstockError):
    """Actors were told of more or fewer pieces than there are; `lines` say of which."""

    def __init__(self, lines: Sequence[str]):
        super().__init__(lines)
        self.lines = lines

    def wording(self) -> str:
        return "\n  ".join(["messages were lost or made up", *self.lines])


def how_to_install(extra: str) -> str:
    """
    The command that installs the packages of an extra of Penstock: by their own names,
    as nobody knows where Penstock itself was installed from.
    """
    try:
        known = requires("penstock") or ()
    except PackageNotFoundError:
        known = ()
    mark = f'extra == "{extra}"'
    parts = (requirement.partition(";") for requirement in known)
    wanted = [name.strip() for name, _, marker in parts if marker.strip() == mark]
    names = " ".join(f"'{name}'" for name in wanted)
    return f"pip install {names}" if names else f"the extra '{extra}' of Penstock"


class PeerError(PenstockError):
    """Another rank has ended, or has told why it ends."""

    is_shared = True

    def __init__(self, rank: int, reason: str):
        super().__init__(f"rank {rank} {reason}")
        self.rank = rank
