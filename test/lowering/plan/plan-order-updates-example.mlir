// RUN: penstock-opt %s -p plan-order-updates | filecheck %s --match-full-lines

// `h` reads `w` before `assign` overwrites it, in every act: a control register says so.

!t = tensor<4xf32>

// EXAMPLE-BEFORE
plan.plan @example {
// EXAMPLE-SKIP
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.input "x" : !t plan.yield %v : !t }
// EXAMPLE-RESUME
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.variable "w" init <zeros> : !t plan.yield %v : !t }
  %h = plan.task "h" on <0, cpu:0> stream <compute, 0> ins(%w : !t) -> !t { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%w, %x : !t, !t) { ^bb0(%v: !t, %u: !t): job.assign %u to %v : !t plan.yield }
}
// EXAMPLE-AFTER
// CHECK:        %[[READ:.+]] = regst.register "h -> assign" slots 1 on <0, host> : !regst.control
// CHECK:        %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
// CHECK:        %h = plan.task "h" on <0, cpu:0> stream <compute, 0> ins(%w : tensor<4xf32>) signals(%[[READ]] : !regst.control) -> tensor<4xf32> {
// CHECK:        plan.task "assign" on <0, cpu:0> stream <compute, 0> ins({{.*}}) waits(%[[READ]] : !regst.control) {
// EXAMPLE-END
