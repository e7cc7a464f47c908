// RUN: python %S/../Inputs/plant_times.py %s %t.db 'g: task' 9000 'm: task' 5000 'r: task' 700
// RUN: penstock-opt %s -p 'op-split-groups{database="%t.db"}' | filecheck %s --match-full-lines

// The product alone was measured to take 5000 ns, the ReLU after it 700, both in one kernel 9000.

!t = tensor<4x4xf32>

job.job @measured placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %m = op.matmul %x, %x : !t, !t -> !t
  %r = op.relu %m : !t -> !t
  job.output "r", %r : !t
}

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %g = op.fused %x : !t -> !t {
  ^bb0(%p: !t):
    %m = op.matmul %p, %p : !t, !t -> !t
    %r = op.relu %m : !t -> !t
    op.yield %r : !t
  }
  job.output "y", %g : !t
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<4x4xf32>
// CHECK-NEXT:   %m = op.matmul %x, %x {not_fused = "measured: 2 parts take 6200 ns, one 9000"} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
// CHECK-NEXT:   %g = op.relu %m {not_fused = "measured: 2 parts take 6200 ns, one 9000"} : tensor<4x4xf32> -> tensor<4x4xf32>
// CHECK-NEXT:   job.output "y", %g : tensor<4x4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
