// A policy says which pairs are tried: `all`, `views`, `none`, or that of a plug-in.
// RUN: penstock-opt %s -p regst-alias-registers | filecheck %s --check-prefixes=CHECK,ALL
// RUN: penstock-opt %s -p 'regst-alias-registers{policy=views}' | filecheck %s --check-prefixes=CHECK,VIEWS
// RUN: penstock-opt %s -p 'regst-alias-registers{policy=none}' | filecheck %s --check-prefixes=CHECK,NONE
// RUN: not penstock-opt %s -p 'regst-alias-registers{policy=veiws}' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not penstock-opt %s -p 'regst-choose-slots{policy=intervall}' 2>&1 | filecheck %s --check-prefix=SLOTS

// UNKNOWN: regst-alias-registers: no alias policy 'veiws', did you mean 'views'? (penstock-opt --list alias-policy names them)
// SLOTS: regst-choose-slots: no slot choice 'intervall', did you mean 'interval'? (penstock-opt --list slot-choice names them)

!t = tensor<16xf32>
!r = !regst.data<tensor<16xf32>>
!m = tensor<4x4xf32>
!s = !regst.data<tensor<4x4xf32>>

// CHECK-LABEL: plan.plan @policy
plan.plan @policy {
  // CHECK: %[[X:.+]] = regst.register "x"
  %x = regst.register "x" slots 1 on <0, host> : !r
  // A reshape is a view.
  // ALL:   regst.register "view" alias %[[X]] 
  // VIEWS: regst.register "view" alias %[[X]] 
  // NONE:  %[[V:.+]] = regst.register "view" slots 1 on <0, host> {no_alias = "policy: it keeps them apart"}
  %v = regst.register "view" slots 1 on <0, host> : !s
  // What is written over is none.
  %a = regst.register "a" slots 1 on <0, host> : !s
  // ALL:   %[[A:.+]] = regst.register "a" slots 1
  // ALL:   regst.register "b" alias %[[A]] 
  // VIEWS: regst.register "b" slots 1 on <0, host> {no_alias = "policy: it keeps them apart"}
  // NONE:  regst.register "b" slots 1 on <0, host> {no_alias = "policy: it keeps them apart"}
  %b = regst.register "b" slots 1 on <0, host> : !s
  plan.task "x" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%x : !r) { %p = job.input "x" : !t plan.yield %p : !t }
  plan.task "view" on <0, cpu:0> stream <compute, 0> order 1 ins(%x : !r) outs(%v : !s) { ^bb0(%p: !t): %q = op.reshape %p to [4, 4] : !t -> !m plan.yield %q : !m }
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 2 ins(%v : !s) outs(%a : !s) { ^bb0(%p: !m): %q = op.transpose %p by [1, 0] : !m -> !m plan.yield %q : !m }
  plan.task "b" on <0, cpu:0> stream <compute, 0> order 3 ins(%a : !s) outs(%b : !s) { ^bb0(%p: !m): %q = op.relu %p : !m -> !m plan.yield %q : !m }
  plan.task "y" on <0, cpu:0> stream <compute, 0> order 4 ins(%b : !s) { ^bb0(%p: !m): job.output "y", %p : !m plan.yield }
}
