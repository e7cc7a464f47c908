// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-mark-interfaces,regst-alias-registers,regst-plan-memory -o %t.mlir
// RUN: penstock-opt %t.mlir -p verify-plan -o %t.same.mlir
// RUN: diff %t.mlir %t.same.mlir
// RUN: sed 's|"t/out" in %kept_1 at 64 |"t/out" in %kept_1 at 0 |' %t.mlir > %t.shared.mlir
// RUN: not penstock-opt %t.shared.mlir -p verify-plan 2>&1 | filecheck %s

// Of the places of a carried value one is in the memory of the body, where every other
// iteration writes it: nothing else may lie there, not even after its last reader.

!t = tensor<4xf32>

// CHECK: registers 'z/out' and 't/out' share 16 bytes, but 'z/out' lasts from iteration to iteration
job.job @carried placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %xs = job.input "xs" : tensor<3x4xf32>
  %w = job.input "w" : tensor<4x4xf32>
  %y, %rows = op.loop 3 carries(%x : !t) slices(%xs : tensor<3x4xf32>)
      reads(%w : tensor<4x4xf32>) -> !t, tensor<3x4xf32> {
  ^bb0(%i: tensor<i64>, %z: !t, %a: !t, %m: tensor<4x4xf32>):
    %n = op.matmul %z, %m : !t, tensor<4x4xf32> -> !t
    %t = op.cum_sum %a axis 0 : !t -> !t
    %u = op.cum_sum %t axis 0 : !t -> !t
    op.yield %n, %u : !t, !t
  }
  job.output "y", %y : !t
  job.output "rows", %rows : tensor<3x4xf32>
}
