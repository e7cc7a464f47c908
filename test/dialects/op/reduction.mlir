// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Reductions print as they were written.

// CHECK-LABEL: func.func @reduce_max
func.func @reduce_max(%x: tensor<2x3x4xi1>) {
  // CHECK-NEXT: %r = op.reduce_max %x axes [1] : tensor<2x3x4xi1> -> tensor<2x4xi1>
  %r = op.reduce_max %x axes [1] : tensor<2x3x4xi1> -> tensor<2x4xi1>
  return
}

// CHECK-LABEL: func.func @reduce_mean
func.func @reduce_mean(%x: tensor<2x3x4xf32>) {
  // CHECK-NEXT: %r = op.reduce_mean %x axes [-1, 0] keepdims : tensor<2x3x4xf32> -> tensor<1x3x1xf32>
  %r = op.reduce_mean %x axes [-1, 0] keepdims : tensor<2x3x4xf32> -> tensor<1x3x1xf32>
  // CHECK-NEXT: %s = op.reduce_mean %x axes [0] of 5 : tensor<2x3x4xf32> -> tensor<3x4xf32>
  %s = op.reduce_mean %x axes [0] of 5 : tensor<2x3x4xf32> -> tensor<3x4xf32>
  return
}

// CHECK-LABEL: func.func @reduce_min
func.func @reduce_min(%x: tensor<2x3x4xi8>) {
  // CHECK-NEXT: %r = op.reduce_min %x axes [2] : tensor<2x3x4xi8> -> tensor<2x3xi8>
  %r = op.reduce_min %x axes [2] : tensor<2x3x4xi8> -> tensor<2x3xi8>
  return
}

// CHECK-LABEL: func.func @reduce_prod
func.func @reduce_prod(%x: tensor<2x3x4xf64>) {
  // CHECK-NEXT: %r = op.reduce_prod %x axes [0, 1, 2] : tensor<2x3x4xf64> -> tensor<f64>
  %r = op.reduce_prod %x axes [0, 1, 2] : tensor<2x3x4xf64> -> tensor<f64>
  return
}

// CHECK-LABEL: func.func @reduce_sum
func.func @reduce_sum(%x: tensor<2x3x4xi32>) {
  // CHECK-NEXT: %r = op.reduce_sum %x axes [0] : tensor<2x3x4xi32> -> tensor<3x4xi32>
  %r = op.reduce_sum %x axes [0] : tensor<2x3x4xi32> -> tensor<3x4xi32>
  return
}

// No axes are all axes.

// CHECK-LABEL: func.func @reduce_all
func.func @reduce_all(%x: tensor<2x3x4xf32>) {
  // CHECK-NEXT: %r = op.reduce_sum %x : tensor<2x3x4xf32> -> tensor<f32>
  %r = op.reduce_sum %x : tensor<2x3x4xf32> -> tensor<f32>
  return
}

// CHECK-LABEL: func.func @reduce_all_and_keep
func.func @reduce_all_and_keep(%x: tensor<2x3x4xf32>) {
  // CHECK-NEXT: %r = op.reduce_sum %x keepdims : tensor<2x3x4xf32> -> tensor<1x1x1xf32>
  %r = op.reduce_sum %x keepdims : tensor<2x3x4xf32> -> tensor<1x1x1xf32>
  return
}

// CHECK-LABEL: func.func @reduce_unknown_extents
func.func @reduce_unknown_extents(%x: tensor<?x?x4xf32>) {
  // CHECK-NEXT: %r = op.reduce_max %x axes [1] keepdims : tensor<?x?x4xf32> -> tensor<?x1x4xf32>
  %r = op.reduce_max %x axes [1] keepdims : tensor<?x?x4xf32> -> tensor<?x1x4xf32>
  return
}

// Sums, products and means of nothing are 0, 1 and NaN.

// CHECK-LABEL: func.func @sum_of_nothing
func.func @sum_of_nothing(%x: tensor<2x0xf32>) {
  // CHECK-NEXT: %r = op.reduce_sum %x axes [1] : tensor<2x0xf32> -> tensor<2xf32>
  %r = op.reduce_sum %x axes [1] : tensor<2x0xf32> -> tensor<2xf32>
  return
}

// There is no maximum of nothing, but here none is asked for.

// CHECK-LABEL: func.func @maximum_for_no_result
func.func @maximum_for_no_result(%x: tensor<0x0xf32>) {
  // CHECK-NEXT: %r = op.reduce_max %x axes [1] : tensor<0x0xf32> -> tensor<0xf32>
  %r = op.reduce_max %x axes [1] : tensor<0x0xf32> -> tensor<0xf32>
  return
}
