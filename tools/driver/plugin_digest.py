"""
The digest of all plug-ins by content, for keys of what is kept of compilations.

It covers installed packages with entry points of any kind, the files that are to be
loaded, what both import besides Python's own modules, and the files that have
registered something in this process. Nothing is loaded for it, so that a plan is found
again without the compiler.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from penstock.plugins import KINDS, files_of_registered, installed_entries
from penstock.runtime.jit.package_digest import code_of, code_of_plugins, packages_in
from penstock.tools.driver.errors import UsageError, explain_os_error


def digest_of_plugins(files: Iterable[str] = ()) -> str:
    """
    The digest of all plug-ins of this environment and process, and of these files.

    Raises `UsageError` if a file cannot be read.
    """
    loaded = [_text_of(file) for file in files]
    # A file that was loaded before and is not named now still has registered plug-ins.
    loaded += [_text_of(file) for file in files_of_registered()]
    texts = sorted({*loaded})
    digest = hashlib.sha256(installed_plugins_text().encode())
    for text in (*texts, *_packages_of(texts)):
        digest.update(f"\n{len(text)}\n{text}".encode())
    return digest.hexdigest()


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"cannot load {file}: {explain_os_error(error)}") from error


def _packages_of(texts: Sequence[str]) -> list[str]:
    """The packages that texts import, with the digests or versions of their code."""
    names = {name for text in texts for name in packages_in(text)}
    return [code_of(name) for name in sorted(names)]


@cache
def installed_plugins_text() -> str:
    """The installed plug-ins with the digests of their code, as a text."""
    groups = sorted({kind.group for kind in KINDS.values()})
    entries = installed_entries()
    found = [entry for group in groups for entry in entries.select(group=group)]
    values = sorted(f"{entry.group} {entry.name} {entry.value}" for entry in found)
    modules = {re.split("[.:]", entry.value)[0].strip() for entry in found}
    return "\n".join([*code_of_plugins(modules), *values])
