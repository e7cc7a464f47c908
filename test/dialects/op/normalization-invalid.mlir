// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @case(%x: tensor<2x4x3x3xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf64>) {
  // expected-error@below {{op.batch_norm: operands have different element types f32 and f64}}
  %r = op.batch_norm %x, %s, %b, %m, %v : tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf64> -> tensor<2x4x3x3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4xi32>, %s: tensor<4xi32>, %b: tensor<4xi32>, %m: tensor<4xi32>, %v: tensor<4xi32>) {
  // expected-error@below {{op.batch_norm: expected floats, got i32}}
  %r = op.batch_norm %x, %s, %b, %m, %v : tensor<2x4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32> -> tensor<2x4xi32>
  return
}

// -----

func.func @case(%x: tensor<4xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) {
  // expected-error@below {{op.batch_norm: the input should have at least 2 dimensions, got tensor<4xf32>}}
  %r = op.batch_norm %x, %s, %b, %m, %v : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x3xf32>, %s: tensor<2xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) {
  // expected-error@below {{op.batch_norm: the scale should have the shape 4, got 2}}
  %r = op.batch_norm %x, %s, %b, %m, %v : tensor<2x4x3xf32>, tensor<2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<2x4x3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x3xf32>, %s: tensor<4xf32>, %b: tensor<4x1xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) {
  // expected-error@below {{op.batch_norm: the bias should have the shape 4, got 4x1}}
  %r = op.batch_norm %x, %s, %b, %m, %v : tensor<2x4x3xf32>, tensor<4xf32>, tensor<4x1xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<2x4x3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x3xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<f32>, %v: tensor<4xf32>) {
  // expected-error@below {{op.batch_norm: the mean should have the shape 4, got scalar}}
  %r = op.batch_norm %x, %s, %b, %m, %v : tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32> -> tensor<2x4x3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x3xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<3xf32>) {
  // expected-error@below {{op.batch_norm: the variance should have the shape 4, got 3}}
  %r = op.batch_norm %x, %s, %b, %m, %v : tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3xf32> -> tensor<2x4x3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x3xf32>, %s: tensor<3xf64>) {
  // expected-error@below {{op.layer_norm: operands have different element types f32 and f64}}
  %r = op.layer_norm %x, %s : tensor<2x3xf32>, tensor<3xf64> -> tensor<2x3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x3xi32>, %s: tensor<3xi32>) {
  // expected-error@below {{op.layer_norm: expected floats, got i32}}
  %r = op.layer_norm %x, %s : tensor<2x3xi32>, tensor<3xi32> -> tensor<2x3xi32>
  return
}

// -----

func.func @case(%x: tensor<2x3xf32>, %s: tensor<3xf32>) {
  // expected-error@below {{op.layer_norm: axis 2 is out of range for 2 dimensions}}
  %r = op.layer_norm %x, %s axis 2 : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x3x4xf32>, %s: tensor<4xf32>) {
  // expected-error@below {{op.layer_norm: the scale should have the shape 3x4, got 4}}
  %r = op.layer_norm %x, %s axis 1 : tensor<2x3x4xf32>, tensor<4xf32> -> tensor<2x3x4xf32>
  return
}

// -----

func.func @case(%x: tensor<2x3x4xf32>, %s: tensor<4xf32>, %b: tensor<1xf32>) {
  // expected-error@below {{op.layer_norm: the bias should have the shape 4, got 1}}
  %r = op.layer_norm %x, %s, %b : tensor<2x3x4xf32>, tensor<4xf32>, tensor<1xf32> -> tensor<2x3x4xf32>
  return
}

// -----

func.func @case(%x: tensor<2x3xi32>) {
  // expected-error@below {{op.softmax: expected floats, got i32}}
  %r = op.softmax %x : tensor<2x3xi32> -> tensor<2x3xi32>
  return
}

// -----

func.func @case(%x: tensor<2x3xf32>) {
  // expected-error@below {{op.softmax: axis -3 is out of range for 2 dimensions}}
  %r = op.softmax %x axis -3 : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

// A scalar has no axis.

func.func @case(%x: tensor<f32>) {
  // expected-error@below {{op.softmax: axis -1 is out of range for 0 dimensions}}
  %r = op.softmax %x : tensor<f32> -> tensor<f32>
  return
}

// -----

func.func @case(%x: tensor<2x3xf32>) {
  // expected-error@below {{op.log_softmax: the result's type should be tensor<2x3xf32>, got tensor<2x3xf64>}}
  %r = op.log_softmax %x : tensor<2x3xf32> -> tensor<2x3xf64>
  return
}

// -----

func.func @case(%x: tensor<2x4xi32>) {
  // expected-error@below {{op.local_response_norm: expected floats, got i32}}
  %r = op.local_response_norm %x size 3 : tensor<2x4xi32> -> tensor<2x4xi32>
  return
}

// -----

func.func @case(%x: tensor<4xf32>) {
  // expected-error@below {{op.local_response_norm: the input should have at least 2 dimensions, got tensor<4xf32>}}
  %r = op.local_response_norm %x size 3 : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4xf32>) {
  // expected-error@below {{op.local_response_norm: the size should be at least 1, got 0}}
  %r = op.local_response_norm %x size 0 : tensor<2x4xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @rms_scale(%x: tensor<2x3x4xf32>, %s: tensor<4xf32>) {
  // expected-error@below {{op.rms_norm: the scale should have the shape 3x4, got 4}}
  %r = op.rms_norm %x, %s axis 1 : tensor<2x3x4xf32>, tensor<4xf32> -> tensor<2x3x4xf32>
  return
}
