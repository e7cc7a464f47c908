// RUN: penstock-opt %s -t memory-report | filecheck %s

// A header is needed all the time, though no task names it. What it belongs to has the bytes
// of its maximum.

// CHECK: x {{ +}}m {{ +}}0 {{ +}}128 {{ +}}1 {{ +}}0-1
// CHECK: x/header {{ +}}n {{ +}}0 {{ +}}16 {{ +}}1 {{ +}}always {{ +}}- {{ +}}- {{ +}}header

plan.plan @dynamic {
  %c = regst.chunk on <0, host> size 400
  %m = regst.block in %c at 0 size 256
  %n = regst.block in %c at 256 size 144
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !regst.data<tensor<?x4xf32>, max [8, 4]>
  %h = regst.register "x/header" in %n at 0 slots 1 header "x" on <0, host> : !regst.data<tensor<2xi64>>
  %y = regst.register "y" in %m at 128 slots 1 on <0, host> : !regst.data<tensor<?x4xf32>, max [8, 4]>
  %g = regst.register "y/header" in %n at 128 slots 1 header "y" on <0, host> : !regst.data<tensor<2xi64>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<?x4xf32>, max [8, 4]>) {
    %v = job.input "x" : tensor<?x4xf32>
    plan.yield %v : tensor<?x4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<?x4xf32>, max [8, 4]>) outs(%y : !regst.data<tensor<?x4xf32>, max [8, 4]>) {
  ^bb0(%a: tensor<?x4xf32>):
    %r = op.relu %a : tensor<?x4xf32> -> tensor<?x4xf32>
    plan.yield %r : tensor<?x4xf32>
  }
}
