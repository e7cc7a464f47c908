// RUN: penstock-opt %s --verify-diagnostics --split-input-file

%a = "test.op"() : () -> tensor<f32>
// expected-error@+1 {{a scalar has no places}}
%p, %n = op.non_zero %a : tensor<f32> -> tensor<0x1xi64>, tensor<i64>

// -----

%a = "test.op"() : () -> tensor<4xf32>
// expected-error@+1 {{there is no room for -1 elements}}
%p, %n = op.non_zero %a max -1 : tensor<4xf32> -> tensor<1x4xi64>, tensor<i64>

// -----

%a = "test.op"() : () -> tensor<4x8xf32>
// expected-error@+1 {{the result's type should be tensor<2x32xi64>, got tensor<2x31xi64>}}
%p, %n = op.non_zero %a : tensor<4x8xf32> -> tensor<2x31xi64>, tensor<i64>

// -----

%a, %m = "test.op"() : () -> (tensor<4x8xf32>, tensor<4x8xi1>)
// expected-error@+1 {{the mask should have 1 dimensions, got tensor<4x8xi1>}}
%r, %n = op.compress %a by %m axis 1 : tensor<4x8xf32>, tensor<4x8xi1> -> tensor<4x8xf32>, tensor<i64>

// -----

%a, %m = "test.op"() : () -> (tensor<4x8xf32>, tensor<8xi32>)
// expected-error@+1 {{the mask should be of i1, got i32}}
%r, %n = op.compress %a by %m axis 1 : tensor<4x8xf32>, tensor<8xi32> -> tensor<4x8xf32>, tensor<i64>

// -----

%a, %m = "test.op"() : () -> (tensor<4x8xf32>, tensor<8xi1>)
// expected-error@+1 {{a mask of 8 elements is longer than the axis of 4}}
%r, %n = op.compress %a by %m axis 0 : tensor<4x8xf32>, tensor<8xi1> -> tensor<4x8xf32>, tensor<i64>

// -----

%a = "test.op"() : () -> tensor<f32>
// expected-error@+1 {{a scalar has no rows}}
%r, %f, %p, %t, %n = op.unique %a : tensor<f32> -> tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<i64>

// -----

%b, %s, %t = "test.op"() : () -> (tensor<1x9x4xf32>, tensor<9xf32>, tensor<f32>)
// expected-error@+1 {{the scores should have 3 dimensions, got tensor<9xf32>}}
%r, %n, %k = op.non_max_suppression %b, %s, %t most 2 : tensor<1x9x4xf32>, tensor<9xf32>, tensor<f32> -> tensor<2x3xi64>, tensor<i64>, tensor<1x1x9xi64>

// -----

%b, %s, %t = "test.op"() : () -> (tensor<1x8x4xf32>, tensor<1x1x9xf32>, tensor<f32>)
// expected-error@+1 {{the boxes should have the shape 1x9x4, got 1x8x4}}
%r, %n, %k = op.non_max_suppression %b, %s, %t most 2 : tensor<1x8x4xf32>, tensor<1x1x9xf32>, tensor<f32> -> tensor<2x3xi64>, tensor<i64>, tensor<1x1x9xi64>

// -----

%b, %s, %t = "test.op"() : () -> (tensor<1x9x4xf32>, tensor<1x1x9xf32>, tensor<1xf32>)
// expected-error@+1 {{a threshold should have the shape scalar, got 1}}
%r, %n, %k = op.non_max_suppression %b, %s, %t most 2 : tensor<1x9x4xf32>, tensor<1x1x9xf32>, tensor<1xf32> -> tensor<2x3xi64>, tensor<i64>, tensor<1x1x9xi64>

// -----

%b, %s, %t = "test.op"() : () -> (tensor<1x9x4xf32>, tensor<1x1x9xf32>, tensor<f32>)
// expected-error@+1 {{there are no -1 boxes of a class}}
%r, %n, %k = op.non_max_suppression %b, %s, %t most -1 : tensor<1x9x4xf32>, tensor<1x1x9xf32>, tensor<f32> -> tensor<0x3xi64>, tensor<i64>, tensor<1x1x9xi64>
