// RUN: penstock-opt %s -p 'op-split-pads{vector-bytes=64}' --split-input-file | filecheck %s
// RUN: penstock-opt %s -p 'op-split-pads{vector-bytes=64 device="cuda"}' --split-input-file | filecheck %s --check-prefix=CUDA
// RUN: penstock-opt %s -p 'op-split-pads{vector-bytes=16}' --split-input-file | filecheck %s --check-prefix=NARROW
// RUN: not penstock-opt %s -p 'op-split-pads{vector-bytes=48}' 2>&1 | filecheck %s --check-prefix=ODD

// ODD: op-split-pads: vectors have 16, 32, 64 bytes, got 48

// On devices pads at the top, left, bottom and right become zeros before and after the
// last two axes.

// CHECK-LABEL: job.job @all_sides
job.job @all_sides placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<1x2x5x6xf32>
  %w = job.input "w" : tensor<4x2x3x3xf32>
  %b = job.input "b" : tensor<4xf32>
  // CHECK:      %x_padded = op.pad %x before [0, 0, 1, 2] after [0, 0, 3, 4] : tensor<1x2x5x6xf32> -> tensor<1x2x9x12xf32>
  // CHECK-NEXT: %y = op.conv2d %x_padded, %w, %b strides [2, 1] {acme.keep} : tensor<1x2x9x12xf32>, tensor<4x2x3x3xf32>, tensor<4xf32> -> tensor<1x4x4x10xf32>
  %y = op.conv2d %x, %w, %b strides [2, 1] pads [1, 2, 3, 4] {acme.keep}
    : tensor<1x2x5x6xf32>, tensor<4x2x3x3xf32>, tensor<4xf32> -> tensor<1x4x4x10xf32>
  job.output "y", %y : tensor<1x4x4x10xf32>
}

// -----

// Convolutions of one value with the same pads share the padding; others do not.

// CHECK-LABEL: job.job @shared
job.job @shared placement <cuda, [0:0]> {
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

// -----

// Where processors copy windows to panels, these leave out the pads: the image is not
// copied; if the job is moved to a device, it is.

// CHECK-LABEL: job.job @packed
// CUDA-LABEL:  job.job @packed
job.job @packed placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x64x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<64x64x3x3xf32>
  // CHECK-NOT:  op.pad
  // CHECK:      %y = op.conv2d %x, %w pads [1, 1, 1, 1] :
  // CUDA:       op.pad
  %y = op.conv2d %x, %w pads [1, 1, 1, 1] : tensor<1x64x14x14xf32>, tensor<64x64x3x3xf32> -> tensor<1x64x14x14xf32>
  job.output "y", %y : tensor<1x64x14x14xf32>
}

// -----

// Upright tiles read images where they lie, which then have to have their pads. They need
// weights in panels, that is, variables that nobody else reads, and are not worth it with
// narrow vectors.

// CHECK-LABEL: job.job @upright
// NARROW-LABEL: job.job @upright
job.job @upright placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x28x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<64x28x3x3xf32>
  %v = job.variable "v" init <ones> : tensor<64x28x3x3xf32>
  // CHECK:      op.pad
  // CHECK-NEXT: %y = op.conv2d %x_padded, %w :
  // CHECK-NEXT: %z = op.conv2d %x, %v pads [1, 1, 1, 1] :
  // NARROW-NOT: op.pad
  // NARROW:     %y = op.conv2d %x, %w pads [1, 1, 1, 1] :
  %y = op.conv2d %x, %w pads [1, 1, 1, 1] : tensor<1x28x14x14xf32>, tensor<64x28x3x3xf32> -> tensor<1x64x14x14xf32>
  %z = op.conv2d %x, %v pads [1, 1, 1, 1] : tensor<1x28x14x14xf32>, tensor<64x28x3x3xf32> -> tensor<1x64x14x14xf32>
  job.output "y", %y : tensor<1x64x14x14xf32>
  job.output "z", %z : tensor<1x64x14x14xf32>
  job.output "v", %v : tensor<64x28x3x3xf32>
}

// -----

// Pads are split off where nothing is packed: of integers, of several groups, of images of
// one channel, where lines are read in place, and with channels last in the result.

