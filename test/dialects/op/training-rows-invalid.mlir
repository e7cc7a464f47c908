// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @case(%x: tensor<4x10xi32>, %t: tensor<4xi64>) {
  // expected-error@below {{op.softmax_cross_entropy: expected floats, got i32}}
  %l = op.softmax_cross_entropy %x[%t] : tensor<4x10xi32>, tensor<4xi64> -> tensor<4xi32>
  return
}

// -----

func.func @case(%x: tensor<4x10xf32>, %t: tensor<4xf32>) {
  // expected-error@below {{op.softmax_cross_entropy: indices should be signed integers, got f32}}
  %l = op.softmax_cross_entropy %x[%t] : tensor<4x10xf32>, tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @case(%x: tensor<4x10xf32>, %t: tensor<10xi64>) {
  // expected-error@below {{op.softmax_cross_entropy: the labels should have the shape 4, got 10}}
  %l = op.softmax_cross_entropy %x[%t] : tensor<4x10xf32>, tensor<10xi64> -> tensor<4xf32>
  return
}

// -----

func.func @case(%x: tensor<4x0xf32>, %t: tensor<4xi64>) {
  // expected-error@below {{op.softmax_cross_entropy: there should be a class at least}}
  %l = op.softmax_cross_entropy %x[%t] : tensor<4x0xf32>, tensor<4xi64> -> tensor<4xf32>
  return
}

// -----

func.func @case(%x: tensor<4x10xf32>, %t: tensor<4xi64>) {
  // expected-error@below {{op.softmax_cross_entropy: smoothing should be from 0 to 1, got 1.5}}
  %l = op.softmax_cross_entropy %x[%t] smoothing 1.5 : tensor<4x10xf32>, tensor<4xi64> -> tensor<4xf32>
  return
}

// -----

func.func @case(%x: tensor<4x10xf32>, %t: tensor<4xi64>, %g: tensor<4xf64>) {
  // expected-error@below {{op.softmax_cross_entropy_gradient: operands have different element types f32 and f64}}
  %r = op.softmax_cross_entropy_gradient %x[%t], %g : tensor<4x10xf32>, tensor<4xi64>, tensor<4xf64> -> tensor<4x10xf32>
  return
}

// -----

func.func @case(%x: tensor<4x10xf32>, %t: tensor<4xi64>, %g: tensor<10xf32>) {
  // expected-error@below {{op.softmax_cross_entropy_gradient: the gradient should have the shape 4, got 10}}
  %r = op.softmax_cross_entropy_gradient %x[%t], %g : tensor<4x10xf32>, tensor<4xi64>, tensor<10xf32> -> tensor<4x10xf32>
  return
}

// -----

func.func @case(%y: tensor<4x10xf32>, %g: tensor<4xf32>) {
  // expected-error@below {{op.softmax_gradient: each operand with rows should have the shape 4x10, got 4}}
  %r = op.softmax_gradient %y, %g : tensor<4x10xf32>, tensor<4xf32> -> tensor<4x10xf32>
  return
}

// -----

func.func @case(%y: tensor<4x10xf32>, %g: tensor<4x10xf32>) {
  // expected-error@below {{op.log_softmax_gradient: axis 2 is out of range for 2 dimensions}}
  %r = op.log_softmax_gradient %y, %g axis 2 : tensor<4x10xf32>, tensor<4x10xf32> -> tensor<4x10xf32>
  return
}

// -----

func.func @case(%x: tensor<4x10xf32>, %s: tensor<4xf32>) {
  // expected-error@below {{op.layer_norm_gradient: the scale should have the shape 10, got 4}}
  %r = op.layer_norm_gradient %x, %x, %s : tensor<4x10xf32>, tensor<4x10xf32>, tensor<4xf32> -> tensor<4x10xf32>
  return
}

// -----

func.func @case(%x: tensor<4x10xf32>, %s: tensor<10xf64>) {
  // expected-error@below {{op.rms_norm_gradient: operands have different element types f32 and f64}}
  %r = op.rms_norm_gradient %x, %x, %s : tensor<4x10xf32>, tensor<4x10xf32>, tensor<10xf64> -> tensor<4x10xf32>
  return
}

// -----

func.func @case(%g: tensor<2x4xi32>, %i: tensor<2xi64>) {
  // expected-error@below {{op.embedding_gradient: expected floats, got i32}}
  %r = op.embedding_gradient %g[%i] rows 9 : tensor<2x4xi32>, tensor<2xi64> -> tensor<9x4xi32>
  return
}

// -----

func.func @case(%g: tensor<2x4xf32>, %i: tensor<3xi64>) {
  // expected-error@below {{op.embedding_gradient: each index has a row: the first axes should have the shape 3, got 2}}
  %r = op.embedding_gradient %g[%i] rows 9 : tensor<2x4xf32>, tensor<3xi64> -> tensor<9x4xf32>
  return
}

// -----

func.func @case(%g: tensor<2x4xf32>, %i: tensor<2xi64>) {
  // expected-error@below {{op.embedding_gradient: there cannot be -1 rows}}
  %r = op.embedding_gradient %g[%i] rows -1 : tensor<2x4xf32>, tensor<2xi64> -> tensor<?x4xf32>
  return
}
