// RUN: penstock-opt %s --verify-diagnostics --split-input-file

job.job @arguments placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  // expected-error@+1 {{op.fused: the body's arguments should be those of the operands}}
  %r = op.fused %x : tensor<2x2xf32> -> tensor<2x2xf32> {
  ^bb0(%p: tensor<2x2xf32>, %q: tensor<2x2xf32>):
    %m = op.matmul %p, %q : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.relu %m : tensor<2x2xf32> -> tensor<2x2xf32>
    op.yield %s : tensor<2x2xf32>
  }
}

// -----

job.job @members placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  %r = op.fused %x : tensor<2x2xf32> -> tensor<2x2xf32> {
  ^bb0(%p: tensor<2x2xf32>):
    %m = op.matmul %p, %p : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    // expected-error@+1 {{op.transpose cannot be computed on the sums of a group}}
    %s = op.transpose %m by [1, 0] : tensor<2x2xf32> -> tensor<2x2xf32>
    op.yield %s : tensor<2x2xf32>
  }
}

// -----

job.job @two placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  %r = op.fused %x : tensor<2x2xf32> -> tensor<2x2xf32> {
  ^bb0(%p: tensor<2x2xf32>):
    %m = op.matmul %p, %p : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    // expected-error@+1 {{op.matmul: a group has one contraction, got op.matmul besides op.matmul}}
    %n = op.matmul %p, %p : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.add %m, %n : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    op.yield %s : tensor<2x2xf32>
  }
}

// -----

job.job @before placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  %r = op.fused %x : tensor<2x2xf32> -> tensor<2x2xf32> {
  ^bb0(%p: tensor<2x2xf32>):
    %s = op.relu %p : tensor<2x2xf32> -> tensor<2x2xf32>
    // expected-error@+1 {{op.matmul should read arguments of the body}}
    %m = op.matmul %p, %s : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    op.yield %m : tensor<2x2xf32>
  }
}

// -----

job.job @rows placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  %r = op.fused %x : tensor<2x2xf32> -> tensor<2x2xf32> {
  ^bb0(%p: tensor<2x2xf32>):
    // expected-error@+1 {{op.matmul cannot be computed row by row}}
    %m = op.matmul %p, %p : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.softmax %m : tensor<2x2xf32> -> tensor<2x2xf32>
    op.yield %s : tensor<2x2xf32>
  }
}

// -----

job.job @unused placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  // expected-error@+1 {{op.fused: only the sums of a contraction start from a tensor}}
  %r = op.fused %x : tensor<2x2xf32> -> tensor<2x2xf32> starts {
  ^bb0(%p: tensor<2x2xf32>):
    %s = op.relu %p : tensor<2x2xf32> -> tensor<2x2xf32>
    op.yield %s : tensor<2x2xf32>
  }
}

// -----

job.job @yielded placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  // expected-error@+1 {{op.fused: results should be made of that of op.matmul, one is not}}
  %r = op.fused %x : tensor<2x2xf32> -> tensor<2x2xf32> {
  ^bb0(%p: tensor<2x2xf32>):
    %m = op.matmul %p, %p : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.relu %p : tensor<2x2xf32> -> tensor<2x2xf32>
    op.yield %s : tensor<2x2xf32>
  }
}

// -----

job.job @type placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  // expected-error@+1 {{op.fused: results should be tensor<2x2xf32>, got tensor<2x2xf64>}}
  %r = op.fused %x : tensor<2x2xf32> -> tensor<2x2xf64> {
  ^bb0(%p: tensor<2x2xf32>):
    %m = op.matmul %p, %p : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.cast %m to f64 : tensor<2x2xf32> -> tensor<2x2xf64>
    op.yield %s : tensor<2x2xf64>
  }
}

// -----

job.job @starts placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  // expected-error@+1 {{op.fused: only an op.add should read sums that start}}
  %r = op.fused %x : tensor<2x2xf32> -> tensor<2x2xf32> starts {
  ^bb0(%p: tensor<2x2xf32>):
    %m = op.matmul %p, %p : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.relu %m : tensor<2x2xf32> -> tensor<2x2xf32>
    op.yield %s : tensor<2x2xf32>
  }
}

// -----

job.job @groups placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x4x3x3xf32>
  %w = job.input "w" : tensor<4x2x1x1xf32>
  // expected-error@+1 {{op.fused: the sums of op.conv2d cannot start from others}}
  %r = op.fused %x, %w : tensor<1x4x3x3xf32>, tensor<4x2x1x1xf32> -> tensor<1x4x3x3xf32> starts {
  ^bb0(%p: tensor<1x4x3x3xf32>, %q: tensor<4x2x1x1xf32>):
    %m = op.conv2d %p, %q groups 2 : tensor<1x4x3x3xf32>, tensor<4x2x1x1xf32> -> tensor<1x4x3x3xf32>
    %s = op.add %m, %p : tensor<1x4x3x3xf32>, tensor<1x4x3x3xf32> -> tensor<1x4x3x3xf32>
    op.yield %s : tensor<1x4x3x3xf32>
  }
}

// -----

job.job @twice placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  // expected-error@+1 {{op.fused: only an op.add should read sums that start}}
  %r = op.fused %x : tensor<2x2xf32> -> tensor<2x2xf32> starts {
  ^bb0(%p: tensor<2x2xf32>):
    %m = op.matmul %p, %p : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.add %m, %m : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    op.yield %s : tensor<2x2xf32>
  }
}

// -----

job.job @row placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  %b = job.input "b" : tensor<2xf32>
  // expected-error@+1 {{op.fused: sums should start from an argument of their type tensor<2x2xf32>}}
  %r = op.fused %x, %b : tensor<2x2xf32>, tensor<2xf32> -> tensor<2x2xf32> starts {
  ^bb0(%p: tensor<2x2xf32>, %q: tensor<2xf32>):
    %m = op.matmul %p, %p : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.add %m, %q : tensor<2x2xf32>, tensor<2xf32> -> tensor<2x2xf32>
    op.yield %s : tensor<2x2xf32>
  }
}
