// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// The second operand is broadcast to the shape of the first.

// CHECK-LABEL: @two_numbers
func.func @two_numbers(%a: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // CHECK-NEXT: %add = op.add %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %add = op.add %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %sub = op.sub %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %sub = op.sub %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %mul = op.mul %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %mul = op.mul %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %div = op.div %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %div = op.div %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %pow = op.pow %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %pow = op.pow %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %maximum = op.maximum %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %maximum = op.maximum %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %minimum = op.minimum %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %minimum = op.minimum %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  func.return
}

// CHECK-LABEL: @one_float
func.func @one_float(%a: tensor<4xf32>) {
  // CHECK-NEXT: %neg = op.neg %a : tensor<4xf32> -> tensor<4xf32>
  %neg = op.neg %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %abs = op.abs %a : tensor<4xf32> -> tensor<4xf32>
  %abs = op.abs %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %reciprocal = op.reciprocal %a : tensor<4xf32> -> tensor<4xf32>
  %reciprocal = op.reciprocal %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %exp = op.exp %a : tensor<4xf32> -> tensor<4xf32>
  %exp = op.exp %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %log = op.log %a : tensor<4xf32> -> tensor<4xf32>
  %log = op.log %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %sqrt = op.sqrt %a : tensor<4xf32> -> tensor<4xf32>
  %sqrt = op.sqrt %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %rsqrt = op.rsqrt %a : tensor<4xf32> -> tensor<4xf32>
  %rsqrt = op.rsqrt %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %erf = op.erf %a : tensor<4xf32> -> tensor<4xf32>
  %erf = op.erf %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %floor = op.floor %a : tensor<4xf32> -> tensor<4xf32>
  %floor = op.floor %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %ceil = op.ceil %a : tensor<4xf32> -> tensor<4xf32>
  %ceil = op.ceil %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %relu = op.relu %a : tensor<4xf32> -> tensor<4xf32>
  %relu = op.relu %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %sigmoid = op.sigmoid %a : tensor<4xf32> -> tensor<4xf32>
  %sigmoid = op.sigmoid %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %tanh = op.tanh %a : tensor<4xf32> -> tensor<4xf32>
  %tanh = op.tanh %a : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// A property that has its default value is not printed, a bound that is left out neither.

// CHECK-LABEL: @activations_with_parameters
func.func @activations_with_parameters(%a: tensor<4xf32>) {
  // CHECK-NEXT: %gelu = op.gelu %a : tensor<4xf32> -> tensor<4xf32>
  %gelu = op.gelu %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %gelu_tanh = op.gelu %a approximate "tanh" : tensor<4xf32> -> tensor<4xf32>
  %gelu_tanh = op.gelu %a approximate "tanh" : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %gelu_none = op.gelu %a : tensor<4xf32> -> tensor<4xf32>
  %gelu_none = op.gelu %a approximate "none" : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %leaky = op.leaky_relu %a alpha 0.01 : tensor<4xf32> -> tensor<4xf32>
  %leaky = op.leaky_relu %a alpha 0.01 : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %relu6 = op.clip %a min 0.0 max 6.0 : tensor<4xf32> -> tensor<4xf32>
  %relu6 = op.clip %a min 0.0 max 6.0 : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %min = op.clip %a min -1.5 : tensor<4xf32> -> tensor<4xf32>
  %min = op.clip %a min -1.5 : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %max = op.clip %a max 0.1 : tensor<4xf32> -> tensor<4xf32>
  %max = op.clip %a max 0.1 : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// CHECK-LABEL: @relations
func.func @relations(%a: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // CHECK-NEXT: %equal = op.equal %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  %equal = op.equal %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  // CHECK-NEXT: %not_equal = op.not_equal %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  %not_equal = op.not_equal %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  // CHECK-NEXT: %less = op.less %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  %less = op.less %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  // CHECK-NEXT: %less_equal = op.less_equal %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  %less_equal = op.less_equal %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  // CHECK-NEXT: %greater = op.greater %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  %greater = op.greater %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  // CHECK-NEXT: %greater_equal = op.greater_equal %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  %greater_equal = op.greater_equal %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  func.return
}

// CHECK-LABEL: @booleans
func.func @booleans(%a: tensor<4x8xi1>, %b: tensor<8xi1>) {
  // CHECK-NEXT: %and = op.logical_and %a, %b : tensor<4x8xi1>, tensor<8xi1> -> tensor<4x8xi1>
  %and = op.logical_and %a, %b : tensor<4x8xi1>, tensor<8xi1> -> tensor<4x8xi1>
  // CHECK-NEXT: %or = op.logical_or %a, %b : tensor<4x8xi1>, tensor<8xi1> -> tensor<4x8xi1>
  %or = op.logical_or %a, %b : tensor<4x8xi1>, tensor<8xi1> -> tensor<4x8xi1>
  // CHECK-NEXT: %xor = op.logical_xor %a, %b : tensor<4x8xi1>, tensor<8xi1> -> tensor<4x8xi1>
  %xor = op.logical_xor %a, %b : tensor<4x8xi1>, tensor<8xi1> -> tensor<4x8xi1>
  // CHECK-NEXT: %not = op.logical_not %a : tensor<4x8xi1> -> tensor<4x8xi1>
  %not = op.logical_not %a : tensor<4x8xi1> -> tensor<4x8xi1>
  // CHECK-NEXT: %less = op.less %a, %b : tensor<4x8xi1>, tensor<8xi1> -> tensor<4x8xi1>
  %less = op.less %a, %b : tensor<4x8xi1>, tensor<8xi1> -> tensor<4x8xi1>
  func.return
}

// CHECK-LABEL: @where
func.func @where(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<f32>) {
  // CHECK-NEXT: %r = op.where %c, %a, %b : tensor<4xi1>, tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %r = op.where %c, %a, %b : tensor<4xi1>, tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return
}

// CHECK-LABEL: @cast
func.func @cast(%a: tensor<4xf32>, %i: tensor<4xi8>, %c: tensor<4xi1>) {
  // CHECK-NEXT: %f16 = op.cast %a to f16 : tensor<4xf32> -> tensor<4xf16>
  %f16 = op.cast %a to f16 : tensor<4xf32> -> tensor<4xf16>
  // CHECK-NEXT: %f32 = op.cast %a to f32 : tensor<4xf32> -> tensor<4xf32>
  %f32 = op.cast %a to f32 : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %f64 = op.cast %a to f64 : tensor<4xf32> -> tensor<4xf64>
  %f64 = op.cast %a to f64 : tensor<4xf32> -> tensor<4xf64>
  // CHECK-NEXT: %i1 = op.cast %a to i1 : tensor<4xf32> -> tensor<4xi1>
  %i1 = op.cast %a to i1 : tensor<4xf32> -> tensor<4xi1>
  // CHECK-NEXT: %i8 = op.cast %a to i8 : tensor<4xf32> -> tensor<4xi8>
  %i8 = op.cast %a to i8 : tensor<4xf32> -> tensor<4xi8>
  // CHECK-NEXT: %i16 = op.cast %a to i16 : tensor<4xf32> -> tensor<4xi16>
  %i16 = op.cast %a to i16 : tensor<4xf32> -> tensor<4xi16>
  // CHECK-NEXT: %i32 = op.cast %a to i32 : tensor<4xf32> -> tensor<4xi32>
  %i32 = op.cast %a to i32 : tensor<4xf32> -> tensor<4xi32>
  // CHECK-NEXT: %i64 = op.cast %a to i64 : tensor<4xf32> -> tensor<4xi64>
  %i64 = op.cast %a to i64 : tensor<4xf32> -> tensor<4xi64>
  // CHECK-NEXT: %wider = op.cast %i to i64 : tensor<4xi8> -> tensor<4xi64>
  %wider = op.cast %i to i64 : tensor<4xi8> -> tensor<4xi64>
  // CHECK-NEXT: %number = op.cast %c to f64 : tensor<4xi1> -> tensor<4xf64>
  %number = op.cast %c to f64 : tensor<4xi1> -> tensor<4xf64>
  func.return
}

// CHECK-LABEL: @integers
func.func @integers(%a: tensor<4xi32>, %b: tensor<i32>) {
  // CHECK-NEXT: %add = op.add %a, %b : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  %add = op.add %a, %b : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  // CHECK-NEXT: %sub = op.sub %a, %b : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  %sub = op.sub %a, %b : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  // CHECK-NEXT: %mul = op.mul %a, %b : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  %mul = op.mul %a, %b : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  // CHECK-NEXT: %div = op.div %a, %b : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  %div = op.div %a, %b : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  // CHECK-NEXT: %maximum = op.maximum %a, %b : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  %maximum = op.maximum %a, %b : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  // CHECK-NEXT: %minimum = op.minimum %a, %b : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  %minimum = op.minimum %a, %b : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  // CHECK-NEXT: %neg = op.neg %a : tensor<4xi32> -> tensor<4xi32>
  %neg = op.neg %a : tensor<4xi32> -> tensor<4xi32>
  // CHECK-NEXT: %abs = op.abs %a : tensor<4xi32> -> tensor<4xi32>
  %abs = op.abs %a : tensor<4xi32> -> tensor<4xi32>
  // CHECK-NEXT: %relu = op.relu %a : tensor<4xi32> -> tensor<4xi32>
  %relu = op.relu %a : tensor<4xi32> -> tensor<4xi32>
  func.return
}

// Extents of 1 and missing dimensions stretch on both sides, also to none at all.

// CHECK-LABEL: @broadcast
func.func @broadcast(%a: tensor<2x1x3xf32>, %b: tensor<5x1xf32>, %s: tensor<f32>, %e: tensor<0x3xf32>) {
  // CHECK-NEXT: %both = op.add %a, %b : tensor<2x1x3xf32>, tensor<5x1xf32> -> tensor<2x5x3xf32>
  %both = op.add %a, %b : tensor<2x1x3xf32>, tensor<5x1xf32> -> tensor<2x5x3xf32>
  // CHECK-NEXT: %scalar = op.add %s, %a : tensor<f32>, tensor<2x1x3xf32> -> tensor<2x1x3xf32>
  %scalar = op.add %s, %a : tensor<f32>, tensor<2x1x3xf32> -> tensor<2x1x3xf32>
  // CHECK-NEXT: %empty = op.add %a, %e : tensor<2x1x3xf32>, tensor<0x3xf32> -> tensor<2x0x3xf32>
  %empty = op.add %a, %e : tensor<2x1x3xf32>, tensor<0x3xf32> -> tensor<2x0x3xf32>
  func.return
}

// An open extent is that of the other operand where that is not 1; a result may say more
// or less than follows from the operands.

// CHECK-LABEL: @open_extents
func.func @open_extents(%a: tensor<?x8xf32>, %b: tensor<8xf32>, %c: tensor<4x1xf32>) {
  // CHECK-NEXT: %kept = op.add %a, %b : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  %kept = op.add %a, %b : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
  // CHECK-NEXT: %known = op.add %a, %c : tensor<?x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  %known = op.add %a, %c : tensor<?x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %declared = op.relu %a : tensor<?x8xf32> -> tensor<4x8xf32>
  %declared = op.relu %a : tensor<?x8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %less_said = op.less %b, %b : tensor<8xf32>, tensor<8xf32> -> tensor<?xi1>
  %less_said = op.less %b, %b : tensor<8xf32>, tensor<8xf32> -> tensor<?xi1>
  func.return
}
