// RUN: penstock-opt %s -p verify-deadlock --verify-diagnostics

// Each task waits for a signal of the other one first.

!c = !regst.control

// EXAMPLE-BEFORE
plan.plan @example {
  %ab = regst.register "a -> b" slots 1 on <0, host> : !c
  %ba = regst.register "b -> a" slots 1 on <0, host> : !c
  // expected-error@+1 {{verify-deadlock: cycle a -> b -> a has no full slot at the start, and no slots break it}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() waits(%ba : !c) signals(%ab : !c) { "test.op"() : () -> () plan.yield }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() waits(%ab : !c) signals(%ba : !c) { "test.op"() : () -> () plan.yield }
}
// EXAMPLE-END
