// RUN: penstock-opt %s --split-input-file --verify-diagnostics

func.func @case(%x: tensor<2x4x3xf32>, %s: tensor<4xf64>) {
  // expected-error@below {{op.group_norm: operands have different element types f32 and f64}}
  %r = op.group_norm %x, %s groups 2 : tensor<2x4x3xf32>, tensor<4xf64> -> tensor<2x4x3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4xi32>, %s: tensor<4xi32>) {
  // expected-error@below {{op.group_norm: expected floats, got i32}}
  %r = op.group_norm %x, %s groups 2 : tensor<2x4xi32>, tensor<4xi32> -> tensor<2x4xi32>
  return
}

// -----

func.func @case(%x: tensor<4xf32>, %s: tensor<4xf32>) {
  // expected-error@below {{op.group_norm: the input should have at least 2 dimensions, got tensor<4xf32>}}
  %r = op.group_norm %x, %s groups 2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x3xf32>, %s: tensor<4xf32>) {
  // expected-error@below {{op.group_norm: there should be at least one group, got 0}}
  %r = op.group_norm %x, %s groups 0 : tensor<2x4x3xf32>, tensor<4xf32> -> tensor<2x4x3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x3xf32>, %s: tensor<4xf32>) {
  // expected-error@below {{op.group_norm: 4 channels do not make 3 groups}}
  %r = op.group_norm %x, %s groups 3 : tensor<2x4x3xf32>, tensor<4xf32> -> tensor<2x4x3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x3xf32>, %s: tensor<2xf32>) {
  // expected-error@below {{op.group_norm: the scale should have the shape 4, got 2}}
  %r = op.group_norm %x, %s groups 2 : tensor<2x4x3xf32>, tensor<2xf32> -> tensor<2x4x3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x3xf32>, %s: tensor<4xf32>, %b: tensor<4x1xf32>) {
  // expected-error@below {{op.group_norm: the bias should have the shape 4, got 4x1}}
  %r = op.group_norm %x, %s, %b groups 2 : tensor<2x4x3xf32>, tensor<4xf32>, tensor<4x1xf32> -> tensor<2x4x3xf32>
  return
}
