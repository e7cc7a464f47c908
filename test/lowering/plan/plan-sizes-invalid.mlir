// RUN: penstock-opt %s -p plan-order-tasks,plan-create-registers,regst-plan-memory --verify-diagnostics --split-input-file

// A tensor that no register can hold is refused where it is made.

plan.plan @tensor {
  // expected-error@+1 {{a register's payload must be smaller than 2^62 bytes, got 399999999999999999996 of tensor<99999999999999999999xf32>}}
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<99999999999999999999xf32> {
    %v = job.input "x" : tensor<99999999999999999999xf32>
    plan.yield %v : tensor<99999999999999999999xf32>
  }
}

// -----

// Tensors that are too large together: 16 x 2^60 bytes, more than an i64 holds.
// expected-error@+1 {{regst-plan-memory: the registers must take less than 2^62 bytes, got 18446744073709551616}}
plan.plan @sum {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<1152921504606846976xi8> attributes {slots = 16 : i64} {
    %v = job.input "x" : tensor<1152921504606846976xi8>
    plan.yield %v : tensor<1152921504606846976xi8>
  }
}
