// RUN: penstock-opt %s -p plan-split-ranks --verify-diagnostics --split-input-file

plan.plan @read {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{task 'y' of rank 1 reads what lies on rank 0, and is no copy}}
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf32>):
    job.output "y", %v : tensor<4xf32>
    plan.yield
  }
}

// -----

plan.plan @control {
  %k = regst.register "x -> y" slots 1 on <0, host> : !regst.control
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() signals(%k : !regst.control) -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{task 'y' of rank 1 shares a control register with rank 0}}
  %y = plan.task "y" on <1, cpu:0> stream <compute, 0> ins() waits(%k : !regst.control) -> tensor<4xf32> {
    %v = job.input "y" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @down {
  %x = plan.task "x" on <0, cuda:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{task 'far' copies between ranks where one end is on a cuda, and messages go between CPUs}}
  %y = plan.task "far" on <1, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %r = job.copy %v to <1, cpu:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
}

// -----

plan.plan @up {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{task 'far' copies between ranks where one end is on a cuda, and messages go between CPUs}}
  %y = plan.task "far" on <1, cuda:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %r = job.copy %v to <1, cuda:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
}

// -----

// A copy is on two ranks, but not on a third one.

plan.plan @third {
  %k = regst.register "x -> far" slots 1 on <2, host> : !regst.control
  %x = plan.task "x" on <2, cpu:0> stream <compute, 0> ins() signals(%k : !regst.control) -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %y = plan.task "y" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "y" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{task 'far' of rank 1 shares a control register with rank 2}}
  %z = plan.task "far" on <1, cpu:0> stream <compute, 0> ins(%y : tensor<4xf32>) waits(%k : !regst.control) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %r = job.copy %v to <1, cpu:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
}
