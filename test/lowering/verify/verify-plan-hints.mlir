// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file | filecheck %s

// What must lie over an operand does once it has a place, and what is never to does not.

!r = !regst.data<tensor<16xf32>>
!t = tensor<16xf32>

// CHECK-LABEL: plan.plan @kept
plan.plan @kept {
  %c = regst.chunk on <0, host> size 64
  %b = regst.block in %c at 0 size 64
  %x = regst.register "x" in %b at 0 slots 1 on <0, host> : !r
  %a = regst.register "a" alias %x : !r slots 1 on <0, host> : !r
  %n = regst.register "n" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 {in_place = [#op.hint<must over 0>]} : !t -> !t
    plan.yield %1 : !t
  }
  // It has no place yet.
  plan.task "n" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%n : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 {in_place = [#op.hint<must over 0>]} : !t -> !t
    plan.yield %1 : !t
  }
}

// -----

!r = !regst.data<tensor<16xf32>>
!t = tensor<16xf32>

plan.plan @broken {
  %c = regst.chunk on <0, host> size 192
  %b = regst.block in %c at 0 size 192
  %x = regst.register "x" in %b at 0 slots 1 on <0, host> : !r
  %a = regst.register "a" alias %x : !r slots 1 on <0, host> : !r
  %n = regst.register "n" in %b at 64 slots 1 on <0, host> : !r
  %m = regst.register "m" in %b at 128 slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    // expected-error@+1 {{verify-plan: op.relu never writes 'a' over 'x', but the two share bytes}}
    %1 = op.relu %0 {in_place = [#op.hint<never>]} : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "n" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%n : !r) {
  ^bb0(%0: !t):
    // expected-error@+1 {{op.relu must write 'n' over 'a', but does not}}
    %1 = op.relu %0 {in_place = [#op.hint<must over 0>]} : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "m" on <0, cpu:0> stream <compute, 0> ins(%n : !r) outs(%m : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 {in_place = [#op.hint<may over 0>]} : !t -> !t
    plan.yield %1 : !t
  }
}
