// RUN: penstock-opt %s -p 'plan-select-job{job=a}' | filecheck %s

// A header stays with its register.

!d = !regst.data<tensor<?xf32>, max [16]>
!h = !regst.data<tensor<1xi64>>

// CHECK-LABEL: plan.plan @a {
// CHECK:         regst.register "a/x" in
// CHECK-NEXT:    regst.register "a/x/header" in {{.*}} header "a/x"
// CHECK-NOT:     regst.register
plan.plan @main {
  %c = regst.chunk on <0, host> size 256
  %m = regst.block in %c at 0 size 256
  %x = regst.register "a/x" in %m at 0 slots 1 on <0, host> : !d
  %0 = regst.register "a/x/header" in %m at 64 slots 1 header "a/x" on <0, host> : !h
  %y = regst.register "b/x" in %m at 128 slots 1 on <0, host> : !d
  %1 = regst.register "b/x/header" in %m at 192 slots 1 header "b/x" on <0, host> : !h
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !d) {
    %v = job.input "x" : tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
  plan.task "b/x" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !d) {
    %v = job.input "x" : tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
}
