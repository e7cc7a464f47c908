// RUN: penstock-opt %s -p plan-order-tasks | filecheck %s --match-full-lines

// `y` reads `a` before `b` is made, so that two tensors of 16 bytes are alive at most,
// not three.

!t = tensor<4xf32>

// EXAMPLE-BEFORE
plan.plan @example {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.input "x" : !t plan.yield %v : !t }
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%a : !t) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%b : !t) { ^bb0(%v: !t): job.output "z", %v : !t plan.yield }
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @example attributes {live_bytes = {source = 48 : i64, ordered = 32 : i64, lower_limit = 32 : i64}} {
// CHECK-NEXT:   %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
// CHECK:        %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
// CHECK:        plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%a : tensor<4xf32>) {
// CHECK:        %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
// CHECK:        plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%b : tensor<4xf32>) {
// CHECK:      }
// EXAMPLE-END
