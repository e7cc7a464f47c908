// A plan with a loop and a condition in it can be written at each level and read again:
// the same program comes of it, byte by byte.

// RUN: penstock-opt %s --pipeline cpu -o %t.whole
// RUN: penstock-opt %s --pipeline cpu --compile-to job -o %t.job.mlir
// RUN: penstock-opt %t.job.mlir --pipeline cpu | diff - %t.whole
// RUN: penstock-opt %s --pipeline cpu --compile-to plan -o %t.plan.mlir
// RUN: penstock-opt %t.plan.mlir --pipeline cpu | diff - %t.whole
// RUN: penstock-opt %s --pipeline cpu --compile-to memory -o %t.memory.mlir
// RUN: penstock-opt %t.memory.mlir --pipeline cpu | diff - %t.whole
// RUN: penstock-opt %s --pipeline cpu --compile-to launch -o %t.launch.mlir
// RUN: penstock-opt %t.launch.mlir --pipeline cpu | diff - %t.whole
// RUN: filecheck %s < %t.whole

!t = tensor<64xf32>
!m = tensor<64x64xf32>

// CHECK: launch.loop up to 5 count
// CHECK:   launch.if
job.job @nested placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %xs = job.input "xs" : tensor<5x64xf32>
  %n = job.input "n" : tensor<i64>
  %w = job.variable "w" init <normal, seed = 2, std = 0.1> : !m
  %y, %rows = op.loop up to 5 count(%n) carries(%x : !t) slices(%xs : tensor<5x64xf32>)
      reads(%w : !m) -> !t, tensor<5x64xf32> {
  ^bb0(%i: tensor<i64>, %z: !t, %a: !t, %m: !m):
    %b = op.matmul %z, %m : !t, !m -> !t
    %two = op.constant dense<2> : tensor<i64>
    %go = op.less %i, %two : tensor<i64>, tensor<i64> -> tensor<i1>
    %d = op.if %go reads(%b, %a, %m : !t, !t, !m) -> !t {
    ^bb1(%e: !t, %f: !t, %u: !m):
      %g = op.softmax %e axis 0 : !t -> !t
      %h = op.matmul %g, %u : !t, !m -> !t
      op.yield %h : !t
    } else {
    ^bb1(%e: !t, %f: !t, %u: !m):
      %k = op.cum_sum %f axis 0 : !t -> !t
      op.yield %k : !t
    }
    op.yield %d, %d : !t, !t
  }
  job.output "y", %y : !t
  job.output "rows", %rows : tensor<5x64xf32>
}
