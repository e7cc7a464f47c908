"""The forking lit format gives the verdicts that lit's own format gives."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3]
CONFIG = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from fast_format import ForkingShTest, preload_tools
import os
import lit.formats
config.name = "inner"
config.suffixes = [".mlir"]
config.test_source_root = config.test_exec_root = os.path.dirname(__file__)
config.environment["PATH"] = os.path.dirname(sys.executable) + ":/usr/bin:/bin"
plain = lit_config.params.get("format") == "sh"
config.test_format = (
    lit.formats.ShTest(execute_external=False) if plain
    else ForkingShTest(preload_tools())
)
"""
MODULE = "builtin.module {}\n"
CASES = {
    "pass": "// RUN: penstock-opt %s | filecheck %s\n// CHECK: builtin.module\n",
    "mismatch": "// RUN: penstock-opt %s | filecheck %s\n// CHECK: func.func\n",
    "not-pass": "// RUN: not penstock-opt none.mlir 2>&1 | filecheck %s\n"
    "// CHECK: no such file\n",
    "not-fail": "// RUN: not penstock-opt %s\n",
    "first-of-pipe-fails": "// RUN: penstock-opt none.mlir 2>&1 | filecheck %s\n"
    "// CHECK: no such file\n",
    "second-line-fails": "// RUN: penstock-opt %s\n// RUN: penstock-opt none.mlir\n",
    "redirect": "// RUN: penstock-opt %s > %t\n// RUN: penstock-opt - < %t "
    "2> /dev/null | filecheck %s --input-file=-\n// CHECK: builtin.module\n",
    "shell-pass": "// RUN: penstock-opt %s > %t && diff %t %t\n",
    "shell-fail": "// RUN: penstock-opt %s > %t && diff %s %t\n",
    "programs-pass": "// RUN: penstock-opt %s | grep module > %t\n"
    '// RUN: not grep func %t\n// RUN: echo "builtin.module {" | diff %t -\n'
    "// RUN: python -c 'print(7)' | filecheck %s\n// CHECK: 7\n",
    "file-pass": "// RUN: echo 'print(8)' > %t.py\n"
    "// RUN: python %t.py | filecheck %s\n// CHECK: 8\n",
    "file-fails": "// RUN: echo 'assert 0' > %t.py\n// RUN: python %t.py\n",
    "program-fails": "// RUN: penstock-opt %s | diff %s -\n",
    "not-program-fails": "// RUN: not grep module %s\n",
    "expected-failure": "// XFAIL: *\n// RUN: penstock-opt none.mlir\n",
    "unsupported": "// REQUIRES: moon\n// RUN: penstock-opt none.mlir\n",
    "no-run-line": "",
}


def verdicts(folder: Path, *flags: str) -> dict[str, str]:
    """Run lit on the folder; map each test's name to its verdict."""
    command = [
        sys.executable,
        "-c",
        "from lit.main import main; main()",
        "-a",
        "-j1",
        *flags,
        str(folder),
    ]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300
    )
    lines = re.findall(r"^([A-Z]+): inner :: (\S+)\.mlir", result.stdout, re.MULTILINE)
    return {name: verdict for verdict, name in lines}


@pytest.mark.slow
def test_same_verdicts_as_the_ordinary_format(tmp_path: Path):
    (tmp_path / "lit.cfg.py").write_text(CONFIG)
    for name, text in CASES.items():
        (tmp_path / f"{name}.mlir").write_text(text + MODULE)
    forked = verdicts(tmp_path)
    assert forked == verdicts(tmp_path, "--param", "format=sh")
    assert forked["mismatch"] == forked["not-fail"] == "FAIL"
    assert forked["first-of-pipe-fails"] == forked["second-line-fails"] == "FAIL"
    assert forked["program-fails"] == forked["not-program-fails"] == "FAIL"
    assert forked["programs-pass"] == "PASS"
    assert forked["pass"] == forked["not-pass"] == forked["redirect"] == "PASS"
    assert forked.keys() == CASES.keys()
