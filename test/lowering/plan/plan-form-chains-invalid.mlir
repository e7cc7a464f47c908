// RUN: penstock-opt %s -p plan-form-chains --allow-unregistered-dialect --verify-diagnostics

// Tasks that wait for each other are in no order that chains could follow. One plan is
// none of the other's business: all that is wrong is said.

plan.plan @each_other {
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  %l = regst.register "l" slots 1 on <0, host> : !regst.control
  // expected-error@+1 {{plan-form-chains: cycle a -> b -> a of values and control registers}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() waits(%k : !regst.control) signals(%l : !regst.control) {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() waits(%l : !regst.control) signals(%k : !regst.control) {
    "test.op"() : () -> ()
    plan.yield
  }
}

// A register that is full at the start lets the task that waits go first.

plan.plan @backwards {
  %k = regst.register "k" slots 2 initial 2 on <0, host> : !regst.control
  // expected-error@+1 {{plan-form-chains: cycle a -> b -> a of values and control registers}}
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() signals(%k : !regst.control) -> tensor<4xf32> {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : tensor<4xf32>) waits(%k : !regst.control) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %r = op.relu %v : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
}
