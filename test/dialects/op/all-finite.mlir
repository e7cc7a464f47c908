// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Tensors of several types and shapes, also of unknown extents, make one condition.

// CHECK-LABEL: func.func @all_finite
func.func @all_finite(%x: tensor<4x?xf32>, %y: tensor<8xf16>, %z: tensor<f64>, %b: tensor<0xbf16>) {
  // CHECK-NEXT: %p = op.all_finite %x, %y, %z, %b : tensor<4x?xf32>, tensor<8xf16>, tensor<f64>, tensor<0xbf16> -> tensor<i1>
  %p = op.all_finite %x, %y, %z, %b : tensor<4x?xf32>, tensor<8xf16>, tensor<f64>, tensor<0xbf16> -> tensor<i1>
  // CHECK-NEXT: %q = op.all_finite %y : tensor<8xf16> -> tensor<i1>
  %q = op.all_finite %y : tensor<8xf16> -> tensor<i1>
  return
}
