// RUN: penstock-opt %s -p op-split-pads --split-input-file | filecheck %s

// Pads at the top, left, bottom and right are zeros before and after the last two axes.

// CHECK-LABEL: job.job @all_sides
job.job @all_sides placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x2x5x6xf32>
  %w = job.input "w" : tensor<4x2x3x3xf32>
  %b = job.input "b" : tensor<4xf32>
  // CHECK:      %x_padded = op.pad %x before [0, 0, 1, 2] after [0, 0, 3, 4] : tensor<1x2x5x6xf32> -> tensor<1x2x9x12xf32>
  // CHECK-NEXT: %y = op.conv2d %x_padded, %w, %b strides [2, 1] {keep} : tensor<1x2x9x12xf32>, tensor<4x2x3x3xf32>, tensor<4xf32> -> tensor<1x4x4x10xf32>
  %y = op.conv2d %x, %w, %b strides [2, 1] pads [1, 2, 3, 4] {keep}
    : tensor<1x2x5x6xf32>, tensor<4x2x3x3xf32>, tensor<4xf32> -> tensor<1x4x4x10xf32>
  job.output "y", %y : tensor<1x4x4x10xf32>
}

// -----

// Convolutions of one value with the same pads share the padding; others do not.

// CHECK-LABEL: job.job @shared
job.job @shared placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x2x5x5xf32>
  %w = job.input "w" : tensor<2x2x3x3xf32>
  // CHECK:      %[[ONE:.+]] = op.pad %x before [0, 0, 1, 1]
  // CHECK-NEXT: op.conv2d %[[ONE]], %w :
  // CHECK-NEXT: op.conv2d %[[ONE]], %w strides [2, 2] :
  // CHECK-NEXT: %[[TWO:.+]] = op.pad %x before [0, 0, 2, 2]
  // CHECK-NEXT: op.conv2d %[[TWO]], %w dilations [2, 2] :
  // CHECK-NEXT: %[[OTHER:.+]] = op.pad %y before [0, 0, 1, 1]
  // CHECK-NEXT: op.conv2d %[[OTHER]], %w :
  %y = op.conv2d %x, %w pads [1, 1, 1, 1] : tensor<1x2x5x5xf32>, tensor<2x2x3x3xf32> -> tensor<1x2x5x5xf32>
  %z = op.conv2d %x, %w strides [2, 2] pads [1, 1, 1, 1] : tensor<1x2x5x5xf32>, tensor<2x2x3x3xf32> -> tensor<1x2x3x3xf32>
  %u = op.conv2d %x, %w pads [2, 2, 2, 2] dilations [2, 2] : tensor<1x2x5x5xf32>, tensor<2x2x3x3xf32> -> tensor<1x2x5x5xf32>
  %v = op.conv2d %y, %w pads [1, 1, 1, 1] : tensor<1x2x5x5xf32>, tensor<2x2x3x3xf32> -> tensor<1x2x5x5xf32>
  job.output "z", %z : tensor<1x2x3x3xf32>
  job.output "u", %u : tensor<1x2x5x5xf32>
  job.output "v", %v : tensor<1x2x5x5xf32>
}

// -----

// A padded value lies where its convolution runs, so that others are not shared.

// CHECK-LABEL: job.job @placements
job.job @placements placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<1x1x5x5xf32>
  %w = job.input "w" : tensor<1x1x3x3xf32>
  // CHECK:      op.pad %x before [0, 0, 1, 1] after [0, 0, 1, 1] :
  // CHECK:      op.pad %x before [0, 0, 1, 1] after [0, 0, 1, 1] {placement = #job.placement<cpu, [0:0]>} :
  // CHECK-NEXT: op.conv2d {{.*}} {placement = #job.placement<cpu, [0:0]>} :
  %y = op.conv2d %x, %w pads [1, 1, 1, 1] : tensor<1x1x5x5xf32>, tensor<1x1x3x3xf32> -> tensor<1x1x5x5xf32>
  %z = op.conv2d %x, %w pads [1, 1, 1, 1] {placement = #job.placement<cpu, [0:0]>}
    : tensor<1x1x5x5xf32>, tensor<1x1x3x3xf32> -> tensor<1x1x5x5xf32>
  job.output "y", %y : tensor<1x1x5x5xf32>
  job.output "z", %z : tensor<1x1x5x5xf32>
}

// -----

// A convolution that adds no pads stays as it is.

// CHECK-LABEL: job.job @no_pads
job.job @no_pads placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x1x5x5xf32>
  %w = job.input "w" : tensor<1x1x3x3xf32>
  // CHECK-NOT: op.pad
  // CHECK: op.conv2d %x, %w :
  %y = op.conv2d %x, %w pads [0, 0, 0, 0] : tensor<1x1x5x5xf32>, tensor<1x1x3x3xf32> -> tensor<1x1x3x3xf32>
  job.output "y", %y : tensor<1x1x3x3xf32>
}

// -----

// Unknown extents stay unknown.

// CHECK-LABEL: job.job @unknown_shape
job.job @unknown_shape placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<?x1x?x5xf32>
  %w = job.input "w" : tensor<1x1x3x3xf32>
  // CHECK: op.pad {{.*}} -> tensor<?x1x?x7xf32>
  // CHECK-NEXT: op.conv2d {{.*}} -> tensor<?x1x?x5xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1] : tensor<?x1x?x5xf32>, tensor<1x1x3x3xf32> -> tensor<?x1x?x5xf32>
  job.output "y", %y : tensor<?x1x?x5xf32>
}

// -----

// Where each channel is convolved alone, by rows that are long enough, pads stay.

// CHECK-LABEL: job.job @channels
job.job @channels placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x4x6x6xf32>
  %w = job.input "w" : tensor<4x1x3x3xf32>
  %v = job.input "v" : tensor<4x2x3x3xf32>
  // CHECK:      %y = op.conv2d %x, %w pads [1, 1, 1, 1] groups 4 :
  // CHECK-NEXT: %x_padded = op.pad %x before [0, 0, 1, 1]
  // CHECK-NEXT: %z = op.conv2d %x_padded, %v groups 2 :
  %y = op.conv2d %x, %w pads [1, 1, 1, 1] groups 4 : tensor<1x4x6x6xf32>, tensor<4x1x3x3xf32> -> tensor<1x4x6x6xf32>
  %z = op.conv2d %x, %v pads [1, 1, 1, 1] groups 2 : tensor<1x4x6x6xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x6x6xf32>
  job.output "y", %y : tensor<1x4x6x6xf32>
  job.output "z", %z : tensor<1x4x6x6xf32>
}

// -----

// With channels last, lines and columns are the axes before.

// CHECK-LABEL: job.job @channels_last
job.job @channels_last placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x5x6x2xf32>
  %w = job.input "w" : tensor<4x2x3x3xf32>
  // CHECK:      %x_padded = op.pad %x before [0, 1, 2, 0] after [0, 3, 4, 0]
  // CHECK-NEXT: %y = op.conv2d %x_padded, %w input_last :
  %y = op.conv2d %x, %w pads [1, 2, 3, 4] input_last
    : tensor<1x5x6x2xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x7x10xf32>
  job.output "y", %y : tensor<1x4x7x10xf32>
}
