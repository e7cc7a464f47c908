// RUN: penstock-opt %s -p plan-order-updates --verify-diagnostics --split-input-file

!r = !regst.data<tensor<4xf32>>

plan.plan @late {
  %x = regst.register "x/out" slots 1 on <0, host> : !r
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> order 1 ins(%x, %w : !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
  // expected-error@+1 {{plan-order-updates: task 'y' uses 'w/out' after 'assign' has assigned to it; this pass orders them if it runs before plan-assign-streams}}
  plan.task "y" on <0, cpu:0> stream <compute, 0> order 2 ins(%w : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.output "y", %0 : tensor<4xf32>
    plan.yield
  }
}

// -----

// Two tasks assign to one variable: a copy of what they assign does not help.

!r = !regst.data<tensor<4xf32>>

plan.plan @twice {
  %x = regst.register "x/out" slots 1 on <0, host> : !r
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  // expected-error@+1 {{plan-order-updates: task 'one' and another one that assigns to 'w/out' would wait for each other}}
  plan.task "one" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
  plan.task "two" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
}
