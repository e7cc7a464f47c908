// RUN: penstock-opt %s -p plan-create-registers --verify-diagnostics --split-input-file

// Everything that is wrong is listed.

plan.plan @slots {
  // expected-error@+1 {{plan-create-registers: slots must be an i64 of 1 to 16384, got 0 : i64}}
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> attributes {slots = 0 : i64} {
    %v = job.input "a" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{plan-create-registers: slots must be an i64 of 1 to 16384, got 2 : i32}}
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> attributes {slots = 2 : i32} {
    %v = job.input "b" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{plan-create-registers: slots must be an i64 of 1 to 16384, got "two"}}
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> attributes {slots = "two"} {
    %v = job.input "c" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @variable {
  // expected-error@+1 {{plan-create-registers: a variable has one slot, got 2 : i64}}
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> attributes {slots = 2 : i64} {
    %v = job.variable "w" init <zeros> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @output {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{plan-create-registers: a task that hands nothing on has no slots, got 2 : i64}}
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) attributes {slots = 2 : i64} {
  ^bb0(%v: tensor<4xf32>):
    job.output "y", %v : tensor<4xf32>
    plan.yield
  }
}

// -----

plan.plan @shape {
  // expected-error@+1 {{plan-create-registers: a register's payload must have a static shape or a maximum, got tensor<?xf32>}}
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<?xf32> {
    %v = job.input "x" : tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
}

// -----

plan.plan @maximum {
  // expected-error@+1 {{plan-create-registers: the maximum [4, 4] is no shape of tensor<?xf32>}}
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<?xf32> attributes {max_shape = array<i64: 4, 4>} {
    %v = job.input "x" : tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
  // expected-error@+1 {{plan-create-registers: max_shape must be a list of i64 for all dynamic results, or a list of these for each, got array<i32: 4> for 1 of them}}
  %y = plan.task "y" on <0, cpu:0> stream <compute, 0> ins() -> tensor<?xf32> attributes {max_shape = array<i32: 4>} {
    %v = job.input "y" : tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
  // expected-error@+1 {{plan-create-registers: max_shape must be a list of i64 for all dynamic results, or a list of these for each, got [array<i64: 4>, array<i64: 4>] for 1 of them}}
  %z = plan.task "z" on <0, cpu:0> stream <compute, 0> ins() -> tensor<?xf32> attributes {max_shape = [array<i64: 4>, array<i64: 4>]} {
    %v = job.input "z" : tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
  // expected-error@+1 {{plan-create-registers: max_shape must be a list of i64 for all dynamic results, or a list of these for each, got array<i64: 4> for 0 of them}}
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> attributes {max_shape = array<i64: 4>} {
    %v = job.input "w" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}
