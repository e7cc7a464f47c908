// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// A constant has elements.

// expected-error@+1 {{expected dense elements}}
%c = op.constant 1.0 : f32

// -----

// It is a tensor.

// expected-error@+1 {{op.constant: expected a tensor, got vector<2xf32>}}
%c = "op.constant"() <{value = dense<1.0> : vector<2xf32>}> : () -> tensor<2xf32>

// -----

// Its element type is one that tensors have.

// expected-error@+1 {{op.constant: there are no tensors of index}}
%c = op.constant dense<1> : tensor<2xindex>

// -----

// Its type is that of its elements.

// expected-error@+1 {{op.constant: the result's type should be tensor<2xf32>, got tensor<3xf32>}}
%c = "op.constant"() <{value = dense<1.0> : tensor<2xf32>}> : () -> tensor<3xf32>
