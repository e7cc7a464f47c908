// RUN: penstock-opt %s --verify-diagnostics --split-input-file

job.job @arguments placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.fused: the body's arguments should be those of the operands}}
  %y = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<4x8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield %n : tensor<4x8xf32>
  }
}

// -----

job.job @types placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %v = job.input "v" : tensor<1x8xf32>
  // expected-error@+1 {{op.fused: all rows should be those of 1x8 along [1], got 4x8 along [1]}}
  %y = op.fused %x, %v : tensor<4x8xf32>, tensor<1x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<1x8xf32>):
    %m = op.softmax %q : tensor<1x8xf32> -> tensor<1x8xf32>
    %o = op.add %m, %p : tensor<1x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    %n = op.softmax %o : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield %n : tensor<4x8xf32>
  }
}

// -----

job.job @other placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %y = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    // expected-error@+1 {{op.transpose cannot be computed row by row}}
    %t = op.transpose %p by [0, 1] : tensor<4x8xf32> -> tensor<4x8xf32>
    %n = op.softmax %t : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield %n : tensor<4x8xf32>
  }
}

// -----

job.job @axis placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.fused: op.softmax should be along the last dimension}}
  %y = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %n = op.softmax %p axis 0 : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield %n : tensor<4x8xf32>
  }
}

// -----

job.job @vector placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %v = job.input "v" : tensor<8xf32>
  // expected-error@+1 {{op.fused: rows should be those of floats, got tensor<8xf32>}}
  %y = op.fused %v : tensor<8xf32> -> tensor<8xf32> {
  ^bb0(%p: tensor<8xf32>):
    %n = op.softmax %p : tensor<8xf32> -> tensor<8xf32>
    op.yield %n : tensor<8xf32>
  }
}

// -----

job.job @parameter placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %y = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %g = op.constant dense<1.0> : tensor<8xf32>
    // expected-error@+1 {{op.layer_norm: parameters of op.layer_norm should be arguments of the body}}
    %n = op.layer_norm %p, %g : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    op.yield %n : tensor<4x8xf32>
  }
}

// -----

job.job @broadcast placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %v = job.input "v" : tensor<2x8xf32>
  %y = op.fused %x, %v : tensor<4x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32> {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<2x8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    // expected-error@+1 {{op.relu has no place in rows of 4x8 for 2x8}}
    %r = op.relu %q : tensor<2x8xf32> -> tensor<2x8xf32>
    op.yield %r : tensor<2x8xf32>
  }
}

// -----

job.job @rank placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %v = job.input "v" : tensor<2x4x8xf32>
  %y = op.fused %x, %v : tensor<4x8xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<2x4x8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    // expected-error@+1 {{op.add has no place in rows of 4x8 for 2x4x8}}
    %r = op.add %n, %q : tensor<4x8xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32>
    op.yield %r : tensor<2x4x8xf32>
  }
}

// -----

job.job @axes placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.fused: all rows should be those of 4x8 along [1], got 4x8 along [0]}}
  %y, %z = op.fused %x : tensor<4x8xf32> -> tensor<4xf32>, tensor<8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %a = op.reduce_sum %p axes [1] : tensor<4x8xf32> -> tensor<4xf32>
    %b = op.reduce_sum %p axes [0] : tensor<4x8xf32> -> tensor<8xf32>
    op.yield %a, %b : tensor<4xf32>, tensor<8xf32>
  }
}

// -----

job.job @gone placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x8xf32>
  %y = op.fused %x : tensor<8x8xf32> -> tensor<8x8xf32> {
  ^bb0(%p: tensor<8x8xf32>):
    %a = op.reduce_sum %p axes [1] : tensor<8x8xf32> -> tensor<8xf32>
    // expected-error@+1 {{op.add reads one element of each row as if that were a row}}
    %b = op.add %p, %a : tensor<8x8xf32>, tensor<8xf32> -> tensor<8x8xf32>
    op.yield %b : tensor<8x8xf32>
  }
}

// -----

job.job @yielded placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %g = job.input "g" : tensor<8xf32>
  // expected-error@+1 {{op.fused: expected rows or an element for each row to be yielded, got tensor<8xf32>}}
  %y = op.fused %x, %g : tensor<4x8xf32>, tensor<8xf32> -> tensor<8xf32> {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    %r = op.relu %q : tensor<8xf32> -> tensor<8xf32>
    op.yield %r : tensor<8xf32>
  }
}

// -----

job.job @argument placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.fused: a group of rows yields what its ops make}}
  %y, %z = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield %n, %p : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
