// RUN: penstock-opt %s -p plan-reduce-events | filecheck %s --match-full-lines

// The value orders `a` and `b` already, and the control register goes. `b` runs on
// another stream, and waits for an event of `a`.

!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>
!c = !regst.control

// EXAMPLE-BEFORE
plan.plan @example {
  %a = regst.register "a/out" slots 1 on <0, host> : !r
  %k = regst.register "a -> b" slots 1 on <0, host> : !c
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) signals(%k : !c) { %v = job.input "x" : !t plan.yield %v : !t }
  plan.task "b" on <0, cpu:0> stream <compute, 1> ins(%a : !r) waits(%k : !c) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @example attributes {events = {crossing = 1 : i64, needed = 1 : i64}} {
// CHECK-NEXT:   %a = regst.register "a/out" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// CHECK-NEXT:   plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !regst.data<tensor<4xf32>>) {
// CHECK:        plan.task "b" on <0, cpu:0> stream <compute, 1> ins(%a : !regst.data<tensor<4xf32>>) attributes {waits_for = ["a"]} {
// CHECK:      }
// EXAMPLE-END
