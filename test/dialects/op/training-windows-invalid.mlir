// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @case(%x: tensor<1x4x8x8xi32>, %g: tensor<1x4x8x8xi32>) {
  // expected-error@below {{op.conv2d_filter_gradient: expected floats, got i32}}
  %w = op.conv2d_filter_gradient %x, %g kernel [1, 1] : tensor<1x4x8x8xi32>, tensor<1x4x8x8xi32> -> tensor<4x4x1x1xi32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8xf32>, %g: tensor<1x4x8x8xf32>) {
  // expected-error@below {{op.conv2d_filter_gradient: the input should have 4 dimensions, got tensor<1x4x8xf32>}}
  %w = op.conv2d_filter_gradient %x, %g kernel [1, 1] : tensor<1x4x8xf32>, tensor<1x4x8x8xf32> -> tensor<4x4x1x1xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %g: tensor<4x8x8xf32>) {
  // expected-error@below {{op.conv2d_filter_gradient: the gradient should have 4 dimensions, got tensor<4x8x8xf32>}}
  %w = op.conv2d_filter_gradient %x, %g kernel [1, 1] : tensor<1x4x8x8xf32>, tensor<4x8x8xf32> -> tensor<4x4x1x1xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x8x8xf32>, %g: tensor<3x4x8x8xf32>) {
  // expected-error@below {{op.conv2d_filter_gradient: 2 images should have as many gradients, got 3}}
  %w = op.conv2d_filter_gradient %x, %g kernel [1, 1] : tensor<2x4x8x8xf32>, tensor<3x4x8x8xf32> -> tensor<4x4x1x1xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x8x8xf32>, %g: tensor<2x4x7x6xf32>) {
  // expected-error@below {{op.conv2d_filter_gradient: an extent of 8 has 6 windows, got gradients of 7}}
  %w = op.conv2d_filter_gradient %x, %g kernel [3, 3] : tensor<2x4x8x8xf32>, tensor<2x4x7x6xf32> -> tensor<4x4x3x3xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x8x8xf32>, %g: tensor<2x4x8x8xf32>) {
  // expected-error@below {{op.conv2d_filter_gradient: groups should be at least 1, got 0}}
  %w = op.conv2d_filter_gradient %x, %g kernel [1, 1] groups 0 : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<4x4x1x1xf32>
  return
}

// -----

func.func @case(%x: tensor<2x3x8x8xf32>, %g: tensor<2x4x8x8xf32>) {
  // expected-error@below {{op.conv2d_filter_gradient: 3 channels do not divide into 2 groups}}
  %w = op.conv2d_filter_gradient %x, %g kernel [1, 1] groups 2 : tensor<2x3x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<4x1x1x1xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x8x8xf32>, %g: tensor<2x3x8x8xf32>) {
  // expected-error@below {{op.conv2d_filter_gradient: 3 out channels do not divide into 2 groups}}
  %w = op.conv2d_filter_gradient %x, %g kernel [1, 1] groups 2 : tensor<2x4x8x8xf32>, tensor<2x3x8x8xf32> -> tensor<3x2x1x1xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %y: tensor<1x4x7x6xf32>, %g: tensor<1x4x7x7xf32>) {
  // expected-error@below {{op.max_pool2d_gradient: the result of the pool should have the shape 1x4x7x7, got 1x4x7x6}}
  %r = op.max_pool2d_gradient %x, %y, %g kernel [2, 2] : tensor<1x4x8x8xf32>, tensor<1x4x7x6xf32>, tensor<1x4x7x7xf32> -> tensor<1x4x8x8xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %y: tensor<1x4x7x7xf32>, %g: tensor<1x4x7x6xf32>) {
  // expected-error@below {{op.max_pool2d_gradient: the gradient should have the shape 1x4x7x7, got 1x4x7x6}}
  %r = op.max_pool2d_gradient %x, %y, %g kernel [2, 2] : tensor<1x4x8x8xf32>, tensor<1x4x7x7xf32>, tensor<1x4x7x6xf32> -> tensor<1x4x8x8xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %y: tensor<1x4x7x7xf32>) {
  // expected-error@below {{op.max_pool2d_gradient: pads 0 and 2 should be less than the window's 2 taps}}
  %r = op.max_pool2d_gradient %x, %y, %y kernel [2, 2] pads [0, 0, 0, 2] : tensor<1x4x8x8xf32>, tensor<1x4x7x7xf32>, tensor<1x4x7x7xf32> -> tensor<1x4x8x8xf32>
  return
}

// -----

func.func @case(%x: tensor<8xf32>) {
  // expected-error@below {{op.batch_norm_statistics: the input should have at least 2 dimensions, got tensor<8xf32>}}
  %m, %v = op.batch_norm_statistics %x : tensor<8xf32> -> tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x8xf32>, %g: tensor<2x4x7xf32>, %m: tensor<4xf32>) {
  // expected-error@below {{op.batch_norm_gradient_sums: the gradient should have the shape 2x4x8, got 2x4x7}}
  %s, %p = op.batch_norm_gradient_sums %x, %g, %m : tensor<2x4x8xf32>, tensor<2x4x7xf32>, tensor<4xf32> -> tensor<4xf32>, tensor<4xf32>
  return
}

// -----

func.func @case(%x: tensor<2x4x8xf32>, %m: tensor<8xf32>) {
  // expected-error@below {{op.batch_norm_gradient_sums: the mean should have the shape 4, got 8}}
  %s, %p = op.batch_norm_gradient_sums %x, %x, %m : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<8xf32> -> tensor<4xf32>, tensor<4xf32>
  return
}
