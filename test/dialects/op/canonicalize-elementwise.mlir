// RUN: penstock-opt %s -p canonicalize | filecheck %s

// Of floats, -0.0 is what adds nothing: 0.0 would make 0.0 of -0.0.

// CHECK-LABEL: func.func @add_negative_zero
func.func @add_negative_zero(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: func.return %a
  %z = op.constant dense<-0.0> : tensor<f32>
  %0 = op.add %a, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = op.add %z, %0 : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @add_positive_zero
func.func @add_positive_zero(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: op.add
  %z = op.constant dense<0.0> : tensor<f32>
  %0 = op.add %a, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @add_integer_zero
func.func @add_integer_zero(%a: tensor<4xi32>) -> tensor<4xi32> {
  // CHECK-NEXT: func.return %a
  %z = op.constant dense<0> : tensor<4xi32>
  %0 = op.add %a, %z : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// CHECK-LABEL: func.func @add_other_numbers
func.func @add_other_numbers(%a: tensor<2xi32>) -> tensor<2xi32> {
  // CHECK: op.add
  %z = op.constant dense<[0, 1]> : tensor<2xi32>
  %0 = op.add %a, %z : tensor<2xi32>, tensor<2xi32> -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// An operand that is broadcast is not the result.

// CHECK-LABEL: func.func @add_zeros_of_larger_shape
func.func @add_zeros_of_larger_shape(%a: tensor<4xi32>) -> tensor<2x4xi32> {
  // CHECK: op.add
  %z = op.constant dense<0> : tensor<2x1xi32>
  %0 = op.add %a, %z : tensor<4xi32>, tensor<2x1xi32> -> tensor<2x4xi32>
  return %0 : tensor<2x4xi32>
}

// CHECK-LABEL: func.func @add_zeros_to_unknown_shape
func.func @add_zeros_to_unknown_shape(%a: tensor<?xi32>) -> tensor<?xi32> {
  // CHECK: op.add
  %z = op.constant dense<0> : tensor<4xi32>
  %0 = op.add %a, %z : tensor<?xi32>, tensor<4xi32> -> tensor<?xi32>
  return %0 : tensor<?xi32>
}

// With a difference it is the other way round: 0.0 takes nothing away.

// CHECK-LABEL: func.func @subtract_positive_zero
func.func @subtract_positive_zero(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: func.return %a
  %z = op.constant dense<0.0> : tensor<f32>
  %0 = op.sub %a, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @subtract_negative_zero
func.func @subtract_negative_zero(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: op.sub
  %z = op.constant dense<-0.0> : tensor<f32>
  %0 = op.sub %a, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @subtract_from_zero
func.func @subtract_from_zero(%a: tensor<4xi32>) -> tensor<4xi32> {
  // CHECK: op.sub
  %z = op.constant dense<0> : tensor<i32>
  %0 = op.sub %z, %a : tensor<i32>, tensor<4xi32> -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// CHECK-LABEL: func.func @multiply_by_one
func.func @multiply_by_one(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: func.return %a
  %z = op.constant dense<1.0> : tensor<f32>
  %0 = op.mul %a, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = op.mul %z, %0 : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Nothing is zero times a NaN, or an infinity.

// CHECK-LABEL: func.func @multiply_by_zero
func.func @multiply_by_zero(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: op.mul
  %z = op.constant dense<0.0> : tensor<f32>
  %0 = op.mul %a, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @divide_by_one
func.func @divide_by_one(%a: tensor<4xi32>) -> tensor<4xi32> {
  // CHECK-NEXT: func.return %a
  %z = op.constant dense<1> : tensor<i32>
  %0 = op.div %a, %z : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// CHECK-LABEL: func.func @divide_one
func.func @divide_one(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: op.div
  %z = op.constant dense<1.0> : tensor<f32>
  %0 = op.div %z, %a : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @cast_to_same_type
func.func @cast_to_same_type(%a: tensor<?xf32>) -> tensor<?xf32> {
  // CHECK-NEXT: func.return %a
  %0 = op.cast %a to f32 : tensor<?xf32> -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// Not even a cast there and back goes away: it may have dropped bits.

// CHECK-LABEL: func.func @cast_and_back
func.func @cast_and_back(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: op.cast
  // CHECK-NEXT: op.cast
  %0 = op.cast %a to f16 : tensor<4xf32> -> tensor<4xf16>
  %1 = op.cast %0 to f32 : tensor<4xf16> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
