// RUN: python %S/../Inputs/plant_times.py %s %t.db 'h: task' 1200
// RUN: penstock-opt %s -p 'plan-write-times{database="%t.db"}' | filecheck %s --match-full-lines

// The database has measured a task like `h`: it takes 1200 ns.

!t = tensor<4xf32>

// EXAMPLE-BEFORE
plan.plan @example {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.input "x" : !t plan.yield %v : !t }
  %h = plan.task "h" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @example {
// CHECK-NEXT:   %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
// CHECK:        %h = plan.task "h" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> attributes {time_ns = 1200 : i64} {
// CHECK:      }
// EXAMPLE-END
