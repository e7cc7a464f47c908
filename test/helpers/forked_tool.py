"""
The commands of the project, `python FILE.py` and `python -c TEXT`, in forks of a
process that has imported them, and has compiled a model, before: `python
forked_tool.py` is this process. A command starts in a tenth of the time of a new one,
and so does each rank of one that starts several.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import IO, NoReturn, cast

TESTS = Path(__file__).parents[1]


class ForkedCommands:
    """
    Runs commands one after the other, each in a process of its own. The process that
    they are forks of is started for the first one; `variables` of the environment are
    those that it, and each command, has beside those of this process.
    """

    def __init__(self, **variables: str) -> None:
        self._variables = variables
        self._server: subprocess.Popen[str] | None = None

    def run(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        output: Path,
        errors: Path | None = None,
    ) -> int:
        """
        The exit code of a command in a folder; its streams go to two files, or both to
        one.
        """
        if self._server is None:
            self._server = _start({**os.environ, **self._variables})
        server = self._server
        assert server.stdin is not None
        assert server.stdout is not None
        files = str(output), errors and str(errors)
        given = {**environment, **self._variables}
        request = list(words), str(folder), given, *files
        try:
            print(json.dumps(request), file=server.stdin, flush=True)
            return int(server.stdout.readline())
        except BaseException:
            # The next command must not take the answer to this one for its own.
            os.killpg(server.pid, signal.SIGKILL)
            self.close()
            raise

    def outcome(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] = os.environ,
    ) -> subprocess.CompletedProcess[str]:
        """A command in a folder that has ended, and what it has printed."""
        with TemporaryDirectory() as made:
            files = Path(made, "output"), Path(made, "errors")
            code = self.run(words, folder, environment, *files)
            texts = [file.read_text(encoding="utf-8") for file in files]
        return subprocess.CompletedProcess(list(words), code, *texts)

    def close(self) -> None:
        """End the process that forks, if it was started."""
        if self._server is not None:
            self._server.communicate(timeout=300)
            self._server = None


def _start(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def run_tests_for(target: str, names: Sequence[str], forked: ForkedCommands) -> None:
    """Run test files again, whose kernels are compiled for another target."""
    unit = TESTS / "unit"
    code = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    files = [str(next(unit.rglob(f"test_{name}.py"))) for name in names]
    words = ["python", "-c", code, "-q", "-p", "no:cacheprovider", *files]
    variables = {**os.environ, "PENSTOCK_TEST_TARGET": target}
    done = forked.outcome(words, TESTS.parent, variables)
    assert done.returncode == 0, done.stdout[-4000:]


def scripts_of_project() -> dict[str, str]:
    """The functions of the commands, as `module:function`."""
    text = (TESTS.parent / "pyproject.toml").read_text()
    return cast("dict[str, str]", tomllib.loads(text)["project"]["scripts"])


def can_fork(words: Sequence[str]) -> bool:
    """Whether these words are a command that `ForkedCommands` knows."""
    match words:
        case ["python", file, *_]:
            return file.endswith(".py")
        case [tool, *_]:
            return tool in scripts_of_project()
        case _:
            return False


def _serve() -> None:
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            _end(partial(_run, *json.loads(line)))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _end(run: Callable[[], NoReturn]) -> NoReturn:
    """
    Call a function that exits, and end as Python does, but leave to the system all that
    is imported: to take it apart takes longer than most commands.
    """
    code = 1
    try:
        run()
    except SystemExit as ending:
        code = ending.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.current_thread():
                thread.join()
        getattr(atexit, "_run_exitfuncs")()  # noqa: B009 # as `multiprocessing` does
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


def _run(
    words: list[str],
    folder: str,
    environment: dict[str, str],
    output: str,
    errors: str | None,
) -> NoReturn:
    """Be a command, and end as one."""
    os.chdir(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    written = os.open(output, flags, 0o666)
    told = written if errors is None else os.open(errors, flags, 0o666)
    _enter(environment, (os.open(os.devnull, os.O_RDONLY), written, told))
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in paths if path not in ("", *sys.path)]
    tool, *arguments = words
    if tool == "python":
        if arguments[0] == "-c":
            sys.path[0] = ""
            _run_text(arguments[1].encode(), "<string>", ["-c", *arguments[2:]])
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        _run_file(arguments)
    sys.argv = words
    module, function = scripts_of_project()[tool].split(":")
    sys.exit(getattr(import_module(module), function)())


def _enter(environment: Mapping[str, str], streams: Sequence[int]) -> None:
    """Take an environment, and files as standard streams."""
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    # A rank enters a second time: the end of the first files must close no streams.
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", closefd=False)


def _run_file(words: list[str]) -> NoReturn:
    """Be Python with a file."""
    _run_text(Path(words[0]).read_bytes(), words[0], words)


def _run_text(text: bytes, path: str, words: list[str]) -> NoReturn:
    """Be Python with a program."""
    sys.argv = words
    program = ModuleType("__main__")
    program.__file__ = path
    sys.modules["__main__"] = program
    try:
        exec(compile(text, path, "exec"), program.__dict__)
    except Exception as error:
        # As Python tells it, without the function that is here.
        inside = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error, inside)
        sys.exit(1)
    sys.exit()


class ForkedRank:
    """
    A rank in a fork of the process that starts it, with the part of the interface of
    `subprocess.Popen` that `start_ranks` asks for.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        pass_fds: Sequence[int],
        stdin: int,
        stdout: IO[bytes] | int | None,
        stderr: IO[bytes] | int | None,
    ) -> None:
        self.returncode: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid: int = os.fork()
        """The number of the process."""
        if not self.pid:
            streams = _descriptor(stdin, 0), _descriptor(stdout, 1)
            _enter(env, (*streams, _descriptor(stderr, 2)))
            _close_sockets(pass_fds)
            # Behind the words of Python itself.
            _end(partial(_run_module, *command[command.index("-m") + 1 :]))

    def poll(self) -> int | None:
        """The exit code, None while the process runs."""
        return self._look(os.WNOHANG)

    def wait(self) -> int | None:
        """The exit code, once there is one."""
        return self._look(0)

    def kill(self) -> None:
        """End the process."""
        os.kill(self.pid, signal.SIGKILL)

    def _look(self, how: int) -> int | None:
        if self.returncode is None:
            process, status = os.waitpid(self.pid, how)
            if process:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _descriptor(stream: IO[bytes] | int | None, usual: int) -> int:
    """The descriptor of a stream as `subprocess` takes them."""
    if stream is None:
        return usual
    if stream == subprocess.DEVNULL:
        return os.open(os.devnull, os.O_RDWR)
    return stream if isinstance(stream, int) else stream.fileno()


