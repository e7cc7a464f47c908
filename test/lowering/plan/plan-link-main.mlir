// RUN: penstock-opt %s -p plan-link-main,verify-ticks,verify-deadlock --split-input-file | filecheck %s
// RUN: penstock-opt %s -p plan-link-main,plan-link-main --split-input-file | filecheck %s
// RUN: penstock-opt %s -p plan-link-main --split-input-file | penstock-opt --split-input-file | filecheck %s

// Numbers of jobs become those of their sections, which a lock grants: the total ones of
// "a" and "b", which exclude each other, and what "b" writes and "a" and "c" read, exclude
// each other; "a" and "c", which only read it, do not. The case lets sources act, and sinks
// give back; total ones tell the caller.

!c = !regst.control

// CHECK-LABEL: plan.plan @three
plan.plan @three exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>, #job.section<"input/x", input reads ["x"]>]}, b = {sections = [#job.section<"total", total>, #job.section<"outputs", outputs writes ["x"]>]}, c = {sections = [#job.section<"total", total reads ["x"]>]}}} {
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %2 = regst.register "2" slots 1 on <0, host> : !c
  %3 = regst.register "3" slots 1 on <0, host> : !c
  %4 = regst.register "4" slots 1 on <0, host> : !c
  %5 = regst.register "5" slots 1 on <0, host> : !c
  %6 = regst.register "6" slots 1 on <0, host> : !c
  // CHECK:      %[[CHUNK:.+]] = regst.chunk on <0, host> size 640
  // CHECK-NEXT: %[[BLOCK:.+]] = regst.block in %[[CHUNK]] at 0 size 640
  // CHECK-NEXT: %[[JOB:.+]] = regst.register "System-Main/launch/out" in %[[BLOCK]] at 0 slots 2
  // CHECK-NEXT: %[[ID:.+]] = regst.register "System-Main/send/out" in %[[BLOCK]] at 128 slots 2
  // CHECK-NEXT: %[[GRANTED:.+]] = regst.register "System-Main/lock/out" in %[[BLOCK]] at 256 slots 2
  // CHECK-NEXT: %[[BACK:.+]] = regst.register "System-Main/esac/out" in %[[BLOCK]] at 384 slots 2
  // CHECK-NEXT: %[[ENDED:.+]] = regst.register "System-Main/finished/out" in %[[BLOCK]] at 512 slots 2
  // CHECK-DAG:  %[[A:.+]] = regst.register "System-Main/case -> a/total/source" slots 1
  // CHECK-DAG:  %[[X:.+]] = regst.register "System-Main/case -> a/input/x/source" slots 1
  // CHECK-DAG:  %[[B:.+]] = regst.register "System-Main/case -> b/total/source" slots 1
  // CHECK-DAG:  %[[O:.+]] = regst.register "System-Main/case -> b/outputs/source" slots 1
  // CHECK-DAG:  %[[C:.+]] = regst.register "System-Main/case -> c/total/source" slots 1
  // CHECK-DAG:  %[[AE:.+]] = regst.register "a/total/sink -> System-Main/esac" slots 1
  // CHECK-DAG:  %[[XE:.+]] = regst.register "a/input/x/sink -> System-Main/esac" slots 1
  // CHECK-DAG:  %[[BE:.+]] = regst.register "b/total/sink -> System-Main/esac" slots 1
  // CHECK-DAG:  %[[OE:.+]] = regst.register "b/outputs/sink -> System-Main/esac" slots 1
  // CHECK-DAG:  %[[CE:.+]] = regst.register "c/total/sink -> System-Main/esac" slots 1
  // CHECK-DAG:  %[[AF:.+]] = regst.register "a/total/sink -> System-Main/finished" slots 1
  // CHECK-DAG:  %[[BF:.+]] = regst.register "b/total/sink -> System-Main/finished" slots 1
  // CHECK-DAG:  %[[CF:.+]] = regst.register "c/total/sink -> System-Main/finished" slots 1
  // CHECK:      plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, {{.}}> ins() waits(%[[A]] :
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  // CHECK:      plan.task "a/input/x/source" job "a" on <0, cpu:0> stream <tick, {{.}}> ins() waits(%[[X]] :
  plan.task "a/input/x/source" job "a" on <0, cpu:0> stream <tick, 1> ins() signals(%1 : !c) {
    job.source_tick "input/x"
    plan.yield
  }
  // CHECK:      plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, {{.}}> ins() waits(%[[B]] :
  plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, 0> ins() signals(%2 : !c) {
    job.source_tick "total"
    plan.yield
  }
  // CHECK:      plan.task "b/outputs/source" job "b" on <0, cpu:0> stream <tick, {{.}}> ins() waits(%[[O]] :
  plan.task "b/outputs/source" job "b" on <0, cpu:0> stream <tick, 1> ins() signals(%3 : !c) {
    job.source_tick "outputs"
    plan.yield
  }
  // CHECK:      plan.task "c/total/source" job "c" on <0, cpu:0> stream <tick, {{.}}> ins() waits(%[[C]] :
  plan.task "c/total/source" job "c" on <0, cpu:0> stream <tick, 0> ins() signals(%4 : !c) {
    job.source_tick "total"
    plan.yield
  }
  // CHECK:      plan.task "a/input/x/sink" {{.*}} signals(%{{.+}}, %[[XE]] :
  plan.task "a/input/x/sink" job "a" on <0, cpu:0> stream <tick, 1> ins() waits(%1 : !c) signals(%5 : !c) {
    job.sink_tick "input/x"
    plan.yield
  }
  // CHECK:      plan.task "b/outputs/sink" {{.*}} signals(%{{.+}}, %[[OE]] :
  plan.task "b/outputs/sink" job "b" on <0, cpu:0> stream <tick, 1> ins() waits(%3 : !c) signals(%6 : !c) {
    job.sink_tick "outputs"
    plan.yield
  }
  // CHECK:      plan.task "a/total/sink" {{.*}} signals(%[[AE]], %[[AF]] :
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%0, %5 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  // CHECK:      plan.task "b/total/sink" {{.*}} signals(%[[BE]], %[[BF]] :
  plan.task "b/total/sink" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%2, %6 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  // CHECK:      plan.task "c/total/sink" {{.*}} signals(%[[CE]], %[[CF]] :
  plan.task "c/total/sink" job "c" on <0, cpu:0> stream <tick, 0> ins() waits(%4 : !c) {
    job.sink_tick "total"
    plan.yield
  }
  // CHECK:      plan.task "System-Main/launch" job "System-Main" on <0, cpu:0> stream <main, 0> order 0 ins() outs(%[[JOB]] :
  // CHECK-NEXT:   %{{.+}} = job.foreign_input "System-Launch" : tensor<i64>
  // CHECK:      plan.task "System-Main/send" {{.*}} stream <main, 1> order 0 ins(%[[JOB]] : {{.*}}) outs(%[[ID]] :
  // CHECK:        job.wait_and_send_ids %{{.+}} jobs ["a", "b", "c"] lists [array<i64: 0, 1>, array<i64: 2, 3>, array<i64: 4>]
  // CHECK:      plan.task "System-Main/lock" {{.*}} ins(%[[ID]], %[[BACK]] : {{.*}}) outs(%[[GRANTED]] :
  // CHECK:        job.reentrant_lock %{{.+}}, %{{.+}} sections ["a/total", "a/input/x", "b/total", "b/outputs", "c/total"] lists [array<i64: 2>, array<i64: 3>, array<i64: 0>, array<i64: 1, 4>, array<i64: 3>]
  // CHECK:      plan.task "System-Main/case" {{.*}} ins(%[[GRANTED]] : {{.*}}) signals(%[[A]], %[[X]], %[[B]], %[[O]], %[[C]] :
  // CHECK:        job.case %{{.+}} ["a/total", "a/input/x", "b/total", "b/outputs", "c/total"]
  // CHECK:      plan.task "System-Main/esac" {{.*}} outs(%[[BACK]] : {{.*}}) waits(%[[AE]], %[[XE]], %[[BE]], %[[OE]], %[[CE]] :
  // CHECK:        job.esac ["a/total", "a/input/x", "b/total", "b/outputs", "c/total"]
  // CHECK:      plan.task "System-Main/finished" {{.*}} outs(%[[ENDED]] : {{.*}}) waits(%[[AF]], %[[BF]], %[[CF]] :
  // CHECK:        job.esac ["a", "b", "c"]
  // CHECK:      plan.task "System-Main/notify" {{.*}} ins(%[[ENDED]] :
  // CHECK:        job.callback_notify "System-Finished", %{{.+}}
}

// -----

// A plan whose tasks name no job is left as it is.

!c = !regst.control

// CHECK-LABEL: plan.plan @one
// CHECK-NOT: System-Main
plan.plan @one attributes {sections = [#job.section<"total", total>]} {
  %0 = regst.register "0" slots 1 on <0, host> : !c
  plan.task "total/source" on <0, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "total/sink" on <0, cpu:0> stream <tick, 0> ins() waits(%0 : !c) {
    job.sink_tick "total"
    plan.yield
  }
}

// -----

// So is one whose jobs have no ticks.

// CHECK-LABEL: plan.plan @bare
// CHECK-NOT: System-Main
plan.plan @bare attributes {jobs = {a = {sections = [#job.section<"total", total>]}}} {
  plan.task "a/t" job "a" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}
