// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file

// A header is in use all the time: nothing else may lie on its bytes.

!t = tensor<?x4xf32>
!d = !regst.data<tensor<?x4xf32>, max [8, 4]>
!s = !regst.data<tensor<2xi64>>

plan.plan @apart {
  %c = regst.chunk on <0, host> size 400
  %m = regst.block in %c at 0 size 256
  %n = regst.block in %c at 256 size 144
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !d
  %h = regst.register "x/header" in %n at 0 slots 1 header "x" on <0, host> : !s
  %y = regst.register "y" in %m at 128 slots 1 on <0, host> : !d
  %g = regst.register "y/header" in %n at 128 slots 1 header "y" on <0, host> : !s
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !d) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !d) outs(%y : !d) {
  ^bb0(%a: !t):
    %r = op.relu %a : !t -> !t
    plan.yield %r : !t
  }
}

// -----

!t = tensor<?x4xf32>
!d = !regst.data<tensor<?x4xf32>, max [8, 4]>
!s = !regst.data<tensor<2xi64>>

plan.plan @headers {
  %c = regst.chunk on <0, host> size 400
  %m = regst.block in %c at 0 size 256
  %n = regst.block in %c at 256 size 144
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !d
  %h = regst.register "x/header" in %n at 0 slots 1 header "x" on <0, host> : !s
  %y = regst.register "y" in %m at 128 slots 1 on <0, host> : !d
  // expected-error@+1 {{verify-plan: registers 'x/header' and 'y/header' share 16 bytes, but 'x/header' lasts from run to run}}
  %g = regst.register "y/header" in %n at 0 slots 1 header "y" on <0, host> : !s
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !d) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !d) outs(%y : !d) {
  ^bb0(%a: !t):
    %r = op.relu %a : !t -> !t
    plan.yield %r : !t
  }
}

// -----

!t = tensor<?x4xf32>
!d = !regst.data<tensor<?x4xf32>, max [8, 4]>
!s = !regst.data<tensor<2xi64>>

plan.plan @data {
  %c = regst.chunk on <0, host> size 400
  %m = regst.block in %c at 0 size 256
  %n = regst.block in %c at 256 size 144
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !d
  %h = regst.register "x/header" in %n at 0 slots 1 header "x" on <0, host> : !s
  // expected-error@+1 {{verify-plan: registers 'x/header' and 'y' share 16 bytes, but 'x/header' lasts from run to run}}
  %y = regst.register "y" in %n at 0 slots 1 on <0, host> : !d
  %g = regst.register "y/header" in %n at 128 slots 1 header "y" on <0, host> : !s
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !d) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !d) outs(%y : !d) {
  ^bb0(%a: !t):
    %r = op.relu %a : !t -> !t
    plan.yield %r : !t
  }
}
