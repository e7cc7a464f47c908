// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @case(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf64>) {
  // expected-error@below {{op.conv2d: operands have different element types f32 and f64}}
  %r = op.conv2d %x, %w : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf64> -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xi1>, %w: tensor<6x4x3x3xi1>) {
  // expected-error@below {{op.conv2d: expected numbers, got i1}}
  %r = op.conv2d %x, %w : tensor<1x4x8x8xi1>, tensor<6x4x3x3xi1> -> tensor<1x6x6x6xi1>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x3x3xi32>) {
  // expected-error@below {{op.conv2d: wide sums are of i8, ui8 or bf16, got tensor<6x4x3x3xi32>}}
  %r = op.conv2d %x, %w wide : tensor<1x4x8x8xi8>, tensor<6x4x3x3xi32> -> tensor<1x6x6x6xi32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x3x3xi8>, %b: tensor<6xi8>) {
  // expected-error@below {{op.conv2d: the bias of sums of i32 should be so, got tensor<6xi8>}}
  %r = op.conv2d %x, %w, %b wide : tensor<1x4x8x8xi8>, tensor<6x4x3x3xi8>, tensor<6xi8> -> tensor<1x6x6x6xi32>
  return
}

// -----

func.func @case(%x: tensor<4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@below {{op.conv2d: the input should have 4 dimensions, got tensor<4x8x8xf32>}}
  %r = op.conv2d %x, %w : tensor<4x8x8xf32>, tensor<6x4x3x3xf32> -> tensor<6x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3xf32>) {
  // expected-error@below {{op.conv2d: the weights should have 4 dimensions, got tensor<6x4x3xf32>}}
  %r = op.conv2d %x, %w : tensor<1x4x8x8xf32>, tensor<6x4x3xf32> -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<4xf32>) {
  // expected-error@below {{op.conv2d: the bias should have the shape 6, got 4}}
  %r = op.conv2d %x, %w, %b : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<4xf32> -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@below {{op.conv2d: groups should be at least 1, got 0}}
  %r = op.conv2d %x, %w groups 0 : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@below {{op.conv2d: an input of 4 channels does not fit weights of 4 channels in 2 groups}}
  %r = op.conv2d %x, %w groups 2 : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %w: tensor<3x2x3x3xf32>) {
  // expected-error@below {{op.conv2d: 3 out channels do not divide into 2 groups}}
  %r = op.conv2d %x, %w groups 2 : tensor<1x4x8x8xf32>, tensor<3x2x3x3xf32> -> tensor<1x3x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x0xf32>) {
  // expected-error@below {{op.conv2d: window extents should be 2 numbers of at least 1, got [3, 0]}}
  %r = op.conv2d %x, %w : tensor<1x4x8x8xf32>, tensor<6x4x3x0xf32> -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@below {{op.conv2d: strides should be 2 numbers of at least 1, got [2]}}
  %r = op.conv2d %x, %w strides [2] : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@below {{op.conv2d: strides should be 2 numbers of at least 1, got [1, 0]}}
  %r = op.conv2d %x, %w strides [1, 0] : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@below {{op.conv2d: pads should be 4 numbers of at least 0, got [1, 1]}}
  %r = op.conv2d %x, %w pads [1, 1] : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@below {{op.conv2d: pads should be 4 numbers of at least 0, got [0, 0, -1, 0]}}
  %r = op.conv2d %x, %w pads [0, 0, -1, 0] : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@below {{op.conv2d: dilations should be 2 numbers of at least 1, got [1, -1]}}
  %r = op.conv2d %x, %w dilations [1, -1] : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @case(%x: tensor<1x4x8x6xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@below {{op.conv2d: a window that spans 9 does not fit into an extent of 6 with pads 1 and 1}}
  %r = op.conv2d %x, %w pads [0, 1, 0, 1] dilations [1, 4] : tensor<1x4x8x6xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x6x6xf32>
  return
}

// -----

// With channels last, the last dimension has to fit the weights.

func.func @channels_last(%x: tensor<1x4x8x9xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@below {{op.conv2d: an input of 9 channels does not fit weights of 4 channels in 1 groups}}
  %r = op.conv2d %x, %w input_last : tensor<1x4x8x9xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x2x7xf32>
  return
}