// CHECK-LABEL: job.job @not_packed
job.job @not_packed placement <cpu, [0:0]> {
  %i = job.input "i" : tensor<1x8x6x6xi32>
  %j = job.input "j" : tensor<8x8x3x3xi32>
  %x = job.input "x" : tensor<1x8x6x6xf32>
  %g = job.input "g" : tensor<8x4x3x3xf32>
  %u = job.input "u" : tensor<1x1x6x6xf32>
  %v = job.input "v" : tensor<8x1x3x3xf32>
  %t = job.input "t" : tensor<1x8x6x16xf32>
  %w = job.input "w" : tensor<3x8x3x3xf32>
  %l = job.input "l" : tensor<8x8x3x3xf32>
  // CHECK:      op.pad
  // CHECK-NEXT: %a = op.conv2d %i_padded
  // CHECK-NEXT: op.pad
  // CHECK-NEXT: %b = op.conv2d %x_padded
  // CHECK-NEXT: op.pad
  // CHECK-NEXT: %c = op.conv2d %u_padded
  // CHECK-NEXT: op.pad
  // CHECK-NEXT: %d = op.conv2d %t_padded
  // CHECK-NEXT: %e = op.conv2d %x_padded
  %a = op.conv2d %i, %j pads [1, 1, 1, 1] : tensor<1x8x6x6xi32>, tensor<8x8x3x3xi32> -> tensor<1x8x6x6xi32>
  %b = op.conv2d %x, %g pads [1, 1, 1, 1] groups 2 : tensor<1x8x6x6xf32>, tensor<8x4x3x3xf32> -> tensor<1x8x6x6xf32>
  %c = op.conv2d %u, %v pads [1, 1, 1, 1] : tensor<1x1x6x6xf32>, tensor<8x1x3x3xf32> -> tensor<1x8x6x6xf32>
  %d = op.conv2d %t, %w pads [1, 1, 1, 1] : tensor<1x8x6x16xf32>, tensor<3x8x3x3xf32> -> tensor<1x3x6x16xf32>
  %e = op.conv2d %x, %l pads [1, 1, 1, 1] result_last : tensor<1x8x6x6xf32>, tensor<8x8x3x3xf32> -> tensor<1x6x6x8xf32>
  job.output "a", %a : tensor<1x8x6x6xi32>
  job.output "b", %b : tensor<1x8x6x6xf32>
  job.output "c", %c : tensor<1x8x6x6xf32>
  job.output "d", %d : tensor<1x3x6x16xf32>
  job.output "e", %e : tensor<1x6x6x8xf32>
}

// -----

// So are those on several devices, of which it is not known yet what each one computes.

// CHECK-LABEL: job.job @several
job.job @several placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<2x64x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<64x64x3x3xf32>
  // CHECK: op.pad
  %y = op.conv2d %x, %w pads [1, 1, 1, 1] : tensor<2x64x14x14xf32>, tensor<64x64x3x3xf32> -> tensor<2x64x14x14xf32>
  job.output "y", %y : tensor<2x64x14x14xf32>
}

// -----

// The gradient of weights is taken of one tall image, so that its terms are equally far
// apart: of several images with zeros between them, of one with those at the top and the
// bottom. Pads at the sides stay.

// CHECK-LABEL: job.job @gradients
job.job @gradients placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x4x8x9xf32>
  %g = job.input "g" : tensor<2x6x8x9xf32>
  %u = job.input "u" : tensor<1x4x8x9xf32>
  %h = job.input "h" : tensor<1x6x8x9xf32>
  // CHECK:      op.reshape {{.*}} -> tensor<1x4x27x9xf32>
  // CHECK:      op.reshape {{.*}} -> tensor<1x6x18x9xf32>
  // CHECK-NEXT: %w = op.conv2d_filter_gradient {{.*}} kernel [3, 3] pads [0, 1, 0, 1] {acme.keep} : tensor<1x4x27x9xf32>
  // CHECK-NEXT: %[[U:.+]] = op.pad %u before [0, 0, 1, 0] after [0, 0, 1, 0]
  // CHECK-NEXT: %v = op.conv2d_filter_gradient %[[U]], %h kernel [3, 3] pads [0, 1, 0, 1] :
  %w = op.conv2d_filter_gradient %x, %g kernel [3, 3] pads [1, 1, 1, 1] {acme.keep} : tensor<2x4x8x9xf32>, tensor<2x6x8x9xf32> -> tensor<6x4x3x3xf32>
  %v = op.conv2d_filter_gradient %u, %h kernel [3, 3] pads [1, 1, 1, 1] : tensor<1x4x8x9xf32>, tensor<1x6x8x9xf32> -> tensor<6x4x3x3xf32>
  job.output "w", %w : tensor<6x4x3x3xf32>
  job.output "v", %v : tensor<6x4x3x3xf32>
}

// -----

// So it is not with groups, on several devices, or where one image has no such pads.

// CHECK-LABEL: job.job @kept
job.job @kept placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x4x8x9xf32>
  %g = job.input "g" : tensor<2x6x8x9xf32>
  %u = job.input "u" : tensor<1x4x8x9xf32>
  %h = job.input "h" : tensor<1x6x6x9xf32>
  // CHECK-NOT: op.pad
  // CHECK:     op.conv2d_filter_gradient %x, %g kernel [3, 3] pads [1, 1, 1, 1] groups 2 :
  // CHECK:     op.conv2d_filter_gradient %x, %g kernel [3, 3] pads [1, 1, 1, 1] {placement = #job.placement<cpu, [0:0-1]>} :
  // CHECK:     op.conv2d_filter_gradient %u, %h kernel [3, 3] pads [0, 1, 0, 1] :
  %w = op.conv2d_filter_gradient %x, %g kernel [3, 3] pads [1, 1, 1, 1] groups 2 : tensor<2x4x8x9xf32>, tensor<2x6x8x9xf32> -> tensor<6x2x3x3xf32>
  %v = op.conv2d_filter_gradient %x, %g kernel [3, 3] pads [1, 1, 1, 1] {placement = #job.placement<cpu, [0:0-1]>} : tensor<2x4x8x9xf32>, tensor<2x6x8x9xf32> -> tensor<6x4x3x3xf32>
  %t = op.conv2d_filter_gradient %u, %h kernel [3, 3] pads [0, 1, 0, 1] : tensor<1x4x8x9xf32>, tensor<1x6x6x9xf32> -> tensor<6x4x3x3xf32>
  job.output "w", %w : tensor<6x2x3x3xf32>
  job.output "v", %v : tensor<6x4x3x3xf32>
  job.output "t", %t : tensor<6x4x3x3xf32>
}
