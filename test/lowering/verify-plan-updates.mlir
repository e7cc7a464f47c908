// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file | filecheck %s

// Who reads a variable does so before it is assigned to, and again after that: here a
// control register of one slot sees to both. A task of another job may do as it likes.

!r = !regst.data<tensor<4xf32>>

// CHECK-LABEL: plan.plan @ordered
plan.plan @ordered attributes {jobs = {a = {}, b = {}}} {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %w = regst.register "w" slots 1 on <0, host> : !r
  %k = regst.register "y -> assign" slots 1 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "y" job "a" on <0, cpu:0> stream <compute, 0> ins(%w : !r) signals(%k : !regst.control) {
  ^bb0(%0: tensor<4xf32>):
    job.output "y", %0 : tensor<4xf32>
    plan.yield
  }
  plan.task "assign" job "a" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) waits(%k : !regst.control) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
  plan.task "z" job "b" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.output "z", %0 : tensor<4xf32>
    plan.yield
  }
}

// -----

!r = !regst.data<tensor<4xf32>>

plan.plan @unordered {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %w = regst.register "w" slots 1 on <0, host> : !r
  %k = regst.register "z -> assign" slots 2 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.output "y", %0 : tensor<4xf32>
    plan.yield
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%w : !r) signals(%k : !regst.control) {
  ^bb0(%0: tensor<4xf32>):
    job.output "z", %0 : tensor<4xf32>
    plan.yield
  }
  // expected-error@+2 {{verify-plan: task 'y' may use variable 'w' after 'assign' has assigned to it}}
  // expected-error@+1 {{verify-plan: task 'z' may use variable 'w' again before 'assign' has assigned to it}}
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) waits(%k : !regst.control) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
}

// -----

!r = !regst.data<tensor<4xf32>>

plan.plan @targets {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %w = regst.register "w" slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  // expected-error@+2 {{verify-plan: task 'two' may use variable 'w' after 'one' has assigned to it}}
  // expected-error@+1 {{verify-plan: task 'three' may use variable 'w' after 'one' has assigned to it}}
  plan.task "one" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
  // expected-error@+1 {{verify-plan: tasks 'one' and 'two' both assign to variable 'w'}}
  plan.task "two" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
  // expected-error@+1 {{verify-plan: task 'three' assigns to 'x', which is no variable}}
  plan.task "three" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %1 to %0 : tensor<4xf32>
    plan.yield
  }
}
