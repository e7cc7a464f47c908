// RUN: penstock-opt %s -p verify-ticks --verify-diagnostics --split-input-file | filecheck %s

// What is no tick stands between a source and the sink of the total section; jobs of one
// plan have their own.

!c = !regst.control

// CHECK-LABEL: plan.plan @both
plan.plan @both attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {}}} {
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  plan.task "a/source" job "a" on <0, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins() waits(%0 : !c) signals(%1 : !c) {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "a/sink" job "a" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) {
    job.sink_tick "total"
    plan.yield
  }
  plan.task "b/x" job "b" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

!c = !regst.control

plan.plan @loose attributes {sections = [#job.section<"total", total>]} {
  %0 = regst.register "0" slots 1 on <0, host> : !c
  plan.task "source" on <0, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  // expected-error@+2 {{verify-ticks: task 'x' waits for no tick}}
  // expected-error@+1 {{verify-ticks: no tick waits for task 'x'}}
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "sink" on <0, cpu:0> stream <tick, 0> ins() waits(%0 : !c) {
    job.sink_tick "total"
    plan.yield
  }
}

// -----

!c = !regst.control

plan.plan @sections attributes {sections = [#job.section<"total", total>, #job.section<"s", outputs>]} {
  %0 = regst.register "0" slots 1 on <0, host> : !c
  %1 = regst.register "1" slots 1 on <0, host> : !c
  %2 = regst.register "2" slots 1 on <0, host> : !c
  %3 = regst.register "3" slots 1 on <0, host> : !c
  // expected-error@+2 {{verify-ticks: section 's' should have one source and one sink on rank 0, got 2 and 1}}
  // expected-error@+1 {{verify-ticks: section 'other' should have one source and one sink on rank 0, got 0 and 1}}
  plan.task "source" on <0, cpu:0> stream <tick, 0> ins() signals(%0 : !c) {
    job.source_tick "total"
    plan.yield
  }
  plan.task "s" on <0, cpu:0> stream <tick, 0> ins() signals(%1 : !c) {
    job.source_tick "s"
    plan.yield
  }
  plan.task "t" on <0, cpu:0> stream <tick, 0> ins() waits(%0 : !c) signals(%2 : !c) {
    job.source_tick "s"
    plan.yield
  }
  // expected-error@+2 {{verify-ticks: no tick waits for task 'u'}}
  // expected-error@+1 {{verify-ticks: tick 'u' is of no section: 'other'}}
  plan.task "u" on <0, cpu:0> stream <tick, 0> ins() waits(%1 : !c) {
    job.sink_tick "other"
    plan.yield
  }
  plan.task "v" on <0, cpu:0> stream <tick, 0> ins() waits(%2 : !c) signals(%3 : !c) {
    job.sink_tick "s"
    plan.yield
  }
  plan.task "sink" on <0, cpu:0> stream <tick, 0> ins() waits(%3 : !c) {
    job.sink_tick "total"
    plan.yield
  }
}

// -----

!c = !regst.control

plan.plan @backwards attributes {sections = [#job.section<"total", total>]} {
  // expected-error@+1 {{verify-ticks: no tick waits for task 'source'}}
  plan.task "source" on <0, cpu:0> stream <tick, 0> ins() {
    job.source_tick "total"
    plan.yield
  }
  // expected-error@+2 {{verify-ticks: 'sink' may act before its source}}
  // expected-error@+1 {{verify-ticks: task 'sink' waits for no tick}}
  plan.task "sink" on <0, cpu:0> stream <tick, 0> ins() {
    job.sink_tick "total"
    plan.yield
  }
}

// -----

// expected-error@+1 {{verify-ticks: sections should list #job.section, got "all"}}
plan.plan @text attributes {sections = "all"} {
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() {
    job.source_tick "x"
    plan.yield
  }
}
