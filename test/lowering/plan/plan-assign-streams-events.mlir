// RUN: penstock-opt %s -p 'plan-assign-streams{policy=critical-path streams=2 machine="cpu switch_ns=10"},plan-create-registers,regst-plan-memory,plan-reduce-events' | filecheck %s

!t = tensor<4xf32>

// Measured times decide who gets another stream; these plans differ in that of "b" alone.
// With 200 for "b", "c" and "d" run beside it. Events are where nothing else orders tasks:
// "d" waits for "c", which is before it on its stream, and "c" has waited for "a".

// CHECK-LABEL: plan.plan @even
// CHECK-SAME:  events = {crossing = 2 : i64, needed = 2 : i64}
// CHECK:       "b" on <0, cpu:0> stream <compute, 0> order 1 {{.*}}attributes {time_ns = 200 : i64}
// CHECK:       "c" on <0, cpu:0> stream <compute, 1> order 0 {{.*}}waits_for = ["a"]
// CHECK:       "d" on <0, cpu:0> stream <compute, 1> order 1 {{.*}}attributes {time_ns = 100 : i64}
// CHECK:       "s" on <0, cpu:0> stream <compute, 1> order 2 {{.*}}waits_for = ["b"]
plan.plan @even {
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !t) -> !t attributes {time_ns = 200 : i64} {
  ^bb0(%p0: !t):
    %v = op.relu %p0 : !t -> !t
    plan.yield %v : !t
  }
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%a : !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !t):
    %v = op.relu %p0 : !t -> !t
    plan.yield %v : !t
  }
  %d = plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%c : !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !t):
    %v = op.relu %p0 : !t -> !t
    plan.yield %v : !t
  }
  %s = plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%b, %d : !t, !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !t, %p1: !t):
    %v = op.add %p0, %p1 : !t, !t -> !t
    plan.yield %v : !t
  }
}

// A "b" that takes no time is not worth another stream, and without one there are no events.

// CHECK-LABEL: plan.plan @short_b
// CHECK-NOT:   stream <compute, 1>
// CHECK:       "s" on <0, cpu:0> stream <compute, 0> order 4 {{.*}}attributes {time_ns = 100 : i64}
plan.plan @short_b {
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !t) -> !t attributes {time_ns = 0 : i64} {
  ^bb0(%p0: !t):
    %v = op.relu %p0 : !t -> !t
    plan.yield %v : !t
  }
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%a : !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !t):
    %v = op.relu %p0 : !t -> !t
    plan.yield %v : !t
  }
  %d = plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%c : !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !t):
    %v = op.relu %p0 : !t -> !t
    plan.yield %v : !t
  }
  %s = plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%b, %d : !t, !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !t, %p1: !t):
    %v = op.add %p0, %p1 : !t, !t -> !t
    plan.yield %v : !t
  }
}

// If "b" takes longest, what needs it follows on its stream, and waits for "d" instead.

// CHECK-LABEL: plan.plan @long_b
// CHECK:       "b" on <0, cpu:0> stream <compute, 0> order 1
// CHECK:       "d" on <0, cpu:0> stream <compute, 1> order 1
// CHECK:       "s" on <0, cpu:0> stream <compute, 0> order 2 {{.*}}waits_for = ["d"]
plan.plan @long_b {
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !t) -> !t attributes {time_ns = 500 : i64} {
  ^bb0(%p0: !t):
    %v = op.relu %p0 : !t -> !t
    plan.yield %v : !t
  }
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%a : !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !t):
    %v = op.relu %p0 : !t -> !t
    plan.yield %v : !t
  }
  %d = plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%c : !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !t):
    %v = op.relu %p0 : !t -> !t
    plan.yield %v : !t
  }
  %s = plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%b, %d : !t, !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !t, %p1: !t):
    %v = op.add %p0, %p1 : !t, !t -> !t
    plan.yield %v : !t
  }
}
