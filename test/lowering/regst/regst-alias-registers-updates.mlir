// RUN: penstock-opt %s -p regst-alias-registers,verify-plan --split-input-file | filecheck %s
// RUN: penstock-opt %s -p regst-alias-registers,regst-alias-registers --split-input-file | filecheck %s

// A new value lies on its variable, as its assignment says: the other reader of the
// variable comes before the task that writes it, and again after it.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @updated
plan.plan @updated {
  %g = regst.register "g/out" slots 1 on <0, host> : !r
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  // CHECK: %[[NEXT:.+]] = regst.register "next/out" alias %{{.*}} slots 1
  // CHECK-NOT: no_alias
  %next = regst.register "next/out" slots 1 on <0, host> : !r
  %read = regst.register "y -> next" slots 1 on <0, host> : !regst.control
  plan.task "g" on <0, cpu:0> stream <compute, 0> ins() outs(%g : !r) { %v = job.input "g" : !t plan.yield %v : !t }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) signals(%read : !regst.control) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
  plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%g, %w : !r, !r) outs(%next : !r) waits(%read : !regst.control) { ^bb0(%v: !t, %u: !t): %x = op.sub %u, %v : !t, !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) { ^bb0(%v: !t, %u: !t): job.assign %v to %u in_place : !t plan.yield }
}

// -----

// Without a mark it lies nowhere else than over what is no variable.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @unmarked
// CHECK:         "next/out" slots 1 on <0, host> {no_alias = "variable: 'w/out' is one{{.*}}"}
plan.plan @unmarked {
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  %next = regst.register "next/out" slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%next : !r) { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) { ^bb0(%v: !t, %u: !t): job.assign %v to %u : !t plan.yield }
}

// -----

// The control that lets another task read the variable before has two slots: the next
// act could read it too early.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @ahead
// CHECK:         "next/out" slots 1 on <0, host> {no_alias = "reader: no control lets 'y' read it before that, each time; variable: {{.*}}"}
plan.plan @ahead {
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  %next = regst.register "next/out" slots 1 on <0, host> : !r
  %read = regst.register "y -> next" slots 2 on <0, host> : !regst.control
  %late = regst.register "y -> assign" slots 1 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) signals(%read, %late : !regst.control, !regst.control) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
  plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%next : !r) waits(%read : !regst.control) { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) waits(%late : !regst.control) { ^bb0(%v: !t, %u: !t): job.assign %v to %u in_place : !t plan.yield }
}

// -----

// It may fail; and it says itself that it lies apart.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @refused
// CHECK:         "next/out" slots 1 on <0, host> {no_alias = "update: 'next' can fail; variable: {{.*}}"}
// CHECK:         "other/out" slots 1 on <0, host> {no_alias = "by hand"}
plan.plan @refused {
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  %u = regst.register "u/out" slots 1 on <0, host> : !r
  %next = regst.register "next/out" slots 1 on <0, host> : !r
  %other = regst.register "other/out" slots 1 on <0, host> {no_alias = "by hand"} : !r
  %done = regst.register "next -> assign_u" slots 1 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins() outs(%u : !r) { %v = job.variable "u" init <ones> : !t plan.yield %v : !t }
  plan.task "next" on <0, cpu:0> stream <compute, 0> can_fail ins(%w : !r) outs(%next : !r) signals(%done : !regst.control) { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) { ^bb0(%a: !t, %b: !t): job.assign %a to %b in_place : !t plan.yield }
  plan.task "other" on <0, cpu:0> stream <compute, 0> ins(%u : !r) outs(%other : !r) { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign_u" on <0, cpu:0> stream <compute, 0> ins(%other, %u : !r, !r) waits(%done : !regst.control) { ^bb0(%a: !t, %b: !t): job.assign %a to %b in_place : !t plan.yield }
}
