"""
The comparison of outputs with reference values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.tools.cli.exit_codes import EXIT_FAILED, fail
from penstock.tools.cli.run_arguments import PROGRAM
from penstock.tools.cli.run_output import RunOutput
from penstock.tools.driver.errors import FileError
from penstock.tools.session.differences import (
    NO_FINITE_VALUES,
    difference,
    proves_nothing,
)

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array


def report_errors(
    outputs: Mapping[str, Array],
    reference: Mapping[str, Array],
    name: str,
    tolerance: float,
    report: RunOutput | None = None,
) -> int:
    """
    The exit code after reporting the error of each output: 0 if all are within the
    tolerance.

    The error is the largest difference over the largest reference value. A reference
    that has values, but no finite one, fails: it would prove nothing.
    """
    if missing := sorted(set(outputs) - set(reference)):
        raise FileError(f"{name} has no outputs {', '.join(missing)}")
    report = report or RunOutput(as_json=False)
    from penstock.runtime.loading.arrays import reread

    # In a file `bfloat16` is bytes, which the output says how to read.
    expected = {key: reread(reference[key], outputs[key].dtype) for key in outputs}
    worst = 0.0
    for key, output in outputs.items():
        text, error = difference(output, expected[key])
        worst = max(worst, error)
        facts = {"output": key, "against": name, "error": error, "text": text}
        report.say(f"check against {name}: {key} {text}", {"check": [facts]})
    unproven = [key for key in outputs if proves_nothing(expected[key])]
    if worst > tolerance:
        text = f"the outputs differ by {worst:.2e}, more than {tolerance:.0e}"
        return fail(PROGRAM, text, EXIT_FAILED)
    if unproven:
        text = f"{', '.join(unproven)} {NO_FINITE_VALUES}"
        return fail(PROGRAM, text, EXIT_FAILED)
    return 0
