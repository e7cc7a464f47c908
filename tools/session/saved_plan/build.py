"""The digest of the code that makes plans: those of other versions have another one."""

from __future__ import annotations

from functools import cache

from penstock.runtime.jit.cache import content_hash
from penstock.runtime.jit.package_digest import code_of
from penstock.runtime.jit.source_digest import digest_below

_MAKERS = frozenset(
    {
        "lowering.codegen.target",
        "tools.session.program_export",
        "tools.session.saved_plan.derived",
    }
)
"""The modules that say what follows from a text, with what they import."""


@cache
def build() -> str:
    """A digest of all code that derives facts from a text."""
    return content_hash([digest_below(_MAKERS), code_of("xdsl")])
