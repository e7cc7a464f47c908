// RUN: penstock-opt %s --split-input-file --verify-diagnostics

func.func @case(%i: tensor<1x2xi64>, %w: tensor<9x4xf32>, %g: tensor<2x4xf32>) {
  // expected-error@below {{op.update_rows: indices should be one line, got tensor<1x2xi64>}}
  %r = op.update_rows %i of %w by %g : tensor<1x2xi64> of tensor<9x4xf32> by tensor<2x4xf32> -> tensor<9x4xf32> {
  ^bb0(%p: tensor<2x4xf32>, %d: tensor<2x4xf32>):
    op.yield %d : tensor<2x4xf32>
  }
  return
}

// -----

func.func @case(%i: tensor<2xi64>, %w: tensor<f32>, %g: tensor<2x4xf32>) {
  // expected-error@below {{op.update_rows: there should be a target, and it should have rows}}
  %r = op.update_rows %i of %w by %g : tensor<2xi64> of tensor<f32> by tensor<2x4xf32> -> tensor<f32> {
  ^bb0(%p: tensor<2x4xf32>, %d: tensor<2x4xf32>):
    op.yield %d : tensor<2x4xf32>
  }
  return
}

// -----

func.func @case(%i: tensor<2xi64>, %w: tensor<9x4xf32>, %m: tensor<8x4xf32>, %g: tensor<2x4xf32>) {
  // expected-error@below {{op.update_rows: each target should have the shape 9x4, got 8x4}}
  %r, %s = op.update_rows %i of %w, %m by %g : tensor<2xi64> of tensor<9x4xf32>, tensor<8x4xf32> by tensor<2x4xf32> -> tensor<9x4xf32>, tensor<8x4xf32> {
  ^bb0(%p: tensor<2x4xf32>, %q: tensor<2x4xf32>, %d: tensor<2x4xf32>):
    op.yield %d, %q : tensor<2x4xf32>, tensor<2x4xf32>
  }
  return
}

// -----

func.func @case(%i: tensor<2xi64>, %w: tensor<9x4xf32>, %g: tensor<2x4xf32>) {
  // expected-error@below {{op.update_rows: the body should take tensor<2x4xf32>, tensor<2x4xf32>, got tensor<9x4xf32>, tensor<2x4xf32>}}
  %r = op.update_rows %i of %w by %g : tensor<2xi64> of tensor<9x4xf32> by tensor<2x4xf32> -> tensor<9x4xf32> {
  ^bb0(%p: tensor<9x4xf32>, %d: tensor<2x4xf32>):
    op.yield %d : tensor<2x4xf32>
  }
  return
}

// -----

func.func @case(%i: tensor<2xi64>, %w: tensor<9x4xf32>, %g: tensor<2x4xf32>) {
  // expected-error@below {{op.update_rows: the body should yield tensor<2x4xf32>, got tensor<2x4xf32>, tensor<2x4xf32>}}
  %r = op.update_rows %i of %w by %g : tensor<2xi64> of tensor<9x4xf32> by tensor<2x4xf32> -> tensor<9x4xf32> {
  ^bb0(%p: tensor<2x4xf32>, %d: tensor<2x4xf32>):
    op.yield %d, %p : tensor<2x4xf32>, tensor<2x4xf32>
  }
  return
}

// -----

func.func @case(%i: tensor<2xi64>, %w: tensor<9x4xf32>, %g: tensor<4xf32>) {
  // expected-error@below {{op.update_rows: an operand should have a row for each index, or one element, got 4}}
  %r = op.update_rows %i of %w by %g : tensor<2xi64> of tensor<9x4xf32> by tensor<4xf32> -> tensor<9x4xf32> {
  ^bb0(%p: tensor<2x4xf32>, %d: tensor<4xf32>):
    %a = op.add %p, %d : tensor<2x4xf32>, tensor<4xf32> -> tensor<2x4xf32>
    op.yield %a : tensor<2x4xf32>
  }
  return
}

// -----

func.func @case(%i: tensor<2xi64>, %w: tensor<9x4xf32>, %g: tensor<2x4xf32>) {
  %r = op.update_rows %i of %w by %g : tensor<2xi64> of tensor<9x4xf32> by tensor<2x4xf32> -> tensor<9x4xf32> {
  ^bb0(%p: tensor<2x4xf32>, %d: tensor<2x4xf32>):
    // expected-error@below {{op.softmax cannot be fused element by element}}
    %a = op.softmax %d axis 1 : tensor<2x4xf32> -> tensor<2x4xf32>
    op.yield %a : tensor<2x4xf32>
  }
  return
}
