// RUN: penstock-opt %s --verify-diagnostics --split-input-file

%a = "test.op"() : () -> tensor<4x0xf32>
// expected-error@+1 {{an empty axis has no place to name}}
%r = op.arg_max %a axis 1 : tensor<4x0xf32> -> tensor<4x1xi64>

// -----

%a = "test.op"() : () -> tensor<4xi1>
// expected-error@+1 {{expected numbers, got i1}}
%r = op.arg_min %a axis 0 : tensor<4xi1> -> tensor<1xi64>

// -----

%a = "test.op"() : () -> tensor<4x8xf32>
// expected-error@+1 {{axis 2 is out of range for 2 dimensions}}
%r = op.arg_min %a axis 2 : tensor<4x8xf32> -> tensor<4x1xi64>

// -----

%a = "test.op"() : () -> tensor<4x8xf32>
// expected-error@+1 {{there are no 9 elements among 8}}
%r, %p = op.top_k %a count 9 axis 1 : tensor<4x8xf32> -> tensor<4x9xf32>, tensor<4x9xi64>

// -----

%a = "test.op"() : () -> tensor<4x8xf32>
// expected-error@+1 {{there are no -1 elements among 8}}
%r, %p = op.top_k %a count -1 axis 1 : tensor<4x8xf32> -> tensor<4x9xf32>, tensor<4x9xi64>

// -----

%a = "test.op"() : () -> tensor<4xi1>
// expected-error@+1 {{expected numbers, got i1}}
%r = op.cum_sum %a axis 0 : tensor<4xi1> -> tensor<4xi1>

// -----

%a = "test.op"() : () -> tensor<f32>
// expected-error@+1 {{axis 0 is out of range for 0 dimensions}}
%r = op.cum_prod %a axis 0 : tensor<f32> -> tensor<f32>

// -----

%a = "test.op"() : () -> tensor<4xf32>
// expected-error@+1 {{expected integers, got f32}}
%r = op.bit_and %a, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>

// -----

%a = "test.op"() : () -> tensor<4xi32>
// expected-error@+1 {{expected floats, got i32}}
%r = op.sin %a : tensor<4xi32> -> tensor<4xi32>
