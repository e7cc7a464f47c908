// RUN: penstock-opt %s -p plan-merge-jobs --verify-diagnostics --split-input-file

// Memory is planned before, and jobs are merged once.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// expected-error@+1 {{plan-merge-jobs: tasks hand on values, run plan-create-registers first}}
plan.plan @values {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
}

// expected-error@+1 {{plan-merge-jobs: registers have no place yet, run regst-plan-memory first}}
plan.plan @no_places {
  %x = regst.register "x" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
}

// expected-error@+1 {{plan-merge-jobs: the tasks of @merged belong to several jobs already}}
plan.plan @merged {
  plan.task "a" job "a" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// The plan gets a name that nothing else has.

plan.plan @a {
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

plan.plan @b {
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// expected-error@+1 {{plan-merge-jobs: @main is taken, so the plan needs another name}}
launch.program @main rank 0 {
  launch.chunk @c0 on <0, host> size 64
}

// -----

// Jobs that share a name define it alike.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @train {
  %c = regst.chunk on <0, host> size 16
  %m = regst.block in %c at 0 size 16
  %w = regst.register "w" in %m at 0 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
}

plan.plan @eval {
  %c = regst.chunk on <0, host> size 16
  %m = regst.block in %c at 0 size 16
  %w = regst.register "w" in %m at 0 slots 1 on <0, host> : !r
  // expected-error@+1 {{plan-merge-jobs: 'w' is tensor<4xf32> init <zeros> on <0, cpu:0> in job 'train', but tensor<4xf32> init <ones> on <0, cpu:0> in job 'eval'}}
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <ones> : !t
    plan.yield %v : !t
  }
}

// -----

// An input or output of one name is an interface of both. Some memory serves as that
// of all jobs.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @one {
  %c = regst.chunk on <0, host> size 144
  %m = regst.block in %c at 0 size 144
  %x = regst.register "x" in %m at 0 slots 1 interface "x" on <0, host> : !r
  %z = regst.register "z" in %m at 64 slots 1 interface "z" on <0, host> : !r
  %w = regst.register "w" in %m at 128 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins() outs(%z : !r) {
    %v = job.input "z" : !t
    plan.yield %v : !t
  }
}

plan.plan @two {
  %c = regst.chunk on <0, host> size 16
  %m = regst.block in %c at 0 size 16
  %d = regst.chunk on <0, device cuda:0> size 528
  %n = regst.block in %d at 0 size 528
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %z = regst.register "z" in %n at 0 slots 1 interface "z" on <0, device cuda:0> : !r
  %w = regst.register "w" in %n at 512 slots 1 on <0, device cuda:0> : !r
  // expected-error@+1 {{plan-merge-jobs: variable 'w' lies in #regst.memory_case<0, host> in job 'one', but in #regst.memory_case<0, device cuda:0> in job 'two'}}
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{plan-merge-jobs: 'x' is an input of job 'two' and has the name of another job's, but its register is no interface; regst-mark-interfaces makes it one before memory is planned}}
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{plan-merge-jobs: interface 'z' lies in #regst.memory_case<0, host> in job 'one', but in #regst.memory_case<0, device cuda:0> in job 'two'}}
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins() outs(%z : !r) {
    %v = job.input "z" : !t
    plan.yield %v : !t
  }
}
