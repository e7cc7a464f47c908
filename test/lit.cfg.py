"""How lit runs the tests of this folder: `lit test`."""

import os
import sys
from importlib.util import find_spec

import lit.formats

config.name = "penstock"
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.test_source_root, ".lit")
config.suffixes = [".mlir"]
config.excludes = ["Inputs", "plugin", "unit"]

# Coverage sees started processes only, and `lit --param format=sh` shows that the
# tests do not depend on what is loaded before them.
sys.path.insert(0, config.test_source_root)
measured = any(name.startswith("COVERAGE_PROCESS") for name in os.environ)
if measured or lit_config.params.get("format") == "sh":
    config.test_format = lit.formats.ShTest(execute_external=False)
else:
    from fast_format import ForkingShTest, preload_tools

    config.test_format = ForkingShTest(preload_tools())

# The tools are those of the environment that lit itself runs in.
bin_dir = os.path.dirname(sys.executable)
config.environment["PATH"] = os.pathsep.join((bin_dir, config.environment["PATH"]))

# Under `coverage run -m lit test`, measure the tools too.
for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

# Tests that need this are reported as unsupported where it is not installed.
if find_spec("numba_cuda") is not None:
    config.available_features.add("cuda-compiler")

# No test may hang.
if lit_config.maxIndividualTestTimeIsSupported[0]:
    lit_config.maxIndividualTestTime = 60
