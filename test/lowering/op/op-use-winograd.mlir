// RUN: penstock-opt %s -p op-use-winograd --split-input-file | filecheck %s
// RUN: penstock-opt %s -p op-use-winograd,op-use-winograd --split-input-file | filecheck %s
// RUN: penstock-opt %s -p 'op-use-winograd{min-tiles=17}' --split-input-file | filecheck %s --check-prefix=MANY
// RUN: not penstock-opt %s -p 'op-use-winograd{min-tiles=0}' 2>&1 | filecheck %s --check-prefix=NONE

// NONE: op-use-winograd: min-tiles must be at least 1, got 0
// MANY-NOT: winograd

// 14 x 14 results are 4 x 4 tiles, of 18 x 18 elements with pads; what is too much is sliced off.

// CHECK-LABEL: job.job @tiles
// CHECK:       %w = job.variable "w" init <ones> winograd [16, 16, 3, 3] : tensor<36x16x16xf32>
// CHECK-NOT:   job.variable "w"
// CHECK:       %[[PADDED:.+]] = op.pad %x before [0, 0, 1, 1] after [0, 0, 3, 3]
// CHECK-NEXT:  %[[SPLIT:.+]] = op.constant
// CHECK-NEXT:  %[[TILES:.+]] = op.winograd_split %[[SPLIT]], %[[PADDED]] step 4 : tensor<6x6xf32>, tensor<1x16x18x18xf32> -> tensor<6x6x16x1x4x4xf32>
// CHECK-NEXT:  %[[STACK:.+]] = op.reshape %[[TILES]] to [36, 16, 16]
// CHECK-NEXT:  %[[PRODUCTS:.+]] = op.matmul %w, %[[STACK]]
// CHECK-NEXT:  %[[JOIN:.+]] = op.constant
// CHECK-NEXT:  %[[PARTS:.+]] = op.reshape %[[PRODUCTS]] to [6, 6, 16, 1, 4, 4]
// CHECK-NEXT:  %[[ALL:.+]] = op.winograd_join %[[JOIN]], %[[PARTS]], %b : {{.*}} -> tensor<1x16x16x16xf32>
// CHECK-NEXT:  %y = op.slice %[[ALL]] from [0, 0, 0, 0] to [1, 16, 14, 14] by [1, 1, 1, 1]
// CHECK-NEXT:  job.output "y", %y
job.job @tiles placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %b = job.variable "b" init <ones> : tensor<16xf32>
  %y = op.conv2d %x, %w, %b pads [1, 1, 1, 1]
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32>, tensor<16xf32> -> tensor<1x16x14x14xf32>
  job.output "y", %y : tensor<1x16x14x14xf32>
}

// -----

// Where results are whole tiles there is neither padding nor a slice.

// CHECK-LABEL: job.job @whole
// CHECK-NOT:   op.pad
// CHECK:       %y = op.winograd_join
// CHECK-NEXT:  job.output "y", %y
job.job @whole placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x18x18xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w
    : tensor<1x16x18x18xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x16x16xf32>
  job.output "y", %y : tensor<1x16x16x16xf32>
}

// -----

// Convolutions of one value with the same pads share its tiles.

// CHECK-LABEL: job.job @shared
// CHECK:       %[[TILES:.+]] = op.winograd_split
// CHECK:       op.reshape %[[TILES]] to [36, 16, 16]
// CHECK-NOT:   op.winograd_split
// CHECK:       op.reshape %[[TILES]] to [36, 16, 16]
job.job @shared placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %v = job.variable "v" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1]
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x14x14xf32>
  %z = op.conv2d %x, %v pads [1, 1, 1, 1]
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x14x14xf32>
  job.output "y", %y : tensor<1x16x14x14xf32>
  job.output "z", %z : tensor<1x16x14x14xf32>
}

// -----

// Strides, dilations, groups, other weights than 3 x 3, other attributes: such convolutions stay.

// CHECK-LABEL: job.job @strides
// CHECK-NOT:   winograd
// CHECK:       op.conv2d
// CHECK-NOT:   winograd
job.job @strides placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w strides [2, 2] pads [1, 1, 1, 1]
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x7x7xf32>
  job.output "y", %y : tensor<1x16x7x7xf32>
}

// -----

// So with dilations.

// CHECK-LABEL: job.job @dilations
// CHECK-NOT:   winograd
// CHECK:       op.conv2d
// CHECK-NOT:   winograd
job.job @dilations placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w pads [2, 2, 2, 2] dilations [2, 2]
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x14x14xf32>
  job.output "y", %y : tensor<1x16x14x14xf32>
}

