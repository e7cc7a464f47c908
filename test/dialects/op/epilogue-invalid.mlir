// RUN: penstock-opt %s --verify-diagnostics --split-input-file

job.job @arguments placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  // expected-error@+1 {{op.epilogue: the body's arguments should be those of the operands}}
  %r = op.epilogue %x : tensor<2x2xf32> -> tensor<2x2xf32> {
  ^bb0(%p: tensor<2x2xf32>, %q: tensor<2x2xf32>):
    %m = op.matmul %p, %q : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.relu %m : tensor<2x2xf32> -> tensor<2x2xf32>
    op.yield %s : tensor<2x2xf32>
  }
}

// -----

job.job @members placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  // expected-error@+1 {{op.epilogue: the body should hold a sum of products, an elementwise op and op.yield, got op.relu, op.relu, op.yield}}
  %r = op.epilogue %x : tensor<2x2xf32> -> tensor<2x2xf32> {
  ^bb0(%p: tensor<2x2xf32>):
    %m = op.relu %p : tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.relu %m : tensor<2x2xf32> -> tensor<2x2xf32>
    op.yield %s : tensor<2x2xf32>
  }
}

// -----

job.job @yielded placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  // expected-error@+1 {{op.epilogue: the body should yield what its elementwise op makes}}
  %r = op.epilogue %x : tensor<2x2xf32> -> tensor<2x2xf32> {
  ^bb0(%p: tensor<2x2xf32>):
    %m = op.matmul %p, %p : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.relu %m : tensor<2x2xf32> -> tensor<2x2xf32>
    op.yield %m : tensor<2x2xf32>
  }
}

// -----

job.job @type placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  // expected-error@+1 {{op.epilogue: op.cast should keep the type tensor<2x2xf32>, got tensor<2x2xf64>}}
  %r = op.epilogue %x : tensor<2x2xf32> -> tensor<2x2xf64> {
  ^bb0(%p: tensor<2x2xf32>):
    %m = op.matmul %p, %p : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.cast %m to f64 : tensor<2x2xf32> -> tensor<2x2xf64>
    op.yield %s : tensor<2x2xf64>
  }
}

// -----

job.job @starts placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  // expected-error@+1 {{op.epilogue: the body should hold a sum of products, an elementwise op and op.yield, or an op.add before that op or alone, got op.matmul, op.relu, op.yield}}
  %r = op.epilogue %x : tensor<2x2xf32> -> tensor<2x2xf32> starts {
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
  // expected-error@+1 {{op.epilogue: the sums of op.conv2d cannot start from others}}
  %r = op.epilogue %x, %w : tensor<1x4x3x3xf32>, tensor<4x2x1x1xf32> -> tensor<1x4x3x3xf32> starts {
  ^bb0(%p: tensor<1x4x3x3xf32>, %q: tensor<4x2x1x1xf32>):
    %m = op.conv2d %p, %q groups 2 : tensor<1x4x3x3xf32>, tensor<4x2x1x1xf32> -> tensor<1x4x3x3xf32>
    %s = op.add %m, %p : tensor<1x4x3x3xf32>, tensor<1x4x3x3xf32> -> tensor<1x4x3x3xf32>
    op.yield %s : tensor<1x4x3x3xf32>
  }
}

// -----

job.job @twice placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  // expected-error@+1 {{op.epilogue: only the first op.add should read the sums}}
  %r = op.epilogue %x : tensor<2x2xf32> -> tensor<2x2xf32> starts {
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
  // expected-error@+1 {{op.epilogue: sums should start from an argument of their type tensor<2x2xf32>}}
  %r = op.epilogue %x, %b : tensor<2x2xf32>, tensor<2xf32> -> tensor<2x2xf32> starts {
  ^bb0(%p: tensor<2x2xf32>, %q: tensor<2xf32>):
    %m = op.matmul %p, %p : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    %s = op.add %m, %q : tensor<2x2xf32>, tensor<2xf32> -> tensor<2x2xf32>
    op.yield %s : tensor<2x2xf32>
  }
}
