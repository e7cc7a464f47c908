"""Messages go on while a rank computes."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
from draws import fresh
from rank_threads import connected

from penstock.runtime.loading.initializers import Array
from penstock.runtime.testing.fault_injection import Gate, KernelFault, inject
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import Model, lower, programs_of
from penstock.tools.session.program_export import ExportedProgram
from penstock.tools.session.session import Session

JOB = """
!t = tensor<16xf32>

job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %early = op.exp %x : !t -> !t
  %far = op.tanh %early {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %long = op.sin %early : !t -> !t
  job.output "far", %far : !t
  job.output "long", %long : !t
}
"""


def test_messages_come_and_go_in_the_act_of_a_kernel() -> None:
    """
    A kernel of the one worker of rank 0 waits until a message has gone to rank 1 and
    another one has come back, which ends the run there.
    """
    front = installed_compiler()
    model = Model(front[0].parse(JOB.encode(), "net.mlir"), {}, Path())
    lower(*front, model)
    programs = [ExportedProgram(program) for program in programs_of(model)]
    x = fresh().standard_normal(16).astype(np.float32)
    gate, found = Gate(), list[dict[str, Array]]()
    with (
        connected(2) as transports,
        Session.of(programs[0]) as first,
        Session.of(programs[1]) as second,
        inject(first.executor, KernelFault("long", act=0, gate=gate)),
    ):
        assert first.executor.program.threads == 1
        first.executor.connect(transports[0])
        second.executor.connect(transports[1])
        run = threading.Thread(target=lambda: found.append(first.run({"x": x})))
        run.start()
        second.run({})
        assert not found
        gate.open()
        run.join()
        first.close()
    (outputs,) = found
    wide = np.exp(x.astype(np.float64))
    # Units in the last place by which `exp` and `tanh` are off; no slope is above one.
    bound = 2.0**-23 * (1.1 * wide + 1.2)
    for name, expected in (("far", np.tanh(wide)), ("long", np.sin(wide))):
        assert (np.abs(outputs[name].astype(np.float64) - expected) <= bound).all()
