// RUN: penstock-opt %s -p 'op-split-pads{vector-bytes=64 device="cuda"}' | filecheck %s --match-full-lines

// On a GPU, padding becomes an op of its own ahead of the convolution.

// EXAMPLE-BEFORE
job.job @example placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<1x2x5x5xf32>
  %w = job.input "w" : tensor<4x2x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1]
    : tensor<1x2x5x5xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x5x5xf32>
  job.output "y", %y : tensor<1x4x5x5xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cuda, [0:0]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<1x2x5x5xf32>
// CHECK-NEXT:   %w = job.input "w" : tensor<4x2x3x3xf32>
// CHECK-NEXT:   %x_padded = op.pad %x before [0, 0, 1, 1] after [0, 0, 1, 1] : tensor<1x2x5x5xf32> -> tensor<1x2x7x7xf32>
// CHECK-NEXT:   %y = op.conv2d %x_padded, %w : tensor<1x2x7x7xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x5x5xf32>
// CHECK-NEXT:   job.output "y", %y : tensor<1x4x5x5xf32>
// CHECK-NEXT: }
// EXAMPLE-END
