// RUN: penstock-opt %s -p plan-link-main --verify-diagnostics --split-input-file

!c = !regst.control

// expected-error@+1 {{plan-link-main: job 'b' has no ticks, run job-add-sections and plan-add-ticks}}
plan.plan @unticked attributes {jobs = {a = {sections = [#job.section<"total", total>]}}} {
  %0 = regst.register "0" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%0 : !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/t" job "b" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

!c = !regst.control

// expected-error@+2 {{plan-link-main: section 'a/other' should be listed, and have a source and sink}}
// expected-error@+1 {{plan-link-main: section 'a/total' should be listed, and have a source and sink}}
plan.plan @unlisted attributes {jobs = {a = {sections = [#job.section<"other", total>]}}} {
  %0 = regst.register "0" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%0 : !c) {
    job.sink_tick "total"
    plan.yield
  }
}

// -----

!c = !regst.control

// expected-error@+1 {{plan-link-main: the first section, and no other, is of kind total, got input}}
plan.plan @kinds attributes {jobs = {a = {sections = [#job.section<"total", input>]}}} {
  %0 = regst.register "0" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%0 : !c) {
    job.sink_tick "total"
    plan.yield
  }
}

// -----

!c = !regst.control

// expected-error@+1 {{plan-link-main: a main job has one rank, but tasks run on ranks 0, 1: leave it out, sessions launch such jobs themselves}}
plan.plan @ranks attributes {jobs = {a = {sections = [#job.section<"total", total>]}}} {
  %0 = regst.register "0" slots 1 on <0, host> : !c
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%0 : !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "a/t" job "a" on <1, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

!c = !regst.control

// expected-error@+1 {{plan-link-main: a main job has one rank, but this is the plan of rank 1: leave it out, sessions launch such jobs themselves}}
plan.plan @main_1 rank 1 attributes {jobs = {a = {sections = [#job.section<"total", total>]}}} {
  %0 = regst.register "0" slots 1 on <1, host> : !c
  plan.task "a/total/source" job "a" on <1, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/total/sink" job "a" on <1, cpu:0> stream <tick, 0> ins() waits(%0 : !c) {
    job.sink_tick "total"
    plan.yield
  }
}

// -----

!c = !regst.control

// expected-error@+1 {{plan-link-main: 'System-Main' is taken, which is the name of the main job}}
plan.plan @taken attributes {jobs = {"System-Main" = {sections = [#job.section<"total", total>]}}} {
  %0 = regst.register "0" slots 1 on <0, host> : !c
  plan.task "System-Main/total/source" job "System-Main" on <0, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "System-Main/total/sink" job "System-Main" on <0, cpu:0> stream <tick, 0> ins() waits(%0 : !c) {
    job.sink_tick "total"
    plan.yield
  }
}

// -----

!c = !regst.control
!x = !regst.data<tensor<4xf32>>

plan.plan @ports attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %x = regst.register "x" slots 1 on <0, host> : !x
  %y = regst.register "y" slots 1 on <0, host> : !x
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%0 : !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, 0> ins() signals(%1 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "b/total/sink" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) {
    %2 = job.input "x" : tensor<4xf32>
    plan.yield %2 : tensor<4xf32>
  }
  // expected-error@+1 {{plan-link-main: port 'x' is one of jobs 'a' and 'b', run job-add-push-pull first}}
  plan.task "b/x" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !x) {
    %2 = job.input "x" : tensor<4xf32>
    plan.yield %2 : tensor<4xf32>
  }
}

// -----

!c = !regst.control
!x = !regst.data<tensor<4xf32>>

plan.plan @taken_ports attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %x = regst.register "x" slots 1 on <0, host> : !x
  %y = regst.register "y" slots 1 on <0, host> : !x
  plan.task "a/total/source" job "a" on <0, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/total/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%0 : !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/total/source" job "b" on <0, cpu:0> stream <tick, 0> ins() signals(%1 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "b/total/sink" job "b" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) {
    job.sink_tick "total"
    plan.yield
  }
  // expected-error@+1 {{plan-link-main: port 'System-Launch' is taken, which is one of the main job}}
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) {
    %2 = job.input "System-Launch" : tensor<4xf32>
    plan.yield %2 : tensor<4xf32>
  }
  // expected-error@+1 {{plan-link-main: port 'System-Finished' is taken, which is one of the main job}}
  plan.task "a/y" job "a" on <0, cpu:0> stream <compute, 0> ins(%x : !x) {
  ^bb0(%3: tensor<4xf32>):
    job.output "System-Finished", %3 : tensor<4xf32>
    plan.yield
  }
}
