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
  // expected-error@+2 {{verify-plan: task 'y' may use variable 'w' after task 'assign' has written it}}
  // expected-error@+1 {{verify-plan: task 'z' may use variable 'w' again before task 'assign' has written it}}
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
  // expected-error@+2 {{verify-plan: task 'two' may use variable 'w' after task 'one' has written it}}
  // expected-error@+1 {{verify-plan: task 'three' may use variable 'w' after task 'one' has written it}}
  plan.task "one" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
  // expected-error@+1 {{verify-plan: task 'one' and task 'two' both write variable 'w'}}
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

// -----

// What can fail comes before all assignments of its job: directly, by values, or by way of
// a commit, however long; in another job it does not matter.

!r = !regst.data<tensor<4xf32>>
!i = !regst.data<tensor<4xi64>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @committed
plan.plan @committed attributes {jobs = {a = {}, b = {}}} {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %u = regst.register "u" slots 1 on <0, host> : !r
  %v = regst.register "v" slots 1 on <0, host> : !r
  %i = regst.register "i" slots 1 on <0, host> : !i
  %g = regst.register "g" slots 1 on <0, host> : !r
  %h = regst.register "h" slots 1 on <0, host> : !r
  %k = regst.register "g -> commit" slots 2 on <0, host> : !regst.control
  %l = regst.register "commit -> first" slots 1 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins() outs(%u : !r) {
    %0 = job.variable "u" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins() outs(%v : !r) {
    %0 = job.variable "v" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "i" on <0, cpu:0> stream <compute, 0> ins() outs(%i : !i) {
    %0 = job.variable "i" init <zeros> : tensor<4xi64>
    plan.yield %0 : tensor<4xi64>
  }
  plan.task "g" job "a" on <0, cpu:0> stream <compute, 0> can_fail ins(%v, %i : !r, !i) outs(%g : !r) signals(%k : !regst.control) {
  ^bb0(%0: !t, %1: tensor<4xi64>):
    %2 = op.gather %0[%1] axis 0 : !t, tensor<4xi64> -> !t
    plan.yield %2 : !t
  }
  plan.task "commit" job "a" on <0, cpu:0> stream <commit, 0> ins() waits(%k : !regst.control) signals(%l : !regst.control) {
    job.commit
    plan.yield
  }
  plan.task "first" job "a" on <0, cpu:0> stream <compute, 0> ins(%w : !r) waits(%l : !regst.control) {
  ^bb0(%0: !t):
    job.assign %0 to %0 : !t
    plan.yield
  }
  plan.task "second" job "a" on <0, cpu:0> stream <compute, 0> ins(%g, %u : !r, !r) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
  plan.task "h" job "b" on <0, cpu:0> stream <compute, 0> can_fail ins(%v, %i : !r, !i) outs(%h : !r) {
  ^bb0(%0: !t, %1: tensor<4xi64>):
    %2 = op.gather %0[%1] axis 0 : !t, tensor<4xi64> -> !t
    plan.yield %2 : !t
  }
}

// -----

// A commit that does not wait for all that can fail, or starts with a token, is none.

!r = !regst.data<tensor<4xf32>>
!i = !regst.data<tensor<4xi64>>
!t = tensor<4xf32>

plan.plan @uncommitted attributes {jobs = {a = {}, b = {}}} {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %u = regst.register "u" slots 1 on <0, host> : !r
  %v = regst.register "v" slots 1 on <0, host> : !r
  %i = regst.register "i" slots 1 on <0, host> : !i
  %g = regst.register "g" slots 1 on <0, host> : !r
  %h = regst.register "h" slots 1 on <0, host> : !r
  %k = regst.register "g -> commit" slots 2 initial 1 on <0, host> : !regst.control
  %l = regst.register "commit -> first" slots 1 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins() outs(%u : !r) {
    %0 = job.variable "u" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins() outs(%v : !r) {
    %0 = job.variable "v" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "i" on <0, cpu:0> stream <compute, 0> ins() outs(%i : !i) {
    %0 = job.variable "i" init <zeros> : tensor<4xi64>
    plan.yield %0 : tensor<4xi64>
  }
  plan.task "g" job "a" on <0, cpu:0> stream <compute, 0> can_fail ins(%v, %i : !r, !i) outs(%g : !r) signals(%k : !regst.control) {
  ^bb0(%0: !t, %1: tensor<4xi64>):
    %2 = op.gather %0[%1] axis 0 : !t, tensor<4xi64> -> !t
    plan.yield %2 : !t
  }
  plan.task "commit" job "a" on <0, cpu:0> stream <commit, 0> ins() waits(%k : !regst.control) signals(%l : !regst.control) {
    job.commit
    plan.yield
  }
  // expected-error@+1 {{verify-plan: task 'first' may write a variable before task 'g' fails}}
  plan.task "first" job "a" on <0, cpu:0> stream <compute, 0> ins(%w : !r) waits(%l : !regst.control) {
  ^bb0(%0: !t):
    job.assign %0 to %0 : !t
    plan.yield
  }
  plan.task "second" job "a" on <0, cpu:0> stream <compute, 0> ins(%g, %u : !r, !r) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
  plan.task "h" job "b" on <0, cpu:0> stream <compute, 0> can_fail ins(%v, %i : !r, !i) outs(%h : !r) {
  ^bb0(%0: !t, %1: tensor<4xi64>):
    %2 = op.gather %0[%1] axis 0 : !t, tensor<4xi64> -> !t
    plan.yield %2 : !t
  }
}

// -----

// What fails on a device is known to the host only: the path leads over a commit.

!r = !regst.data<tensor<4xf32>>
!i = !regst.data<tensor<4xi64>>
!t = tensor<4xf32>

plan.plan @device attributes {jobs = {a = {}, b = {}}} {
  %w = regst.register "w" slots 1 on <0, device cuda:0> : !r
  %u = regst.register "u" slots 1 on <0, device cuda:0> : !r
  %v = regst.register "v" slots 1 on <0, device cuda:0> : !r
  %i = regst.register "i" slots 1 on <0, device cuda:0> : !i
  %g = regst.register "g" slots 1 on <0, device cuda:0> : !r
  %h = regst.register "h" slots 1 on <0, device cuda:0> : !r
  %k = regst.register "g -> commit" slots 2 on <0, host> : !regst.control
  %l = regst.register "commit -> first" slots 1 on <0, host> : !regst.control
  plan.task "w" on <0, cuda:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "u" on <0, cuda:0> stream <compute, 0> ins() outs(%u : !r) {
    %0 = job.variable "u" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "v" on <0, cuda:0> stream <compute, 0> ins() outs(%v : !r) {
    %0 = job.variable "v" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "i" on <0, cuda:0> stream <compute, 0> ins() outs(%i : !i) {
    %0 = job.variable "i" init <zeros> : tensor<4xi64>
    plan.yield %0 : tensor<4xi64>
  }
  plan.task "g" job "a" on <0, cuda:0> stream <compute, 0> can_fail ins(%v, %i : !r, !i) outs(%g : !r) signals(%k : !regst.control) {
  ^bb0(%0: !t, %1: tensor<4xi64>):
    %2 = op.gather %0[%1] axis 0 : !t, tensor<4xi64> -> !t
    plan.yield %2 : !t
  }
  plan.task "commit" job "a" on <0, cpu:0> stream <commit, 0> ins() waits(%k : !regst.control) signals(%l : !regst.control) {
    job.commit
    plan.yield
  }
  plan.task "first" job "a" on <0, cuda:0> stream <compute, 0> ins(%w : !r) waits(%l : !regst.control) {
  ^bb0(%0: !t):
    job.assign %0 to %0 : !t
    plan.yield
  }
  // expected-error@+1 {{verify-plan: task 'second' may write a variable before the host knows whether task 'g' fails, without a commit between them}}
  plan.task "second" job "a" on <0, cuda:0> stream <compute, 0> ins(%g, %u : !r, !r) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
  plan.task "h" job "b" on <0, cuda:0> stream <compute, 0> can_fail ins(%v, %i : !r, !i) outs(%h : !r) {
  ^bb0(%0: !t, %1: tensor<4xi64>):
    %2 = op.gather %0[%1] axis 0 : !t, tensor<4xi64> -> !t
    plan.yield %2 : !t
  }
}

// -----

// What is used from act to act is ordered alike.

!r = !regst.data<tensor<4xf32>>

plan.plan @unordered_state {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %w = regst.register "w" slots 1 on <0, host> : !r
  %k = regst.register "z -> assign" slots 2 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.state : tensor<4xf32>
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
  // expected-error@+2 {{verify-plan: task 'y' may use variable 'w' after task 'assign' has written it}}
  // expected-error@+1 {{verify-plan: task 'z' may use variable 'w' again before task 'assign' has written it}}
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) waits(%k : !regst.control) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
}
