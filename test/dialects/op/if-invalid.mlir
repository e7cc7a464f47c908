// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @f(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error@+1 {{op.if: the arguments of both bodies should be the values that it reads}}
  %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    op.yield %a : tensor<4xf32>
  } else {
    %b = op.constant dense<1.0> : tensor<4xf32>
    op.yield %b : tensor<4xf32>
  }
  func.return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error@+1 {{op.if: the first body yields 1 values, the second one 0}}
  %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    op.yield %a : tensor<4xf32>
  } else {
  ^bb0(%b: tensor<4xf32>):
    op.yield
  }
  func.return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error@+1 {{op.if: value 0 of the first body is tensor<4xf32>, of the second one tensor<2x2xf32>}}
  %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    op.yield %a : tensor<4xf32>
  } else {
  ^bb0(%b: tensor<4xf32>):
    %d = op.reshape %b to [2, 2] : tensor<4xf32> -> tensor<2x2xf32>
    op.yield %d : tensor<2x2xf32>
  }
  func.return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error@+1 {{op.if: the result's type should be tensor<4xf32>, got tensor<2xf32>}}
  %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<4xf32>):
    op.yield %a : tensor<4xf32>
  } else {
  ^bb0(%b: tensor<4xf32>):
    op.yield %b : tensor<4xf32>
  }
  func.return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error@+1 {{op.if: the body should end in op.yield of its results}}
  %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    op.yield %a : tensor<4xf32>
  } else {
  ^bb0(%b: tensor<4xf32>):
    "test.termop"() : () -> ()
  }
  func.return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<4xf32>) {
  %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    op.yield %a : tensor<4xf32>
  } else {
  ^bb0(%b: tensor<4xf32>):
    // expected-error@+1 {{op.repeat cannot be part of a branch}}
    %d = op.repeat %b times 2 : tensor<4xf32> -> tensor<4xf32>
    op.yield %d : tensor<4xf32>
  }
  func.return
}
