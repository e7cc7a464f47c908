// RUN: penstock-opt %s -p plan-split-ranks | filecheck %s --match-full-lines

// Rank 0 sends what rank 1 copied.

!t = tensor<4xf32>

// EXAMPLE-BEFORE
plan.plan @example {
// EXAMPLE-SKIP
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.input "x" : !t plan.yield %v : !t }
// EXAMPLE-RESUME
  %far = plan.task "far" on <1, cpu:0> stream <compute, 0> ins(%x : !t) -> !t { ^bb0(%v: !t): %w = job.copy %v to <1, cpu:0> : !t plan.yield %w : !t }
// EXAMPLE-SKIP
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins(%far : !t) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
// EXAMPLE-RESUME
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @example_0 rank 0 {
// CHECK:        plan.task "far/send" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) {
// CHECK:          job.send %{{.*}} to <1, cpu:0> tag 0 : tensor<4xf32>
// CHECK:      plan.plan @example_1 rank 1 {
// CHECK:        %far = plan.task "far" on <1, cpu:0> stream <network, 0> ins() -> tensor<4xf32> {
// CHECK:          %{{.*}} = job.receive from <0, cpu:0> tag 0 : tensor<4xf32>
// EXAMPLE-END
