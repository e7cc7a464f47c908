// RUN: penstock-opt %s --verify-diagnostics --split-input-file

job.job @two placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %y = op.fused %x : tensor<4x8xf32> -> tensor<4xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %n = op.reduce_sum %p axes [1] keepdims : tensor<4x8xf32> -> tensor<4x1xf32>
    // expected-error@+1 {{op.reduce_sum: a group has one reduction, got op.reduce_sum besides op.reduce_sum}}
    %m = op.reduce_sum %n axes [1] : tensor<4x1xf32> -> tensor<4xf32>
    op.yield %m : tensor<4xf32>
  }
}

// -----

job.job @after placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.fused: a group yields what its op.reduce_sum makes, once}}
  %y = op.fused %x : tensor<4x8xf32> -> tensor<4xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %n = op.reduce_sum %p axes [1] : tensor<4x8xf32> -> tensor<4xf32>
    %m = op.relu %n : tensor<4xf32> -> tensor<4xf32>
    op.yield %m : tensor<4xf32>
  }
}

// -----

job.job @axes placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // expected-error@+1 {{op.fused: op.reduce_sum should be along the last axes}}
  %y = op.fused %x : tensor<4x8xf32> -> tensor<8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %e = op.exp %p : tensor<4x8xf32> -> tensor<4x8xf32>
    %n = op.reduce_sum %e axes [0] : tensor<4x8xf32> -> tensor<8xf32>
    op.yield %n : tensor<8xf32>
  }
}

// -----

job.job @repeated placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %g = job.input "g" : tensor<8xf32>
  // expected-error@+1 {{op.fused: operands should have the shape of tensor<4x8xf32> or one element, got tensor<8xf32>}}
  %y = op.fused %x, %g : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32> {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<8xf32>):
    %e = op.add %p, %q : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    %n = op.reduce_sum %e axes [1] : tensor<4x8xf32> -> tensor<4xf32>
    op.yield %n : tensor<4xf32>
  }
}

// -----

job.job @other placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %y = op.fused %x : tensor<4x8xf32> -> tensor<4xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    // expected-error@+1 {{op.transpose cannot be combined in a group}}
    %e = op.transpose %p by [0, 1] : tensor<4x8xf32> -> tensor<4x8xf32>
    %n = op.reduce_sum %e axes [1] : tensor<4x8xf32> -> tensor<4xf32>
    op.yield %n : tensor<4xf32>
  }
}
