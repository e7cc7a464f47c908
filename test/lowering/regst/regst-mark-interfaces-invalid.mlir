// RUN: penstock-opt %s -p regst-mark-interfaces --verify-diagnostics --split-input-file

// What has one name in two jobs is defined alike: a variable by its type, its first values,
// which include the seed, and its device.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @train {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %u = regst.register "u" slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <uniform, seed = 1> : !t
    plan.yield %v : !t
  }
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins() outs(%u : !r) {
    %v = job.variable "u" init <zeros> part [4] of [8] : !t
    plan.yield %v : !t
  }
}

plan.plan @eval {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %u = regst.register "u" slots 1 on <0, host> : !r
  // expected-error@+1 {{regst-mark-interfaces: 'w' is tensor<4xf32> init <uniform, seed = 1> on <0, cpu:0> in job 'train', but tensor<4xf32> init <uniform, seed = 2> on <0, cpu:0> in job 'eval'}}
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <uniform, seed = 2> : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{regst-mark-interfaces: 'u' is tensor<4xf32> init <zeros> part [4] of [8] on <0, cpu:0> in job 'train', but tensor<4xf32> init <zeros> on <0, cpu:0> in job 'eval'}}
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins() outs(%u : !r) {
    %v = job.variable "u" init <zeros> : !t
    plan.yield %v : !t
  }
}

// -----

// An input or an output is defined by its type and its device.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @makes {
  %y = regst.register "y" slots 1 on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%y : !r) {
  ^bb0(%0: !t):
    job.output "y", %0 : !t
    plan.yield
  }
}

plan.plan @takes {
  %y = regst.register "y" slots 1 on <1, host> : !r
  // expected-error@+1 {{regst-mark-interfaces: 'y' is tensor<4xf32> on <0, cpu:0> in job 'makes', but tensor<4xf32> on <1, cpu:0> in job 'takes'}}
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = job.input "y" : !t
    plan.yield %v : !t
  }
}

// -----

// A name is that of a variable, or of inputs and outputs.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @train {
  %w = regst.register "w" slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
}

plan.plan @eval {
  %w = regst.register "w" slots 1 on <0, host> : !r
  // expected-error@+1 {{regst-mark-interfaces: 'w' is a variable of job 'train', but an input of job 'eval'}}
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.input "w" : !t
    plan.yield %v : !t
  }
}

// -----

// The bytes of a name cannot be read and made by one job.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @step {
  %x = regst.register "x" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{regst-mark-interfaces: job 'step' has both an input and an output 'x', which job 'look' has too}}
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) {
  ^bb0(%0: !t):
    job.output "x", %0 : !t
    plan.yield
  }
}

plan.plan @look {
  %x = regst.register "x" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
}

// -----

// Nobody can ask for several slots, and memory must fit all jobs.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @a {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, device cuda:0> : !r
  // expected-error@+1 {{regst-mark-interfaces: interface 'x' has one slot, but task 'x' asks for 2}}
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) attributes {slots = 2 : i64} {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = job.input "y" : !t
    plan.yield %v : !t
  }
}

plan.plan @b {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{regst-mark-interfaces: interface 'y' lies in #regst.memory_case<0, device cuda:0> in job 'a', but in #regst.memory_case<0, host> in job 'b'}}
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = job.input "y" : !t
    plan.yield %v : !t
  }
}

// -----

// expected-error@+1 {{regst-mark-interfaces: tasks hand on values, run plan-create-registers first}}
plan.plan @values {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

plan.plan @other {
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// An input of several jobs is no alias, and nothing is written over it.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @one {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %x = regst.register "x" alias %w : !r slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  %z = regst.register "z" alias %y : !r slots 1 on <0, host> : !r
  // expected-error@+1 {{regst-mark-interfaces: interface 'x' has bytes of its own, but input 'x' is an alias of 'w'}}
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = job.input "y" : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{regst-mark-interfaces: interface 'y' has bytes of its own, but 'z' is written over it}}
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%y : !r) outs(%z : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
}

plan.plan @two {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = job.input "y" : !t
    plan.yield %v : !t
  }
}
