// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

%a = "test.op"() : () -> tensor<4x3xf32>
%i = "test.op"() : () -> tensor<2x3xi64>
%u = "test.op"() : () -> tensor<?x3xf32>

// CHECK: op.reshape %a to [2, -1] : tensor<4x3xf32> -> tensor<2x6xf32>
%0 = op.reshape %a to [2, -1] : tensor<4x3xf32> -> tensor<2x6xf32>

// A list may be empty: a scalar has no extents.
%s = "test.op"() : () -> tensor<1x1xf32>
// CHECK: op.reshape %s to [] : tensor<1x1xf32> -> tensor<f32>
%1 = op.reshape %s to [] : tensor<1x1xf32> -> tensor<f32>

// CHECK: op.transpose %a by [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>
%2 = op.transpose %a by [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>

// CHECK: op.expand %a to [2, 4, 3] : tensor<4x3xf32> -> tensor<2x4x3xf32>
%3 = op.expand %a to [2, 4, 3] : tensor<4x3xf32> -> tensor<2x4x3xf32>

// CHECK: op.gather %a[%i] axis 0 : tensor<4x3xf32>, tensor<2x3xi64> -> tensor<2x3x3xf32>
%4 = op.gather %a[%i] axis 0 : tensor<4x3xf32>, tensor<2x3xi64> -> tensor<2x3x3xf32>

// CHECK: op.concat %a, %u axis -2 : tensor<4x3xf32>, tensor<?x3xf32> -> tensor<?x3xf32>
%5 = op.concat %a, %u axis -2 : tensor<4x3xf32>, tensor<?x3xf32> -> tensor<?x3xf32>

// CHECK: %p, %q = op.split %a axis 0 sizes [1, 3] : tensor<4x3xf32> -> tensor<1x3xf32>, tensor<3x3xf32>
%p, %q = op.split %a axis 0 sizes [1, 3] : tensor<4x3xf32> -> tensor<1x3xf32>, tensor<3x3xf32>

// CHECK: op.slice %a from [1, -1] to [3, -100] by [1, -2] : tensor<4x3xf32> -> tensor<2x2xf32>
%6 = op.slice %a from [1, -1] to [3, -100] by [1, -2] : tensor<4x3xf32> -> tensor<2x2xf32>

// Padding is with zeros unless the op says otherwise.

// CHECK: op.pad %a before [1, 0] after [2, 0] : tensor<4x3xf32> -> tensor<7x3xf32>
%7 = op.pad %a before [1, 0] after [2, 0] mode constant value 0.0 : tensor<4x3xf32> -> tensor<7x3xf32>

// CHECK: op.pad %a before [0, 0] after [1, 1] mode reflect : tensor<4x3xf32> -> tensor<5x4xf32>
%8 = op.pad %a before [0, 0] after [1, 1] mode reflect : tensor<4x3xf32> -> tensor<5x4xf32>

// CHECK: op.pad %a before [0, 0] after [0, 1] value -1.5 : tensor<4x3xf32> -> tensor<4x4xf32>
%9 = op.pad %a before [0, 0] after [0, 1] value -1.5 : tensor<4x3xf32> -> tensor<4x4xf32>

// CHECK: op.pad %a before [0, 0] after [0, 1] value neg_inf : tensor<4x3xf32> -> tensor<4x4xf32>
%10 = op.pad %a before [0, 0] after [0, 1] value neg_inf : tensor<4x3xf32> -> tensor<4x4xf32>
