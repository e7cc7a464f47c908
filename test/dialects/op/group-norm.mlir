// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Custom and generic form of the op round-trip.

// CHECK-LABEL: func.func @group_norm
func.func @group_norm(%x: tensor<2x4x3x3xf32>, %s: tensor<4xf32>) {
  // CHECK-NEXT: %r = op.group_norm %x, %s groups 2 : tensor<2x4x3x3xf32>, tensor<4xf32> -> tensor<2x4x3x3xf32>
  %r = op.group_norm %x, %s groups 2 : tensor<2x4x3x3xf32>, tensor<4xf32> -> tensor<2x4x3x3xf32>
  return
}

// CHECK-LABEL: func.func @group_norm_with_all
func.func @group_norm_with_all(%x: tensor<2x4xf64>, %s: tensor<4xf64>, %b: tensor<4xf64>) {
  // CHECK-NEXT: %r = op.group_norm %x, %s, %b groups 4 epsilon 1.000000e-03 : tensor<2x4xf64>, tensor<4xf64>, tensor<4xf64> -> tensor<2x4xf64>
  %r = op.group_norm %x, %s, %b groups 4 epsilon 1.000000e-03 : tensor<2x4xf64>, tensor<4xf64>, tensor<4xf64> -> tensor<2x4xf64>
  return
}

// Extents may be unknown.
// CHECK-LABEL: func.func @unknown
func.func @unknown(%x: tensor<?x?x3xf32>, %s: tensor<?xf32>) {
  // CHECK-NEXT: %r = op.group_norm %x, %s groups 2 : tensor<?x?x3xf32>, tensor<?xf32> -> tensor<?x?x3xf32>
  %r = op.group_norm %x, %s groups 2 : tensor<?x?x3xf32>, tensor<?xf32> -> tensor<?x?x3xf32>
  return
}
