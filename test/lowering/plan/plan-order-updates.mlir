// RUN: penstock-opt %s -p plan-order-updates --split-input-file | filecheck %s
// RUN: penstock-opt %s -p plan-order-updates,plan-order-updates --split-input-file | filecheck %s

// Who reads a variable, or what may be a view of it, acts before the task that assigns to
// it, and again after it: a control register of one slot. Who reads what is none, or
// another variable, does not wait, and neither does the assignment for itself.

!r = !regst.data<tensor<4xf32>>
!v = !regst.data<tensor<2x2xf32>>

// CHECK-LABEL: plan.plan @readers
plan.plan @readers {
  %x = regst.register "x/out" slots 1 on <0, host> : !r
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  %u = regst.register "u/out" slots 1 on <0, host> : !r
  %v = regst.register "v/out" slots 1 on <0, host> : !v
  %a = regst.register "a/out" slots 1 on <0, host> : !v
  %b = regst.register "b/out" slots 1 on <0, host> : !v
  // CHECK:     %[[V:.+]] = regst.register "v -> assign" slots 1 on <0, host> : !regst.control
  // CHECK:     %[[A:.+]] = regst.register "a -> assign" slots 1 on <0, host> : !regst.control
  // CHECK-NOT: -> assign
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins() outs(%u : !r) {
    %0 = job.variable "u" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  // CHECK: plan.task "v" {{.*}} signals(%[[V]] :
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%v : !v) {
  ^bb0(%0: tensor<4xf32>):
    %1 = op.reshape %0 to [2, 2] : tensor<4xf32> -> tensor<2x2xf32>
    plan.yield %1 : tensor<2x2xf32>
  }
  // CHECK: plan.task "a" {{.*}} signals(%[[A]] :
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%v : !v) outs(%a : !v) {
  ^bb0(%0: tensor<2x2xf32>):
    %1 = op.relu %0 : tensor<2x2xf32> -> tensor<2x2xf32>
    plan.yield %1 : tensor<2x2xf32>
  }
  // CHECK-NOT: signals
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !v) outs(%b : !v) {
  ^bb0(%0: tensor<2x2xf32>):
    %1 = op.relu %0 : tensor<2x2xf32> -> tensor<2x2xf32>
    plan.yield %1 : tensor<2x2xf32>
  }
  // CHECK: plan.task "assign" {{.*}} waits(%[[V]], %[[A]] :
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
}

// -----

// A plan with places is left as it is.

!r = !regst.data<tensor<4xf32>>

// CHECK-LABEL: plan.plan @placed
// CHECK-NOT: regst.control
plan.plan @placed {
  %c = regst.chunk on <0, host> size 16
  %m = regst.block in %c at 0 size 16
  %w = regst.register "w/out" in %m at 0 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.output "y", %0 : tensor<4xf32>
    plan.yield
  }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.assign %0 to %0 : tensor<4xf32>
    plan.yield
  }
}

// -----

// It is the same before there are registers, and the order of tasks follows.

// CHECK-LABEL: plan.plan @values
plan.plan @values {
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %0 = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%0: tensor<4xf32>):
    %1 = op.relu %0 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %1 : tensor<4xf32>
  }
  // CHECK: plan.task "assign" {{.*}} waits(%[[A:.+]], %[[Y:.+]] :
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%a, %w : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
  // CHECK: plan.task "y" {{.*}} signals(%[[Y]], %{{.*}} :
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : tensor<4xf32>) {
  ^bb0(%0: tensor<4xf32>):
    job.output "y", %0 : tensor<4xf32>
    plan.yield
  }
}

// -----

// Aliases, also those written by hand, are no places.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @aliases
// CHECK:         regst.register "y -> assign"
// CHECK-NEXT:    regst.register "z -> assign"
plan.plan @aliases {
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  %y = regst.register "y/out" slots 1 on <0, host> : !r
  %z = regst.register "z/out" alias %y : !r slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%y : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%y, %w : !r, !r) outs(%z : !r) {
  ^bb0(%0: !t, %1: !t):
    %2 = op.add %0, %1 : !t, !t -> !t
    plan.yield %2 : !t
  }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%z, %w : !r, !r) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
}

// -----

