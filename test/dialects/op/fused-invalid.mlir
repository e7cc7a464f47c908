// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// The inside sees the operands as they are.

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{op.fused: the body's arguments should be those of the operands}}
  %r = op.fused %x : tensor<4xf32> -> tensor<5xf32> {
  ^bb0(%p: tensor<5xf32>):
    op.yield %p : tensor<5xf32>
  }
  func.return
}

// -----

// The end of the body says what the result is.

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{op.fused: the body should end in op.yield of its results}}
  %r = "op.fused"(%x) ({
  ^bb0(%p: tensor<4xf32>):
    "test.termop"(%p) : (tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// Each element depends on one element of each operand.

func.func @f(%x: tensor<4xf32>) {
  %r = op.fused %x : tensor<4xf32> -> tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    // expected-error@+1 {{test.pureop cannot be fused element by element}}
    %s = "test.pureop"(%p) : (tensor<4xf32>) -> tensor<4xf32>
    op.yield %s : tensor<4xf32>
  }
  func.return
}

// -----

// A constant with different elements has memory of its own.

func.func @f(%x: tensor<2xf32>) {
  %r = op.fused %x : tensor<2xf32> -> tensor<2xf32> {
  ^bb0(%p: tensor<2xf32>):
    // expected-error@+1 {{op.constant cannot be fused element by element}}
    %c = op.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %s = op.add %p, %c : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
    op.yield %s : tensor<2xf32>
  }
  func.return
}

// -----

// The loop over the result must reach every operand.

func.func @f(%x: tensor<4x8xf32>, %y: tensor<8xf32>) {
  // expected-error@+1 {{op.fused: an operand of shape 4x8 does not broadcast to the result's 8}}
  %r = op.fused %x, %y : tensor<4x8xf32>, tensor<8xf32> -> tensor<8xf32> {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<8xf32>):
    op.yield %q : tensor<8xf32>
  }
  func.return
}

// -----

// The result is what is yielded.

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{op.fused: the result's type should be tensor<4xf32>, got tensor<4xi1>}}
  %r = op.fused %x : tensor<4xf32> -> tensor<4xi1> {
  ^bb0(%p: tensor<4xf32>):
    op.yield %p : tensor<4xf32>
  }
  func.return
}

// -----

// Only an op on tensors has a body that ends so.

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{op.yield: it ends a body of ops on tensors, not one of func.func}}
  op.yield %x : tensor<4xf32>
}

// -----

// A group makes something.

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{op.fused: a group has results}}
  "op.fused"(%x) ({
  ^bb0(%p: tensor<4xf32>):
    op.yield
  }) : (tensor<4xf32>) -> ()
  func.return
}
