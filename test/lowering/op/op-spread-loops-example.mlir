// RUN: penstock-opt %s -p op-spread-loops | filecheck %s --match-full-lines

// `op.exp` acts three times in a launch, on a row each time.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<3x4xf32>
  %y = op.loop 3 slices(%x : tensor<3x4xf32>) -> tensor<3x4xf32> {
  ^bb0(%i: tensor<i64>, %s: tensor<4xf32>):
    %e = op.exp %s : tensor<4xf32> -> tensor<4xf32>
    op.yield %e : tensor<4xf32>
  }
  job.output "y", %y : tensor<3x4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0-1]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<3x4xf32>
// CHECK-NEXT:   %0 = op.unpack %x by 3 : tensor<3x4xf32> -> tensor<1x4xf32>
// CHECK-NEXT:   %1 = op.reshape %0 to [4] : tensor<1x4xf32> -> tensor<4xf32>
// CHECK-NEXT:   %e = op.exp %1 : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:   %2 = op.reshape %e to [1, 4] : tensor<4xf32> -> tensor<1x4xf32>
// CHECK-NEXT:   %y = op.pack %2 by 3 : tensor<1x4xf32> -> tensor<3x4xf32>
// CHECK-NEXT:   job.output "y", %y : tensor<3x4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
