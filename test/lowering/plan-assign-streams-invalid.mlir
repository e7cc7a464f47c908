// RUN: penstock-opt %s -p 'plan-assign-streams{policy=critical-path}' --verify-diagnostics --split-input-file

!t = tensor<4xf32>

// A task that waits for itself never acts.

plan.plan @itself {
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  // expected-error@+1 {{plan-assign-streams: cycle a -> a of values and control registers}}
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() waits(%k : !regst.control) signals(%k : !regst.control) -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
}

// -----

!t = tensor<4xf32>

plan.plan @no_times {
  // expected-error@+1 {{plan-assign-streams: time_ns must be an i64 of at least 0, got -1 : i64}}
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = -1 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{plan-assign-streams: time_ns must be an i64 of at least 0, got 3 : i32}}
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 3 : i32} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
}
