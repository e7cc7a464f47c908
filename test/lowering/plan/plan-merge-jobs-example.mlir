// RUN: penstock-opt %s -p 'plan-merge-jobs{strategy=memory}' | filecheck %s --match-full-lines

// Two plans become one. Jobs that never run at the same time share bytes: `train/x` and
// `eval/y` lie in the same place.

!r = !regst.data<tensor<4xf32>>

// EXAMPLE-BEFORE
plan.plan @train {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64 sum 64 bound 64
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
}
plan.plan @eval {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64 sum 64 bound 64
  %y = regst.register "y" in %m at 0 slots 1 on <0, host> : !r
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @main attributes {jobs = {train = {}, eval = {}}} {
// CHECK-NEXT:   %host_train = regst.chunk on <0, host> size 64
// CHECK-NEXT:   %train_m = regst.block in %host_train at 0 size 64 sum 64 bound 16
// CHECK-NEXT:   %eval_m = regst.block in %host_train at 0 size 64 sum 64 bound 16
// CHECK-NEXT:   %x = regst.register "train/x" in %train_m at 0 slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// CHECK-NEXT:   %y = regst.register "eval/y" in %eval_m at 0 slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// CHECK-NEXT: }
// EXAMPLE-END
