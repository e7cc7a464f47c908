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

job.job @apart placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %y = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %m = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    // expected-error@+1 {{op.softmax should read what the op on rows before it makes}}
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield %n : tensor<4x8xf32>
  }
}

// -----

job.job @gone placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %y = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %m = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    %o = op.softmax %m : tensor<4x8xf32> -> tensor<4x8xf32>
    // expected-error@+1 {{op.add reads rows that are gone}}
    %n = op.add %o, %m : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield %n : tensor<4x8xf32>
  }
}

// -----

job.job @not_last placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.fused: what is made last should be made of the last rows}}
  %y = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %m = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    %o = op.softmax %m : tensor<4x8xf32> -> tensor<4x8xf32>
    %n = op.relu %m : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield %n : tensor<4x8xf32>
  }
}

// -----

job.job @types placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %v = job.input "v" : tensor<1x8xf32>
  // expected-error@+1 {{op.fused: all rows should be those of tensor<1x8xf32>, got tensor<4x8xf32>}}
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

job.job @type placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.fused: expected tensor<4x8xf32> to be yielded, got tensor<4x8xi1>}}
  %y = op.fused %x : tensor<4x8xf32> -> tensor<4x8xi1> {
  ^bb0(%p: tensor<4x8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    %c = op.less %n, %n : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xi1>
    op.yield %c : tensor<4x8xi1>
  }
}

// -----

job.job @yielded placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.fused: the body should yield what it makes last, then what its last op on rows reads}}
  %y = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    %r = op.relu %n : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield %n : tensor<4x8xf32>
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
  %v = job.input "v" : tensor<2x4x8xf32>
  // expected-error@+1 {{op.fused: an operand of shape 2x4x8 does not broadcast to the result's 4x8}}
  %y = op.fused %x, %v : tensor<4x8xf32>, tensor<2x4x8xf32> -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<2x4x8xf32>):
    %n = op.softmax %p : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield %n : tensor<4x8xf32>
  }
}
