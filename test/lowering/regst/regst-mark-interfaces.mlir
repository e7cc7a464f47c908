// RUN: penstock-opt %s -p regst-mark-interfaces --split-input-file | filecheck %s
// RUN: penstock-opt %s -p regst-mark-interfaces,regst-mark-interfaces --split-input-file | filecheck %s

// An input that two jobs have is an interface, and so is what one makes and the other one
// takes. An input of one job only is none. An interface has one slot, although copies from
// devices have two, and lies in memory that serves all jobs.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @first
plan.plan @first {
  // CHECK-NEXT: regst.register "x" slots 1 interface "x" on <0, pinned cuda:0>
  %x = regst.register "x" slots 1 on <0, pinned cuda:0> : !r
  // CHECK-NEXT: regst.register "mine" slots 1 on <0, host>
  %mine = regst.register "mine" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "y" slots 1 interface "y" on <0, pinned_network cuda:0>
  %y = regst.register "y" slots 2 on <0, pinned cuda:0> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "mine" on <0, cpu:0> stream <compute, 0> ins() outs(%mine : !r) {
    %v = job.input "mine" : !t
    plan.yield %v : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x, %mine : !r, !r) outs(%y : !r) {
  ^bb0(%0: !t, %1: !t):
    %v = op.add %0, %1 : !t, !t -> !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%y : !r) {
  ^bb0(%0: !t):
    job.output "y", %0 : !t
    plan.yield
  }
}

// CHECK-LABEL: plan.plan @second
plan.plan @second {
  // CHECK-NEXT: regst.register "x" slots 1 interface "x" on <0, pinned cuda:0>
  %x = regst.register "x" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "y" slots 1 interface "y" on <0, pinned_network cuda:0>
  %y = regst.register "y" slots 1 on <0, network> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = job.input "y" : !t
    plan.yield %v : !t
  }
}

// -----

// An output that hands on a variable, or an input that is an interface too, gets a register
// of its own, and a task that fills it right before. Variables are none: they are shared as
// they are.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @hands_on
plan.plan @hands_on {
  // CHECK-NEXT: %[[W:.+]] = regst.register "w" slots 1 on <0, host>
  %w = regst.register "w" slots 1 on <0, host> : !r
  // CHECK-NEXT: %[[X:.+]] = regst.register "x" slots 1 interface "x" on <0, host>
  %x = regst.register "x" slots 1 on <0, host> : !r
  // CHECK-NEXT: %[[Z:.+]] = regst.register "z/in" slots 1 interface "z" on <0, host>
  // CHECK-NEXT: %[[Y:.+]] = regst.register "y/in" slots 1 interface "y" on <0, host>
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  // CHECK: plan.task "x" on <0, cpu:0> stream <compute, 0> order 0
  plan.task "x" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  // CHECK: plan.task "z/copy" on <0, cpu:0> stream <compute, 0> chain 2 order 3 ins(%[[X]] : {{.*}}) outs(%[[Z]] :
  // CHECK: plan.task "z" on <0, cpu:0> stream <compute, 0> chain 2 order 4 ins(%[[Z]] :
  plan.task "z" on <0, cpu:0> stream <compute, 0> chain 2 order 8 ins(%x : !r) {
  ^bb0(%0: !t):
    job.output "z", %0 : !t
    plan.yield
  }
  // CHECK: plan.task "y/copy" on <0, cpu:0> stream <compute, 0> order 1 ins(%[[W]] : {{.*}}) outs(%[[Y]] :
  // CHECK-NEXT: ^bb0(%[[V:.+]]: tensor<4xf32>):
  // CHECK-NEXT: %[[C:.+]] = job.copy %[[V]] to <0, cpu:0>
  // CHECK-NEXT: plan.yield %[[C]]
  // CHECK: plan.task "y" on <0, cpu:0> stream <compute, 0> order 2 ins(%[[Y]] :
  plan.task "y" on <0, cpu:0> stream <compute, 0> order 4 ins(%w : !r) {
  ^bb0(%0: !t):
    job.output "y", %0 : !t
    plan.yield
  }
}

