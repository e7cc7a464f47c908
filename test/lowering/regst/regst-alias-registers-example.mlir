// RUN: penstock-opt %s -p regst-alias-registers | filecheck %s --match-full-lines

// A ReLU may overwrite what it reads: `b` gets no bytes of its own, but lies on `a`. The
// input `x` is the caller's, and is not overwritten.

!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>

// EXAMPLE-BEFORE
plan.plan @example {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %a = regst.register "a" slots 1 on <0, host> : !r
  %b = regst.register "b" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) { %v = job.input "x" : !t plan.yield %v : !t }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%b : !r) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @example {
// CHECK-NEXT:   %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// CHECK-NEXT:   %a = regst.register "a" slots 1 on <0, host> {no_alias = "input: 'x' is read where the caller has it"} : !regst.data<tensor<4xf32>>
// CHECK-NEXT:   %b = regst.register "b" alias %a : !regst.data<tensor<4xf32>> slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// CHECK:      }
// EXAMPLE-END
