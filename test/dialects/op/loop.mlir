// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt --mlir-print-op-generic %s | penstock-opt | filecheck %s

// CHECK-LABEL: func.func @recurrence
func.func @recurrence(%h0: tensor<2xf32>, %xs: tensor<3x2xf32>, %w: tensor<2xf32>) {
  // CHECK: %h, %ys = op.loop 3 carries(%h0 : tensor<2xf32>) slices(%xs : tensor<3x2xf32>) reads(%w : tensor<2xf32>) -> tensor<2xf32>, tensor<3x2xf32> {
  %h, %ys = op.loop 3 carries(%h0 : tensor<2xf32>) slices(%xs : tensor<3x2xf32>)
      reads(%w : tensor<2xf32>) -> tensor<2xf32>, tensor<3x2xf32> {
  // CHECK-NEXT: ^bb0(%i: tensor<i64>, %h_1: tensor<2xf32>, %x: tensor<2xf32>, %v: tensor<2xf32>):
  ^bb0(%i: tensor<i64>, %h_1: tensor<2xf32>, %x: tensor<2xf32>, %v: tensor<2xf32>):
    %p = op.mul %h_1, %v : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
    %n = op.add %p, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
    // CHECK: op.yield %n, %p : tensor<2xf32>, tensor<2xf32>
    op.yield %n, %p : tensor<2xf32>, tensor<2xf32>
  }
  func.return
}

// Values of which there is one an iteration are all there may be, from the last on.

// CHECK-LABEL: func.func @map
func.func @map(%xs: tensor<?x2xf32>) {
  // CHECK: op.loop 4 backward slices(%xs : tensor<?x2xf32>) -> tensor<4x2xf32> {
  %ys = op.loop 4 backward slices(%xs : tensor<?x2xf32>) -> tensor<4x2xf32> {
  ^bb0(%i: tensor<i64>, %x: tensor<2xf32>):
    %y = op.exp %x : tensor<2xf32> -> tensor<2xf32>
    op.yield %y : tensor<2xf32>
  }
  func.return
}

// Loops lie in loops, and none may do anything.

// CHECK-LABEL: func.func @nested
func.func @nested(%a: tensor<f32>) {
  // CHECK: op.loop 2 carries(%a : tensor<f32>) -> tensor<f32> {
  %b = op.loop 2 carries(%a : tensor<f32>) -> tensor<f32> {
  ^bb0(%i: tensor<i64>, %c: tensor<f32>):
    // CHECK: op.loop 0 carries(%c : tensor<f32>) -> tensor<f32> {
    %d = op.loop 0 carries(%c : tensor<f32>) -> tensor<f32> {
    ^bb0(%j: tensor<i64>, %e: tensor<f32>):
      op.yield %e : tensor<f32>
    }
    op.yield %d : tensor<f32>
  }
  // CHECK: op.loop 5 {
  op.loop 5 {
  ^bb0(%k: tensor<i64>):
    // CHECK: op.yield{{$}}
    op.yield
  }
  func.return
}

// Loops up to a maximum have a count, a condition, or both.

// CHECK-LABEL: func.func @bounded
func.func @bounded(%n: tensor<i64>, %a: tensor<i1>, %b: tensor<f32>, %x: tensor<9xf32>) {
  // CHECK: %c, %ys, %made = op.loop up to 9 count(%n) while(%a) slices(%x : tensor<9xf32>) made -> tensor<i1>, tensor<9xf32>, tensor<i64> {
  %c, %ys, %made = op.loop up to 9 count(%n) while(%a) slices(%x : tensor<9xf32>) made
      -> tensor<i1>, tensor<9xf32>, tensor<i64> {
  // CHECK-NEXT: ^bb0(%i: tensor<i64>, %d: tensor<i1>, %y: tensor<f32>):
  ^bb0(%i: tensor<i64>, %d: tensor<i1>, %y: tensor<f32>):
    %e = op.logical_not %d : tensor<i1> -> tensor<i1>
    op.yield %e, %y : tensor<i1>, tensor<f32>
  }
  // CHECK: %f = op.loop up to 9 count(%n) backward carries(%b : tensor<f32>) -> tensor<f32> {
  %f = op.loop up to 9 count(%n) backward carries(%b : tensor<f32>) -> tensor<f32> {
  ^bb0(%i_1: tensor<i64>, %g: tensor<f32>):
    op.yield %g : tensor<f32>
  }
  // CHECK: %h = op.loop up to 1 while(%a) -> tensor<i1> {
  %h = op.loop up to 1 while(%a) -> tensor<i1> {
  ^bb0(%i_2: tensor<i64>, %j: tensor<i1>):
    op.yield %j : tensor<i1>
  }
  func.return
}
