// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file | filecheck %s

// A task writes the new value of a variable over the old one: its assignment says so, and
// all that reads the variable comes before that task, and again after it.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @ordered
plan.plan @ordered {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %next = regst.register "next" alias %w : !r slots 1 on <0, host> : !r
  %k = regst.register "y -> next" slots 1 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) signals(%k : !regst.control) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
  plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%next : !r) waits(%k : !regst.control) { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) { ^bb0(%v: !t, %u: !t): job.assign %v to %u in_place : !t plan.yield }
}

// -----

// To come before the assignment is not enough, nor is a control of two slots.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @late {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %next = regst.register "next" alias %w : !r slots 1 on <0, host> : !r
  %k = regst.register "y -> assign" slots 1 on <0, host> : !regst.control
  %l = regst.register "z -> next" slots 2 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) signals(%k : !regst.control) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%w : !r) signals(%l : !regst.control) { ^bb0(%v: !t): job.output "z", %v : !t plan.yield }
  // expected-error@+2 {{verify-plan: task 'y' may use variable 'w' after task 'next' has written it}}
  // expected-error@+1 {{verify-plan: task 'z' may use variable 'w' again before task 'next' has written it}}
  plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%next : !r) waits(%l : !regst.control) { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) waits(%k : !regst.control) { ^bb0(%v: !t, %u: !t): job.assign %v to %u in_place : !t plan.yield }
}

// -----

// Who reads a view of the variable reads the variable.

!r = !regst.data<tensor<4xf32>>
!s = !regst.data<tensor<2x2xf32>>
!t = tensor<4xf32>
!u = tensor<2x2xf32>

plan.plan @viewed {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %v = regst.register "v" alias %w : !r slots 1 on <0, host> : !s
  %next = regst.register "next" alias %w : !r slots 1 on <0, host> : !r
  %k = regst.register "v -> next" slots 1 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %0 = job.variable "w" init <ones> : !t plan.yield %0 : !t }
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%v : !s) signals(%k : !regst.control) { ^bb0(%0: !t): %x = op.reshape %0 to [2, 2] : !t -> !u plan.yield %x : !u }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%v : !s) { ^bb0(%0: !u): job.output "y", %0 : !u plan.yield }
  // expected-error@+1 {{verify-plan: task 'y' may use variable 'w' after task 'next' has written it}}
  plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%next : !r) waits(%k : !regst.control) { ^bb0(%0: !t): %x = op.exp %0 : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) { ^bb0(%0: !t, %1: !t): job.assign %0 to %1 in_place : !t plan.yield }
}

// -----

// A result lies on a variable, but is assigned without a word of that, or is read by
// others, or is assigned to another variable, or is no result that the op can write there.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @unsaid {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %next = regst.register "next" alias %w : !r slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  // expected-error@+1 {{verify-plan: task 'next' writes 'next' over 'w', a variable}}
  plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%next : !r) { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) { ^bb0(%v: !t, %u: !t): job.assign %v to %u : !t plan.yield }
}

// -----

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @read_by_others {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %next = regst.register "next" alias %w : !r slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  // expected-error@+1 {{verify-plan: task 'next' writes 'next' over 'w', a variable}}
  plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%next : !r) { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%next : !r) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) { ^bb0(%v: !t, %u: !t): job.assign %v to %u in_place : !t plan.yield }
}

// -----

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @of_another {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %u = regst.register "u" slots 1 on <0, host> : !r
  %next = regst.register "next" alias %w : !r slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins() outs(%u : !r) { %v = job.variable "u" init <ones> : !t plan.yield %v : !t }
  // expected-error@+1 {{verify-plan: task 'next' writes 'next' over 'w', a variable}}
  plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%next : !r) { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %u : !r, !r) { ^bb0(%a: !t, %b: !t): job.assign %a to %b in_place : !t plan.yield }
}

// -----

!r = !regst.data<tensor<4x4xf32>>
!t = tensor<4x4xf32>

plan.plan @incapable {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %next = regst.register "next" alias %w : !r slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  // expected-error@+1 {{verify-plan: task 'next' writes 'next' over 'w', but op.matmul cannot work in place}}
  plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%next : !r) { ^bb0(%v: !t): %x = op.matmul %v, %v : !t, !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) { ^bb0(%v: !t, %u: !t): job.assign %v to %u in_place : !t plan.yield }
}

// -----

// What writes a variable cannot fail, and comes after all that can.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @failing {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %u = regst.register "u" slots 1 on <0, host> : !r
  %next = regst.register "next" alias %w : !r slots 1 on <0, host> : !r
  %next_u = regst.register "next_u" alias %u : !r slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins() outs(%u : !r) { %v = job.variable "u" init <ones> : !t plan.yield %v : !t }
  // expected-error@+1 {{verify-plan: task 'next' writes a variable before it may fail}}
  plan.task "next" on <0, cpu:0> stream <compute, 0> can_fail ins(%w : !r) outs(%next : !r) { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) { ^bb0(%a: !t, %b: !t): job.assign %a to %b in_place : !t plan.yield }
  // expected-error@+1 {{verify-plan: task 'next_u' may write a variable before task 'next' fails}}
  plan.task "next_u" on <0, cpu:0> stream <compute, 0> ins(%u : !r) outs(%next_u : !r) { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign_u" on <0, cpu:0> stream <compute, 0> ins(%next_u, %u : !r, !r) { ^bb0(%a: !t, %b: !t): job.assign %a to %b in_place : !t plan.yield }
}

// -----

// Two tasks write a variable.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @twice {
  %g = regst.register "g" slots 1 on <0, host> : !r
  %w = regst.register "w" slots 1 on <0, host> : !r
  %next = regst.register "next" alias %w : !r slots 1 on <0, host> : !r
  %k = regst.register "next -> other" slots 1 on <0, host> : !regst.control
  plan.task "g" on <0, cpu:0> stream <compute, 0> ins() outs(%g : !r) { %v = job.input "g" : !t plan.yield %v : !t }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  // expected-error@+1 {{verify-plan: task 'other' may use variable 'w' after task 'next' has written it}}
  plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%next : !r) signals(%k : !regst.control) { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) { ^bb0(%v: !t, %u: !t): job.assign %v to %u in_place : !t plan.yield }
  // expected-error@+1 {{verify-plan: task 'next' and task 'other' both write variable 'w'}}
  plan.task "other" on <0, cpu:0> stream <compute, 0> ins(%g, %w : !r, !r) waits(%k : !regst.control) { ^bb0(%v: !t, %u: !t): job.assign %v to %u : !t plan.yield }
}
