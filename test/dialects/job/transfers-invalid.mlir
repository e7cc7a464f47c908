// RUN: penstock-opt %s --verify-diagnostics --split-input-file

plan.plan @receive {
  %x = plan.task "x" on <1, cpu:0> stream <network, 0> ins() -> tensor<4xf32> {
    // expected-error@+1 {{a tag is not negative, got -1}}
    %v = job.receive from <0, cpu:0> tag -1 : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @send {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "x/send" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf32>):
    // expected-error@+1 {{a tag is not negative, got -2}}
    job.send %v to <1, cpu:0> tag -2 : tensor<4xf32>
    plan.yield
  }
}

// -----

plan.plan @there rank 1 {
  // expected-error@+1 {{task 'x' is on rank 0, its plan is of rank 1}}
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}
