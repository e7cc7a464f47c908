"""
Names of ops in text of earlier releases, which are read for one release after the ops
have others.
"""

from __future__ import annotations

from collections.abc import Mapping

FORMER_NAMES: Mapping[str, str] = {
    "op.epilogue": "op.fused",
    "op.rows": "op.fused",
    "op.yield_rows": "op.yield",
}
"""The name that an op has now, by the one that it had."""
