// RUN: penstock-opt %s --verify-diagnostics --split-input-file

%d = "test.op"() : () -> tensor<4x9xf32>
%i = "test.op"() : () -> tensor<4x2xf32>
// expected-error@+1 {{indices should be signed integers, got f32}}
%r = op.gather_elements %d[%i] axis 1 : tensor<4x9xf32>, tensor<4x2xf32> -> tensor<4x2xf32>

// -----

%d = "test.op"() : () -> tensor<4x9xf32>
%i = "test.op"() : () -> tensor<5x2xi64>
// expected-error@+1 {{indices 5x2 do not fit in 4x9 but for axis 1}}
%r = op.gather_elements %d[%i] axis 1 : tensor<4x9xf32>, tensor<5x2xi64> -> tensor<5x2xf32>

// -----

%d = "test.op"() : () -> tensor<4x9xf32>
%i = "test.op"() : () -> tensor<2xi64>
// expected-error@+1 {{indices 2 do not fit in 4x9 but for axis 1}}
%r = op.gather_elements %d[%i] axis 1 : tensor<4x9xf32>, tensor<2xi64> -> tensor<2xf32>

// -----

%d = "test.op"() : () -> tensor<4x9xf32>
%i = "test.op"() : () -> tensor<4x2xi64>
// expected-error@+1 {{axis 2 is out of range for 2 dimensions}}
%r = op.gather_elements %d[%i] axis 2 : tensor<4x9xf32>, tensor<4x2xi64> -> tensor<4x2xf32>

// -----

%d = "test.op"() : () -> tensor<4x9xf32>
%i = "test.op"() : () -> tensor<7x3xi64>
// expected-error@+1 {{the last of the axes 7x3 should name 1 to 2 places}}
%r = op.gather_nd %d[%i] batch 0 : tensor<4x9xf32>, tensor<7x3xi64> -> tensor<7xf32>

// -----

%d = "test.op"() : () -> tensor<4x9xf32>
%i = "test.op"() : () -> tensor<i64>
// expected-error@+1 {{the last of the axes scalar should name 1 to 2 places}}
%r = op.gather_nd %d[%i] batch 0 : tensor<4x9xf32>, tensor<i64> -> tensor<f32>

// -----

%d = "test.op"() : () -> tensor<4x9xf32>
%i = "test.op"() : () -> tensor<5x1xi64>
// expected-error@+1 {{the batch axes should have the shape 4, got 5}}
%r = op.gather_nd %d[%i] batch 1 : tensor<4x9xf32>, tensor<5x1xi64> -> tensor<5xf32>

// -----

%d = "test.op"() : () -> tensor<4x9xf32>
%i = "test.op"() : () -> tensor<1xi64>
// expected-error@+1 {{there are no 1 axes in common}}
%r = op.gather_nd %d[%i] batch 1 : tensor<4x9xf32>, tensor<1xi64> -> tensor<f32>

// -----

%d = "test.op"() : () -> tensor<4x9xf32>
%i = "test.op"() : () -> tensor<4x2xi64>
%u = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{the updates should have the shape 4x2, got 4x3}}
%r = op.scatter_elements %d[%i], %u axis 1 : tensor<4x9xf32>, tensor<4x2xi64>, tensor<4x3xf32> -> tensor<4x9xf32>

// -----

%d = "test.op"() : () -> tensor<4x9xf32>
%i = "test.op"() : () -> tensor<4x2xi64>
%u = "test.op"() : () -> tensor<4x2xf64>
// expected-error@+1 {{operands have different element types f32 and f64}}
%r = op.scatter_elements %d[%i], %u axis 1 : tensor<4x9xf32>, tensor<4x2xi64>, tensor<4x2xf64> -> tensor<4x9xf32>

// -----

%d = "test.op"() : () -> tensor<4xi1>
%i = "test.op"() : () -> tensor<2xi64>
%u = "test.op"() : () -> tensor<2xi1>
// expected-error@+1 {{booleans cannot be combined by add}}
%r = op.scatter_elements %d[%i], %u axis 0 mode add : tensor<4xi1>, tensor<2xi64>, tensor<2xi1> -> tensor<4xi1>

// -----

%d = "test.op"() : () -> tensor<4x9xf32>
%i = "test.op"() : () -> tensor<7x1xi64>
%u = "test.op"() : () -> tensor<7xf32>
// expected-error@+1 {{the updates should have the shape 7x9, got 7}}
%r = op.scatter_nd %d[%i], %u : tensor<4x9xf32>, tensor<7x1xi64>, tensor<7xf32> -> tensor<4x9xf32>
