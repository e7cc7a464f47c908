// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @case(%b: tensor<6x6xf32>, %x: tensor<1x3x10x14xf64>) {
  // expected-error@below {{op.winograd_split: operands have different element types f32 and f64}}
  %v = op.winograd_split %b, %x step 4 : tensor<6x6xf32>, tensor<1x3x10x14xf64> -> tensor<6x6x3x1x2x3xf32>
  return
}

// -----

func.func @case(%b: tensor<6x6xi32>, %x: tensor<1x3x10x14xi32>) {
  // expected-error@below {{op.winograd_split: expected floats, got i32}}
  %v = op.winograd_split %b, %x step 4 : tensor<6x6xi32>, tensor<1x3x10x14xi32> -> tensor<6x6x3x1x2x3xi32>
  return
}

// -----

func.func @case(%b: tensor<6xf32>, %x: tensor<1x3x10x14xf32>) {
  // expected-error@below {{op.winograd_split: the matrix should have 2 dimensions, got tensor<6xf32>}}
  %v = op.winograd_split %b, %x step 4 : tensor<6xf32>, tensor<1x3x10x14xf32> -> tensor<6x6x3x1x2x3xf32>
  return
}

// -----

func.func @case(%b: tensor<6x6xf32>, %x: tensor<3x10x14xf32>) {
  // expected-error@below {{op.winograd_split: the input should have 4 dimensions, got tensor<3x10x14xf32>}}
  %v = op.winograd_split %b, %x step 4 : tensor<6x6xf32>, tensor<3x10x14xf32> -> tensor<6x6x3x1x2x3xf32>
  return
}

// -----

func.func @case(%b: tensor<6x5xf32>, %x: tensor<1x3x10x14xf32>) {
  // expected-error@below {{op.winograd_split: the matrix should be square, got 6 x 5}}
  %v = op.winograd_split %b, %x step 4 : tensor<6x5xf32>, tensor<1x3x10x14xf32> -> tensor<6x6x3x1x2x3xf32>
  return
}

// -----

func.func @case(%b: tensor<6x6xf32>, %x: tensor<1x3x10x14xf32>) {
  // expected-error@below {{op.winograd_split: the step should be at least 1, got 0}}
  %v = op.winograd_split %b, %x step 0 : tensor<6x6xf32>, tensor<1x3x10x14xf32> -> tensor<6x6x3x1x2x3xf32>
  return
}

// -----

func.func @case(%b: tensor<6x6xf32>, %x: tensor<1x3x10x5xf32>) {
  // expected-error@below {{op.winograd_split: tiles of 6 x 6 elements do not fit into images of 10 x 5}}
  %v = op.winograd_split %b, %x step 4 : tensor<6x6xf32>, tensor<1x3x10x5xf32> -> tensor<6x6x3x1x2x3xf32>
  return
}

// -----

func.func @case(%b: tensor<6x6xf32>, %x: tensor<1x3x?x5xf32>) {
  // expected-error@below {{op.winograd_split: the input should have a known shape, got tensor<1x3x?x5xf32>}}
  %v = op.winograd_split %b, %x step 4 : tensor<6x6xf32>, tensor<1x3x?x5xf32> -> tensor<6x6x3x1x2x3xf32>
  return
}

// -----

func.func @case(%a: tensor<4x6xf32>, %m: tensor<6x5x3x1x2x3xf32>) {
  // expected-error@below {{op.winograd_join: a matrix of 6 columns does not fit tiles of 6 x 5 elements}}
  %y = op.winograd_join %a, %m : tensor<4x6xf32>, tensor<6x5x3x1x2x3xf32> -> tensor<1x3x8x12xf32>
  return
}

// -----

func.func @case(%a: tensor<4x6xf32>, %m: tensor<6x6x3x1x2xf32>) {
  // expected-error@below {{op.winograd_join: the tiles should have 6 dimensions, got tensor<6x6x3x1x2xf32>}}
  %y = op.winograd_join %a, %m : tensor<4x6xf32>, tensor<6x6x3x1x2xf32> -> tensor<1x3x8x12xf32>
  return
}

// -----

func.func @case(%a: tensor<4x6xf32>, %m: tensor<6x6x3x1x2x3xf32>, %c: tensor<4xf32>) {
  // expected-error@below {{op.winograd_join: the bias should have the shape 3, got 4}}
  %y = op.winograd_join %a, %m, %c : tensor<4x6xf32>, tensor<6x6x3x1x2x3xf32>, tensor<4xf32> -> tensor<1x3x8x12xf32>
  return
}
