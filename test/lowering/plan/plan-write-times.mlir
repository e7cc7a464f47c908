// RUN: python %S/../Inputs/plant_times.py %s %t.db 'x: task' 9 'h: task' 1200.6 'set: task' 70
// RUN: penstock-opt %s -p 'plan-write-times{database="%t.db"}' | filecheck %s
// RUN: penstock-opt %s -p 'plan-write-times{database="%t.db"},plan-assign-streams{policy=critical-path}' | filecheck %s --check-prefix=SPAN
// RUN: penstock-opt %s -p 'plan-write-times{database="%t.db" parts=2}' | filecheck %s --check-prefix=PARTS

!t = tensor<4xf32>

// What was measured is written, in whole nanoseconds, on all tasks with an equal op. What
// says a time itself keeps it. What does not compute, or computes something else, has none.
// CHECK-LABEL: plan.plan @times
// CHECK:       plan.task "x" {{.*}} ins() -> tensor<4xf32> {
// CHECK:       plan.task "h" {{.*}} {time_ns = 1201 : i64} {
// CHECK:       plan.task "same" {{.*}} {time_ns = 1201 : i64} {
// CHECK:       plan.task "set" {{.*}} {time_ns = 5 : i64} {
// CHECK:       plan.task "twice" {{.*}} -> tensor<4xf32> {
//
// The streams are assigned by it.
// SPAN-LABEL: plan.plan @times
// SPAN-SAME:  makespan_ns
//
// Times of one part are not those of two.
// PARTS-LABEL: plan.plan @times
// PARTS:       plan.task "h" {{.*}} -> tensor<4xf32> {
plan.plan @times {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %y = plan.task "y" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "y" : !t
    plan.yield %v : !t
  }
  %h = plan.task "h" on <0, cpu:0> stream <compute, 0> ins(%x, %y : !t, !t) -> !t {
  ^bb0(%p: !t, %q: !t):
    %v = op.add %p, %q : !t, !t -> !t
    plan.yield %v : !t
  }
  %same = plan.task "same" on <0, cpu:0> stream <compute, 0> ins(%h, %y : !t, !t) -> !t {
  ^bb0(%a: !t, %b: !t):
    %sum = op.add %a, %b : !t, !t -> !t
    plan.yield %sum : !t
  }
  %set = plan.task "set" on <0, cpu:0> stream <compute, 0> ins(%same : !t) -> !t attributes {time_ns = 5 : i64} {
  ^bb0(%p: !t):
    %v = op.relu %p : !t -> !t
    plan.yield %v : !t
  }
  %twice = plan.task "twice" on <0, cpu:0> stream <compute, 0> ins(%set : !t) -> !t {
  ^bb0(%p: !t):
    %v = op.add %p, %p : !t, !t -> !t
    plan.yield %v : !t
  }
}
