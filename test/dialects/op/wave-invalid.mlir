// RUN: penstock-opt %s --verify-diagnostics --split-input-file

job.job @bad placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{the body's arguments should be those of the operands}}
  %y, %z = op.wave %x : tensor<4xf32> -> tensor<4xf32>, tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>):
    %a = op.exp %p : tensor<4xf32> -> tensor<4xf32>
    %b = op.tanh %q : tensor<4xf32> -> tensor<4xf32>
    op.yield_wave %a, %b : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

job.job @bad placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{the body should end in op.yield_wave}}
  %y, %z = op.wave %x : tensor<4xf32> -> tensor<4xf32>, tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
  }
}

// -----

job.job @bad placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{job.after is no op on tensors}}
  %y, %z = op.wave %x : tensor<4xf32> -> tensor<4xf32>, tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    %a = op.exp %p : tensor<4xf32> -> tensor<4xf32>
    %b = job.after %p, %a : tensor<4xf32>, tensor<4xf32>
    op.yield_wave %a, %b : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

job.job @bad placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{a wave should have two members or more, got 1}}
  %y = op.wave %x : tensor<4xf32> -> tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    %a = op.exp %p : tensor<4xf32> -> tensor<4xf32>
    op.yield_wave %a : tensor<4xf32>
  }
}

// -----

job.job @bad placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{op.tanh reads what another member of the wave makes}}
  %y, %z = op.wave %x : tensor<4xf32> -> tensor<4xf32>, tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    %a = op.exp %p : tensor<4xf32> -> tensor<4xf32>
    %b = op.tanh %a : tensor<4xf32> -> tensor<4xf32>
    op.yield_wave %a, %b : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

job.job @bad placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{the body should yield the results of all members, in order}}
  %y, %z = op.wave %x : tensor<4xf32> -> tensor<4xf32>, tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    %a = op.exp %p : tensor<4xf32> -> tensor<4xf32>
    %b = op.tanh %p : tensor<4xf32> -> tensor<4xf32>
    op.yield_wave %b, %a : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

job.job @bad placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{a wave is no member of another one}}
  %y, %z, %v = op.wave %x : tensor<4xf32> -> tensor<4xf32>, tensor<4xf32>, tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    %a, %b = op.wave %p : tensor<4xf32> -> tensor<4xf32>, tensor<4xf32> {
    ^bb1(%q: tensor<4xf32>):
      %c = op.exp %q : tensor<4xf32> -> tensor<4xf32>
      %d = op.tanh %q : tensor<4xf32> -> tensor<4xf32>
      op.yield_wave %c, %d : tensor<4xf32>, tensor<4xf32>
    }
    %e = op.tanh %p : tensor<4xf32> -> tensor<4xf32>
    op.yield_wave %a, %b, %e : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}
