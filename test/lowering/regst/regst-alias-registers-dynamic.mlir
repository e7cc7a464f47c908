// RUN: penstock-opt %s -p regst-alias-registers | filecheck %s

// What has a dynamic shape is never written over, though its op could: the shapes in its
// header and in that of the operand may differ.

!d = !regst.data<tensor<?x4xf32>, max [8, 4]>
!s = !regst.data<tensor<2xi64>>

// CHECK-LABEL: plan.plan @dynamic
plan.plan @dynamic {
  %x = regst.register "x" slots 1 on <0, host> : !d
  %xs = regst.register "x/header" slots 1 header "x" on <0, host> : !s
  // CHECK: regst.register "y" slots 1 on <0, host> {no_alias = "dynamic: 'y' has its shape in a header"}
  %y = regst.register "y" slots 1 on <0, host> : !d
  %ys = regst.register "y/header" slots 1 header "y" on <0, host> : !s
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !d) {
    %v = job.input "x" : tensor<?x4xf32>
    plan.yield %v : tensor<?x4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !d) outs(%y : !d) {
  ^bb0(%a: tensor<?x4xf32>):
    %r = op.relu %a : tensor<?x4xf32> -> tensor<?x4xf32>
    plan.yield %r : tensor<?x4xf32>
  }
}