// -----

// So with groups.

// CHECK-LABEL: job.job @groups
// CHECK-NOT:   winograd
// CHECK:       op.conv2d
// CHECK-NOT:   winograd
job.job @groups placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x32x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<32x16x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1] groups 2
    : tensor<1x32x14x14xf32>, tensor<32x16x3x3xf32> -> tensor<1x32x14x14xf32>
  job.output "y", %y : tensor<1x32x14x14xf32>
}

// -----

// So with other weights than 3 x 3.

// CHECK-LABEL: job.job @taps
// CHECK-NOT:   winograd
// CHECK:       op.conv2d
// CHECK-NOT:   winograd
job.job @taps placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x1x3xf32>
  %y = op.conv2d %x, %w pads [0, 1, 0, 1]
    : tensor<1x16x14x14xf32>, tensor<16x16x1x3xf32> -> tensor<1x16x14x14xf32>
  job.output "y", %y : tensor<1x16x14x14xf32>
}

// -----

// So with an attribute that says how it runs.

// CHECK-LABEL: job.job @asked
// CHECK-NOT:   winograd
// CHECK:       op.conv2d
// CHECK-NOT:   winograd
job.job @asked placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1] {slots = 2 : i64}
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x14x14xf32>
  job.output "y", %y : tensor<1x16x14x14xf32>
}

// -----

// So with fewer than 16 channels.

// CHECK-LABEL: job.job @thin
// CHECK-NOT:   winograd
// CHECK:       op.conv2d
// CHECK-NOT:   winograd
job.job @thin placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x15x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<16x15x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1]
    : tensor<1x15x14x14xf32>, tensor<16x15x3x3xf32> -> tensor<1x16x14x14xf32>
  job.output "y", %y : tensor<1x16x14x14xf32>
}

// -----

// So with fewer than 8 tiles: 7 x 7 results are 4.

// CHECK-LABEL: job.job @small
// CHECK-NOT:   winograd
// CHECK:       op.conv2d
// CHECK-NOT:   winograd
job.job @small placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x7x7xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1]
    : tensor<1x16x7x7xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x7x7xf32>
  job.output "y", %y : tensor<1x16x7x7xf32>
}

// -----

// So where most of the tiles is not asked for: one row of results.

// CHECK-LABEL: job.job @ragged
// CHECK-NOT:   winograd
// CHECK:       op.conv2d
// CHECK-NOT:   winograd
job.job @ragged placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x3x66xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w
    : tensor<1x16x3x66xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x1x64xf32>
  job.output "y", %y : tensor<1x16x1x64xf32>
}

// -----

// Weights that are fed are not known when the program is loaded.

// CHECK-LABEL: job.job @fed
// CHECK-NOT:   winograd
// CHECK:       op.conv2d
// CHECK-NOT:   winograd
job.job @fed placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.input "w" : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1]
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x14x14xf32>
  job.output "y", %y : tensor<1x16x14x14xf32>
}

// -----

// Weights that something else reads stay as they are.

// CHECK-LABEL: job.job @both
// CHECK-NOT:   winograd
// CHECK:       op.conv2d
// CHECK-NOT:   winograd
job.job @both placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1]
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x14x14xf32>
  job.output "y", %y : tensor<1x16x14x14xf32>
  job.output "w", %w : tensor<16x16x3x3xf32>
}

// -----

// So do weights of two jobs.

// CHECK-LABEL: job.job @first
// CHECK-NOT:   winograd
job.job @first placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1]
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x14x14xf32>
  job.output "y", %y : tensor<1x16x14x14xf32>
}

// The other job.

// CHECK-LABEL: job.job @second
// CHECK-NOT:   winograd
job.job @second placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1]
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x14x14xf32>
  job.output "y", %y : tensor<1x16x14x14xf32>
}

// -----

// And so does everything on several devices.

// CHECK-LABEL: job.job @several
// CHECK-NOT:   winograd
// CHECK:       op.conv2d
// CHECK-NOT:   winograd
job.job @several placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1]
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x14x14xf32>
  job.output "y", %y : tensor<1x16x14x14xf32>
}

// -----

// And so does a convolution whose channels are last.

// CHECK-LABEL: job.job @last
// CHECK-NOT:   winograd
// CHECK:       op.conv2d
// CHECK-NOT:   winograd
job.job @last placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1] result_last
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32> -> tensor<1x14x14x16xf32>
  job.output "y", %y : tensor<1x14x14x16xf32>
}
