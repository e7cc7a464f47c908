// RUN: penstock-opt %s -p regst-mark-interfaces | filecheck %s --match-full-lines

// One job makes `y`, and another one reads it: the registers of both are the interface
// `y`.

!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>

// EXAMPLE-BEFORE
plan.plan @first {
  %h = regst.register "h" slots 1 on <0, host> : !r
  plan.task "out" on <0, cpu:0> stream <compute, 0> ins(%h : !r) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
// EXAMPLE-SKIP
  plan.task "h" on <0, cpu:0> stream <compute, 0> ins() outs(%h : !r) { %v = job.input "x" : !t plan.yield %v : !t }
// EXAMPLE-RESUME
}
plan.plan @second {
  %y = regst.register "y" slots 1 on <0, host> : !r
  plan.task "in" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) { %v = job.input "y" : !t plan.yield %v : !t }
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @first {
// CHECK-NEXT:   %h = regst.register "h" slots 1 interface "y" on <0, host> : !regst.data<tensor<4xf32>>
// CHECK:      plan.plan @second {
// CHECK-NEXT:   %y = regst.register "y" slots 1 interface "y" on <0, host> : !regst.data<tensor<4xf32>>
// CHECK:      }
// EXAMPLE-END
