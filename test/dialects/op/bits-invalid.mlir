// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// Only numbers of one size have the same bits.
func.func @sizes(%a: tensor<4xf32>) {
  // expected-error@+1 {{expected elements of one size, got f32 and i64}}
  %r = op.bitcast %a to i64 : tensor<4xf32> -> tensor<4xi64>
  return
}

// -----

// Kernels compute floats of 16 bits in more.
func.func @halves(%a: tensor<4xf16>) {
  // expected-error@+1 {{the bits of floats of 16 bits are not at hand}}
  %r = op.bitcast %a to i16 : tensor<4xf16> -> tensor<4xi16>
  return
}

// -----

// Floats are not shifted.
func.func @floats(%a: tensor<4xf32>) {
  // expected-error@+1 {{expected integers, got f32}}
  %r = op.shift_left %a, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  return
}
