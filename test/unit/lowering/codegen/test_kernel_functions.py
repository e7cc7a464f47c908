"""The functions that generated source may call, against what Python parses."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from penstock.lowering.codegen.body.kernel_functions import public_names

KERNELS = Path(__file__).parents[4] / "runtime" / "kernels"
TEXT = """
import os
from os import path
def f(x): ...
class C: ...
def _g(): ...
a = b = 1
c, d = 1, 2
e: int = 3
i: int
a.x = 4
if a:
    inner = 5
print(a == b)
"""


def parsed(text: str) -> set[str]:
    """The public names that a module's syntax tree defines."""
    found: set[str] = set()
    for node in ast.parse(text).body:
        match node:
            case ast.FunctionDef(name) | ast.ClassDef(name):
                found.add(name)
            case ast.Assign() | ast.AnnAssign(value=ast.expr()):
                targets = (
                    node.targets if isinstance(node, ast.Assign) else [node.target]
                )
                inner = (part for target in targets for part in ast.walk(target))
                found |= {
                    part.id
                    for part in inner
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
                }
            case _:
                pass
    return {name for name in found if not name.startswith("_")}


def test_names_of_a_module():
    assert set(public_names(TEXT)) == parsed(TEXT) == set("fCabcde")


@pytest.mark.parametrize("folder", ["cpu", "cuda", "math"])
def test_names_of_all_modules_of_kernels(folder: str):
    paths = [*(KERNELS / folder).rglob("*.py")]
    assert paths
    for path in paths:
        text = path.read_text("utf-8")
        assert set(public_names(text)) == parsed(text), path
