// RUN: penstock-opt %s -p op-unroll-loops | filecheck %s --match-full-lines

// Two steps of a recurrence: each reads its slice, and what the one before has made.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %h0 = job.input "h0" : tensor<4xf32>
  %xs = job.input "xs" : tensor<2x4xf32>
  %h = op.loop 2 carries(%h0 : tensor<4xf32>) slices(%xs : tensor<2x4xf32>)
      -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %g: tensor<4xf32>, %x: tensor<4xf32>):
    %n = op.add %g, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    op.yield %n : tensor<4xf32>
  }
  job.output "h", %h : tensor<4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %h0 = job.input "h0" : tensor<4xf32>
// CHECK-NEXT:   %xs = job.input "xs" : tensor<2x4xf32>
// CHECK-NEXT:   %0 = op.slice %xs from [0, 0] to [1, 4] by [1, 1] : tensor<2x4xf32> -> tensor<1x4xf32>
// CHECK-NEXT:   %1 = op.reshape %0 to [4] : tensor<1x4xf32> -> tensor<4xf32>
// CHECK-NEXT:   %n = op.add %h0, %1 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:   %2 = op.slice %xs from [1, 0] to [2, 4] by [1, 1] : tensor<2x4xf32> -> tensor<1x4xf32>
// CHECK-NEXT:   %3 = op.reshape %2 to [4] : tensor<1x4xf32> -> tensor<4xf32>
// CHECK-NEXT:   %h = op.add %n, %3 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:   job.output "h", %h : tensor<4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
