// RUN: penstock-opt %s --verify-diagnostics --split-input-file

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{cannot reshape 12 elements to [5, 2]}}
%r = op.reshape %a to [5, 2] : tensor<4x3xf32> -> tensor<5x2xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{cannot reshape 12 elements to [5, -1]}}
%r = op.reshape %a to [5, -1] : tensor<4x3xf32> -> tensor<5x2xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{at most one extent may be -1, got [-1, -1]}}
%r = op.reshape %a to [-1, -1] : tensor<4x3xf32> -> tensor<4x3xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{extents must not be below -1, got [4, -3]}}
%r = op.reshape %a to [4, -3] : tensor<4x3xf32> -> tensor<4x3xf32>

// -----

%a = "test.op"() : () -> tensor<0x3xf32>
// expected-error@+1 {{beside an extent of 0, -1 may be any, got [0, -1]}}
%r = op.reshape %a to [0, -1] : tensor<0x3xf32> -> tensor<0x7xf32>

// -----

// The declared type has the extents that -1 stands for.

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{the result's type should be tensor<2x6xf32>, got tensor<2x5xf32>}}
%r = op.reshape %a to [2, -1] : tensor<4x3xf32> -> tensor<2x5xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{expected a permutation of 2 axes, got [0, 0]}}
%r = op.transpose %a by [0, 0] : tensor<4x3xf32> -> tensor<4x4xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{expected a permutation of 2 axes, got [0]}}
%r = op.transpose %a by [0] : tensor<4x3xf32> -> tensor<4xf32>

// -----

%a = "test.op"() : () -> tensor<4x1xf32>
// expected-error@+1 {{shape 4x1 does not broadcast to 2x1}}
%r = op.expand %a to [2, 1] : tensor<4x1xf32> -> tensor<2x1xf32>

// -----

// Broadcasting adds axes, it never removes them.

%a = "test.op"() : () -> tensor<1x3xf32>
// expected-error@+1 {{shape 1x3 does not broadcast to 3}}
%r = op.expand %a to [3] : tensor<1x3xf32> -> tensor<3xf32>

// -----

%a = "test.op"() : () -> tensor<1xf32>
// expected-error@+1 {{extents must not be negative, got [-1]}}
%r = op.expand %a to [-1] : tensor<1xf32> -> tensor<1xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
%i = "test.op"() : () -> tensor<2xf32>
// expected-error@+1 {{indices should be signed integers, got f32}}
%r = op.gather %a[%i] axis 0 : tensor<4x3xf32>, tensor<2xf32> -> tensor<2x3xf32>

// -----

// Booleans are no indices: a mask selects a number of elements that is not known.

%a = "test.op"() : () -> tensor<4x3xf32>
%i = "test.op"() : () -> tensor<2xi1>
// expected-error@+1 {{indices should be signed integers, got i1}}
%r = op.gather %a[%i] axis 0 : tensor<4x3xf32>, tensor<2xi1> -> tensor<2x3xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
%i = "test.op"() : () -> tensor<2xi32>
// expected-error@+1 {{axis 2 is out of range}}
%r = op.gather %a[%i] axis 2 : tensor<4x3xf32>, tensor<2xi32> -> tensor<4x3x2xf32>

// -----

// expected-error@+1 {{expected at least one operand}}
%r = "op.concat"() <{axis = 0 : i64}> : () -> tensor<4xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
%b = "test.op"() : () -> tensor<4x3xi32>
// expected-error@+1 {{operands have different element types f32 and i32}}
%r = op.concat %a, %b axis 0 : tensor<4x3xf32>, tensor<4x3xi32> -> tensor<8x3xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
%b = "test.op"() : () -> tensor<4x2xf32>
// expected-error@+1 {{shapes 4x3 and 4x2 do not fit together along axis 0}}
%r = op.concat %a, %b axis 0 : tensor<4x3xf32>, tensor<4x2xf32> -> tensor<8x3xf32>

// -----

// What one operand leaves open another one settles, for all that follow.