// CHECK-LABEL: plan.plan @takes
plan.plan @takes {
  // CHECK-NEXT: regst.register "w" slots 1 on
  %w = regst.register "w" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "x" slots 1 interface "x"
  %x = regst.register "x" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "y" slots 1 interface "y"
  %y = regst.register "y" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "z" slots 1 interface "z"
  %z = regst.register "z" slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = job.input "y" : !t
    plan.yield %v : !t
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins() outs(%z : !r) {
    %v = job.input "z" : !t
    plan.yield %v : !t
  }
}

// -----

// Plans whose registers have places are left alone, and so are the jobs of a merged plan.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @placed
plan.plan @placed {
  %c = regst.chunk on <0, host> size 16
  %b = regst.block in %c at 0 size 16
  // CHECK: regst.register "x" in %{{.*}} at 0 slots 1 on <0, host>
  %x = regst.register "x" in %b at 0 slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
}

// CHECK-LABEL: plan.plan @unplaced
plan.plan @unplaced {
  // CHECK: regst.register "x" slots 1 interface "x" on <0, host>
  %x = regst.register "x" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
}

// CHECK-LABEL: plan.plan @merged
plan.plan @merged {
  // CHECK: regst.register "x" slots 1 on <0, host>
  %x = regst.register "x" slots 1 on <0, host> : !r
  plan.task "x" job "other" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
}

// -----

// The header of an interface goes where the interface goes, and that of a copy is new.

!d = !regst.data<tensor<?xf32>, max [4]>
!h = !regst.data<tensor<1xi64>>

// CHECK-LABEL: plan.plan @dynamic
plan.plan @dynamic {
  // CHECK-NEXT: regst.register "x" slots 1 interface "x" on <0, pinned cuda:0>
  %x = regst.register "x" slots 2 on <0, host> : !d
  // CHECK-NEXT: regst.register "x/header" slots 1 header "x" on <0, pinned cuda:0>
  %0 = regst.register "x/header" slots 2 header "x" on <0, host> : !h
  // CHECK-NEXT: regst.register "y/in" slots 1 interface "y" on <0, pinned cuda:0>
  // CHECK-NEXT: regst.register "y/in/header" slots 1 header "y/in" on <0, pinned cuda:0>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !d) {
    %v = job.input "x" : tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !d) {
  ^bb0(%1: tensor<?xf32>):
    job.output "y", %1 : tensor<?xf32>
    plan.yield
  }
}

plan.plan @other {
  %x = regst.register "x" slots 1 on <0, pinned cuda:0> : !d
  %0 = regst.register "x/header" slots 1 header "x" on <0, pinned cuda:0> : !h
  %y = regst.register "y" slots 1 on <0, pinned cuda:0> : !d
  %1 = regst.register "y/header" slots 1 header "y" on <0, pinned cuda:0> : !h
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !d) {
    %v = job.input "x" : tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !d) {
    %v = job.input "y" : tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
}

// -----

// Views may lie on an interface by hand, and go where it goes. An output whose register is
// an alias, or is written under the name of one, gets another one.

!r = !regst.data<tensor<4xf32>>
!m = !regst.data<tensor<2x2xf32>>
!t = tensor<4xf32>
!s = tensor<2x2xf32>

