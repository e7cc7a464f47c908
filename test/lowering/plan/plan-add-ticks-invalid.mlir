// RUN: penstock-opt %s -p plan-add-ticks --verify-diagnostics --split-input-file

// expected-error@+1 {{plan-add-ticks: tasks hand on values, run plan-create-registers first}}
plan.plan @values attributes {sections = [#job.section<"total", total>]} {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
}

// -----

// expected-error@+1 {{plan-add-ticks: sections should list #job.section, got "all"}}
plan.plan @text attributes {sections = "all"} {
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

!r = !regst.data<tensor<4xf32>>

// expected-error@+1 {{plan-add-ticks: 'total/sink' is taken, which is the name of a tick}}
plan.plan @taken attributes {sections = [#job.section<"total", total>]} {
  %x = regst.register "x/out" slots 1 on <0, host> : !r
  plan.task "total/sink" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
}
