// RUN: penstock-opt %s -p verify-deadlock --verify-diagnostics --split-input-file | filecheck %s
// RUN: not penstock-opt %s -p 'verify-deadlock{budget=-1}' --split-input-file 2>&1 | filecheck %s --check-prefix=BUDGET

// BUDGET: verify-deadlock: budget must not be negative, got -1

// A chain whose last task starts the first one again: its free slot goes round.

!k = !regst.control

// CHECK-LABEL: plan.plan @turn
plan.plan @turn {
  %ab = regst.register "a -> b" slots 1 on <0, host> : !k
  %ba = regst.register "b -> a" slots 1 initial 1 on <0, host> : !k
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() waits(%ba : !k) signals(%ab : !k) {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() waits(%ab : !k) signals(%ba : !k) {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// "c" cannot act until "a" has taken what it wrote before the start, and "a" follows "c"
// by way of "b": the names are in this order, from the task that is listed first.

!k = !regst.control
!r = !regst.data<tensor<4xf32>>

plan.plan @no_free_slot {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  %turn = regst.register "turn" slots 1 initial 1 on <0, host> : !k
  // expected-error@+1 {{verify-deadlock: cycle a -> c -> b -> a has no free slot; one more slot for register 'turn' breaks it}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%y : !r) waits(%turn : !k) {
  ^bb0(%0: tensor<4xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) signals(%turn : !k) {
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// The same with one more slot.

!k = !regst.control
!r = !regst.data<tensor<4xf32>>

// CHECK-LABEL: plan.plan @one_more_slot
plan.plan @one_more_slot {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  %turn = regst.register "turn" slots 2 initial 1 on <0, host> : !k
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%y : !r) waits(%turn : !k) {
  ^bb0(%0: tensor<4xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) signals(%turn : !k) {
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// Of the two cycles that "both" is on, one needs a slot for "own" or "both", and the other
// one for "both" or "other": one slot for "both" is enough. A task that writes what it
// waits for itself is a cycle too.

!k = !regst.control

plan.plan @one_for_two {
  %own = regst.register "own" slots 1 initial 1 on <0, host> : !k
  %both = regst.register "both" slots 1 initial 1 on <0, host> : !k
  %other = regst.register "other" slots 2 initial 2 on <0, host> : !k
  %self = regst.register "self" slots 1 initial 1 on <0, host> : !k
  // expected-error@+1 {{cycle a -> b -> a has no free slot; one more slot for register 'both' breaks it}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() waits(%own, %other : !k, !k) signals(%both : !k) {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() waits(%both : !k) signals(%own : !k) {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins() waits(%both : !k) signals(%other : !k) {
    "test.op"() : () -> ()
    plan.yield
  }
  // expected-error@+1 {{cycle d -> d has no free slot; one more slot for register 'self' breaks it}}
  plan.task "d" on <0, cpu:0> stream <compute, 0> ins() waits(%self : !k) signals(%self : !k) {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// Where both wait for the other's data, no slots help. Variables never act, so that nobody
// waits for them.

!r = !regst.data<tensor<4xf32>>

plan.plan @hopeless {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %x = regst.register "x" slots 3 on <0, host> : !r
  %y = regst.register "y" slots 3 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{cycle a -> b -> a has no full slot at the start, and no slots break it}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%w, %y : !r, !r) outs(%x : !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}
