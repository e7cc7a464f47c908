// RUN: penstock-opt %s --verify-diagnostics --split-input-file

job.job @arguments placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.rows: the body's arguments should be those of the operands}}
  %y = op.rows %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<4x8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield_rows %n : tensor<4x8xf32>
  }
}

// -----

job.job @none placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.rows: the body should have one op on rows, got 0}}
  %y = op.rows %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %n = op.relu %p : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield_rows %n : tensor<4x8xf32>
  }
}

// -----

job.job @two placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.rows: the body should have one op on rows, got 2}}
  %y = op.rows %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %m = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    %n = op.softmax %m : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield_rows %n : tensor<4x8xf32>
  }
}

// -----

job.job @terminator placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.rows: the body should end in op.yield_rows}}
  %y = op.rows %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield_rows :
  }
}

// -----

job.job @other placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.rows: op.transpose cannot be computed row by row}}
  %y = op.rows %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %t = op.transpose %p by [0, 1] : tensor<4x8xf32> -> tensor<4x8xf32>
    %n = op.softmax %t : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield_rows %n : tensor<4x8xf32>
  }
}

// -----

job.job @axis placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.rows: op.softmax should be along the last dimension}}
  %y = op.rows %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %n = op.softmax %p axis 0 : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield_rows %n : tensor<4x8xf32>
  }
}

// -----

job.job @vector placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %v = job.input "v" : tensor<8xf32>
  // expected-error@+1 {{op.rows: rows should be those of floats, got tensor<8xf32>}}
  %y = op.rows %v : tensor<8xf32> -> tensor<8xf32> {
  ^bb0(%p: tensor<8xf32>):
    %n = op.softmax %p : tensor<8xf32> -> tensor<8xf32>
    op.yield_rows %n : tensor<8xf32>
  }
}

// -----

job.job @type placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.rows: expected tensor<4x8xf32> to be yielded, got tensor<4x8xi1>}}
  %y = op.rows %x : tensor<4x8xf32> -> tensor<4x8xi1> {
  ^bb0(%p: tensor<4x8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    %c = op.less %n, %n : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xi1>
    op.yield_rows %c : tensor<4x8xi1>
  }
}

// -----

job.job @yielded placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.rows: the body should yield what it makes last, then what its op on rows reads}}
  %y = op.rows %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    %r = op.relu %n : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield_rows %n : tensor<4x8xf32>
  }
}

// -----

job.job @parameter placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.rows: parameters of the op on rows should be arguments of the body}}
  %y = op.rows %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %g = op.constant dense<1.0> : tensor<8xf32>
    %n = op.layer_norm %p, %g : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    op.yield_rows %n : tensor<4x8xf32>
  }
}

// -----

job.job @broadcast placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %v = job.input "v" : tensor<2x4x8xf32>
  // expected-error@+1 {{op.rows: an operand of shape 2x4x8 does not broadcast to the result's 4x8}}
  %y = op.rows %x, %v : tensor<4x8xf32>, tensor<2x4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<2x4x8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield_rows %n : tensor<4x8xf32>
  }
}
