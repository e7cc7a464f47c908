// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file
// RUN: penstock-opt %s -p verify-deadlock --verify-diagnostics --split-input-file

// The terms of a sum wait for it, but there is room for one.
plan.plan @p {
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %s = regst.register "s" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %t = regst.register "t" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %d = regst.register "d" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  // expected-error@+1 {{: the slots do not let tasks act as often as their rates want: 'x', 's', 't', 'd'}}
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<4xf32>>) outs(%s : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    %r = op.acc %v every 2 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  plan.task "t" on <0, cpu:0> stream <compute, 0> ins(%s : !regst.data<tensor<4xf32>>) outs(%t : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    %r = op.repeat %v times 2 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%x, %t : !regst.data<tensor<4xf32>>, !regst.data<tensor<4xf32>>) outs(%d : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>, %w: tensor<4xf32>):
    %r = op.sub %v, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
}

// -----

// Rates of tasks suit each other.
// expected-error@+1 {{: task 's' and task 'd' act 1 and 1 times in a launch, but what goes from the one to the other wants 2 and 1}}
plan.plan @p {
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %s = regst.register "s" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %d = regst.register "d" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<4xf32>>) outs(%s : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    %r = op.acc %v every 2 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%x, %s : !regst.data<tensor<4xf32>>, !regst.data<tensor<4xf32>>) outs(%d : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>, %w: tensor<4xf32>):
    %r = op.sub %v, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
}
