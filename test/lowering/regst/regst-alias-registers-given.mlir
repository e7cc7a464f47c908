// RUN: penstock-opt %s -p regst-alias-registers --split-input-file | filecheck %s
// RUN: penstock-opt %s -p regst-alias-registers,regst-alias-registers --split-input-file | filecheck %s
// RUN: penstock-opt %s -p regst-alias-registers,regst-plan-memory,verify-plan --split-input-file | filecheck %s --check-prefix=PLANNED

// An alias written by hand stays where it is, and others are found around it: by itself
// the pass would let `a` lie on `x`, its first operand.

!r = !regst.data<tensor<2xf32>>
!t = tensor<2xf32>

// CHECK-LABEL: plan.plan @around
// CHECK:         %[[X:.+]] = regst.register "x" slots
// CHECK-NEXT:    %[[Y:.+]] = regst.register "y" slots
// CHECK-NEXT:    regst.register "a" alias %[[Y]]
// CHECK-NEXT:    regst.register "b" alias %[[Y]]
// CHECK-NEXT:    regst.register "c" alias %[[X]]
// PLANNED-LABEL: plan.plan @around
plan.plan @around {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  %a = regst.register "a" alias %y : !r slots 1 on <0, host> : !r
  %b = regst.register "b" slots 1 on <0, host> : !r
  %c = regst.register "c" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %1 = job.input "y" : !t
    plan.yield %1 : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x, %y : !r, !r) outs(%a : !r) {
  ^bb0(%0: !t, %1: !t):
    %2 = op.add %0, %1 : !t, !t -> !t
    plan.yield %2 : !t
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%c : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 {in_place = [#op.hint<may over 0>]} : !t -> !t
    plan.yield %1 : !t
  }
}

// -----

// What an alias by hand names may itself become an alias, of something longer; an alias
// names it directly then.

!r = !regst.data<tensor<4xf32>>
!h = !regst.data<tensor<2xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @moved
// CHECK:         %[[X:.+]] = regst.register "x" slots 2
// CHECK-NEXT:    regst.register "a" alias %[[X]] : !regst.data<tensor<4xf32>> slots 2
// CHECK-NEXT:    regst.register "s" alias %[[X]] : !regst.data<tensor<4xf32>> at 8 slots 2
// PLANNED-LABEL: plan.plan @moved
plan.plan @moved {
  %x = regst.register "x" slots 2 on <0, host> : !r
  %a = regst.register "a" slots 2 on <0, host> : !r
  %s = regst.register "s" alias %a : !r at 8 slots 2 on <0, host> : !h
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%s : !h) {
  ^bb0(%0: !t):
    %1 = op.slice %0 from [2] to [4] by [1] : !t -> tensor<2xf32>
    plan.yield %1 : tensor<2xf32>
  }
}

// -----

// But not if the slots of what lies on it would have to change.

!r = !regst.data<tensor<4xf32>>
!h = !regst.data<tensor<2xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @slots
// CHECK:         regst.register "a" slots 1 on <0, host> {no_alias = "slots: what lies on 'a' has 1"}
// PLANNED-LABEL: plan.plan @slots
plan.plan @slots {
  %x = regst.register "x" slots 2 on <0, host> : !r
  %a = regst.register "a" slots 1 on <0, host> : !r
  %s = regst.register "s" alias %a : !r at 8 slots 1 on <0, host> : !h
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%s : !h) {
  ^bb0(%0: !t):
    %1 = op.slice %0 from [2] to [4] by [1] : !t -> tensor<2xf32>
    plan.yield %1 : tensor<2xf32>
  }
}

// -----

// Parts of a concatenation by hand: the result is written over all the same, once both
// have been read. More bytes in use at once are what a person has asked for.

!r = !regst.data<tensor<1024xf32>>
!w = !regst.data<tensor<2048xf32>>
!t = tensor<1024xf32>
!u = tensor<2048xf32>

// CHECK-LABEL: plan.plan @parts
// CHECK:         %[[C:.+]] = regst.register "c" slots
// CHECK-NEXT:    regst.register "x" alias %[[C]]
// CHECK-NEXT:    regst.register "y" alias %[[C]] : !regst.data<tensor<2048xf32>> at 4096
// CHECK-NEXT:    regst.register "d" alias %[[C]]
// PLANNED-LABEL: plan.plan @parts
plan.plan @parts {
  %c = regst.register "c" slots 1 on <0, host> : !w
  %x = regst.register "x" alias %c : !w slots 1 on <0, host> : !r
  %y = regst.register "y" alias %c : !w at 4096 slots 1 on <0, host> : !r
  %d = regst.register "d" slots 1 on <0, host> : !w
  %e = regst.register "e" slots 1 on <0, host> : !w
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "e" on <0, cpu:0> stream <compute, 0> ins() outs(%e : !w) {
    %1 = job.input "e" : !u
    plan.yield %1 : !u
  }
  plan.task "f" on <0, cpu:0> stream <compute, 0> ins(%e : !w) {
  ^bb0(%0: !u):
    job.output "f", %0 : !u
    plan.yield
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %1 = job.input "y" : !t
    plan.yield %1 : !t
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%x, %y : !r, !r) outs(%c : !w) {
  ^bb0(%0: !t, %1: !t):
    %2 = op.concat %0, %1 axis 0 : !t, !t -> !u
    plan.yield %2 : !u
  }
  plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%c : !w) outs(%d : !w) {
  ^bb0(%0: !u):
    %1 = op.relu %0 : !u -> !u
    plan.yield %1 : !u
  }
}

// -----

// It may be the operand that is an alias of the result, and one that is read on another
// stream before is waited for.

!r = !regst.data<tensor<2xf32>>
!t = tensor<2xf32>

// CHECK-LABEL: plan.plan @reversed
// CHECK:         %[[X:.+]] = regst.register "x" slots
// CHECK-NEXT:    regst.register "a" alias %[[X]]
// CHECK:         %[[K:.+]] = regst.register "early -> a" slots 1
// CHECK:         plan.task "early" {{.*}} signals(%[[K]]
// CHECK:         plan.task "a" {{.*}} waits(%[[K]]
// PLANNED-LABEL: plan.plan @reversed
plan.plan @reversed {
  %a = regst.register "a" slots 1 on <0, host> : !r
  %x = regst.register "x" alias %a : !r slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "early" on <0, cpu:0> stream <compute, 1> ins(%x : !r) {
  ^bb0(%0: !t):
    job.output "early", %0 : !t
    plan.yield
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
}
