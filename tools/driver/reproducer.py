"""
Reproducers: IR with the pipeline that it is to be run through, in one file.

The pipeline stands behind the IR as MLIR writes it, as an external resource:

    {-#
      external_resources: {
        mlir_reproducer: {
          pipeline: "builtin.module(canonicalize,cse)",
          disable_threading: true,
          verify_each: true,
          load: "my_passes.py"
        }
      }
    #-}

Files of plug-ins are named, but never loaded for that: they are code, and a reproducer
may come from elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ParseError

from penstock.tools.driver.diagnostics import Diagnosis, Rejected, reject
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.files import write_whole
from penstock.tools.driver.instrumentation import PassInstrumentation, Step

KEY = "mlir_reproducer"
_RESOURCES = b"{-#"
_ON_MODULES = re.compile(r"\s*(?:builtin\.module|any)\s*\((.*)\)\s*", re.DOTALL)

Resources = Mapping[str, Mapping[str, str | bool | int]]
"""The external resources of a file: their values by group and key."""


@dataclass(frozen=True)
class Reproducer:
    """A pipeline, as `-p` reads it, and what it runs with."""

    pipeline: str
    verify_each: bool = True
    """Whether each pass is verified."""
    load: tuple[str, ...] = ()
    """The files whose plug-ins were known."""

    def text(self) -> str:
        """The resource that says so, to be written behind IR."""
        # Strings of JSON with letters of ASCII are strings of MLIR.
        pipeline = json.dumps(f"builtin.module({self.pipeline})")
        verify = "true" if self.verify_each else "false"
        files = json.dumps(shlex.join(self.load))
        load = f",\n      load: {files}" if self.load else ""
        return (
            "{-#\n  external_resources: {\n"
            f"    {KEY}: {{\n"
            f"      pipeline: {pipeline},\n"
            "      disable_threading: true,\n"
            f"      verify_each: {verify}{load}\n"
            "    }\n  }\n#-}\n"
        )


def reproducer_in(resources: Resources) -> Reproducer | None:
    """
    The reproducer among the resources of a file; raises `Rejected` for one without a
    pipeline of text, or with files that are none.
    """
    if (found := resources.get(KEY)) is None:
        return None
    pipeline = found.get("pipeline")
    if not isinstance(pipeline, str):
        reject(f"{KEY} has no pipeline of text")
    load = found.get("load", "")
    try:
        files = shlex.split(load) if isinstance(load, str) else None
    except ValueError:
        files = None
    if files is None:
        reject(f"{KEY} names the files to load in no text that a shell would take")
    is_verified = found.get("verify_each") is not False
    return Reproducer(unwrapped(pipeline), is_verified, tuple(files))


def not_loaded(found: Reproducer, given: Sequence[str]) -> str | None:
    """
    A warning of the files that a reproducer was written with, if those that were given
    lack some of their names.
    """
    names = {os.path.basename(path) for path in given}
    missing = [path for path in found.load if os.path.basename(path) not in names]
    if not missing:
        return None
    flags = " ".join(f"--load {path}" for path in missing)
    return f"the reproducer was written with {flags}, and may need that"


@contextmanager
def naming_files(data: bytes, given: Sequence[str]) -> Generator[None]:
    """
    A context in which parse errors of a reproducer name the files that it was written
    with, if those that were given lack some: its dialects may be theirs.
    """
    try:
        yield
    except Rejected as error:
        found = _reproducer_behind(data)
        if found is None or (text := not_loaded(found, given)) is None:
            raise
        *others, last = error.diagnoses
        note = Diagnosis(last.place, text, severity="note")
        named = replace(last, related=(*last.related, note))
        raise Rejected([*others, named], while_parsing=True) from error.__cause__


def _reproducer_behind(data: bytes) -> Reproducer | None:
    """The reproducer behind IR that cannot be parsed."""
    from penstock.tools.driver.locating_parser import LocatingParser

    start = data.rfind(_RESOURCES)
    if start < 0:
        return None
    context = Context()
    context.load_dialect(Builtin)
    text = data[start:].decode(errors="replace")
    parser = LocatingParser(context, f"builtin.module {{}}\n{text}", "")
    try:
        parser.parse_module()
        return reproducer_in(parser.resources)
    except (ParseError, Rejected):
        return None


def unwrapped(pipeline: str) -> str:
    """The passes of a pipeline on modules, without `builtin.module(...)` around."""
    found = _ON_MODULES.fullmatch(pipeline)
    return found[1] if found else pipeline


def pipeline_text(passes: Sequence[ModulePass]) -> str:
    """The text of passes with their options, as `-p` reads it."""
    return ",".join(str(each.pipeline_pass_spec()) for each in passes)


class ReproducerWriting(PassInstrumentation):
    """
    Writes a reproducer of a pipeline that fails: the IR before all of it or, if it is
    `local`, before the pass that failed, and that pass alone.

    With `always` it is written before the pipeline runs.
    """

    def __init__(
        self,
        path: str,
        text_of: Callable[[ModuleOp], str],
        tell: Callable[[str], None],
        *,
        local: bool = False,
        always: bool = False,
        verify_each: bool = True,
        load: Sequence[str] = (),
    ) -> None:
        self._path = path
        self._text_of = text_of
        self._tell = tell
        self._local = local
        self._always = always
        self._verify_each = verify_each
        self._load = tuple(load)
        self._module = ""
        self._pipeline = ""

    def before_pipeline(self, passes: Sequence[ModulePass], module: ModuleOp) -> None:
        self._keep(passes, module)
        if self._always:
            self._write()

    def before_pass(self, step: Step, module: ModuleOp) -> None:
        if self._local:
            self._keep([step.module_pass], module)

    def after_failure(self, step: Step, module: ModuleOp) -> None:
        if self._always:
            return
        try:
            self._write()
        except UsageError as error:
            # The failure of the pass is what matters, and is told next.
            self._tell(f"{self._path}: warning: there is no reproducer: {error}")
            return
        name = step.name
        self._tell(f"{self._path}: note: this reproduces the failure of {name}")

    def _keep(self, passes: Sequence[ModulePass], module: ModuleOp) -> None:
        self._pipeline = pipeline_text(passes)
        self._module = self._text_of(module)

    def _write(self) -> None:
        found = Reproducer(self._pipeline, self._verify_each, self._load)
        resource = found.text()
        write_whole(self._path, f"{self._module}\n{resource}")