%a = "test.op"() : () -> tensor<4x?xf32>
%b = "test.op"() : () -> tensor<?x3xf32>
%c = "test.op"() : () -> tensor<2x2xf32>
// expected-error@+1 {{shapes ?x3 and 2x2 do not fit together along axis 0}}
%r = op.concat %a, %b, %c axis 0 : tensor<4x?xf32>, tensor<?x3xf32>, tensor<2x2xf32> -> tensor<?x3xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
%b = "test.op"() : () -> tensor<3xf32>
// expected-error@+1 {{shapes 4x3 and 3 do not fit together along axis 1}}
%r = op.concat %a, %b axis -1 : tensor<4x3xf32>, tensor<3xf32> -> tensor<4x4xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{sizes [1, 1] add up to 2, but axis 1 has extent 3}}
%p, %q = op.split %a axis 1 sizes [1, 1] : tensor<4x3xf32> -> tensor<4x1xf32>, tensor<4x1xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{expected at least one size and none negative, got [4, -1]}}
%p, %q = op.split %a axis 1 sizes [4, -1] : tensor<4x3xf32> -> tensor<4x4xf32>, tensor<4x0xf32>

// -----

%a = "test.op"() : () -> tensor<4x0xf32>
// expected-error@+1 {{expected at least one size and none negative, got []}}
"op.split"(%a) <{axis = 1 : i64, sizes = array<i64>}> : (tensor<4x0xf32>) -> ()

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{expected 2 results, got 1}}
%p = op.split %a axis 1 sizes [1, 2] : tensor<4x3xf32> -> tensor<4x1xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{expected 2 starts, got 1}}
%r = op.slice %a from [0] to [4, 3] by [1, 1] : tensor<4x3xf32> -> tensor<4x3xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{expected 2 ends, got 3}}
%r = op.slice %a from [0, 0] to [4, 3, 1] by [1, 1] : tensor<4x3xf32> -> tensor<4x3xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{expected 2 steps, got 0}}
%r = op.slice %a from [0, 0] to [4, 3] by [] : tensor<4x3xf32> -> tensor<4x3xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{steps must not be 0, got [1, 0]}}
%r = op.slice %a from [0, 0] to [4, 3] by [1, 0] : tensor<4x3xf32> -> tensor<4x3xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{expected 2 pads before, got 1}}
%r = op.pad %a before [0] after [0, 0] : tensor<4x3xf32> -> tensor<4x3xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{expected 2 pads after, got 1}}
%r = op.pad %a before [0, 0] after [0] : tensor<4x3xf32> -> tensor<4x3xf32>

// -----

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{pads must not be negative, got -1}}
%r = op.pad %a before [0, 1] after [0, -1] : tensor<4x3xf32> -> tensor<4x3xf32>

// -----

// There must be an element for each mirrored one, and the edge is not mirrored.

%a = "test.op"() : () -> tensor<4x3xf32>
// expected-error@+1 {{mode reflect cannot pad axis 1 of extent 3 by 3}}
%r = op.pad %a before [0, 0] after [0, 3] mode reflect : tensor<4x3xf32> -> tensor<4x6xf32>

// -----

%a = "test.op"() : () -> tensor<4x0xf32>
// expected-error@+1 {{mode edge cannot pad axis 1 of extent 0 by 1}}
%r = op.pad %a before [0, 1] after [0, 0] mode edge : tensor<4x0xf32> -> tensor<4x1xf32>

// -----

%a = "test.op"() : () -> tensor<4xi32>
// expected-error@+1 {{an i32 cannot be 0.5}}
%r = op.pad %a before [1] after [0] value 0.5 : tensor<4xi32> -> tensor<5xi32>

// -----

%a = "test.op"() : () -> tensor<4xi8>
// expected-error@+1 {{an i8 cannot be 128.0}}
%r = op.pad %a before [1] after [0] value 128 : tensor<4xi8> -> tensor<5xi8>

// -----

%a = "test.op"() : () -> tensor<4xui8>
// expected-error@+1 {{an ui8 cannot be -1.0}}
%r = op.pad %a before [1] after [0] value -1 : tensor<4xui8> -> tensor<5xui8>

// -----

%a = "test.op"() : () -> tensor<4xi1>
// expected-error@+1 {{an i1 cannot be -1.0}}
%r = op.pad %a before [1] after [0] value -1 : tensor<4xi1> -> tensor<5xi1>

// -----

%a = "test.op"() : () -> tensor<4xi64>
// expected-error@+1 {{an i64 cannot be nan}}
%r = op.pad %a before [1] after [0] value nan : tensor<4xi64> -> tensor<5xi64>

// -----

%a = "test.op"() : () -> tensor<4xf16>
// expected-error@+1 {{an f16 cannot be 65520.0}}
%r = op.pad %a before [1] after [0] value 65520.0 : tensor<4xf16> -> tensor<5xf16>

// -----

%a = "test.op"() : () -> tensor<4xf32>
// expected-error@+1 {{integer or float literal expected}}
%r = op.pad %a before [1] after [0] value infinity : tensor<4xf32> -> tensor<5xf32>
