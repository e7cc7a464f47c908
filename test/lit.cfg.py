"""How lit runs the tests of this folder: `lit test`."""

import os
import sys

import lit.formats

config.name = "penstock"
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.test_source_root, ".lit")
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["plugin", "unit"]

# The tools are those of the environment that lit itself runs in.
bin_dir = os.path.dirname(sys.executable)
config.environment["PATH"] = os.pathsep.join((bin_dir, config.environment["PATH"]))

# Under `coverage run -m lit test`, measure the tools too.
for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

# No test may hang.
if lit_config.maxIndividualTestTimeIsSupported[0]:
    lit_config.maxIndividualTestTime = 60
