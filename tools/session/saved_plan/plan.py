"""A compiled program as a file: saving it, and reading it again."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from penstock.cpu_target import features
from penstock.runtime.errors import KernelError
from penstock.runtime.jit.package_digest import version_of
from penstock.runtime.loading.loader import port_shape
from penstock.runtime.program.executable import ProgramImage
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.plugin_digest import (
    codes_of_files,
    installed_code,
    installed_plugins_text,
)
from penstock.tools.session.executable import Executable, devices_of
from penstock.tools.session.origin import UNKNOWN, Origin, origin_from_json
from penstock.tools.session.ranks import Ranks, Share
from penstock.tools.session.saved_plan.archive import (
    Archive,
    Json,
    Members,
    PlanError,
    write_archive,
)
from penstock.tools.session.saved_plan.arrays import Array, array_members, read_array
from penstock.tools.session.saved_plan.build import build
from penstock.tools.session.saved_plan.derived import Derived, derive, keep, kept

if TYPE_CHECKING:
    from penstock.dialects.launch import ProgramOp
    from penstock.runtime.loading.initializers import Start
    from penstock.tools.session.report import Report

SUFFIX = ".penstock"
FORMAT = "penstock plan"
FORMAT_VERSION = 2
"""
The version of plans that are saved: 2 since kernels have structured ops. The text of
one of version 1 is read as far as its ops and schedules are still there.
"""
READ_VERSIONS = 1, FORMAT_VERSION
KERNEL_ABI = 1
"""
The version of the meaning of launch programs and kernels: a plan of another number
cannot be run.
"""

PROGRAM, KERNELS = "program.mlir", "kernels.py"
_PACKAGES = ("penstock", "xdsl", "numba", "llvmlite", "numpy")
_VECTORS = ("sse2", "avx", "avx2", "fma", "avx512f", "neon", "sve")
"""The CPU features that vectors depend on."""


def is_plan(path: Path) -> bool:
    """Whether a file is meant to be a plan: by its name, else by how it begins."""
    if path.suffix == SUFFIX:
        return True
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PK\x03\x04"
    except OSError:
        return False


@dataclass(frozen=True)
class Plan(Executable):
    """
    The executable of a saved plan: the text of its program, what follows from that, and
    the whole arrays of its variables by name.
    """

    written: str
    """The text of its program."""
    derived: Derived
    weights: Mapping[str, Array]
    found_origin: Origin = UNKNOWN
    """The origin that its file tells; an empty one for files without."""
    found_share: Share | None = None
    """The share of the rank that it is of."""
    is_own: bool = False
    """Whether this user has compiled it, and nobody else can have written it."""

    @cached_property
    def text(self) -> str:
        """The launch program as text."""
        return self.written

    @cached_property
    def image(self) -> ProgramImage:
        """The program in plain values."""
        return self.derived.image

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """The source of each kernel by its name."""
        return self.derived.sources

    @property
    def own_sources(self) -> Sequence[str]:
        """The kernels that come with a source of their own."""
        return self.derived.own_sources

    @property
    def constants(self) -> Mapping[str, Array]:
        """The value of each constant by its name."""
        return self.derived.constants

    @cached_property
    def report(self) -> Report:
        """The report for a person."""
        return self.derived.report

    @cached_property
    def origin(self) -> Origin:
        """The passes that made it, as its file tells."""
        return self.found_origin

    @property
    def threads(self) -> int:
        """The workers that it is meant for, as far as its file tells."""
        return self.found_origin.threads

    @property
    def objections(self) -> Sequence[str]:
        """Why it is only run if that is allowed, each with its place if it is known."""
        return self.derived.objections

    @cached_property
    def program(self) -> ProgramOp:
        """The launch program, parsed anew."""
        from penstock.tools.driver.compiler import installed_compiler
        from penstock.tools.session.model import Model, program_of

        compiler, _ = installed_compiler()
        module = compiler.parse(self.written.encode(), PROGRAM)
        return program_of(Model(module, {}, Path()))

    @property
    def given(self) -> Mapping[str, Array]:
        """The whole arrays of its variables by name."""
        return self.weights

    @property
    def starts(self) -> Mapping[str, Start]:
        """The starts of variables beside arrays: there are none."""
        return {}

    @property
    def directory(self) -> Path:
        """The folder for files of initialisers: it has none."""
        return Path()

    @property
    def share(self) -> Share | None:
        """The share of the rank that it is of, if it is one."""
        return self.found_share

    def without_weights(self) -> Self:
        """The same without its arrays."""
        return replace(self, weights={})

    def locate(self, error: KernelError) -> None:
        """Raise `Rejected` with what a kernel notes of the author of its source."""
        from penstock.tools.driver.diagnostics import reject
        from penstock.tools.session.kernel_sources import author_of, own_sources

        own = {kernel.sym_name.data: kernel for kernel in own_sources(self.program)}
        reject(f"{error}{author_of(own[error.kernel], error.line)}")

    def check_kernels(self) -> None:
        """
        Raise PlanError if a kernel is only run if that is allowed. Those of a plan of
        this user's own are what the compiler and plug-ins made, and run as then.
        """
        for objection in () if self.is_own else self.objections:
            raise PlanError(objection)

    def check_ranks(self, ranks: Ranks | None) -> None:
        """Raise UsageError unless it is the plan of this process."""
        if ranks is not None:
            ranks.take_share(self.share)
        elif self.share is not None:
            raise UsageError(
                f"the plan is that of rank {self.share.rank}: start {self.share.size} "
                "processes (--ranks, or ranks=)"
            )


# Saving ------------------------------------------------------------------------------


def save_plan(path: Path, executable: Executable, weights: Mapping[str, Array]) -> None:
    """
    Write an executable whose variables have these whole arrays. The same program and
    arrays give the same bytes. Raises UsageError if it cannot be written.
    """
    derived = derive(executable)
    facts, arrays = plan_facts(executable, derived, weights)
    text, sources = executable.text, source_text(derived.sources)
    members = {PROGRAM: [text.encode()], KERNELS: [sources.encode()]}
    write_archive(path, facts, {**members, **arrays})
    keep(_key(text, devices_of(derived.image)), derived)


def plan_facts(
    executable: Executable, derived: Derived, weights: Mapping[str, Array]
) -> tuple[Json, Members]:
    """The facts that the archive of a plan says, and its members that are arrays."""
    index, arrays = array_members("weights", dict(sorted(weights.items())))
    facts: Json = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "abi": KERNEL_ABI,
        "program": derived.image.name,
        "versions": _versions(),
        "build": build(),
        "machine": platform.machine(),
        "cpu": cpu_name(),
        "features": _needed_features(executable.text),
        "devices": devices_of(derived.image),
        "inputs": _ports(derived.image, "feed"),
        "outputs": _ports(derived.image, "fetch"),
        "weights": index,
        "origin": executable.origin.as_json(),
    }
    if executable.share is not None:
        facts["share"] = list(executable.share)
    return facts, arrays


def source_text(sources: Mapping[str, str]) -> str:
    """The source of all kernels as `penstock-opt -t numba` prints it."""
    from penstock.lowering.codegen.target import title_of

    return "\n".join(f"{title_of(name)}\n{text}" for name, text in sources.items())


def _key(text: str, devices: Sequence[str]) -> str:
    """The key of what follows from a text; sources for plug-ins' devices are theirs."""
    facts = [text]
    if not {*devices} <= {*_OWN_DEVICES}:
        facts += [*map(str, codes_of_files()), installed_plugins_text()]
    return sha256("\n".join(facts).encode()).hexdigest()


