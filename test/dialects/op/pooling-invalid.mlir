// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @case(%x: tensor<1x4x8x8xi7>) {
  // expected-error@below {{op.max_pool2d: expected numbers or booleans, got i7}}
  %r = op.max_pool2d %x kernel [2, 2] : tensor<1x4x8x8xi7> -> tensor<1x4x7x7xi7>
  return
}

// -----

func.func @case(%x: tensor<4x8x8xf32>) {
  // expected-error@below {{op.max_pool2d: the input should have 4 dimensions, got tensor<4x8x8xf32>}}
  %r = op.max_pool2d %x kernel [2, 2] : tensor<4x8x8xf32> -> tensor<4x7x7xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>) {
  // expected-error@below {{op.max_pool2d: window extents should be 2 numbers of at least 1, got [2, 2, 2]}}
  %r = op.max_pool2d %x kernel [2, 2, 2] : tensor<1x4x8x8xf32> -> tensor<1x4x7x7xf32>
  return
}

// -----

// A window that starts in one pad would end there.

func.func @case(%x: tensor<1x4x8x8xf32>) {
  // expected-error@below {{op.max_pool2d: pads 0 and 3 should be less than the window's 3 taps}}
  %r = op.max_pool2d %x kernel [2, 3] pads [0, 0, 1, 3] : tensor<1x4x8x8xf32> -> tensor<1x4x8x9xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x1xf32>) {
  // expected-error@below {{op.max_pool2d: a window that spans 3 does not fit into an extent of 1 with pads 0 and 1}}
  %r = op.max_pool2d %x kernel [3, 3] pads [0, 0, 0, 1] : tensor<1x4x8x1xf32> -> tensor<1x4x6x1xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xi32>) {
  // expected-error@below {{op.average_pool2d: expected floats, got i32}}
  %r = op.average_pool2d %x kernel [2, 2] : tensor<1x4x8x8xi32> -> tensor<1x4x7x7xi32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>) {
  // expected-error@below {{op.average_pool2d: the result's type should be tensor<1x4x7x7xf32>, got tensor<1x4x8x8xf32>}}
  %r = op.average_pool2d %x kernel [2, 2] : tensor<1x4x8x8xf32> -> tensor<1x4x8x8xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xi32>) {
  // expected-error@below {{op.global_average_pool: expected floats, got i32}}
  %r = op.global_average_pool %x : tensor<1x4x8x8xi32> -> tensor<1x4x1x1xi32>
  return
}

// -----

func.func @case(%x: tensor<1x4xf32>) {
  // expected-error@below {{op.global_average_pool: the input should have at least 3 dimensions, got tensor<1x4xf32>}}
  %r = op.global_average_pool %x : tensor<1x4xf32> -> tensor<1x4xf32>
  return
}
