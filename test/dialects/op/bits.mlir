// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Ops on bits print as they were written.

// CHECK-LABEL: func.func @bit_and
func.func @bit_and(%a: tensor<4x8xi32>, %b: tensor<8xi32>) {
  // CHECK-NEXT: %r = op.bit_and %a, %b : tensor<4x8xi32>, tensor<8xi32> -> tensor<4x8xi32>
  %r = op.bit_and %a, %b : tensor<4x8xi32>, tensor<8xi32> -> tensor<4x8xi32>
  return
}

// CHECK-LABEL: func.func @bit_or
func.func @bit_or(%a: tensor<4x8xi32>, %b: tensor<8xi32>) {
  // CHECK-NEXT: %r = op.bit_or %a, %b : tensor<4x8xi32>, tensor<8xi32> -> tensor<4x8xi32>
  %r = op.bit_or %a, %b : tensor<4x8xi32>, tensor<8xi32> -> tensor<4x8xi32>
  return
}

// CHECK-LABEL: func.func @bit_xor
func.func @bit_xor(%a: tensor<4x8xi32>, %b: tensor<8xi32>) {
  // CHECK-NEXT: %r = op.bit_xor %a, %b : tensor<4x8xi32>, tensor<8xi32> -> tensor<4x8xi32>
  %r = op.bit_xor %a, %b : tensor<4x8xi32>, tensor<8xi32> -> tensor<4x8xi32>
  return
}