def _close_sockets(kept: Sequence[int]) -> None:
    """Close the sockets of other ranks, which would be open when those have ended."""
    for number in map(int, os.listdir("/proc/self/fd")):
        # The folder that is listed is closed by now.
        with suppress(OSError):
            if number not in kept and stat.S_ISSOCK(os.fstat(number).st_mode):
                os.close(number)


def _run_module(name: str, *words: str) -> NoReturn:
    """Be Python with a module."""
    found = find_spec(name)
    assert found is not None
    assert found.origin is not None
    _run_file([found.origin, *words])


def _preload() -> None:
    """Import what commands and programs need, and run a model."""
    sys.path[0] = str(TESTS)
    from fast_format import WARM_UP, preload_tools

    import penstock
    from penstock.runtime.cuda.simulator import is_simulator_wanted
    from penstock.tools.cli.run import run_tool

    for name in penstock.__all__:
        getattr(penstock, name)
    started = SimpleNamespace(DEVNULL=subprocess.DEVNULL, Popen=ForkedRank)
    setattr(import_module("penstock.tools.cli.start_ranks"), "subprocess", started)  # noqa: B010
    preload_tools()
    with TemporaryDirectory() as folder:
        model = Path(folder, "warm.mlir")
        model.write_text(WARM_UP, encoding="utf-8")
        words = [str(model), "--random-inputs", "1", "--check", "numpy", "--device"]
        for device in ("cpu", "cuda") if is_simulator_wanted() else ("cpu",):
            told = StringIO()
            with redirect_stdout(told), redirect_stderr(told):
                code = run_tool([*words, device])
            assert code == 0, told.getvalue()
    assert threading.active_count() == 1, "a process with threads must not be forked"
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _preload()
    _serve()
