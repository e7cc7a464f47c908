// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// CHECK-LABEL: @fused
func.func @fused(%x: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // CHECK-NEXT: %r = op.fused %x, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32> {
  // CHECK-NEXT: ^bb0(%p: tensor<4x8xf32>, %q: tensor<8xf32>):
  // CHECK-NEXT:   %s = op.add %p, %q : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT:   %t = op.relu %s : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT:   op.yield %t : tensor<4x8xf32>
  // CHECK-NEXT: }
  %r = op.fused %x, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<8xf32>):
    %s = op.add %p, %q : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    %t = op.relu %s : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield %t : tensor<4x8xf32>
  }
  func.return
}

// A constant may be inside, an operand may be the result, and nothing need be read.

// CHECK-LABEL: @corner_cases
func.func @corner_cases(%x: tensor<4xf32>) {
  // CHECK-NEXT: %none = op.fused -> tensor<4xf32> attributes {placement = "here"} {
  // CHECK-NEXT:   %one = op.constant dense<1.000000e+00> : tensor<4xf32>
  // CHECK-NEXT:   op.yield %one : tensor<4xf32>
  // CHECK-NEXT: }
  %none = op.fused -> tensor<4xf32> attributes {placement = "here"} {
    %one = op.constant dense<1.0> : tensor<4xf32>
    op.yield %one : tensor<4xf32>
  }
  // CHECK-NEXT: %same = op.fused %x : tensor<4xf32> -> tensor<4xf32> {
  // CHECK-NEXT: ^bb0(%p: tensor<4xf32>):
  // CHECK-NEXT:   op.yield %p : tensor<4xf32>
  // CHECK-NEXT: }
  %same = op.fused %x : tensor<4xf32> -> tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    op.yield %p : tensor<4xf32>
  }
  func.return
}

// A group may hold a group.

// CHECK-LABEL: @nested
func.func @nested(%x: tensor<?xf32>) {
  // CHECK:        op.fused %p : tensor<?xf32> -> tensor<?xf32> {
  // CHECK-NEXT:   ^bb0(%q: tensor<?xf32>):
  // CHECK-NEXT:     %s = op.neg %q : tensor<?xf32> -> tensor<?xf32>
  %r = op.fused %x : tensor<?xf32> -> tensor<4xf32> {
  ^bb0(%p: tensor<?xf32>):
    %inner = op.fused %p : tensor<?xf32> -> tensor<?xf32> {
    ^bb0(%q: tensor<?xf32>):
      %s = op.neg %q : tensor<?xf32> -> tensor<?xf32>
      op.yield %s : tensor<?xf32>
    }
    op.yield %inner : tensor<?xf32>
  }
  func.return
}
