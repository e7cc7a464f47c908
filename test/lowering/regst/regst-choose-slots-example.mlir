// RUN: penstock-opt %s -p 'regst-choose-slots{machine="cpu switch_ns=0"}' | filecheck %s --match-full-lines

// An act takes 90 ns, but the busier stream only 50 of them: with two slots `x` is
// written again while `h` reads it.

!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>

// EXAMPLE-BEFORE
plan.plan @example {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %h = regst.register "h" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) attributes {time_ns = 50 : i64} { %v = "test.op"() : () -> !t plan.yield %v : !t }
  plan.task "h" on <0, cpu:0> stream <compute, 1> ins(%x : !r) outs(%h : !r) attributes {time_ns = 40 : i64} { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @example attributes {interval_ns = {busiest = 50 : i64, chosen = 50 : i64}} {
// CHECK-NEXT:   %x = regst.register "x" slots 2 on <0, host> : !regst.data<tensor<4xf32>>
// CHECK-NEXT:   %h = regst.register "h" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// CHECK-NEXT:   plan.task "x" {{.*}} {
// CHECK:        plan.task "h" {{.*}} {
// CHECK:      }
// EXAMPLE-END
