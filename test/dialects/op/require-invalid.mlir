// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @f(%c: tensor<f32>, %n: tensor<i64>) {
  // expected-error@+1 {{op.require: expected booleans, got f32}}
  %a = op.require %c, %n "too large" : tensor<f32>, tensor<i64> -> tensor<i64>
  func.return
}

// -----

func.func @f(%c: tensor<2xi1>, %n: tensor<3xi64>) {
  // expected-error@+1 {{op.require: shapes 2, 3 do not broadcast}}
  %a = op.require %c, %n "too large" : tensor<2xi1>, tensor<3xi64> -> tensor<3xi64>
  func.return
}