// Where assignments exchange values, one of each cycle assigns a copy that is made before:
// here a ring of three, of which `a`, `b` and `c` are, and who else reads `a` does not.

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @ring
// CHECK-DAG:     regst.register "assign.copy -> assign_2" slots 1
// CHECK-DAG:     regst.register "assign_2 -> assign_1" slots 1
// CHECK-DAG:     regst.register "assign_1 -> assign" slots 1
// CHECK-DAG:     regst.register "assign_3 -> assign_2" slots 1
// CHECK:         %[[A:.+]] = plan.task "a"
// CHECK:         %[[B:.+]] = plan.task "b"
// CHECK:         %[[C:.+]] = plan.task "c"
// CHECK:         %[[OLD:.+]] = plan.task "assign.copy" on <0, cpu:0> stream <compute, 0> ins(%[[A]] : tensor<4xf32>)
// CHECK-NEXT:    ^bb0(%[[IN:.+]]: tensor<4xf32>):
// CHECK-NEXT:      %[[OUT:.+]] = job.copy %[[IN]] to <0, cpu:0> : tensor<4xf32>
// CHECK:         plan.task "assign" {{.*}} ins(%[[OLD]], %[[B]] :
// CHECK-NOT:     job.copy
// CHECK:         plan.task "assign_1" {{.*}} ins(%[[B]], %[[C]] :
// CHECK:         plan.task "assign_2" {{.*}} ins(%[[C]], %[[A]] :
// CHECK:         plan.task "assign_3" {{.*}} ins(%[[A]], %{{.+}} :
plan.plan @ring {
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %0 = job.variable "a" init <ones> : !t
    plan.yield %0 : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %0 = job.variable "b" init <ones> : !t
    plan.yield %0 : !t
  }
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %0 = job.variable "c" init <ones> : !t
    plan.yield %0 : !t
  }
  %d = plan.task "d" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %0 = job.variable "d" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%a, %b : !t, !t) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
  plan.task "assign_1" on <0, cpu:0> stream <compute, 0> ins(%b, %c : !t, !t) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
  plan.task "assign_2" on <0, cpu:0> stream <compute, 0> ins(%c, %a : !t, !t) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
  plan.task "assign_3" on <0, cpu:0> stream <compute, 0> ins(%a, %d : !t, !t) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
}

// -----

// A chain is no cycle, and what assigns to a variable what it holds is none either.

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @chain
// CHECK-NOT:     job.copy
plan.plan @chain {
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %0 = job.variable "a" init <ones> : !t
    plan.yield %0 : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %0 = job.variable "b" init <ones> : !t
    plan.yield %0 : !t
  }
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %0 = job.variable "c" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%a, %b : !t, !t) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
  plan.task "assign_1" on <0, cpu:0> stream <compute, 0> ins(%b, %c : !t, !t) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
  plan.task "assign_2" on <0, cpu:0> stream <compute, 0> ins(%a : !t) {
  ^bb0(%0: !t):
    job.assign %0 to %0 : !t
    plan.yield
  }
}

// -----

// On registers the copy writes one like that which it reads, also of a view.

!r = !regst.data<tensor<4xf32>>
!s = !regst.data<tensor<2x2xf32>>

// CHECK-LABEL: plan.plan @view
// CHECK:         %[[OLD:.+]] = regst.register "assign.copy/out" slots 1 on <0, host> : !regst.data<tensor<2x2xf32>>
// CHECK-NOT:     "v -> assign"
// CHECK:         %[[V:.+]] = regst.register "v -> assign_1" slots 1
// CHECK:         plan.task "assign.copy" job "train" {{.*}} ins(%{{.+}} : !regst.data<tensor<2x2xf32>>) outs(%[[OLD]] :
// CHECK:         plan.task "assign" job "train" {{.*}} ins(%[[OLD]], %{{.+}} :
// CHECK-NOT:     job.copy
plan.plan @view {
  %a = regst.register "a/out" slots 1 on <0, host> : !r
  %b = regst.register "b/out" slots 1 on <0, host> : !s
  %v = regst.register "v/out" slots 1 on <0, host> : !s
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) {
    %0 = job.variable "a" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() outs(%b : !s) {
    %0 = job.variable "b" init <ones> : tensor<2x2xf32>
    plan.yield %0 : tensor<2x2xf32>
  }
  plan.task "v" job "train" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%v : !s) {
  ^bb0(%0: tensor<4xf32>):
    %1 = op.reshape %0 to [2, 2] : tensor<4xf32> -> tensor<2x2xf32>
    plan.yield %1 : tensor<2x2xf32>
  }
  plan.task "w" job "train" on <0, cpu:0> stream <compute, 0> ins(%b : !s) outs(%w : !r) {
  ^bb0(%0: tensor<2x2xf32>):
    %1 = op.reshape %0 to [4] : tensor<2x2xf32> -> tensor<4xf32>
    plan.yield %1 : tensor<4xf32>
  }
  plan.task "assign" job "train" on <0, cpu:0> stream <compute, 0> ins(%v, %b : !s, !s) {
  ^bb0(%0: tensor<2x2xf32>, %1: tensor<2x2xf32>):
    job.assign %0 to %1 : tensor<2x2xf32>
    plan.yield
  }
  plan.task "assign_1" job "train" on <0, cpu:0> stream <compute, 0> ins(%w, %a : !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    job.assign %0 to %1 : tensor<4xf32>
    plan.yield
  }
}
