// RUN: not penstock-opt %s -p 'plan-order-tasks{policy="random"}' 2>&1 | filecheck %s
// RUN: not penstock-opt %s -p 'plan-order-tasks{budget=-1}' 2>&1 | filecheck %s --check-prefix=BUDGET
// RUN: not penstock-opt %s -p 'plan-order-tasks{machine="cpu speed=1"}' 2>&1 | filecheck %s --check-prefix=MACHINE
// RUN: penstock-opt %s -p plan-order-tasks --verify-diagnostics
// RUN: not penstock-opt %s -p 'plan-order-tasks{machine="cpu gflops=1e-300 gbytes=1e-300"}' 2>&1 | filecheck %s --check-prefix=SLOW

// CHECK: plan-order-tasks: no task order 'random' (penstock-opt --list task-order names them)
// BUDGET: plan-order-tasks: budget must not be negative, got -1
// MACHINE: plan-order-tasks: machine: expected one of gflops, gbytes, link_gbytes, task_ns, switch_ns, got 'speed'
// SLOW: plan-order-tasks: its tasks take {{[0-9]+}} ns together, 'a' 4611686018427389904 of them, which is 2^62 ns or more
plan.plan @nothing {
^bb0:
}

// What a control register orders, and what reads values, must agree.

plan.plan @around {
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  // expected-error@+1 {{plan-order-tasks: cycle a -> b -> a of values and control registers}}
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() waits(%k : !regst.control) -> tensor<4xf32> {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : tensor<4xf32>) signals(%k : !regst.control) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %r = op.relu %v : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
}

plan.plan @no_time {
  // expected-error@+1 {{plan-order-tasks: time_ns must be an i64 of at least 0, got 3 : i32}}
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> attributes {time_ns = 3 : i32} {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}
