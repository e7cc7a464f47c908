// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt --mlir-print-op-generic %s | penstock-opt | filecheck %s

// CHECK-LABEL: func.func @one_of_two
func.func @one_of_two(%c: tensor<i1>, %x: tensor<4xf32>) {
  // CHECK:      %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: ^bb0(%a: tensor<4xf32>):
  %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %e = op.exp %a : tensor<4xf32> -> tensor<4xf32>
    op.yield %e : tensor<4xf32>
  // CHECK:      } else {
  } else {
  // CHECK-NEXT: ^bb{{[0-9]}}(%b: tensor<4xf32>):
  ^bb0(%b: tensor<4xf32>):
    op.yield %b : tensor<4xf32>
  }
  func.return
}

// Nothing is read, and two values are made.

// CHECK-LABEL: func.func @constants
func.func @constants(%c: tensor<i1>) {
  // CHECK: op.if %c -> tensor<i64>, tensor<i64> {
  %p, %q = op.if %c -> tensor<i64>, tensor<i64> {
    %a = op.constant dense<1> : tensor<i64>
    op.yield %a, %a : tensor<i64>, tensor<i64>
  } else {
    %b = op.constant dense<2> : tensor<i64>
    op.yield %b, %b : tensor<i64>, tensor<i64>
  }
  func.return
}
