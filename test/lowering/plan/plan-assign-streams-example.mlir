// RUN: penstock-opt %s -p 'plan-assign-streams{streams=2}' | filecheck %s --match-full-lines

// With two streams, branches that need nothing of each other run at the same time.

!t = tensor<4xf32>

// EXAMPLE-BEFORE
plan.plan @example {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.input "x" : !t plan.yield %v : !t }
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%a : !t) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @example {
// CHECK-NEXT:   %x = plan.task "x" on <0, cpu:0> stream <compute, 0> order 0 ins() -> tensor<4xf32> {
// CHECK:        %a = plan.task "a" on <0, cpu:0> stream <compute, 0> order 1 ins(%x : tensor<4xf32>) -> tensor<4xf32> {
// CHECK:        %b = plan.task "b" on <0, cpu:0> stream <compute, 1> order 0 ins(%x : tensor<4xf32>) -> tensor<4xf32> {
// CHECK:        plan.task "y" on <0, cpu:0> stream <compute, 0> order 2 ins(%a : tensor<4xf32>) {
// CHECK:      }
// EXAMPLE-END
