// RUN: penstock-opt %s --verify-diagnostics --split-input-file

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{-1}}
  %b = op.loop -1 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    op.yield %c : tensor<4xf32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.loop: the body's arguments should be tensor<i64>, tensor<4xf32>, got tensor<4xf32>}}
  %b = op.loop 2 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%c: tensor<4xf32>):
    op.yield %c : tensor<4xf32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.loop: there are no 3 slices of tensor<4xf32>}}
  %b = op.loop 3 slices(%a : tensor<4xf32>) -> tensor<3xf32> {
  ^bb0(%i: tensor<i64>, %x: tensor<f32>):
    op.yield %x : tensor<f32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<f32>) {
  // expected-error@+1 {{op.loop: there are no 3 slices of tensor<f32>}}
  %b = op.loop 3 slices(%a : tensor<f32>) -> tensor<3xf32> {
  ^bb0(%i: tensor<i64>, %x: tensor<f32>):
    op.yield %x : tensor<f32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.loop: the loop carries 1 values, the body yields 0}}
  %b = op.loop 2 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    op.yield
  }
  func.return
}

// -----

// What is carried has one type.

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.loop: carried value 0 is tensor<4xf32> before an iteration, tensor<1x4xf32> after it}}
  %b = op.loop 2 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    %d = op.reshape %c to [1, 4] : tensor<4xf32> -> tensor<1x4xf32>
    op.yield %d : tensor<1x4xf32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.loop: the result's type should be tensor<2x4xf32>, got tensor<4xf32>}}
  %b = op.loop 2 reads(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    op.yield %c : tensor<4xf32>
  }
  func.return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{op.loop: the body should end in op.yield of its results}}
  %b = op.loop 2 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    "test.termop"() : () -> ()
  }
  func.return
}

// -----

// A body has ops that act once an iteration, and nothing of the job.

func.func @f(%a: tensor<4xf32>) {
  %b = op.loop 2 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{op.acc cannot be part of an iteration}}
    %d = op.acc %c every 2 : tensor<4xf32> -> tensor<4xf32>
    op.yield %d : tensor<4xf32>
  }
  func.return
}

// -----

job.job @j placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %b = op.loop 2 carries(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{cannot be part of an iteration}}
    %d = job.input "x" : tensor<4xf32>
    op.yield %d : tensor<4xf32>
  }
}
