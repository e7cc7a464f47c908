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

// Times that no number of 64 bits can sum up are none.

// expected-error@+1 {{plan-assign-streams: its tasks take 9223372036854774307 ns together, 'long' 4611686018427387904 of them, which is 2^62 ns or more}}
plan.plan @ages {
  %a = plan.task "long" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 4611686018427385904 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 4611686018427384403 : i64} {
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
