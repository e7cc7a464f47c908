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
