// RUN: penstock-opt %s -p plan-add-ticks | filecheck %s --match-full-lines

// A source begins the section of the job: `x` waits for it. A sink ends it, and waits
// for `y`.

!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>

// EXAMPLE-BEFORE
plan.plan @example attributes {sections = [#job.section<"total", total>]} {
  %x = regst.register "x/out" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) { %v = job.input "x" : !t plan.yield %v : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
}
// EXAMPLE-AFTER
// CHECK:        %[[BEGIN:.+]] = regst.register "total/source -> x" slots 1 on <0, host> : !regst.control
// CHECK-NEXT:   %[[END:.+]] = regst.register "y -> total/sink" slots 1 on <0, host> : !regst.control
// CHECK-NEXT:   plan.task "total/source" on <0, cpu:0> stream <tick, 0> order 0 ins() signals(%[[BEGIN]] : !regst.control) {
// CHECK:        plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs({{.*}}) waits(%[[BEGIN]] : !regst.control) {
// CHECK:        plan.task "y" on <0, cpu:0> stream <compute, 0> ins({{.*}}) signals(%[[END]] : !regst.control) {
// CHECK:        plan.task "total/sink" on <0, cpu:0> stream <tick, 0> order 1 ins() waits(%[[END]] : !regst.control) {
// EXAMPLE-END
