// RUN: penstock-opt %s -p 'plan-select-job{job=b}' | filecheck %s --match-full-lines

// Of two jobs `b` stays, with its register at the same bytes.

!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>

// EXAMPLE-BEFORE
plan.plan @main exclusive [["a", "b"]] attributes {jobs = {a = {}, b = {}}} {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64
  %x = regst.register "a/x" in %m at 0 slots 1 on <0, host> : !r
  %y = regst.register "b/x" in %m at 0 slots 1 on <0, host> : !r
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) { %v = job.input "x" : !t plan.yield %v : !t }
  plan.task "b/x" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) { %v = job.input "x" : !t plan.yield %v : !t }
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @b {
// CHECK-NEXT:   %c = regst.chunk on <0, host> size 64
// CHECK-NEXT:   %m = regst.block in %c at 0 size 64
// CHECK-NEXT:   %y = regst.register "b/x" in %m at 0 slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// CHECK-NEXT:   plan.task "b/x" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !regst.data<tensor<4xf32>>) {
// CHECK:      }
// EXAMPLE-END