// CHECK-LABEL: plan.plan @aliases
plan.plan @aliases {
  // CHECK-NEXT: %[[X:.+]] = regst.register "x" slots 1 interface "x" on <0, pinned cuda:0>
  %x = regst.register "x" slots 1 on <0, host> : !r
  // CHECK-NEXT: %[[V:.+]] = regst.register "v" alias %[[X]] : {{.*}} slots 1 on <0, pinned cuda:0>
  %v = regst.register "v" alias %x : !r slots 1 on <0, host> : !m
  // CHECK-NEXT: %[[A:.+]] = regst.register "a" slots 1 on <0, host>
  %a = regst.register "a" slots 1 on <0, host> : !m
  // CHECK-NEXT: %[[B:.+]] = regst.register "b" alias %[[A]] : {{.*}} slots 1 on <0, host>
  %b = regst.register "b" alias %a : !m slots 1 on <0, host> : !m
  // CHECK-NEXT: %[[V_IN:.+]] = regst.register "view/in" slots 1 interface "v" on
  // CHECK-NEXT: %[[A_IN:.+]] = regst.register "first/in" slots 1 interface "a" on
  // CHECK-NEXT: %[[B_IN:.+]] = regst.register "last/in" slots 1 interface "b" on
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : !t
    plan.yield %0 : !t
  }
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%v : !m) {
  ^bb0(%0: !t):
    %1 = op.reshape %0 to [2, 2] : !t -> !s
    plan.yield %1 : !s
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%v : !m) outs(%a : !m) {
  ^bb0(%0: !s):
    %1 = op.softmax %0 : !s -> !s
    plan.yield %1 : !s
  }
  // CHECK: plan.task "view/copy" {{.*}} ins(%[[V]] : {{.*}}) outs(%[[V_IN]]
  plan.task "view" on <0, cpu:0> stream <compute, 0> ins(%v : !m) {
  ^bb0(%0: !s):
    job.output "v", %0 : !s
    plan.yield
  }
  // CHECK: plan.task "first/copy" {{.*}} ins(%[[A]] : {{.*}}) outs(%[[A_IN]]
  plan.task "first" on <0, cpu:0> stream <compute, 0> ins(%a : !m) {
  ^bb0(%0: !s):
    job.output "a", %0 : !s
    plan.yield
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !m) outs(%b : !m) {
  ^bb0(%0: !s):
    %1 = op.softmax %0 : !s -> !s
    plan.yield %1 : !s
  }
  // CHECK: plan.task "last/copy" {{.*}} ins(%[[B]] : {{.*}}) outs(%[[B_IN]]
  plan.task "last" on <0, cpu:0> stream <compute, 0> ins(%b : !m) {
  ^bb0(%0: !s):
    job.output "b", %0 : !s
    plan.yield
  }
}

plan.plan @users {
  %x = regst.register "x" slots 1 on <0, pinned cuda:0> : !r
  %v = regst.register "v" slots 1 on <0, host> : !m
  %a = regst.register "a" slots 1 on <0, host> : !m
  %b = regst.register "b" slots 1 on <0, host> : !m
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : !t
    plan.yield %0 : !t
  }
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins() outs(%v : !m) {
    %0 = job.input "v" : !s
    plan.yield %0 : !s
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !m) {
    %0 = job.input "a" : !s
    plan.yield %0 : !s
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() outs(%b : !m) {
    %0 = job.input "b" : !s
    plan.yield %0 : !s
  }
}

// -----

// An output of a variable gets a copy, which then comes before what assigns to that.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @updates
// CHECK:         %[[TURN:.+]] = regst.register "y -> assign"
// CHECK:         plan.task "y/copy" {{.*}} signals(%[[TURN]] : !regst.control)
// CHECK:         plan.task "y" {{.*}} ins(%{{[^ ]+}} : !regst.data<tensor<4xf32>>) {
// CHECK:         plan.task "assign" {{.*}} waits(%[[TURN]] : !regst.control)
plan.plan @updates {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %w = regst.register "w" slots 1 on <0, host> : !r
  %k = regst.register "y -> assign" slots 1 on <0, host> : !regst.control
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : !t
    plan.yield %0 : !t
  }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) signals(%k : !regst.control) {
  ^bb0(%0: !t):
    job.output "y", %0 : !t
    plan.yield
  }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) waits(%k : !regst.control) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
}

plan.plan @reads {
  %y = regst.register "y" slots 1 on <0, host> : !r
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %0 = job.input "y" : !t
    plan.yield %0 : !t
  }
}

// -----

// Jobs share what lies on one rank: `x` on rank 0, and nothing on rank 1.

!r = !regst.data<tensor<4xf32>>

// CHECK-LABEL: plan.plan @a_0
// CHECK-NEXT:    regst.register "x" slots 1 interface "x" on <0, host>
// CHECK-LABEL: plan.plan @a_1
// CHECK-NEXT:    regst.register "x" slots 1 on <1, host>
// CHECK-LABEL: plan.plan @b_0
// CHECK-NEXT:    regst.register "x" slots 1 interface "x" on <0, host>
// CHECK-LABEL: plan.plan @b_1
// CHECK-NEXT:    regst.register "x" slots 1 on <1, host>
plan.plan @a_0 rank 0 {
  %x = regst.register "x" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}
plan.plan @a_1 rank 1 {
  %x = regst.register "x" slots 1 on <1, host> : !r
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "y" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}
plan.plan @b_0 rank 0 {
  %x = regst.register "x" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}
plan.plan @b_1 rank 1 {
  %x = regst.register "x" slots 1 on <1, host> : !r
  plan.task "z" on <1, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "z" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}
