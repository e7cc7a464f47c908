// RUN: penstock-opt %s -p verify-ticks --verify-diagnostics

// `x` is part of the job, but neither waits for its source nor does its sink wait for
// it.

!c = !regst.control

// EXAMPLE-BEFORE
plan.plan @example attributes {sections = [#job.section<"total", total>]} {
  %s = regst.register "tick" slots 1 on <0, host> : !c
  plan.task "source" on <0, cpu:0> stream <tick, 0> ins() signals(%s : !c) { job.source_tick "total" plan.yield }
  // expected-error@+2 {{verify-ticks: task 'x' waits for no tick}}
  // expected-error@+1 {{verify-ticks: no tick waits for task 'x'}}
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() { "test.op"() : () -> () plan.yield }
  plan.task "sink" on <0, cpu:0> stream <tick, 0> ins() waits(%s : !c) { job.sink_tick "total" plan.yield }
}
// EXAMPLE-END