def _versions() -> dict[str, str]:
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python, **{name: version_of(name) for name in _PACKAGES}}


def cpu_name() -> str:
    """The name of this CPU in LLVM."""
    from llvmlite import binding

    return binding.get_host_cpu_name()


def cpu_features() -> frozenset[str]:
    """The features of this CPU that code may use, by their names in LLVM."""
    return features()


def _needed_features(text: str) -> list[str]:
    """
    The CPU features that the tiles of the kernels were chosen for, if there are any.
    """
    if "#launch.contraction" not in text:
        return []
    return [name for name in _VECTORS if name in cpu_features()]


def _ports(image: ProgramImage, verb: str) -> list[Json]:
    kinds = {x.name: x.kind for x in (*image.queues, *image.variables)}
    return [
        {
            "name": step.subject,
            "shape": port_shape(kind, actor.repetitions),
            "dtype": kind.dtype,
        }
        for actor in image.actors
        for step in actor.steps
        if step.verb == verb and (kind := kinds[step.arguments[0]]) is not None
    ]


# Reading -----------------------------------------------------------------------------


def read_plan(path: Path, device: str | None = None, load: Sequence[str] = ()) -> Plan:
    """
    The plan in a file, which is to run on a kind of device if one is named. Files to
    load bring the devices of plug-ins that it runs on.

    Raises UsageError if a file cannot be read or loaded, or if there is nothing that
    the plan would need one for, PlanError if it is damaged or cannot run
    here, and `Rejected` if its program is wrong.
    """
    archive = Archive(path)
    _check_format(archive)
    archive.check_members()
    if load:
        _load(archive, load)
    check_machine(archive, device)
    return _plan_in(archive)


def _load(archive: Archive, files: Sequence[str]) -> None:
    """Load files for the devices of a plan."""
    if not _foreign_devices(archive):
        raise UsageError(
            f"--load is for what is compiled, and for devices of plug-ins, of which "
            f"{archive.path} needs none"
        )
    from penstock.tools.driver.plugins import load_plugins

    load_plugins(files)


def _foreign_devices(archive: Archive) -> list[str]:
    """The kinds of devices of plug-ins that a plan runs on."""
    return [kind for kind in _names(archive, "devices") if kind not in _OWN_DEVICES]


_OWN_DEVICES = "cpu", "cuda"


def read_own_plan(path: Path) -> Plan:
    """
    The plan in a file that this build has written on this machine. Raises UsageError if
    it cannot be read, PlanError if it is damaged, or others than this user can have
    written it.
    """
    archive = Archive(path, private=True)
    archive.check_sums()
    return replace(_plan_in(archive), is_own=True)


