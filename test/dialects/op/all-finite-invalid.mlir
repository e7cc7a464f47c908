// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @case(%x: tensor<4xf32>, %n: tensor<4xi32>) {
  // expected-error@below {{op.all_finite: expected floats, got i32}}
  %p = op.all_finite %x, %n : tensor<4xf32>, tensor<4xi32> -> tensor<i1>
  return
}

// -----

func.func @case(%x: tensor<4xf32>) {
  // expected-error@below {{op.all_finite: the result's type should be tensor<i1>, got tensor<4xi1>}}
  %p = op.all_finite %x : tensor<4xf32> -> tensor<4xi1>
  return
}

// -----

func.func @case() {
  // expected-error@below {{op.all_finite: expected at least one tensor}}
  %p = "op.all_finite"() : () -> tensor<i1>
  return
}
