// RUN: penstock-opt %s -p cse,dce | filecheck %s

// The same op on the same operands is computed once.

// CHECK-LABEL: @same
// CHECK-NEXT:    %[[E:.+]] = op.exp
// CHECK-NEXT:    %[[F:.+]] = op.fused %[[E]]
// CHECK:         "test.op"(%[[E]], %[[E]], %[[F]], %[[F]])
func.func @same(%a: tensor<4xf32>) {
  %0 = op.exp %a : tensor<4xf32> -> tensor<4xf32>
  %1 = op.exp %a : tensor<4xf32> -> tensor<4xf32>
  %2 = op.fused %0 : tensor<4xf32> -> tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    %t = op.neg %p : tensor<4xf32> -> tensor<4xf32>
    op.yield %t : tensor<4xf32>
  }
  %3 = op.fused %1 : tensor<4xf32> -> tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    %t = op.neg %p : tensor<4xf32> -> tensor<4xf32>
    op.yield %t : tensor<4xf32>
  }
  "test.op"(%0, %1, %2, %3) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  func.return
}

// Properties count.

// CHECK-LABEL: @different
// CHECK:         "test.op"(%g, %h)
func.func @different(%a: tensor<4xf32>) {
  %g = op.gelu %a : tensor<4xf32> -> tensor<4xf32>
  %h = op.gelu %a approximate "tanh" : tensor<4xf32> -> tensor<4xf32>
  "test.op"(%g, %h) : (tensor<4xf32>, tensor<4xf32>) -> ()
  func.return
}

// What nobody uses is not computed, a division that might fail included.

// CHECK-LABEL: @unused
// CHECK-NEXT:    func.return
func.func @unused(%a: tensor<4xi32>) {
  %c = op.constant dense<0> : tensor<4xi32>
  %q = op.div %a, %c : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  %f = op.fused %a : tensor<4xi32> -> tensor<4xi32> {
  ^bb0(%p: tensor<4xi32>):
    %t = op.div %p, %p : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
    op.yield %t : tensor<4xi32>
  }
  func.return
}
