// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @case(%x: tensor<2x3xf32>) {
  // expected-error@below {{op.reduce_max: axis 2 is out of range for 2 dimensions}}
  %r = op.reduce_max %x axes [0, 2] : tensor<2x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x3xf32>) {
  // expected-error@below {{op.reduce_max: axes [1, -1] name a dimension twice}}
  %r = op.reduce_max %x axes [1, -1] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @case(%x: tensor<2x0xf32>) {
  // expected-error@below {{op.reduce_max: reduction of an empty axis has no maximum}}
  %r = op.reduce_max %x axes [1] : tensor<2x0xf32> -> tensor<2xf32>
  return
}

// -----

func.func @case(%x: tensor<2x0xf32>) {
  // expected-error@below {{op.reduce_min: reduction of an empty axis has no minimum}}
  %r = op.reduce_min %x : tensor<2x0xf32> -> tensor<f32>
  return
}

// -----

func.func @case(%x: tensor<2xi7>) {
  // expected-error@below {{op.reduce_max: expected numbers or booleans, got i7}}
  %r = op.reduce_max %x : tensor<2xi7> -> tensor<i7>
  return
}

// -----

func.func @case(%x: tensor<2xi32>) {
  // expected-error@below {{op.reduce_mean: expected floats, got i32}}
  %r = op.reduce_mean %x : tensor<2xi32> -> tensor<i32>
  return
}

// -----

func.func @case(%x: tensor<4xf32>) {
  // expected-error@below {{op.reduce_mean: a mean of 3 terms is given 4}}
  %r = op.reduce_mean %x of 3 : tensor<4xf32> -> tensor<f32>
  return
}

// -----

func.func @case(%x: tensor<2xi1>) {
  // expected-error@below {{op.reduce_prod: expected numbers, got i1}}
  %r = op.reduce_prod %x : tensor<2xi1> -> tensor<i1>
  return
}

// -----

func.func @case(%x: tensor<2xi1>) {
  // expected-error@below {{op.reduce_sum: expected numbers, got i1}}
  %r = op.reduce_sum %x : tensor<2xi1> -> tensor<i1>
  return
}

// -----

func.func @case(%x: tensor<2x3xf32>) {
  // expected-error@below {{op.reduce_sum: the result's type should be tensor<2x1xf32>, got tensor<2xf32>}}
  %r = op.reduce_sum %x axes [1] keepdims : tensor<2x3xf32> -> tensor<2xf32>
  return
}
