// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @case(%a: tensor<2x3xf32>, %b: tensor<3x4xf64>) {
  // expected-error@below {{op.matmul: operands have different element types f32 and f64}}
  %r = op.matmul %a, %b : tensor<2x3xf32>, tensor<3x4xf64> -> tensor<2x4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xi1>, %b: tensor<3x4xi1>) {
  // expected-error@below {{op.matmul: expected numbers, got i1}}
  %r = op.matmul %a, %b : tensor<2x3xi1>, tensor<3x4xi1> -> tensor<2x4xi1>
  return
}

// -----

func.func @case(%a: tensor<2x3xui8>, %b: tensor<3x4xi16>) {
  // expected-error@below {{op.matmul: wide sums are of i8, ui8 or bf16, got tensor<3x4xi16>}}
  %r = op.matmul %a, %b wide : tensor<2x3xui8>, tensor<3x4xi16> -> tensor<2x4xi32>
  return
}

// -----

func.func @case(%a: tensor<f32>, %b: tensor<3x4xf32>) {
  // expected-error@below {{op.matmul: matrices should not be scalars}}
  %r = op.matmul %a, %b : tensor<f32>, tensor<3x4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @case(%a: tensor<3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@below {{op.matmul: a tensor of one dimension has no transpose, got tensor<3xf32>}}
  %r = op.matmul %a, %b transpose_a : tensor<3xf32>, tensor<3x4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) {
  // expected-error@below {{op.matmul: rows of 3 elements cannot be multiplied with columns of 4}}
  %r = op.matmul %a, %b : tensor<2x3xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @case(%a: tensor<2x1x3xf32>, %b: tensor<3x3x4xf32>) {
  // expected-error@below {{op.matmul: shapes 2, 3 do not broadcast}}
  %r = op.matmul %a, %b : tensor<2x1x3xf32>, tensor<3x3x4xf32> -> tensor<2x1x4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@below {{op.matmul: the result's type should be tensor<2x4xf32>, got tensor<4x2xf32>}}
  %r = op.matmul %a, %b : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<4x2xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<4xi32>) {
  // expected-error@below {{op.gemm: operands have different element types f32 and i32}}
  %r = op.gemm %a, %b, %c : tensor<2x3xf32>, tensor<3x4xf32>, tensor<4xi32> -> tensor<2x4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xi1>, %b: tensor<3x4xi1>) {
  // expected-error@below {{op.gemm: expected numbers, got i1}}
  %r = op.gemm %a, %b : tensor<2x3xi1>, tensor<3x4xi1> -> tensor<2x4xi1>
  return
}

// -----

func.func @case(%a: tensor<1x2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@below {{op.gemm: A should have 2 dimensions, got tensor<1x2x3xf32>}}
  %r = op.gemm %a, %b : tensor<1x2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  // expected-error@below {{op.gemm: B should have 2 dimensions, got tensor<3xf32>}}
  %r = op.gemm %a, %b : tensor<2x3xf32>, tensor<3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@below {{op.gemm: rows of 2 elements cannot be multiplied with columns of 3}}
  %r = op.gemm %a, %b transpose_a : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<3xf32>) {
  // expected-error@below {{op.gemm: 3 does not broadcast to 2x4}}
  %r = op.gemm %a, %b, %c : tensor<2x3xf32>, tensor<3x4xf32>, tensor<3xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<1x2x4xf32>) {
  // expected-error@below {{op.gemm: 1x2x4 does not broadcast to 2x4}}
  %r = op.gemm %a, %b, %c : tensor<2x3xf32>, tensor<3x4xf32>, tensor<1x2x4xf32> -> tensor<2x4xf32>
  return
}

// -----

// The addend does not change the shape of the result.

func.func @case(%a: tensor<1x3xf32>, %b: tensor<3x4xf32>, %c: tensor<2x4xf32>) {
  // expected-error@below {{op.gemm: 2x4 does not broadcast to 1x4}}
  %r = op.gemm %a, %b, %c : tensor<1x3xf32>, tensor<3x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xi32>, %b: tensor<3x4xi32>) {
  // expected-error@below {{op.gemm: alpha should be whole for integers, got 0.5}}
  %r = op.gemm %a, %b alpha 0.5 : tensor<2x3xi32>, tensor<3x4xi32> -> tensor<2x4xi32>
  return
}

// -----

func.func @case(%a: tensor<2x3xi32>, %b: tensor<3x4xi32>) {
  // expected-error@below {{op.gemm: beta should be whole for integers, got 1.5}}
  %r = op.gemm %a, %b beta 1.5 : tensor<2x3xi32>, tensor<3x4xi32> -> tensor<2x4xi32>
  return
}

// -----

func.func @case(%a: tensor<2x3xbf16>, %b: tensor<3x4xi8>) {
  // expected-error@below {{op.matmul: wide sums are of one kind, got tensor<2x3xbf16> and tensor<3x4xi8>}}
  %r = op.matmul %a, %b wide : tensor<2x3xbf16>, tensor<3x4xi8> -> tensor<2x4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xbf16>, %b: tensor<3x4xbf16>, %c: tensor<4xbf16>) {
  // expected-error@below {{op.gemm: the C of sums of f32 should be so, got tensor<4xbf16>}}
  %r = op.gemm %a, %b, %c wide : tensor<2x3xbf16>, tensor<3x4xbf16>, tensor<4xbf16> -> tensor<2x4xf32>
  return
}
