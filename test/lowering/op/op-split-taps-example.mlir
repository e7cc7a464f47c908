// RUN: penstock-opt %s -p 'op-split-taps{device=cpu}' | filecheck %s --match-full-lines

// Taps 8 apart hit 2 of 10 lines, or all; those at both sides of a line hit nothing.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x32x10x8xf32>
  %w = job.variable "w" init <ones> : tensor<32x32x2x3xf32>
  %y = op.conv2d %x, %w pads [8, 8, 0, 8] dilations [8, 8]
    : tensor<1x32x10x8xf32>, tensor<32x32x2x3xf32> -> tensor<1x32x10x8xf32>
  job.output "y", %y : tensor<1x32x10x8xf32>
}
// EXAMPLE-AFTER
// CHECK:        %w = job.variable "w" init <ones> part [0, 0, 1, 1] of [32, 32, 2, 3] : tensor<32x32x1x1xf32>
// CHECK-NEXT:   %w_1 = job.variable "w" init <ones> part [0, 0, 0, 1] of [32, 32, 2, 3] : tensor<32x32x1x1xf32>
// CHECK-NEXT:   %[[WHOLE:.+]] = op.conv2d %x, %w : tensor<1x32x10x8xf32>, tensor<32x32x1x1xf32> -> tensor<1x32x10x8xf32>
// CHECK-NEXT:   %[[LINES:.+]] = op.slice %x from [0, 0, 0, 0] to [1, 32, 2, 8] by [1, 1, 1, 1] : tensor<1x32x10x8xf32> -> tensor<1x32x2x8xf32>
// CHECK-NEXT:   %[[FEW:.+]] = op.conv2d %[[LINES]], %w_1 : tensor<1x32x2x8xf32>, tensor<32x32x1x1xf32> -> tensor<1x32x2x8xf32>
// CHECK-NEXT:   %[[PADDED:.+]] = op.pad %[[FEW]] before [0, 0, 8, 0] after [0, 0, 0, 0] : tensor<1x32x2x8xf32> -> tensor<1x32x10x8xf32>
// CHECK-NEXT:   %y = op.add %[[WHOLE]], %[[PADDED]] : tensor<1x32x10x8xf32>, tensor<1x32x10x8xf32> -> tensor<1x32x10x8xf32>
// EXAMPLE-END
