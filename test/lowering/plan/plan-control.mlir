// RUN: penstock-opt %s -p 'plan-order-tasks{policy=source}' | filecheck %s --check-prefix=ORDER
// RUN: penstock-opt %s -p plan-order-tasks | filecheck %s --check-prefix=MEMORY
// RUN: penstock-opt %s -p 'plan-order-tasks{policy=overlap}' | filecheck %s --check-prefix=MEMORY
// RUN: penstock-opt %s -p plan-assign-streams,plan-form-chains | filecheck %s --check-prefix=CHAINS
// RUN: penstock-opt %s -p 'plan-assign-streams{streams=2 policy=critical-path}' | filecheck %s --check-prefix=TIME
// RUN: penstock-opt %s -p plan-order-tasks,plan-assign-streams{streams=2},plan-create-registers,regst-alias-registers,regst-plan-memory,plan-reduce-events,verify-plan | filecheck %s --check-prefix=EVENTS

// Control registers in a plan whose tasks still hand on values.

!t = tensor<64xf32>
!c = !regst.control

// A task that waits for one that is listed later comes after it, in whatever order; what
// nothing orders anew stays where it was.

// ORDER-LABEL: plan.plan @later
// ORDER:         plan.task "x"
// ORDER-NEXT:      job.input
// ORDER:         plan.task "late"
// ORDER:         plan.task "early"
// ORDER:         plan.task "y"
// ORDER:         plan.task "z"

// MEMORY-LABEL: plan.plan @later
// MEMORY:         plan.task "late"
// MEMORY:         plan.task "early"

// Its place in a stream is behind that task; and the two are one chain, though no value
// connects them.

// CHAINS-LABEL: plan.plan @later
// CHAINS:         plan.task "x" {{.*}} chain 0 order 0
// CHAINS:         plan.task "late" {{.*}} chain 1 order 1
// CHAINS:         plan.task "early" {{.*}} chain 1 order 2
// CHAINS:         plan.task "y" {{.*}} chain 2 order 3

// A schedule on two streams does not let it begin before that one has ended: 1 for the
// input, 10 and 100 one after the other, and 3 for each output on the stream of the host.

// TIME-LABEL: plan.plan @later
// TIME-SAME:    makespan_ns = {lower_limit = 114 : i64, naive = 4117 : i64, scheduled = 117 : i64}

// The registers stay, and the task waits for an event if it is on another stream.

// EVENTS-LABEL: plan.plan @later
// EVENTS:         regst.register "late first" slots 1 on <0, host> : !regst.control
// EVENTS:         plan.task "late" {{.*}} signals(%{{.*}} : !regst.control)
// EVENTS:         plan.task "early" {{.*}} waits(%{{.*}} : !regst.control) attributes {{{.*}}waits_for = ["late"]}
plan.plan @later {
  %k = regst.register "late first" slots 1 on <0, host> : !c
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 1 : i64} {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %e = plan.task "early" on <0, cpu:0> stream <compute, 0> ins(%x : !t) waits(%k : !c) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%v: !t):
    %r = op.relu %v : !t -> !t
    plan.yield %r : !t
  }
  %l = plan.task "late" on <0, cpu:0> stream <compute, 0> ins(%x : !t) signals(%k : !c) -> !t attributes {time_ns = 10 : i64} {
  ^bb0(%v: !t):
    %r = op.neg %v : !t -> !t
    plan.yield %r : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%e : !t) attributes {time_ns = 3 : i64} {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%l : !t) attributes {time_ns = 3 : i64} {
  ^bb0(%v: !t):
    job.output "z", %v : !t
    plan.yield
  }
}

// A register all of whose slots are full at the start orders the other way round.

// ORDER-LABEL: plan.plan @full
// ORDER:         plan.task "waits"
// ORDER:         plan.task "signals"

// CHAINS-LABEL: plan.plan @full
// CHAINS:         plan.task "waits" {{.*}} chain 0 order 0
// CHAINS:         plan.task "signals" {{.*}} chain 0 order 1
plan.plan @full {
  %k = regst.register "k" slots 2 initial 2 on <0, host> : !c
  %a = plan.task "signals" on <0, cpu:0> stream <compute, 0> ins() signals(%k : !c) -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %b = plan.task "waits" on <0, cpu:0> stream <compute, 0> ins() waits(%k : !c) -> !t {
    %v = op.constant dense<2.0> : !t
    plan.yield %v : !t
  }
}

// One with full and free slots orders nothing within one act.

// ORDER-LABEL: plan.plan @half
// ORDER:         plan.task "waits"
// ORDER:         plan.task "signals"

// CHAINS-LABEL: plan.plan @half
// CHAINS:         plan.task "waits" {{.*}} chain 0 order 0
// CHAINS:         plan.task "signals" {{.*}} chain 1 order 1
plan.plan @half {
  %k = regst.register "k" slots 2 initial 1 on <0, host> : !c
  %a = plan.task "waits" on <0, cpu:0> stream <compute, 0> ins() waits(%k : !c) -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %b = plan.task "signals" on <0, cpu:0> stream <compute, 0> ins() signals(%k : !c) -> !t {
    %v = op.constant dense<2.0> : !t
    plan.yield %v : !t
  }
}

// Control by way of another stream ends a chain: it must not wait in the middle.

// CHAINS-LABEL: plan.plan @across
// CHAINS:         plan.task "a" {{.*}} chain 0
// CHAINS:         plan.task "copy" {{.*}} chain 1
// CHAINS:         plan.task "b" {{.*}} chain 2
plan.plan @across {
  %k = regst.register "k" slots 1 on <0, host> : !c
  %l = regst.register "l" slots 1 on <0, host> : !c
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() signals(%k : !c) -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  plan.task "copy" on <0, cuda:0> stream <copy_h2d, 0> ins() waits(%k : !c) signals(%l : !c) -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !t) waits(%l : !c) -> !t {
  ^bb0(%v: !t):
    %r = op.relu %v : !t -> !t
    plan.yield %r : !t
  }
}

// With registers that hold bytes a plan is past these passes.

// ORDER-LABEL: plan.plan @past
// ORDER:         plan.task "waits"
// ORDER:         plan.task "signals"

// CHAINS-LABEL: plan.plan @past
// CHAINS:         plan.task "waits" on <0, cpu:0> stream <compute, 0> order 1 ins
plan.plan @past {
  %k = regst.register "k" slots 1 on <0, host> : !c
  %r = regst.register "r" slots 1 on <0, host> : !regst.data<!t>
  plan.task "waits" on <0, cpu:0> stream <compute, 0> order 1 ins(%r : !regst.data<!t>) waits(%k : !c) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
  plan.task "signals" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%r : !regst.data<!t>) signals(%k : !c) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
}
