// RUN: penstock-opt %s -p plan-link-main | filecheck %s --match-full-lines

// The main job is sent the number of a job, locks its sections, lets the source tick
// (`case`), hears of its sink (`esac`), and notifies the caller.

!c = !regst.control

// EXAMPLE-BEFORE
plan.plan @example exclusive [] attributes {jobs = {a = {sections = [#job.section<"total", total>]}}} {
  %s = regst.register "tick" slots 1 on <0, host> : !c
  plan.task "a/source" job "a" on <0, cpu:0> stream <tick, 0> ins() signals(%s : !c) { job.source_tick "total" plan.yield }
  plan.task "a/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%s : !c) { job.sink_tick "total" plan.yield }
}
// EXAMPLE-AFTER
// CHECK:        %[[GO:.+]] = regst.register "System-Main/case -> a/source" slots 1 on <0, host> : !regst.control
// CHECK:        plan.task "a/source" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%[[GO]] : !regst.control) signals({{.*}}) {
// CHECK:        plan.task "System-Main/launch" job "System-Main" on <0, cpu:0> stream <main, 0> {{.*}} {
// CHECK:        plan.task "System-Main/send" job "System-Main" on <0, cpu:0> stream <main, 1> {{.*}} {
// CHECK:        plan.task "System-Main/lock" job "System-Main" on <0, cpu:0> stream <main, 2> {{.*}} {
// CHECK:        plan.task "System-Main/case" job "System-Main" on <0, cpu:0> stream <main, 3> {{.*}} signals(%[[GO]] : !regst.control) {
// CHECK:        plan.task "System-Main/esac" job "System-Main" on <0, cpu:0> stream <main, 4> {{.*}} {
// CHECK:        plan.task "System-Main/finished" job "System-Main" on <0, cpu:0> stream <main, 5> {{.*}} {
// CHECK:        plan.task "System-Main/notify" job "System-Main" on <0, cpu:0> stream <main, 6> {{.*}} {
// EXAMPLE-END
