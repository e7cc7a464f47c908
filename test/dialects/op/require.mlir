// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt --mlir-print-op-generic %s | penstock-opt | filecheck %s
// RUN: penstock-opt -p canonicalize %s | filecheck %s --check-prefix CLEAN

// What a constant shows to hold is not asked for.

// CHECK-LABEL: func.func @require
// CLEAN-LABEL: func.func @require
func.func @require(%c: tensor<i1>, %n: tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>) {
  // CHECK: op.require %c, %n "too \22large\22" : tensor<i1>, tensor<4xi64> -> tensor<4xi64>
  // CLEAN: %a = op.require %c, %n
  %a = op.require %c, %n "too \22large\22" : tensor<i1>, tensor<4xi64> -> tensor<4xi64>
  %true = op.constant dense<true> : tensor<i1>
  // CLEAN-NOT: op.require
  // CLEAN: return %a, %n
  %b = op.require %true, %n "too large" : tensor<i1>, tensor<4xi64> -> tensor<4xi64>
  func.return %a, %b : tensor<4xi64>, tensor<4xi64>
}

// CLEAN-LABEL: func.func @fails
func.func @fails(%n: tensor<4xi64>) -> tensor<4xi64> {
  %false = op.constant dense<false> : tensor<i1>
  // CLEAN: op.require
  %b = op.require %false, %n "too large" : tensor<i1>, tensor<4xi64> -> tensor<4xi64>
  func.return %b : tensor<4xi64>
}
