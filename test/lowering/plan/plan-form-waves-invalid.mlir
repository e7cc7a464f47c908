// RUN: not penstock-opt %s -p 'plan-form-waves{most-ns=0}' 2>&1 | filecheck %s --check-prefix=LEAST
// RUN: penstock-opt %s -p plan-form-waves --verify-diagnostics

// LEAST: plan-form-waves: most_ns should be at least 1, got 0

!t = tensor<4xf32>

plan.plan @cycle {
  %k = regst.register "b -> a" slots 1 on <0, host> : !regst.control
  // expected-error@+1 {{plan-form-waves: cycle a -> b -> a of values and control registers}}
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() waits(%k : !regst.control) -> !t {
    %v = job.input "a" : !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !t) signals(%k : !regst.control) -> !t {
  ^bb0(%u: !t):
    %v = op.exp %u : !t -> !t
    plan.yield %v : !t
  }
}
