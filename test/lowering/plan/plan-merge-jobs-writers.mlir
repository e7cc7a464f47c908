// RUN: penstock-opt %s -p 'plan-merge-jobs{strategy=writers}' | filecheck %s
// RUN: penstock-opt %s -p plan-merge-jobs | filecheck %s --check-prefix=NAMES

// Jobs exclude each other only if one writes what the other has: two that read a variable
// do not, one that assigns to it excludes both, and so does who puts out what one takes.

// CHECK: plan.plan @main exclusive {{\[\[}}"a", "assigns"], ["b", "makes"{{\]\]}}
// NAMES: plan.plan @main exclusive {{\[\[}}"a", "b", "assigns"{{\]\]}}

!r = !regst.data<tensor<4xf32>>

plan.plan @a {
  %c = regst.chunk on <0, host> size 16
  %m = regst.block in %c at 0 size 16
  %w = regst.register "w/out" in %m at 0 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.output "a", %0 : tensor<4xf32>
    plan.yield
  }
}
plan.plan @b {
  %c = regst.chunk on <0, host> size 80
  %m = regst.block in %c at 0 size 16
  %n = regst.block in %c at 64 size 16
  %w = regst.register "w/out" in %m at 0 slots 1 on <0, host> : !r
  %x = regst.register "x/out" in %n at 0 slots 1 interface "x" on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.output "b", %0 : tensor<4xf32>
    plan.yield
  }
}
plan.plan @assigns {
  %c = regst.chunk on <0, host> size 80
  %m = regst.block in %c at 0 size 16
  %n = regst.block in %c at 64 size 16
  %w = regst.register "w/out" in %m at 0 slots 1 on <0, host> : !r
  %v = regst.register "v/out" in %n at 0 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins() outs(%v : !r) {
    %0 = job.foreign_input "v" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%v, %w : !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
}
plan.plan @makes {
  %c = regst.chunk on <0, host> size 16
  %m = regst.block in %c at 0 size 16
  %x = regst.register "x/out" in %m at 0 slots 1 interface "x" on <0, host> : !r
  plan.task "f" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.foreign_input "f" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins(%x : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.output "x", %0 : tensor<4xf32>
    plan.yield
  }
}
