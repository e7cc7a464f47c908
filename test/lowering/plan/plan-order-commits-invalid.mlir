// RUN: penstock-opt %s -p plan-order-commits --verify-diagnostics

// There are no tokens on registers.

!r = !regst.data<tensor<4xf32>>
!i = !regst.data<tensor<4xi64>>
!t = tensor<4xf32>

plan.plan @ranks {
  %g = regst.register "g/out" slots 1 on <1, host> : !r
  %i = regst.register "i/out" slots 1 on <1, host> : !i
  %v = regst.register "v/out" slots 1 on <1, host> : !r
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  plan.task "i" on <1, cpu:0> stream <compute, 0> ins() outs(%i : !i) {
    %0 = job.variable "i" init <zeros> : tensor<4xi64>
    plan.yield %0 : tensor<4xi64>
  }
  plan.task "v" on <1, cpu:0> stream <compute, 0> ins() outs(%v : !r) {
    %0 = job.variable "v" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "g" on <1, cpu:0> stream <compute, 0> can_fail ins(%v, %i : !r, !i) outs(%g : !r) {
  ^bb0(%0: !t, %1: tensor<4xi64>):
    %2 = op.gather %0[%1] axis 0 : !t, tensor<4xi64> -> !t
    plan.yield %2 : !t
  }
  // expected-error@+1 {{plan-order-commits: task 'assign' has to wait for 'g' of another rank; this pass lets it if it runs before plan-create-registers}}
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%0: !t):
    job.assign %0 to %0 : !t
    plan.yield
  }
}
