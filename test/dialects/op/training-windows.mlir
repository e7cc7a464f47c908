// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Gradients of windows print as they were written, without properties that are the default.

// CHECK-LABEL: func.func @filter_gradient
func.func @filter_gradient(%x: tensor<2x4x8x8xf32>, %g: tensor<2x6x6x7xf32>) {
  // CHECK-NEXT: %w = op.conv2d_filter_gradient %x, %g kernel [3, 2] : tensor<2x4x8x8xf32>, tensor<2x6x6x7xf32> -> tensor<6x4x3x2xf32>
  %w = op.conv2d_filter_gradient %x, %g kernel [3, 2] : tensor<2x4x8x8xf32>, tensor<2x6x6x7xf32> -> tensor<6x4x3x2xf32>
  return
}

// CHECK-LABEL: func.func @filter_gradient_with_all
func.func @filter_gradient_with_all(%x: tensor<2x4x8x8xf32>, %g: tensor<2x6x3x7xf32>) {
  // CHECK-NEXT: %w = op.conv2d_filter_gradient %x, %g kernel [3, 2] strides [2, 1] pads [1, 0, 0, 1] dilations [2, 1] groups 2 : tensor<2x4x8x8xf32>, tensor<2x6x3x7xf32> -> tensor<6x2x3x2xf32>
  %w = op.conv2d_filter_gradient %x, %g kernel [3, 2] strides [2, 1] pads [1, 0, 0, 1] dilations [2, 1] groups 2 : tensor<2x4x8x8xf32>, tensor<2x6x3x7xf32> -> tensor<6x2x3x2xf32>
  return
}

// CHECK-LABEL: func.func @filter_gradient_of_unknown_extents
func.func @filter_gradient_of_unknown_extents(%x: tensor<?x4x?x8xf32>, %g: tensor<?x6x3x7xf32>) {
  // CHECK-NEXT: %w = op.conv2d_filter_gradient %x, %g kernel [3, 2] : tensor<?x4x?x8xf32>, tensor<?x6x3x7xf32> -> tensor<6x4x3x2xf32>
  %w = op.conv2d_filter_gradient %x, %g kernel [3, 2] : tensor<?x4x?x8xf32>, tensor<?x6x3x7xf32> -> tensor<6x4x3x2xf32>
  return
}

// CHECK-LABEL: func.func @max_pool_gradient
func.func @max_pool_gradient(%x: tensor<1x4x8x8xf64>, %y: tensor<1x4x4x3xf64>) {
  // CHECK-NEXT: %r = op.max_pool2d_gradient %x, %y, %y kernel [2, 3] strides [2, 3] pads [1, 2, 0, 1] dilations [3, 2] ceil_mode : tensor<1x4x8x8xf64>, tensor<1x4x4x3xf64>, tensor<1x4x4x3xf64> -> tensor<1x4x8x8xf64>
  %r = op.max_pool2d_gradient %x, %y, %y kernel [2, 3] strides [2, 3] pads [1, 2, 0, 1] dilations [3, 2] ceil_mode : tensor<1x4x8x8xf64>, tensor<1x4x4x3xf64>, tensor<1x4x4x3xf64> -> tensor<1x4x8x8xf64>
  return
}

// CHECK-LABEL: func.func @batch_norm
func.func @batch_norm(%x: tensor<2x4x8xf16>, %g: tensor<2x4x8xf16>) {
  // CHECK-NEXT: %m, %v = op.batch_norm_statistics %x : tensor<2x4x8xf16> -> tensor<4xf16>, tensor<4xf16>
  %m, %v = op.batch_norm_statistics %x : tensor<2x4x8xf16> -> tensor<4xf16>, tensor<4xf16>
  // CHECK-NEXT: %s, %p = op.batch_norm_gradient_sums %x, %g, %m : tensor<2x4x8xf16>, tensor<2x4x8xf16>, tensor<4xf16> -> tensor<4xf16>, tensor<4xf16>
  %s, %p = op.batch_norm_gradient_sums %x, %g, %m : tensor<2x4x8xf16>, tensor<2x4x8xf16>, tensor<4xf16> -> tensor<4xf16>, tensor<4xf16>
  return
}
