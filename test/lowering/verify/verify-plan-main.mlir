// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file

// The lock has to keep jobs apart that exclude each other.

!c = !regst.control
!n = !regst.data<tensor<i64>>
!x = !regst.data<tensor<4xf32>>

plan.plan @unguarded exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  %c = regst.chunk on <0, host> size 64
  %k = regst.block in %c at 0 size 64
  %x = regst.register "x" in %k at 0 slots 1 on <0, host> : !x
  %y = regst.register "y" in %k at 0 slots 1 on <0, host> : !x
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %2 = regst.register "2" slots 1 on <0, host> : !c
  %3 = regst.register "3" slots 1 on <0, host> : !c
  %4 = regst.chunk on <0, host> size 640
  %5 = regst.block in %4 at 0 size 640
  %6 = regst.register "System-Main/launch/out" in %5 at 0 slots 2 on <0, host> : !n
  %7 = regst.register "System-Main/send/out" in %5 at 128 slots 2 on <0, host> : !n
  %8 = regst.register "System-Main/lock/out" in %5 at 256 slots 2 on <0, host> : !n
  %9 = regst.register "System-Main/esac/out" in %5 at 384 slots 2 on <0, host> : !n
  %10 = regst.register "System-Main/finished/out" in %5 at 512 slots 2 on <0, host> : !n
  %11 = regst.register "System-Main/case -> a/total/source" slots 1 on <0, host> : !c
  %12 = regst.register "System-Main/case -> b/total/source" slots 1 on <0, host> : !c
  %13 = regst.register "a/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %14 = regst.register "b/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %15 = regst.register "a/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  %16 = regst.register "b/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%11 : !c) signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) waits(%0 : !c) signals(%1 : !c) {
    %17 = job.input "x" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) signals(%13, %15 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%12 : !c) signals(%2 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "b/y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !x) waits(%2 : !c) signals(%3 : !c) {
    %17 = job.input "y" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "b/total/sink" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%3 : !c) signals(%14, %16 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "System-Main/launch" job "System-Main" on <0, cpu:0> stream <main, 0> order 0 ins() outs(%6 : !n) {
    %17 = job.foreign_input "System-Launch" : tensor<i64>
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/send" job "System-Main" on <0, cpu:0> stream <main, 1> order 0 ins(%6 : !n) outs(%7 : !n) {
  ^bb0(%17: tensor<i64>):
    %18 = job.wait_and_send_ids %17 jobs ["a", "b"] lists [array<i64: 0>, array<i64: 1>]
    plan.yield %18 : tensor<i64>
  }
  // expected-error@+1 {{verify-plan: task 'System-Main/lock' lets jobs 'a' and 'b' use the same bytes at the same time}}
  plan.task "System-Main/lock" job "System-Main" on <0, cpu:0> stream <main, 2> order 0 ins(%7, %9 : !n, !n) outs(%8 : !n) {
  ^bb0(%17: tensor<i64>, %18: tensor<i64>):
    %19 = job.reentrant_lock %17, %18 sections ["a/total", "b/total"] lists [array<i64>, array<i64>]
    plan.yield %19 : tensor<i64>
  }
  plan.task "System-Main/case" job "System-Main" on <0, cpu:0> stream <main, 3> order 0 ins(%8 : !n) signals(%11, %12 : !c, !c) {
  ^bb0(%17: tensor<i64>):
    job.case %17 ["a/total", "b/total"]
    plan.yield
  }
  plan.task "System-Main/esac" job "System-Main" on <0, cpu:0> stream <main, 4> order 0 ins() outs(%9 : !n) waits(%13, %14 : !c, !c) {
    %17 = job.esac ["a/total", "b/total"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/finished" job "System-Main" on <0, cpu:0> stream <main, 5> order 0 ins() outs(%10 : !n) waits(%15, %16 : !c, !c) {
    %17 = job.esac ["a", "b"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/notify" job "System-Main" on <0, cpu:0> stream <main, 6> order 0 ins(%10 : !n) {
  ^bb0(%17: tensor<i64>):
    job.callback_notify "System-Finished", %17
    plan.yield
  }
}


// -----

// A section has to cover all that uses the bytes.

!c = !regst.control
!n = !regst.data<tensor<i64>>
!x = !regst.data<tensor<4xf32>>

plan.plan @uncovered exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  %c = regst.chunk on <0, host> size 64
  %k = regst.block in %c at 0 size 64
  %x = regst.register "x" in %k at 0 slots 1 on <0, host> : !x
  %y = regst.register "y" in %k at 0 slots 1 on <0, host> : !x
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %2 = regst.register "2" slots 1 on <0, host> : !c
  %3 = regst.register "3" slots 1 on <0, host> : !c
  %4 = regst.chunk on <0, host> size 640
  %5 = regst.block in %4 at 0 size 640
  %6 = regst.register "System-Main/launch/out" in %5 at 0 slots 2 on <0, host> : !n
  %7 = regst.register "System-Main/send/out" in %5 at 128 slots 2 on <0, host> : !n
  %8 = regst.register "System-Main/lock/out" in %5 at 256 slots 2 on <0, host> : !n
  %9 = regst.register "System-Main/esac/out" in %5 at 384 slots 2 on <0, host> : !n
  %10 = regst.register "System-Main/finished/out" in %5 at 512 slots 2 on <0, host> : !n
  %11 = regst.register "System-Main/case -> a/total/source" slots 1 on <0, host> : !c
  %12 = regst.register "System-Main/case -> b/total/source" slots 1 on <0, host> : !c
  %13 = regst.register "a/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %14 = regst.register "b/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %15 = regst.register "a/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  %16 = regst.register "b/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%11 : !c) signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) waits(%0 : !c) signals(%1 : !c) {
    %17 = job.input "x" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) signals(%13, %15 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%12, %2 : !c, !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "b/y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !x) signals(%2, %3 : !c, !c) {
    %17 = job.input "y" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  // expected-error@+1 {{verify-plan: task 'b/total/sink' may end a section before task 'b/total/source' begins it}}
  plan.task "b/total/sink" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%3 : !c) signals(%14, %16 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "System-Main/launch" job "System-Main" on <0, cpu:0> stream <main, 0> order 0 ins() outs(%6 : !n) {
    %17 = job.foreign_input "System-Launch" : tensor<i64>
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/send" job "System-Main" on <0, cpu:0> stream <main, 1> order 0 ins(%6 : !n) outs(%7 : !n) {
  ^bb0(%17: tensor<i64>):
    %18 = job.wait_and_send_ids %17 jobs ["a", "b"] lists [array<i64: 0>, array<i64: 1>]
    plan.yield %18 : tensor<i64>
  }
  // expected-error@+1 {{verify-plan: task 'System-Main/lock' lets jobs 'a' and 'b' use the same bytes at the same time}}
  plan.task "System-Main/lock" job "System-Main" on <0, cpu:0> stream <main, 2> order 0 ins(%7, %9 : !n, !n) outs(%8 : !n) {
  ^bb0(%17: tensor<i64>, %18: tensor<i64>):
    %19 = job.reentrant_lock %17, %18 sections ["a/total", "b/total"] lists [array<i64: 1>, array<i64: 0>]
    plan.yield %19 : tensor<i64>
  }
  plan.task "System-Main/case" job "System-Main" on <0, cpu:0> stream <main, 3> order 0 ins(%8 : !n) signals(%11, %12 : !c, !c) {
  ^bb0(%17: tensor<i64>):
    job.case %17 ["a/total", "b/total"]
    plan.yield
  }
  plan.task "System-Main/esac" job "System-Main" on <0, cpu:0> stream <main, 4> order 0 ins() outs(%9 : !n) waits(%13, %14 : !c, !c) {
    %17 = job.esac ["a/total", "b/total"]
    plan.yield %17 : tensor<i64>
  }
  // expected-error@+1 {{verify-plan: task 'System-Main/finished' should hear of job 'b' from one that comes after all others of it, got task 'b/total/sink'}}
  plan.task "System-Main/finished" job "System-Main" on <0, cpu:0> stream <main, 5> order 0 ins() outs(%10 : !n) waits(%15, %16 : !c, !c) {
    %17 = job.esac ["a", "b"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/notify" job "System-Main" on <0, cpu:0> stream <main, 6> order 0 ins(%10 : !n) {
  ^bb0(%17: tensor<i64>):
    job.callback_notify "System-Finished", %17
    plan.yield
  }
}


// -----

!c = !regst.control
!n = !regst.data<tensor<i64>>
!x = !regst.data<tensor<4xf32>>

plan.plan @names exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  %c = regst.chunk on <0, host> size 64
  %k = regst.block in %c at 0 size 64
  %x = regst.register "x" in %k at 0 slots 1 on <0, host> : !x
  %y = regst.register "y" in %k at 0 slots 1 on <0, host> : !x
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %2 = regst.register "2" slots 1 on <0, host> : !c
  %3 = regst.register "3" slots 1 on <0, host> : !c
  %4 = regst.chunk on <0, host> size 640
  %5 = regst.block in %4 at 0 size 640
  %6 = regst.register "System-Main/launch/out" in %5 at 0 slots 2 on <0, host> : !n
  %7 = regst.register "System-Main/send/out" in %5 at 128 slots 2 on <0, host> : !n
  %8 = regst.register "System-Main/lock/out" in %5 at 256 slots 2 on <0, host> : !n
  %9 = regst.register "System-Main/esac/out" in %5 at 384 slots 2 on <0, host> : !n
  %10 = regst.register "System-Main/finished/out" in %5 at 512 slots 2 on <0, host> : !n
  %11 = regst.register "System-Main/case -> a/total/source" slots 1 on <0, host> : !c
  %12 = regst.register "System-Main/case -> b/total/source" slots 1 on <0, host> : !c
  %13 = regst.register "a/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %14 = regst.register "b/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %15 = regst.register "a/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  %16 = regst.register "b/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%11 : !c) signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) waits(%0 : !c) signals(%1 : !c) {
    %17 = job.input "x" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) signals(%13, %15 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%12 : !c) signals(%2 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "b/y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !x) waits(%2 : !c) signals(%3 : !c) {
    %17 = job.input "y" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "b/total/sink" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%3 : !c) signals(%14, %16 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "System-Main/launch" job "System-Main" on <0, cpu:0> stream <main, 0> order 0 ins() outs(%6 : !n) {
    %17 = job.foreign_input "System-Launch" : tensor<i64>
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/send" job "System-Main" on <0, cpu:0> stream <main, 1> order 0 ins(%6 : !n) outs(%7 : !n) {
  ^bb0(%17: tensor<i64>):
    %18 = job.wait_and_send_ids %17 jobs ["a", "b"] lists [array<i64: 0>, array<i64: 1>]
    plan.yield %18 : tensor<i64>
  }
  // expected-error@+1 {{verify-plan: task 'System-Main/lock', task 'System-Main/case' and task 'System-Main/esac' do not list the same sections}}
  plan.task "System-Main/lock" job "System-Main" on <0, cpu:0> stream <main, 2> order 0 ins(%7, %9 : !n, !n) outs(%8 : !n) {
  ^bb0(%17: tensor<i64>, %18: tensor<i64>):
    %19 = job.reentrant_lock %17, %18 sections ["a/total", "b/total"] lists [array<i64: 1>, array<i64: 0>]
    plan.yield %19 : tensor<i64>
  }
  plan.task "System-Main/case" job "System-Main" on <0, cpu:0> stream <main, 3> order 0 ins(%8 : !n) signals(%11, %12 : !c, !c) {
  ^bb0(%17: tensor<i64>):
    job.case %17 ["b/total", "a/total"]
    plan.yield
  }
  plan.task "System-Main/esac" job "System-Main" on <0, cpu:0> stream <main, 4> order 0 ins() outs(%9 : !n) waits(%13, %14 : !c, !c) {
    %17 = job.esac ["a/total", "b/total"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/finished" job "System-Main" on <0, cpu:0> stream <main, 5> order 0 ins() outs(%10 : !n) waits(%15, %16 : !c, !c) {
    %17 = job.esac ["a", "b"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/notify" job "System-Main" on <0, cpu:0> stream <main, 6> order 0 ins(%10 : !n) {
  ^bb0(%17: tensor<i64>):
    job.callback_notify "System-Finished", %17
    plan.yield
  }
}


// -----

!c = !regst.control
!n = !regst.data<tensor<i64>>
!x = !regst.data<tensor<4xf32>>

plan.plan @crossed exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  %c = regst.chunk on <0, host> size 64
  %k = regst.block in %c at 0 size 64
  %x = regst.register "x" in %k at 0 slots 1 on <0, host> : !x
  %y = regst.register "y" in %k at 0 slots 1 on <0, host> : !x
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %2 = regst.register "2" slots 1 on <0, host> : !c
  %3 = regst.register "3" slots 1 on <0, host> : !c
  %4 = regst.chunk on <0, host> size 640
  %5 = regst.block in %4 at 0 size 640
  %6 = regst.register "System-Main/launch/out" in %5 at 0 slots 2 on <0, host> : !n
  %7 = regst.register "System-Main/send/out" in %5 at 128 slots 2 on <0, host> : !n
  %8 = regst.register "System-Main/lock/out" in %5 at 256 slots 2 on <0, host> : !n
  %9 = regst.register "System-Main/esac/out" in %5 at 384 slots 2 on <0, host> : !n
  %10 = regst.register "System-Main/finished/out" in %5 at 512 slots 2 on <0, host> : !n
  %11 = regst.register "System-Main/case -> a/total/source" slots 1 on <0, host> : !c
  %12 = regst.register "System-Main/case -> b/total/source" slots 1 on <0, host> : !c
  %13 = regst.register "a/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %14 = regst.register "b/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %15 = regst.register "a/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  %16 = regst.register "b/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%11 : !c) signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) waits(%0 : !c) signals(%1 : !c) {
    %17 = job.input "x" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) signals(%13, %15 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%12 : !c) signals(%2 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "b/y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !x) waits(%2 : !c) signals(%3 : !c) {
    %17 = job.input "y" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "b/total/sink" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%3 : !c) signals(%14, %16 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "System-Main/launch" job "System-Main" on <0, cpu:0> stream <main, 0> order 0 ins() outs(%6 : !n) {
    %17 = job.foreign_input "System-Launch" : tensor<i64>
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/send" job "System-Main" on <0, cpu:0> stream <main, 1> order 0 ins(%6 : !n) outs(%7 : !n) {
  ^bb0(%17: tensor<i64>):
    %18 = job.wait_and_send_ids %17 jobs ["a", "b"] lists [array<i64: 0>, array<i64: 1>]
    plan.yield %18 : tensor<i64>
  }
  // expected-error@+2 {{verify-plan: section 'a/total' has no source and sink of its own}}
  // expected-error@+1 {{verify-plan: section 'b/total' has no source and sink of its own}}
  plan.task "System-Main/lock" job "System-Main" on <0, cpu:0> stream <main, 2> order 0 ins(%7, %9 : !n, !n) outs(%8 : !n) {
  ^bb0(%17: tensor<i64>, %18: tensor<i64>):
    %19 = job.reentrant_lock %17, %18 sections ["a/total", "b/total"] lists [array<i64: 1>, array<i64: 0>]
    plan.yield %19 : tensor<i64>
  }
  plan.task "System-Main/case" job "System-Main" on <0, cpu:0> stream <main, 3> order 0 ins(%8 : !n) signals(%12, %11 : !c, !c) {
  ^bb0(%17: tensor<i64>):
    job.case %17 ["a/total", "b/total"]
    plan.yield
  }
  plan.task "System-Main/esac" job "System-Main" on <0, cpu:0> stream <main, 4> order 0 ins() outs(%9 : !n) waits(%13, %14 : !c, !c) {
    %17 = job.esac ["a/total", "b/total"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/finished" job "System-Main" on <0, cpu:0> stream <main, 5> order 0 ins() outs(%10 : !n) waits(%15, %16 : !c, !c) {
    %17 = job.esac ["a", "b"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/notify" job "System-Main" on <0, cpu:0> stream <main, 6> order 0 ins(%10 : !n) {
  ^bb0(%17: tensor<i64>):
    job.callback_notify "System-Finished", %17
    plan.yield
  }
}


// -----

!c = !regst.control
!n = !regst.data<tensor<i64>>
!x = !regst.data<tensor<4xf32>>

plan.plan @lists exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  %c = regst.chunk on <0, host> size 64
  %k = regst.block in %c at 0 size 64
  %x = regst.register "x" in %k at 0 slots 1 on <0, host> : !x
  %y = regst.register "y" in %k at 0 slots 1 on <0, host> : !x
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %2 = regst.register "2" slots 1 on <0, host> : !c
  %3 = regst.register "3" slots 1 on <0, host> : !c
  %4 = regst.chunk on <0, host> size 640
  %5 = regst.block in %4 at 0 size 640
  %6 = regst.register "System-Main/launch/out" in %5 at 0 slots 2 on <0, host> : !n
  %7 = regst.register "System-Main/send/out" in %5 at 128 slots 2 on <0, host> : !n
  %8 = regst.register "System-Main/lock/out" in %5 at 256 slots 2 on <0, host> : !n
  %9 = regst.register "System-Main/esac/out" in %5 at 384 slots 2 on <0, host> : !n
  %10 = regst.register "System-Main/finished/out" in %5 at 512 slots 2 on <0, host> : !n
  %11 = regst.register "System-Main/case -> a/total/source" slots 1 on <0, host> : !c
  %12 = regst.register "System-Main/case -> b/total/source" slots 1 on <0, host> : !c
  %13 = regst.register "a/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %14 = regst.register "b/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %15 = regst.register "a/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  %16 = regst.register "b/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%11 : !c) signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) waits(%0 : !c) signals(%1 : !c) {
    %17 = job.input "x" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) signals(%13, %15 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%12 : !c) signals(%2 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "b/y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !x) waits(%2 : !c) signals(%3 : !c) {
    %17 = job.input "y" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "b/total/sink" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%3 : !c) signals(%14, %16 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "System-Main/launch" job "System-Main" on <0, cpu:0> stream <main, 0> order 0 ins() outs(%6 : !n) {
    %17 = job.foreign_input "System-Launch" : tensor<i64>
    plan.yield %17 : tensor<i64>
  }
  // expected-error@+1 {{verify-plan: job 'b' has sections [1], but its list is [0]}}
  plan.task "System-Main/send" job "System-Main" on <0, cpu:0> stream <main, 1> order 0 ins(%6 : !n) outs(%7 : !n) {
  ^bb0(%17: tensor<i64>):
    %18 = job.wait_and_send_ids %17 jobs ["a", "b"] lists [array<i64: 0>, array<i64: 0>]
    plan.yield %18 : tensor<i64>
  }
  plan.task "System-Main/lock" job "System-Main" on <0, cpu:0> stream <main, 2> order 0 ins(%7, %9 : !n, !n) outs(%8 : !n) {
  ^bb0(%17: tensor<i64>, %18: tensor<i64>):
    %19 = job.reentrant_lock %17, %18 sections ["a/total", "b/total"] lists [array<i64: 1>, array<i64: 0>]
    plan.yield %19 : tensor<i64>
  }
  plan.task "System-Main/case" job "System-Main" on <0, cpu:0> stream <main, 3> order 0 ins(%8 : !n) signals(%11, %12 : !c, !c) {
  ^bb0(%17: tensor<i64>):
    job.case %17 ["a/total", "b/total"]
    plan.yield
  }
  plan.task "System-Main/esac" job "System-Main" on <0, cpu:0> stream <main, 4> order 0 ins() outs(%9 : !n) waits(%13, %14 : !c, !c) {
    %17 = job.esac ["a/total", "b/total"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/finished" job "System-Main" on <0, cpu:0> stream <main, 5> order 0 ins() outs(%10 : !n) waits(%15, %16 : !c, !c) {
    %17 = job.esac ["a", "b"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/notify" job "System-Main" on <0, cpu:0> stream <main, 6> order 0 ins(%10 : !n) {
  ^bb0(%17: tensor<i64>):
    job.callback_notify "System-Finished", %17
    plan.yield
  }
}


// -----

!c = !regst.control
!n = !regst.data<tensor<i64>>
!x = !regst.data<tensor<4xf32>>

plan.plan @around exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  %c = regst.chunk on <0, host> size 64
  %k = regst.block in %c at 0 size 64
  %x = regst.register "x" in %k at 0 slots 1 on <0, host> : !x
  %y = regst.register "y" in %k at 0 slots 1 on <0, host> : !x
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %2 = regst.register "2" slots 1 on <0, host> : !c
  %3 = regst.register "3" slots 1 on <0, host> : !c
  %4 = regst.chunk on <0, host> size 640
  %5 = regst.block in %4 at 0 size 640
  %6 = regst.register "System-Main/launch/out" in %5 at 0 slots 2 on <0, host> : !n
  %7 = regst.register "System-Main/send/out" in %5 at 128 slots 2 on <0, host> : !n
  %8 = regst.register "System-Main/lock/out" in %5 at 256 slots 2 on <0, host> : !n
  %9 = regst.register "System-Main/esac/out" in %5 at 384 slots 2 on <0, host> : !n
  %10 = regst.register "System-Main/finished/out" in %5 at 512 slots 2 on <0, host> : !n
  %11 = regst.register "System-Main/case -> a/total/source" slots 1 on <0, host> : !c
  %12 = regst.register "System-Main/case -> b/total/source" slots 1 on <0, host> : !c
  %13 = regst.register "a/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %14 = regst.register "b/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %15 = regst.register "a/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  %16 = regst.register "b/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%11 : !c) signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) waits(%0 : !c) signals(%1 : !c) {
    %17 = job.input "x" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) signals(%13, %15 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%12 : !c) signals(%2 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "b/y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !x) waits(%2 : !c) signals(%3 : !c) {
    %17 = job.input "y" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "b/total/sink" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%3 : !c) signals(%14, %16 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "System-Main/launch" job "System-Main" on <0, cpu:0> stream <main, 0> order 0 ins() outs(%6 : !n) {
    %17 = job.foreign_input "System-Launch" : tensor<i64>
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/send" job "System-Main" on <0, cpu:0> stream <main, 1> order 0 ins(%6 : !n) outs(%7 : !n) {
  ^bb0(%17: tensor<i64>):
    %18 = job.wait_and_send_ids %17 jobs ["a", "b"] lists [array<i64: 0>, array<i64: 1>]
    plan.yield %18 : tensor<i64>
  }
  // expected-error@+1 {{verify-plan: task 'System-Main/lock' should stand between one each of send_ids, esac and case, got job.foreign_input, esac, case}}
  plan.task "System-Main/lock" job "System-Main" on <0, cpu:0> stream <main, 2> order 0 ins(%6, %9 : !n, !n) outs(%8 : !n) {
  ^bb0(%17: tensor<i64>, %18: tensor<i64>):
    %19 = job.reentrant_lock %17, %18 sections ["a/total", "b/total"] lists [array<i64: 1>, array<i64: 0>]
    plan.yield %19 : tensor<i64>
  }
  plan.task "System-Main/case" job "System-Main" on <0, cpu:0> stream <main, 3> order 0 ins(%8 : !n) signals(%11, %12 : !c, !c) {
  ^bb0(%17: tensor<i64>):
    job.case %17 ["a/total", "b/total"]
    plan.yield
  }
  plan.task "System-Main/esac" job "System-Main" on <0, cpu:0> stream <main, 4> order 0 ins() outs(%9 : !n) waits(%13, %14 : !c, !c) {
    %17 = job.esac ["a/total", "b/total"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/finished" job "System-Main" on <0, cpu:0> stream <main, 5> order 0 ins() outs(%10 : !n) waits(%15, %16 : !c, !c) {
    %17 = job.esac ["a", "b"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/notify" job "System-Main" on <0, cpu:0> stream <main, 6> order 0 ins(%10 : !n) {
  ^bb0(%17: tensor<i64>):
    job.callback_notify "System-Finished", %17
    plan.yield
  }
}


// -----

!c = !regst.control
!n = !regst.data<tensor<i64>>
!x = !regst.data<tensor<4xf32>>

// expected-error@+1 {{verify-plan: jobs are linked by one lock, got 0}}
plan.plan @locks exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  %c = regst.chunk on <0, host> size 64
  %k = regst.block in %c at 0 size 64
  %x = regst.register "x" in %k at 0 slots 1 on <0, host> : !x
  %y = regst.register "y" in %k at 0 slots 1 on <0, host> : !x
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %2 = regst.register "2" slots 1 on <0, host> : !c
  %3 = regst.register "3" slots 1 on <0, host> : !c
  %4 = regst.chunk on <0, host> size 640
  %5 = regst.block in %4 at 0 size 640
  %6 = regst.register "System-Main/launch/out" in %5 at 0 slots 2 on <0, host> : !n
  %7 = regst.register "System-Main/send/out" in %5 at 128 slots 2 on <0, host> : !n
  %9 = regst.register "System-Main/esac/out" in %5 at 384 slots 2 on <0, host> : !n
  %10 = regst.register "System-Main/finished/out" in %5 at 512 slots 2 on <0, host> : !n
  %11 = regst.register "System-Main/case -> a/total/source" slots 1 on <0, host> : !c
  %12 = regst.register "System-Main/case -> b/total/source" slots 1 on <0, host> : !c
  %13 = regst.register "a/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %14 = regst.register "b/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %15 = regst.register "a/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  %16 = regst.register "b/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%11 : !c) signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) waits(%0 : !c) signals(%1 : !c) {
    %17 = job.input "x" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) signals(%13, %15 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%12 : !c) signals(%2 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "b/y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !x) waits(%2 : !c) signals(%3 : !c) {
    %17 = job.input "y" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "b/total/sink" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%3 : !c) signals(%14, %16 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "System-Main/launch" job "System-Main" on <0, cpu:0> stream <main, 0> order 0 ins() outs(%6 : !n) {
    %17 = job.foreign_input "System-Launch" : tensor<i64>
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/send" job "System-Main" on <0, cpu:0> stream <main, 1> order 0 ins(%6 : !n) outs(%7 : !n) {
  ^bb0(%17: tensor<i64>):
    %18 = job.wait_and_send_ids %17 jobs ["a", "b"] lists [array<i64: 0>, array<i64: 1>]
    plan.yield %18 : tensor<i64>
  }
  plan.task "System-Main/case" job "System-Main" on <0, cpu:0> stream <main, 3> order 0 ins(%7 : !n) signals(%11, %12 : !c, !c) {
  ^bb0(%17: tensor<i64>):
    job.case %17 ["a/total", "b/total"]
    plan.yield
  }
  plan.task "System-Main/esac" job "System-Main" on <0, cpu:0> stream <main, 4> order 0 ins() outs(%9 : !n) waits(%13, %14 : !c, !c) {
    %17 = job.esac ["a/total", "b/total"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/finished" job "System-Main" on <0, cpu:0> stream <main, 5> order 0 ins() outs(%10 : !n) waits(%15, %16 : !c, !c) {
    %17 = job.esac ["a", "b"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/notify" job "System-Main" on <0, cpu:0> stream <main, 6> order 0 ins(%10 : !n) {
  ^bb0(%17: tensor<i64>):
    job.callback_notify "System-Finished", %17
    plan.yield
  }
}

// -----

// What the caller gives by a name goes to one task.

!c = !regst.control
!n = !regst.data<tensor<i64>>
!x = !regst.data<tensor<4xf32>>

plan.plan @served_twice exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  %c = regst.chunk on <0, host> size 64
  %k = regst.block in %c at 0 size 64
  %x = regst.register "x" in %k at 0 slots 1 on <0, host> : !x
  %y = regst.register "y" in %k at 0 slots 1 on <0, host> : !x
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %2 = regst.register "2" slots 1 on <0, host> : !c
  %3 = regst.register "3" slots 1 on <0, host> : !c
  %4 = regst.chunk on <0, host> size 640
  %5 = regst.block in %4 at 0 size 640
  %6 = regst.register "System-Main/launch/out" in %5 at 0 slots 2 on <0, host> : !n
  %7 = regst.register "System-Main/send/out" in %5 at 128 slots 2 on <0, host> : !n
  %8 = regst.register "System-Main/lock/out" in %5 at 256 slots 2 on <0, host> : !n
  %9 = regst.register "System-Main/esac/out" in %5 at 384 slots 2 on <0, host> : !n
  %10 = regst.register "System-Main/finished/out" in %5 at 512 slots 2 on <0, host> : !n
  %11 = regst.register "System-Main/case -> a/total/source" slots 1 on <0, host> : !c
  %12 = regst.register "System-Main/case -> b/total/source" slots 1 on <0, host> : !c
  %13 = regst.register "a/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %14 = regst.register "b/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %15 = regst.register "a/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  %16 = regst.register "b/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%11 : !c) signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) waits(%0 : !c) signals(%1 : !c) {
    %17 = job.input "x" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) signals(%13, %15 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%12 : !c) signals(%2 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "b/y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !x) waits(%2 : !c) signals(%3 : !c) {
    %17 = job.input "System-Launch" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "b/total/sink" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%3 : !c) signals(%14, %16 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  // expected-error@+1 {{verify-plan: tasks 'b/y' and 'System-Main/launch' both serve the port 'System-Launch'}}
  plan.task "System-Main/launch" job "System-Main" on <0, cpu:0> stream <main, 0> order 0 ins() outs(%6 : !n) {
    %17 = job.foreign_input "System-Launch" : tensor<i64>
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/send" job "System-Main" on <0, cpu:0> stream <main, 1> order 0 ins(%6 : !n) outs(%7 : !n) {
  ^bb0(%17: tensor<i64>):
    %18 = job.wait_and_send_ids %17 jobs ["a", "b"] lists [array<i64: 0>, array<i64: 1>]
    plan.yield %18 : tensor<i64>
  }
  // expected-error@+1 {{verify-plan: task 'System-Main/lock' lets jobs 'a' and 'b' use the same bytes at the same time}}
  plan.task "System-Main/lock" job "System-Main" on <0, cpu:0> stream <main, 2> order 0 ins(%7, %9 : !n, !n) outs(%8 : !n) {
  ^bb0(%17: tensor<i64>, %18: tensor<i64>):
    %19 = job.reentrant_lock %17, %18 sections ["a/total", "b/total"] lists [array<i64>, array<i64>]
    plan.yield %19 : tensor<i64>
  }
  plan.task "System-Main/case" job "System-Main" on <0, cpu:0> stream <main, 3> order 0 ins(%8 : !n) signals(%11, %12 : !c, !c) {
  ^bb0(%17: tensor<i64>):
    job.case %17 ["a/total", "b/total"]
    plan.yield
  }
  plan.task "System-Main/esac" job "System-Main" on <0, cpu:0> stream <main, 4> order 0 ins() outs(%9 : !n) waits(%13, %14 : !c, !c) {
    %17 = job.esac ["a/total", "b/total"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/finished" job "System-Main" on <0, cpu:0> stream <main, 5> order 0 ins() outs(%10 : !n) waits(%15, %16 : !c, !c) {
    %17 = job.esac ["a", "b"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/notify" job "System-Main" on <0, cpu:0> stream <main, 6> order 0 ins(%10 : !n) {
  ^bb0(%17: tensor<i64>):
    job.callback_notify "System-Finished", %17
    plan.yield
  }
}

// -----

// No section ends that nobody has begun.

!c = !regst.control
!n = !regst.data<tensor<i64>>
!x = !regst.data<tensor<4xf32>>

plan.plan @unguarded exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  %c = regst.chunk on <0, host> size 64
  %k = regst.block in %c at 0 size 64
  %x = regst.register "x" in %k at 0 slots 1 on <0, host> : !x
  %y = regst.register "y" in %k at 0 slots 1 on <0, host> : !x
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %2 = regst.register "2" slots 1 on <0, host> : !c
  %3 = regst.register "3" slots 1 on <0, host> : !c
  %4 = regst.chunk on <0, host> size 640
  %5 = regst.block in %4 at 0 size 640
  %6 = regst.register "System-Main/launch/out" in %5 at 0 slots 2 on <0, host> : !n
  %7 = regst.register "System-Main/send/out" in %5 at 128 slots 2 on <0, host> : !n
  %8 = regst.register "System-Main/lock/out" in %5 at 256 slots 2 on <0, host> : !n
  %9 = regst.register "System-Main/esac/out" in %5 at 384 slots 2 on <0, host> : !n
  %10 = regst.register "System-Main/finished/out" in %5 at 512 slots 2 on <0, host> : !n
  %11 = regst.register "System-Main/case -> a/total/source" slots 1 on <0, host> : !c
  %12 = regst.register "System-Main/case -> b/total/source" slots 1 on <0, host> : !c
  // expected-error@+1 {{verify-plan: register 'a/total/sink -> System-Main/esac' of the main job is full at the start}}
  %13 = regst.register "a/total/sink -> System-Main/esac" slots 1 initial 1 on <0, host> : !c
  %14 = regst.register "b/total/sink -> System-Main/esac" slots 1 on <0, host> : !c
  %15 = regst.register "a/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  %16 = regst.register "b/total/sink -> System-Main/finished" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%11 : !c) signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) waits(%0 : !c) signals(%1 : !c) {
    %17 = job.input "x" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) signals(%13, %15 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%12 : !c) signals(%2 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "b/y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !x) waits(%2 : !c) signals(%3 : !c) {
    %17 = job.input "y" : tensor<4xf32>
    plan.yield %17 : tensor<4xf32>
  }
  plan.task "b/total/sink" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%3 : !c) signals(%14, %16 : !c, !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "System-Main/launch" job "System-Main" on <0, cpu:0> stream <main, 0> order 0 ins() outs(%6 : !n) {
    %17 = job.foreign_input "System-Launch" : tensor<i64>
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/send" job "System-Main" on <0, cpu:0> stream <main, 1> order 0 ins(%6 : !n) outs(%7 : !n) {
  ^bb0(%17: tensor<i64>):
    %18 = job.wait_and_send_ids %17 jobs ["a", "b"] lists [array<i64: 0>, array<i64: 1>]
    plan.yield %18 : tensor<i64>
  }
  plan.task "System-Main/lock" job "System-Main" on <0, cpu:0> stream <main, 2> order 0 ins(%7, %9 : !n, !n) outs(%8 : !n) {
  ^bb0(%17: tensor<i64>, %18: tensor<i64>):
    %19 = job.reentrant_lock %17, %18 sections ["a/total", "b/total"] lists [array<i64: 1>, array<i64: 0>]
    plan.yield %19 : tensor<i64>
  }
  plan.task "System-Main/case" job "System-Main" on <0, cpu:0> stream <main, 3> order 0 ins(%8 : !n) signals(%11, %12 : !c, !c) {
  ^bb0(%17: tensor<i64>):
    job.case %17 ["a/total", "b/total"]
    plan.yield
  }
  plan.task "System-Main/esac" job "System-Main" on <0, cpu:0> stream <main, 4> order 0 ins() outs(%9 : !n) waits(%13, %14 : !c, !c) {
    %17 = job.esac ["a/total", "b/total"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/finished" job "System-Main" on <0, cpu:0> stream <main, 5> order 0 ins() outs(%10 : !n) waits(%15, %16 : !c, !c) {
    %17 = job.esac ["a", "b"]
    plan.yield %17 : tensor<i64>
  }
  plan.task "System-Main/notify" job "System-Main" on <0, cpu:0> stream <main, 6> order 0 ins(%10 : !n) {
  ^bb0(%17: tensor<i64>):
    job.callback_notify "System-Finished", %17
    plan.yield
  }
}
