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

// CHECK-LABEL: func.func @shift_left
func.func @shift_left(%a: tensor<4x8xui8>, %b: tensor<8xui8>) {
  // CHECK-NEXT: %r = op.shift_left %a, %b : tensor<4x8xui8>, tensor<8xui8> -> tensor<4x8xui8>
  %r = op.shift_left %a, %b : tensor<4x8xui8>, tensor<8xui8> -> tensor<4x8xui8>
  return
}

// CHECK-LABEL: func.func @shift_right
func.func @shift_right(%a: tensor<4x8xi16>, %b: tensor<8xi16>) {
  // CHECK-NEXT: %r = op.shift_right %a, %b : tensor<4x8xi16>, tensor<8xi16> -> tensor<4x8xi16>
  %r = op.shift_right %a, %b : tensor<4x8xi16>, tensor<8xi16> -> tensor<4x8xi16>
  return
}

// CHECK-LABEL: func.func @bitcast
func.func @bitcast(%a: tensor<4xf32>) {
  // CHECK-NEXT: %r = op.bitcast %a to ui32 : tensor<4xf32> -> tensor<4xui32>
  %r = op.bitcast %a to ui32 : tensor<4xf32> -> tensor<4xui32>
  return
}
