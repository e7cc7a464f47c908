// RUN: penstock-opt %s -p plan-order-commits | filecheck %s --match-full-lines

// `h` may fail, as its indices may be out of range: `w` is assigned to only after a
// commit that waits for `h`.

!t = tensor<4xf32>
!i = tensor<4xi64>

// EXAMPLE-BEFORE
plan.plan @example {
// EXAMPLE-SKIP
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.input "x" : !t plan.yield %v : !t }
  %i = plan.task "i" on <0, cpu:0> stream <compute, 0> ins() -> !i { %v = job.input "i" : !i plan.yield %v : !i }
// EXAMPLE-RESUME
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.variable "w" init <zeros> : !t plan.yield %v : !t }
  %h = plan.task "h" on <0, cpu:0> stream <compute, 0> can_fail ins(%x, %i : !t, !i) -> !t { ^bb0(%v: !t, %j: !i): %u = op.gather %v[%j] axis 0 : !t, !i -> !t plan.yield %u : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%w, %x : !t, !t) { ^bb0(%v: !t, %u: !t): job.assign %u to %v : !t plan.yield }
}
// EXAMPLE-AFTER
// CHECK:        %[[FAILS:.+]] = regst.register "h -> commit" slots 2 on <0, host> : !regst.control
// CHECK-NEXT:   %[[GO:.+]] = regst.register "commit -> assign" slots 1 on <0, host> : !regst.control
// CHECK:        %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
// CHECK:        %h = plan.task "h" on <0, cpu:0> stream <compute, 0> can_fail ins({{.*}}) signals(%[[FAILS]] : !regst.control) -> tensor<4xf32> {
// CHECK:        plan.task "commit" on <0, cpu:0> stream <commit, 0> ins() waits(%[[FAILS]] : !regst.control) signals(%[[GO]] : !regst.control) {
// CHECK:        plan.task "assign" on <0, cpu:0> stream <compute, 0> ins({{.*}}) waits(%[[GO]] : !regst.control) {
// EXAMPLE-END
