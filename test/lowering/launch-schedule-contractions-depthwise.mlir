// RUN: penstock-opt %s --pipeline cpu --split-input-file | filecheck %s
// RUN: penstock-opt %s --pipeline cpu --split-input-file -t numba | filecheck %s --check-prefix=SOURCE

// A convolution of channels on their own keeps its pads, and its loops say how windows
// move. Vectors are no longer than its lines of 7, the tiles of 14 lines are even.
// CHECK-LABEL: launch.kernel
// CHECK:         {windows = array<i64: 2, 2, 1, 1, 1, 1>, schedule = #launch.depthwise<lanes {{8|4}}, lines 7>}

// SOURCE:      from penstock.runtime.depthwise import depthwise_strip
// SOURCE:      strip_0 = depthwise_strip("f32", {{8|4}}, 7, image=(28, 13), result=(14, 7), taps=(3, 3), strides=(2, 2), before=(1, 1), dilations=(1, 1), bias=True)
// SOURCE:          for [[UNIT:i[0-9]+]] in range(16):
// SOURCE-NEXT:         strip_0([[X:v[0-9]+]] + [[UNIT]] // 2 * 1456, [[W:v[0-9]+]] + [[UNIT]] % 8 * 36, [[B:v[0-9]+]] + [[UNIT]] % 8 * 4, [[O:v[0-9]+]] + [[UNIT]] * 392)
job.job @depthwise placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x4x28x13xf32>
  %w = job.variable "w" init <ones> : tensor<8x1x3x3xf32>
  %b = job.variable "b" init <ones> : tensor<8xf32>
  %y = op.conv2d %x, %w, %b strides [2, 2] pads [1, 1, 1, 1] groups 4 : tensor<2x4x28x13xf32>, tensor<8x1x3x3xf32>, tensor<8xf32> -> tensor<2x8x14x7xf32>
  job.output "y", %y : tensor<2x8x14x7xf32>
}

// -----

// The largest elements of windows are taken so, too. Their loops say the taps as well, which
// for a convolution its weights do.
// CHECK-LABEL: launch.program @pool
// CHECK:         {windows = array<i64: 2, 2, 0, 1, 1, 1, 3, 2>, schedule = #launch.depthwise<lanes {{8|4}}, lines 7>}

// SOURCE:      strip_0 = depthwise_strip("f32", {{8|4}}, 7, image=(28, 13), result=(14, 7), taps=(3, 2), strides=(2, 2), before=(0, 1), dilations=(1, 1), pool=True)
// SOURCE:          for [[UNIT:i[0-9]+]] in range(8):
// SOURCE-NEXT:         strip_0([[X:v[0-9]+]] + [[UNIT]] * 1456, 0, 0, [[O:v[0-9]+]] + [[UNIT]] * 392)
job.job @pool placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x4x28x13xf32>
  %y = op.max_pool2d %x kernel [3, 2] strides [2, 2] pads [0, 1, 0, 0] ceil_mode : tensor<2x4x28x13xf32> -> tensor<2x4x14x7xf32>
  job.output "y", %y : tensor<2x4x14x7xf32>
}

// -----

// Integers stay loops, and so do means, whose ends are divided by less.
// CHECK-LABEL: launch.program @loops
// CHECK-NOT:     #launch.depthwise
job.job @loops placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x2x16x16xi32>
  %f = job.input "f" : tensor<1x2x16x16xf32>
  %y = op.max_pool2d %x kernel [3, 3] : tensor<1x2x16x16xi32> -> tensor<1x2x14x14xi32>
  %g = op.average_pool2d %f kernel [3, 3] : tensor<1x2x16x16xf32> -> tensor<1x2x14x14xf32>
  job.output "y", %y : tensor<1x2x14x14xi32>
  job.output "g", %g : tensor<1x2x14x14xf32>
}

// -----

// Nothing is computed for no images, so that there is no tile of it.
// CHECK-LABEL: launch.program @pool_of_nothing
// CHECK:         launch.kernel
// CHECK-NOT:     #launch.depthwise
job.job @pool_of_nothing placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<0x3x7x5xf32>
  %y = op.max_pool2d %x kernel [3, 2] strides [2, 1] pads [1, 0, 0, 0] : tensor<0x3x7x5xf32> -> tensor<0x3x3x4xf32>
  job.output "y", %y : tensor<0x3x3x4xf32>
}
