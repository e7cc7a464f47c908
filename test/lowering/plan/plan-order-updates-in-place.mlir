// RUN: penstock-opt %s -p plan-order-updates --split-input-file | filecheck %s
// RUN: penstock-opt %s -p plan-order-updates,plan-order-updates --split-input-file | filecheck %s
// RUN: penstock-opt %s -p plan-order-updates{apart=true} --split-input-file | filecheck %s --check-prefix APART

// An assignment of what nothing else reads is marked where the task that makes it can
// write it over the variable; then all other readers come before that task.

// APART-NOT: in_place : tensor

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @marked
// CHECK:         %[[ASSIGN:.+]] = regst.register "y -> assign" slots 1
// CHECK:         %[[NEXT:.+]] = regst.register "y -> next" slots 1
plan.plan @marked {
  %g = plan.task "g" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.input "g" : !t plan.yield %v : !t }
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  // CHECK: plan.task "next" {{.*}} waits(%[[NEXT]] :
  %next = plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w, %g : !t, !t) -> !t { ^bb0(%v: !t, %u: !t): %x = op.sub %v, %u : !t, !t -> !t plan.yield %x : !t }
  // CHECK: job.assign {{.*}} in_place : tensor<4xf32>
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !t, !t) { ^bb0(%v: !t, %u: !t): job.assign %v to %u : !t plan.yield }
  // CHECK: plan.task "y" {{.*}} signals(%[[ASSIGN]], %[[NEXT]] :
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !t) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
}

// -----

// The new value is read by another task too.

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @read_by_another
// CHECK-NOT:     in_place : tensor
plan.plan @read_by_another {
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  %next = plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !t) -> !t { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !t, !t) { ^bb0(%v: !t, %u: !t): job.assign %v to %u : !t plan.yield }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%next : !t) { ^bb0(%v: !t): job.output "y", %v : !t plan.yield }
}

// -----

// Its op makes it of the variable, but cannot write it over that.

!t = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @no_pair
// CHECK-NOT:     in_place : tensor
plan.plan @no_pair {
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  %next = plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !t) -> !t { ^bb0(%v: !t): %x = op.matmul %v, %v : !t, !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !t, !t) { ^bb0(%v: !t, %u: !t): job.assign %v to %u : !t plan.yield }
}

// -----

// A hint keeps the two apart.

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @never
// CHECK:         op.exp {{.*}} {in_place = [#op.hint<never over 0>]}
// CHECK:         job.assign %{{.*}} to %{{[a-z0-9]+}} : tensor<4xf32>
plan.plan @never {
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  %next = plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !t) -> !t { ^bb0(%v: !t): %x = op.exp %v {in_place = [#op.hint<never over 0>]} : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !t, !t) { ^bb0(%v: !t, %u: !t): job.assign %v to %u : !t plan.yield }
}

// -----

// The task may fail, when it would have written a part of the variable.

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @fails
// CHECK-NOT:     in_place : tensor
plan.plan @fails {
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  %next = plan.task "next" on <0, cpu:0> stream <compute, 0> can_fail ins(%w : !t) -> !t { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !t, !t) { ^bb0(%v: !t, %u: !t): job.assign %v to %u : !t plan.yield }
}

// -----

// Another result of the task goes to one that may fail after it.

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @fails_after
// CHECK-NOT:     in_place : tensor
plan.plan @fails_after {
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  %next, %other = plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w : !t) -> !t, !t {
  ^bb0(%v: !t):
    %x, %z = op.fused %v : !t -> !t, !t {
    ^bb1(%p: !t):
      %a = op.exp %p : !t -> !t
      %b = op.tanh %p : !t -> !t
      op.yield %a, %b : !t, !t
    }
    plan.yield %x, %z : !t, !t
  }
  %late = plan.task "late" on <0, cpu:0> stream <compute, 0> can_fail ins(%other : !t) -> !t { ^bb0(%v: !t): %x = op.exp %v : !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !t, !t) { ^bb0(%v: !t, %u: !t): job.assign %v to %u : !t plan.yield }
}

// -----

// Two variables are made of each other: the first one is written in place, after the task
// that makes the second one has read it.

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @both
// CHECK:         regst.register "next_u -> next_w" slots 1
// CHECK-NOT:     "next_w -> next_u"
// CHECK:         job.assign {{.*}} in_place : tensor<4xf32>
// CHECK:         plan.task "assign_u"
// CHECK-NOT:     in_place : tensor
plan.plan @both {
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  %u = plan.task "u" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.variable "u" init <ones> : !t plan.yield %v : !t }
  %next_w = plan.task "next_w" on <0, cpu:0> stream <compute, 0> ins(%w, %u : !t, !t) -> !t { ^bb0(%a: !t, %b: !t): %x = op.sub %a, %b : !t, !t -> !t plan.yield %x : !t }
  %next_u = plan.task "next_u" on <0, cpu:0> stream <compute, 0> ins(%w, %u : !t, !t) -> !t { ^bb0(%a: !t, %b: !t): %x = op.sub %a, %b : !t, !t -> !t plan.yield %x : !t }
  plan.task "assign_w" on <0, cpu:0> stream <compute, 0> ins(%next_w, %w : !t, !t) { ^bb0(%a: !t, %b: !t): job.assign %a to %b : !t plan.yield }
  plan.task "assign_u" on <0, cpu:0> stream <compute, 0> ins(%next_u, %u : !t, !t) { ^bb0(%a: !t, %b: !t): job.assign %a to %b : !t plan.yield }
}

// -----

// The task reads the variable as a view, too.

!t = tensor<2x2xf32>
!s = tensor<4xf32>

// CHECK-LABEL: plan.plan @viewed
// CHECK-NOT:     in_place : tensor
plan.plan @viewed {
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  %v = plan.task "v" on <0, cpu:0> stream <compute, 0> ins(%w : !t) -> !s { ^bb0(%a: !t): %x = op.reshape %a to [4] : !t -> !s plan.yield %x : !s }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%v : !s) -> !t { ^bb0(%a: !s): %x = op.reshape %a to [2, 2] : !s -> !t plan.yield %x : !t }
  %next = plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w, %b : !t, !t) -> !t { ^bb0(%a: !t, %c: !t): %x = op.sub %a, %c : !t, !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !t, !t) { ^bb0(%a: !t, %c: !t): job.assign %a to %c : !t plan.yield }
}

// -----

// A main job waits until all that uses bytes of an input has acted before it may let the
// assignments begin: what reads an input cannot write a variable.

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @sections
// CHECK-NOT:     in_place : tensor
plan.plan @sections attributes {sections = [#job.section<"in", input reads ["g"]>]} {
  %g = plan.task "g" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.input "g" : !t plan.yield %v : !t }
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  %next = plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%w, %g : !t, !t) -> !t { ^bb0(%v: !t, %u: !t): %x = op.sub %v, %u : !t, !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !t, !t) { ^bb0(%v: !t, %u: !t): job.assign %v to %u : !t plan.yield }
}
