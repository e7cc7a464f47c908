// RUN: penstock-opt %s -p plan-assign-streams | filecheck %s
// RUN: penstock-opt %s -p 'plan-assign-streams{streams=2}' | filecheck %s --check-prefix=TWO
// RUN: penstock-opt %s -p 'plan-assign-streams{streams=1000000000000}' | filecheck %s --check-prefix=MANY
// RUN: penstock-opt %s -p 'plan-assign-streams{streams=2},plan-assign-streams' | filecheck %s
// RUN: not penstock-opt %s -p 'plan-assign-streams{streams=0}' 2>&1 | filecheck %s --check-prefix=ZERO

// More streams than tasks cost nothing.
// MANY-LABEL: plan.plan

// ZERO: plan-assign-streams: streams must be at least 1, got 0

!t = tensor<4xf32>

// By default a device has one compute stream, whose tasks are numbered as they are
// listed; variables never act and have no number. With two streams a task follows the
// first task it reads from (not counting variables) as long as that is the last of its
// stream; else it goes where there is least.

// CHECK-LABEL: plan.plan @two_chains
// TWO-LABEL:   plan.plan @two_chains
plan.plan @two_chains {
  // CHECK: "w" on <0, cpu:0> stream <compute, 0> ins()
  // TWO:   "w" on <0, cpu:0> stream <compute, 0> ins()
  %w = plan.task "w" on <0, cpu:0> stream <compute, 1> order 7 ins() -> !t {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  // CHECK: "x" on <0, cpu:0> stream <compute, 0> order 0 ins()
  // TWO:   "x" on <0, cpu:0> stream <compute, 0> order 0 ins()
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  // "x" is the last of stream 0.
  // CHECK: "a" on <0, cpu:0> stream <compute, 0> order 1 ins
  // TWO:   "a" on <0, cpu:0> stream <compute, 0> order 1 ins
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%w, %x : !t, !t) -> !t {
  ^bb0(%p: !t, %q: !t):
    %v = op.add %p, %q : !t, !t -> !t
    plan.yield %v : !t
  }
  // "x" is no longer, and stream 1 is empty.
  // CHECK: "b" on <0, cpu:0> stream <compute, 0> order 2 ins
  // TWO:   "b" on <0, cpu:0> stream <compute, 1> order 0 ins
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%p: !t):
    %v = op.relu %p : !t -> !t
    plan.yield %v : !t
  }
  // Each chain stays on its stream, also on the one that has more.
  // CHECK: "c" on <0, cpu:0> stream <compute, 0> order 3 ins
  // TWO:   "c" on <0, cpu:0> stream <compute, 0> order 2 ins
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%a : !t) -> !t {
  ^bb0(%p: !t):
    %v = op.relu %p : !t -> !t
    plan.yield %v : !t
  }
  // CHECK: "d" on <0, cpu:0> stream <compute, 0> order 4 ins
  // TWO:   "d" on <0, cpu:0> stream <compute, 1> order 1 ins
  %d = plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%b, %c : !t, !t) -> !t {
  ^bb0(%p: !t, %q: !t):
    %v = op.add %p, %q : !t, !t -> !t
    plan.yield %v : !t
  }
  // Outputs are on stream 0, whatever they read.
  // CHECK: "y" on <0, cpu:0> stream <compute, 0> order 5 ins
  // TWO:   "y" on <0, cpu:0> stream <compute, 0> order 3 ins
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%d : !t) {
  ^bb0(%p: !t):
    job.output "y", %p : !t
    plan.yield
  }
  // Nothing is read: the stream with fewer tasks.
  // CHECK: "e" on <0, cpu:0> stream <compute, 0> order 6 ins
  // TWO:   "e" on <0, cpu:0> stream <compute, 1> order 2 ins
  %e = plan.task "e" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
}

// Of streams with equally many tasks, variables not counted, it is the lowest one.

// TWO-LABEL: plan.plan @ties
plan.plan @ties {
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  // TWO: "a" on <0, cpu:0> stream <compute, 0> order 0
  %a = plan.task "a" on <0, cpu:0> stream <compute, 1> ins() -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  // TWO: "b" on <0, cpu:0> stream <compute, 1> order 0
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  // TWO: "c" on <0, cpu:0> stream <compute, 0> order 1
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
}

// Devices and kinds of streams are numbered apart; a task does not follow one that runs
// on another device or copies.

// CHECK-LABEL: plan.plan @devices
// TWO-LABEL:   plan.plan @devices
plan.plan @devices {
  // CHECK: "x" on <0, cpu:0> stream <compute, 0> order 0
  // TWO:   "x" on <0, cpu:0> stream <compute, 0> order 0
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  // CHECK: "k" on <0, cuda:0> stream <compute, 0> order 0
  // TWO:   "k" on <0, cuda:0> stream <compute, 0> order 0
  %k = plan.task "k" on <0, cuda:0> stream <compute, 0> ins() -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  // CHECK: "up" on <0, cuda:0> stream <copy_h2d, 0> order 0
  // TWO:   "up" on <0, cuda:0> stream <copy_h2d, 0> order 0
  %up = plan.task "up" on <0, cuda:0> stream <copy_h2d, 0> ins(%x : !t) -> !t {
  ^bb0(%p: !t):
    %v = job.copy %p to <0, cuda:0> : !t
    plan.yield %v : !t
  }
  // CHECK: "r" on <0, cuda:0> stream <compute, 0> order 1
  // TWO:   "r" on <0, cuda:0> stream <compute, 1> order 0
  %r = plan.task "r" on <0, cuda:0> stream <compute, 0> ins(%up, %k : !t, !t) -> !t {
  ^bb0(%p: !t, %q: !t):
    %v = op.add %p, %q : !t, !t -> !t
    plan.yield %v : !t
  }
  // CHECK: "down" on <0, cuda:0> stream <copy_d2h, 0> order 0
  // TWO:   "down" on <0, cuda:0> stream <copy_d2h, 0> order 0
  %down = plan.task "down" on <0, cuda:0> stream <copy_d2h, 0> ins(%r : !t) -> !t {
  ^bb0(%p: !t):
    %v = job.copy %p to <0, cpu:0> : !t
    plan.yield %v : !t
  }
}

// A copy between processors stays on stream 0 of its device.

// TWO-LABEL: plan.plan @processors
plan.plan @processors {
  // TWO: "x" on <0, cpu:0> stream <compute, 0> order 0
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  // TWO: "k" on <0, cpu:1> stream <compute, 0> order 0
  %k = plan.task "k" on <0, cpu:1> stream <compute, 0> ins() -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  // TWO: "c" on <0, cpu:1> stream <compute, 0> order 1
  %c = plan.task "c" on <0, cpu:1> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%p: !t):
    %v = job.copy %p to <0, cpu:1> : !t
    plan.yield %v : !t
  }
}

// A plan with registers is left alone: its memory may depend on the order.

// CHECK-LABEL: plan.plan @registers
// TWO-LABEL:   plan.plan @registers
plan.plan @registers {
  %r = regst.register "r" slots 1 on <0, host> : !regst.data<!t>
  // CHECK: "x" on <0, cpu:0> stream <compute, 3> ins()
  // TWO:   "x" on <0, cpu:0> stream <compute, 3> ins()
  plan.task "x" on <0, cpu:0> stream <compute, 3> ins() outs(%r : !regst.data<!t>) {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
}
