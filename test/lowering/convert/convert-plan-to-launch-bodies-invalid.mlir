// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-mark-interfaces,regst-alias-registers,regst-plan-memory -o %t.mlir
// RUN: sed 's|"n/out" alias %z : !regst.data<tensor<4xf32>> slots 1|"n/out" slots 1|' %t.mlir > %t.apart.mlir
// RUN: not penstock-opt %t.apart.mlir -p convert-plan-to-launch 2>&1 | filecheck %s

// A carried value that is made beside the one before it needs a place for that in the memory
// of the body.

!t = tensor<4xf32>

// CHECK: error: convert-plan-to-launch: registers have no place yet, run regst-plan-memory first
job.job @carried placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = op.loop 3 carries(%x : !t) -> !t {
  ^bb0(%i: tensor<i64>, %z: !t):
    %n = op.tanh %z : !t -> !t
    op.yield %n : !t
  }
  job.output "y", %y : !t
}
