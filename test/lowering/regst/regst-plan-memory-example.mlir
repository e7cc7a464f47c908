// RUN: penstock-opt %s -p regst-plan-memory | filecheck %s --match-full-lines

// Nothing reads `a` any more when `c` is written, and both lie at byte 0: 128 bytes for
// what has 192. A control register keeps the next `a` from overwriting a `c` that is
// still read.

!t = tensor<16xf32>
!r = !regst.data<tensor<16xf32>>

// EXAMPLE-BEFORE
plan.plan @example {
  %a = regst.register "a" slots 1 on <0, host> : !r
  %b = regst.register "b" slots 1 on <0, host> : !r
  %c = regst.register "c" slots 1 on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%a : !r) { %v = job.input "x" : !t plan.yield %v : !t }
  plan.task "b" on <0, cpu:0> stream <compute, 0> order 1 ins(%a : !r) outs(%b : !r) { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
  plan.task "c" on <0, cpu:0> stream <compute, 0> order 2 ins(%b : !r) outs(%c : !r) { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> order 3 ins(%c : !r) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
}
// EXAMPLE-AFTER
// CHECK:        %host = regst.chunk on <0, host> size 128
// CHECK-NEXT:   %shared = regst.block in %host at 0 size 128 sum 192 bound 128
// CHECK-NEXT:   %a = regst.register "a" in %shared at 0 slots 1 on <0, host> : !regst.data<tensor<16xf32>>
// CHECK-NEXT:   %b = regst.register "b" in %shared at 64 slots 1 on <0, host> {{.*}} : !regst.data<tensor<16xf32>>
// CHECK-NEXT:   %c = regst.register "c" in %shared at 0 slots 1 on <0, host> : !regst.data<tensor<16xf32>>
// CHECK-NEXT:   %[[TURN:.+]] = regst.register "y -> a" slots 1 initial 1 on <0, host> : !regst.control
// EXAMPLE-END
