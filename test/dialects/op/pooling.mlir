// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Pooling prints as it was written, without properties that are the default.

// CHECK-LABEL: func.func @max_pool2d
func.func @max_pool2d(%x: tensor<1x4x8x8xf32>) {
  // CHECK-NEXT: %r = op.max_pool2d %x kernel [2, 3] : tensor<1x4x8x8xf32> -> tensor<1x4x7x6xf32>
  %r = op.max_pool2d %x kernel [2, 3] : tensor<1x4x8x8xf32> -> tensor<1x4x7x6xf32>
  return
}

// CHECK-LABEL: func.func @max_pool2d_with_all
func.func @max_pool2d_with_all(%x: tensor<1x4x8x8xi32>) {
  // CHECK-NEXT: %r = op.max_pool2d %x kernel [2, 3] strides [2, 3] pads [1, 2, 0, 1] dilations [3, 2] ceil_mode : tensor<1x4x8x8xi32> -> tensor<1x4x4x3xi32>
  %r = op.max_pool2d %x kernel [2, 3] strides [2, 3] pads [1, 2, 0, 1] dilations [3, 2] ceil_mode : tensor<1x4x8x8xi32> -> tensor<1x4x4x3xi32>
  return
}

// CHECK-LABEL: func.func @max_pool2d_without_ceil_mode
func.func @max_pool2d_without_ceil_mode(%x: tensor<1x4x8x8xi32>) {
  // CHECK-NEXT: %r = op.max_pool2d %x kernel [2, 3] strides [2, 3] pads [1, 2, 0, 1] dilations [3, 2] : tensor<1x4x8x8xi32> -> tensor<1x4x3x3xi32>
  %r = op.max_pool2d %x kernel [2, 3] strides [2, 3] pads [1, 2, 0, 1] dilations [3, 2] : tensor<1x4x8x8xi32> -> tensor<1x4x3x3xi32>
  return
}

// CHECK-LABEL: func.func @max_pool2d_of_unknown_extents
func.func @max_pool2d_of_unknown_extents(%x: tensor<?x4x?x8xf32>) {
  // CHECK-NEXT: %r = op.max_pool2d %x kernel [2, 2] : tensor<?x4x?x8xf32> -> tensor<?x4x?x7xf32>
  %r = op.max_pool2d %x kernel [2, 2] : tensor<?x4x?x8xf32> -> tensor<?x4x?x7xf32>
  return
}

// CHECK-LABEL: func.func @average_pool2d
func.func @average_pool2d(%x: tensor<1x4x8x8xf32>) {
  // CHECK-NEXT: %r = op.average_pool2d %x kernel [2, 3] : tensor<1x4x8x8xf32> -> tensor<1x4x7x6xf32>
  %r = op.average_pool2d %x kernel [2, 3] : tensor<1x4x8x8xf32> -> tensor<1x4x7x6xf32>
  return
}

// CHECK-LABEL: func.func @average_pool2d_with_all
func.func @average_pool2d_with_all(%x: tensor<1x4x8x8xf64>) {
  // CHECK-NEXT: %r = op.average_pool2d %x kernel [2, 3] strides [2, 3] pads [1, 2, 0, 1] ceil_mode count_include_pad : tensor<1x4x8x8xf64> -> tensor<1x4x5x4xf64>
  %r = op.average_pool2d %x kernel [2, 3] strides [2, 3] pads [1, 2, 0, 1] ceil_mode count_include_pad : tensor<1x4x8x8xf64> -> tensor<1x4x5x4xf64>
  return
}

// CHECK-LABEL: func.func @global_average_pool
func.func @global_average_pool(%x: tensor<2x4x8x8xf32>) {
  // CHECK-NEXT: %r = op.global_average_pool %x : tensor<2x4x8x8xf32> -> tensor<2x4x1x1xf32>
  %r = op.global_average_pool %x : tensor<2x4x8x8xf32> -> tensor<2x4x1x1xf32>
  return
}

// CHECK-LABEL: func.func @global_average_pool_of_unknown_extents
func.func @global_average_pool_of_unknown_extents(%x: tensor<?x4x?xf32>) {
  // CHECK-NEXT: %r = op.global_average_pool %x : tensor<?x4x?xf32> -> tensor<?x4x1xf32>
  %r = op.global_average_pool %x : tensor<?x4x?xf32> -> tensor<?x4x1xf32>
  return
}
