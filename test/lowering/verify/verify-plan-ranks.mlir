// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file | filecheck %s

// Both ends of a message are in plans of different ranks.

!r = !regst.data<tensor<4xf32>>

// CHECK-LABEL: plan.plan @there_0
plan.plan @there_0 rank 0 {
  %x = regst.register "x/out" slots 1 on <0, network> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "far/send" on <0, cpu:0> stream <network, 0> ins(%x : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.send %v to <1, cpu:0> tag 0 : tensor<4xf32>
    plan.yield
  }
}
plan.plan @there_1 rank 1 {
  %x = regst.register "far/out" slots 2 on <1, network> : !r
  plan.task "far" on <1, cpu:0> stream <network, 0> ins() outs(%x : !r) {
    %v = job.receive from <0, cpu:0> tag 0 : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins(%x : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.output "y", %v : tensor<4xf32>
    plan.yield
  }
}

// -----

// A plan alone lacks the other end, and is of the rank of its messages.

!r = !regst.data<tensor<4xf32>>

plan.plan @alone {
  %x = regst.register "far/out" slots 2 on <1, network> : !r
  // expected-error@+1 {{verify-plan: 'far' of rank 1 receives message 0 of rank 0, which has no program}}
  plan.task "far" on <1, cpu:0> stream <network, 0> ins() outs(%x : !r) {
    %v = job.receive from <0, cpu:0> tag 0 : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{'back' of rank 1 sends message 0 to rank 1, its own}}
  plan.task "back" on <1, cpu:0> stream <network, 0> ins(%x : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.send %v to <1, cpu:0> tag 0 : tensor<4xf32>
    plan.yield
  }
}

// -----

// A rank has no message to itself.

!r = !regst.data<tensor<4xf32>>

plan.plan @itself rank 1 {
  %x = regst.register "far/out" slots 2 on <1, network> : !r
  plan.task "far" on <1, cpu:0> stream <network, 0> ins() outs(%x : !r) {
    %v = job.receive from <1, cpu:0> tag 0 : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{'back' of rank 1 sends message 0 to rank 1, its own}}
  plan.task "back" on <1, cpu:0> stream <network, 0> ins(%x : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.send %v to <1, cpu:0> tag 0 : tensor<4xf32>
    plan.yield
  }
}

// -----

// The types differ, and so do the acts in an iteration: rank 0 sends each of two pieces.

!r = !regst.data<tensor<4xf32>>
!i = !regst.data<tensor<4xi32>>

plan.plan @there_0 rank 0 {
  %x = regst.register "x/out" slots 1 on <0, network> : !r
  %z = regst.register "z/out" slots 1 on <0, network> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%z : !r) {
  ^bb0(%v: tensor<4xf32>):
    %w = op.repeat %v times 2 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
  plan.task "far/send" on <0, cpu:0> stream <network, 0> ins(%z : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.send %v to <1, cpu:0> tag 0 : tensor<4xf32>
    plan.yield
  }
}
plan.plan @there_1 rank 1 {
  %x = regst.register "far/out" slots 2 on <1, network> : !i
  // expected-error@+2 {{'far/send' of rank 0 sends message 0 as tensor<4xf32>, but 'far' of rank 1 receives tensor<4xi32>}}
  // expected-error@+1 {{'far/send' of rank 0 sends message 0 2 times in an iteration, but 'far' of rank 1 receives it once}}
  plan.task "far" on <1, cpu:0> stream <network, 0> ins() outs(%x : !i) {
    %v = job.receive from <0, cpu:0> tag 0 : tensor<4xi32>
    plan.yield %v : tensor<4xi32>
  }
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins(%x : !i) {
  ^bb0(%v: tensor<4xi32>):
    job.output "y", %v : tensor<4xi32>
    plan.yield
  }
}

// -----

// Each rank waits for the other one before it sends.

!r = !regst.data<tensor<4xf32>>

plan.plan @ring_0 rank 0 {
  %x = regst.register "a/out" slots 2 on <0, network> : !r
  // expected-error@+1 {{ranks wait for each other: 'a' of rank 0 -> 'b/send' of rank 0 -> 'b' of rank 1 -> 'a/send' of rank 1 -> 'a' of rank 0; no slots break the cycle}}
  plan.task "a" on <0, cpu:0> stream <network, 0> ins() outs(%x : !r) {
    %v = job.receive from <1, cpu:0> tag 0 : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "b/send" on <0, cpu:0> stream <network, 0> ins(%x : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.send %v to <1, cpu:0> tag 1 : tensor<4xf32>
    plan.yield
  }
}
plan.plan @ring_1 rank 1 {
  %x = regst.register "b/out" slots 2 on <1, network> : !r
  plan.task "b" on <1, cpu:0> stream <network, 0> ins() outs(%x : !r) {
    %v = job.receive from <0, cpu:0> tag 1 : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "a/send" on <1, cpu:0> stream <network, 0> ins(%x : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.send %v to <0, cpu:0> tag 0 : tensor<4xf32>
    plan.yield
  }
}

// -----

// Rank 0 keeps one piece of "r" for "s" until the sum of both comes back: one more slot
// is enough.

!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>

plan.plan @sums_0 rank 0 {
  %x = regst.register "x/out" slots 1 on <0, host> : !r
  %p = regst.register "p/out" slots 1 on <0, host> : !r
  %r = regst.register "r/out" slots 1 on <0, network> : !r
  %a = regst.register "a/out" slots 2 on <0, network> : !r
  %b = regst.register "b/out" slots 1 on <0, host> : !r
  %s = regst.register "s/out" slots 1 on <0, host> : !r
  %z = regst.register "z/out" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "p" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%p : !r) {
  ^bb0(%v: !t):
    %w = op.repeat %v times 2 : !t -> !t
    plan.yield %w : !t
  }
  // expected-error@+1 {{it takes 1 more slot for 'r/out' of rank 0 to break all such cycles}}
  plan.task "r" on <0, cpu:0> stream <compute, 0> ins(%p : !r) outs(%r : !r) {
  ^bb0(%v: !t):
    %w = op.relu %v : !t -> !t
    plan.yield %w : !t
  }
  plan.task "r/send" on <0, cpu:0> stream <network, 0> ins(%r : !r) {
  ^bb0(%v: !t):
    job.send %v to <1, cpu:0> tag 0 : !t
    plan.yield
  }
  plan.task "a" on <0, cpu:0> stream <network, 0> ins() outs(%a : !r) {
    %v = job.receive from <1, cpu:0> tag 1 : !t
    plan.yield %v : !t
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) {
  ^bb0(%v: !t):
    %w = op.repeat %v times 2 : !t -> !t
    plan.yield %w : !t
  }
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%b, %r : !r, !r) outs(%s : !r) {
  ^bb0(%v: !t, %u: !t):
    %w = op.add %v, %u : !t, !t -> !t
    plan.yield %w : !t
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%s : !r) outs(%z : !r) {
  ^bb0(%v: !t):
    %w = op.acc %v every 2 : !t -> !t
    plan.yield %w : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%z : !r) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
}
plan.plan @sums_1 rank 1 {
  %r = regst.register "r/out" slots 2 on <1, network> : !r
  %a = regst.register "a/out" slots 1 on <1, network> : !r
  plan.task "r" on <1, cpu:0> stream <network, 0> ins() outs(%r : !r) {
    %v = job.receive from <0, cpu:0> tag 0 : !t
    plan.yield %v : !t
  }
  plan.task "a" on <1, cpu:0> stream <compute, 0> ins(%r : !r) outs(%a : !r) {
  ^bb0(%v: !t):
    %w = op.acc %v every 2 : !t -> !t
    plan.yield %w : !t
  }
  plan.task "a/send" on <1, cpu:0> stream <network, 0> ins(%a : !r) {
  ^bb0(%v: !t):
    job.send %v to <0, cpu:0> tag 1 : !t
    plan.yield
  }
}

// -----

// Collectives keep the rules that those of launch programs do.

!t = tensor<4xf32>

plan.plan @all_0 rank 0 {
  %x = regst.register "x/out" slots 1 on <0, network> : !regst.data<!t>
  %y = regst.register "y/out" slots 1 on <0, network> : !regst.data<!t>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<!t>) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{'y' of rank 0 takes part in collective 3 with rank 2, which has no program}}
  plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : !regst.data<!t>) outs(%y : !regst.data<!t>) {
  ^bb0(%v: !t):
    %w = job.collective "all_reduce" by "ring" over [0, 1, 2] tag 3 ins(%v : !t) -> !t
    plan.yield %w : !t
  }
}
plan.plan @all_1 rank 1 {
  %x = regst.register "x/out" slots 1 on <1, network> : !regst.data<!t>
  %z = regst.register "z/out" slots 1 on <1, network> : !regst.data<!t>
  plan.task "x" on <1, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<!t>) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{'y' of rank 0 takes part in collective 3 as all_reduce by ring of ranks 0, 1, 2, but 'z' of rank 1 as all_to_all by ring of ranks 0, 1}}
  plan.task "z" on <1, cpu:0> stream <network, 0> ins(%x : !regst.data<!t>) outs(%z : !regst.data<!t>) {
  ^bb0(%v: !t):
    %w = job.collective "all_to_all" by "ring" over [0, 1] tag 3 ins(%v : !t) -> !t
    plan.yield %w : !t
  }
}