def _plan_in(archive: Archive) -> Plan:
    text = archive.text(PROGRAM)
    key = _key(text, _names(archive, "devices"))
    derived = kept(key) or _derive(archive, text, key)
    weights = _weights(archive, derived.image)
    return Plan(text, derived, weights, origin_in(archive), share_in(archive))


def origin_in(archive: Archive) -> Origin:
    """The origin that an archive tells, if it does."""
    if (value := archive.manifest.get("origin")) is None:
        return UNKNOWN
    try:
        return origin_from_json(value)
    except ValueError as error:
        raise archive.error(f"its manifest holds {error}") from error


def share_in(archive: Archive) -> Share | None:
    """The share of what ranks run that the archive of a plan is, if it is one."""
    match archive.manifest.get("share"):
        case None:
            return None
        case [int(rank), int(size), str(digest)]:
            return Share(rank, size, digest)
        case value:
            raise archive.error(f"its manifest holds the share {value!r}")


def _check_format(archive: Archive) -> None:
    facts = archive.manifest
    if facts.get("format") != FORMAT:
        raise archive.error(f"it is no {FORMAT}")
    if (number := facts.get("version")) not in READ_VERSIONS:
        known = " and ".join(map(str, READ_VERSIONS))
        raise archive.error(
            f"it has version {number!r} of the format, but this penstock reads "
            f"versions {known}"
        )
    if (abi := facts.get("abi")) != KERNEL_ABI:
        raise archive.error(
            f"it was saved by penstock {_version_in(facts)} with kernel ABI {abi!r}, "
            f"but penstock {_versions()['penstock']} has kernel ABI {KERNEL_ABI}: "
            "compile the model anew"
        )


def _version_in(facts: Json) -> str:
    versions = facts.get("versions")
    found = cast("Json", versions) if isinstance(versions, dict) else {}
    return str(found.get("penstock", "of unknown version"))


def check_machine(
    archive: Archive, device: str | None = None, remedy: str = "compile the model anew"
) -> None:
    """
    Raise PlanError for a plan that cannot run on this machine, or not on a kind of
    device if one is named; `remedy` is what helps against the former.
    """
    facts = archive.manifest
    devices = _names(archive, "devices")
    if device is not None and device not in devices:
        raise archive.error(
            f"it was compiled for {', '.join(devices)} and cannot run on {device}"
        )
    here = cpu_features()
    if missing := [name for name in _names(archive, "features") if name not in here]:
        raise archive.error(
            f"its kernels were tiled for {facts.get('cpu')} with {', '.join(missing)}, "
            f"which this processor ({cpu_name()}) lacks: {remedy}"
        )


def _names(archive: Archive, key: str) -> list[str]:
    """A list of names in the manifest."""
    names = archive.manifest.get(key)
    if isinstance(names, list):
        texts = cast("list[object]", names)
        if all(isinstance(text, str) for text in texts):
            return cast("list[str]", texts)
    raise archive.error(f"its manifest has no list of {key}")


def _derive(archive: Archive, text: str, key: str) -> Derived:
    """
    The facts derived from a text that this machine has not seen, which are kept then
    under a key.
    """
    from penstock.tools.driver.compiler import installed_compiler
    from penstock.tools.session.model import Model, program_of
    from penstock.tools.session.program_export import ExportedProgram

    compiler, _ = installed_compiler()
    module = compiler.parse(text.encode(), f"{archive.path}/{PROGRAM}")
    compiler.verify(module)
    executable = ExportedProgram(program_of(Model(module, {}, Path())))
    _check_sources(archive, source_text(executable.sources))
    derived = derive(executable)
    keep(key, derived)
    return derived


def _check_sources(archive: Archive, expected: str) -> None:
    """
    Refuse a file whose source is not that of its program. None of it is ever run, but
    a person may read it to see what is. Other builds may print the same otherwise.
    """
    if archive.manifest.get("build") != build():
        return
    # Devices of plug-ins may have sources of their own.
    known = {*origin_in(archive).plugins}
    if _foreign_devices(archive) and known != {*installed_code(), *codes_of_files()}:
        return
    lines = zip(archive.text(KERNELS).splitlines(), expected.splitlines(), strict=False)
    if archive.text(KERNELS) != expected:
        number = next((i for i, (a, b) in enumerate(lines, 1) if a != b), 0)
        where = f"from line {number} on, " if number else ""
        raise archive.error(
            f"{where}'{KERNELS}' is not the source of the kernels in '{PROGRAM}'"
        )


def _weights(archive: Archive, image: ProgramImage) -> dict[str, Array]:
    found = weights_in(archive)
    needed = {x.port for x in image.variables if x.port is not None}
    if needed != found.keys():
        what = _listed(sorted(needed ^ found.keys()))
        raise archive.error(f"its weights are not those of its program: {what}")
    return found


def weights_in(archive: Archive) -> dict[str, Array]:
    """The arrays of variables by name in the archive of a plan."""
    index = archive.manifest.get("weights")
    members = cast("Json", index) if isinstance(index, dict) else {}
    return {name: read_array(archive, str(member)) for name, member in members.items()}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
