// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// Functions and divisions of floats refuse integers.

func.func @f(%a: tensor<4xi32>) {
  // expected-error@+1 {{op.exp: expected floats, got i32}}
  %r = op.exp %a : tensor<4xi32> -> tensor<4xi32>
  func.return
}

// -----

// Powers are those of floats.

func.func @f(%a: tensor<4xi32>) {
  // expected-error@+1 {{op.pow: expected floats, got i32}}
  %r = op.pow %a, %a : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  func.return
}

// -----

// Booleans are no numbers.

func.func @f(%a: tensor<4xi1>) {
  // expected-error@+1 {{op.add: expected numbers, got i1}}
  %r = op.add %a, %a : tensor<4xi1>, tensor<4xi1> -> tensor<4xi1>
  func.return
}

// -----

// Only booleans can be negated.

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.logical_not: expected booleans, got f32}}
  %r = op.logical_not %a : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// A choice is made by booleans.

func.func @f(%c: tensor<4xi8>, %a: tensor<4xf32>) {
  // expected-error@+1 {{op.where: expected booleans, got i8}}
  %r = op.where %c, %a, %a : tensor<4xi8>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// There are no integers of four bits.

func.func @f(%a: tensor<4xui4>) {
  // expected-error@+1 {{op.equal: expected numbers or booleans, got ui4}}
  %r = op.equal %a, %a : tensor<4xui4>, tensor<4xui4> -> tensor<4xi1>
  func.return
}

// -----

// A cast can only be to an element type that tensors have.

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.cast: expected numbers or booleans, got index}}
  %r = op.cast %a to index : tensor<4xf32> -> tensor<4xindex>
  func.return
}

// -----

// Nothing is converted silently.

func.func @f(%a: tensor<4xf32>, %b: tensor<4xf64>) {
  // expected-error@+1 {{op.add: operands have different element types f32 and f64}}
  %r = op.add %a, %b : tensor<4xf32>, tensor<4xf64> -> tensor<4xf32>
  func.return
}

// -----

// Both choices have one type.

func.func @f(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xi32>) {
  // expected-error@+1 {{op.where: operands have different element types f32 and i32}}
  %r = op.where %c, %a, %b : tensor<4xi1>, tensor<4xf32>, tensor<4xi32> -> tensor<4xf32>
  func.return
}

// -----

// Extents that are not 1 must be equal.

func.func @f(%a: tensor<4x8xf32>, %b: tensor<4xf32>) {
  // expected-error@+1 {{op.add: shapes 4x8, 4 do not broadcast}}
  %r = op.add %a, %b : tensor<4x8xf32>, tensor<4xf32> -> tensor<4x8xf32>
  func.return
}

// -----

// All three operands are broadcast together.

func.func @f(%c: tensor<3xi1>, %a: tensor<f32>, %b: tensor<2x4xf32>) {
  // expected-error@+1 {{op.where: shapes 3, scalar, 2x4 do not broadcast}}
  %r = op.where %c, %a, %b : tensor<3xi1>, tensor<f32>, tensor<2x4xf32> -> tensor<2x4xf32>
  func.return
}

// -----

// An extent of 0 is not stretched.

func.func @f(%a: tensor<0xf32>, %b: tensor<2xf32>) {
  // expected-error@+1 {{op.add: shapes 0, 2 do not broadcast}}
  %r = op.add %a, %b : tensor<0xf32>, tensor<2xf32> -> tensor<2xf32>
  func.return
}

// -----

// The result is as large as the operands make it.

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.relu: the result's type should be tensor<4xf32>, got tensor<5xf32>}}
  %r = op.relu %a : tensor<4xf32> -> tensor<5xf32>
  func.return
}

// -----

// A comparison gives booleans.

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.less: the result's type should be tensor<4xi1>, got tensor<4xf32>}}
  %r = op.less %a, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// The element type of a cast is the stated one.

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.cast: the result's type should be tensor<4xi32>, got tensor<4xi64>}}
  %r = op.cast %a to i32 : tensor<4xf32> -> tensor<4xi64>
  func.return
}

// -----

// There is one approximation of gelu.

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.gelu: approximate is 'none' or 'tanh', got 'fast'}}
  %r = op.gelu %a approximate "fast" : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// A bound is a number, if an infinite one.

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.clip: a bound must be a number, got nan}}
  %r = op.clip %a min neg_inf max nan : tensor<4xf32> -> tensor<4xf32>
  func.return
}
