// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{stream index must not be negative, got -1}}
"test.op"() {on = #plan.stream<compute, -1>} : () -> ()

// -----

// expected-error@+1 {{the block of a plan takes no arguments}}
plan.plan @arguments {
^bb0(%x: tensor<4xf32>):
}

// -----

plan.plan @task_names {
  %a = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "a" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{two tasks are named 'x'}}
  %b = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "b" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @register_names {
  %a = regst.register "x" slots 1 on <0, host> : !regst.control
  // expected-error@+1 {{two registers are named 'x'}}
  %b = regst.register "x" slots 1 on <0, host> : !regst.control
}

// -----

plan.plan @two_producers {
  %r = regst.register "r" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%r : !regst.data<tensor<4xf32>>) {
    %v = job.input "a" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{register 'r' is written by both 'a' and 'b'}}
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() outs(%r : !regst.data<tensor<4xf32>>) {
    %v = job.input "b" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// A register that a task signals is written by it, too.
plan.plan @two_signals {
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() signals(%k : !regst.control) -> tensor<4xf32> {
    %v = job.input "a" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{register 'k' is written by both 'a' and 'b'}}
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins() signals(%k : !regst.control) -> tensor<4xf32> {
    %v = job.input "b" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @no_producer {
  %r = regst.register "r" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  // expected-error@+1 {{task 'y' reads register 'r', which no task writes}}
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%r : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    job.output "y", %v : tensor<4xf32>
    plan.yield
  }
}

// -----

plan.plan @no_signal {
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  // expected-error@+1 {{task 'x' reads register 'k', which no task writes}}
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() waits(%k : !regst.control) -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @results_and_registers {
  %r = regst.register "r" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  // expected-error@+1 {{a task has either results or registers it writes}}
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%r : !regst.data<tensor<4xf32>>) -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @two_ops {
  // expected-error@+1 {{the body of a task should be one op and plan.yield}}
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    %w = job.input "w" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @no_op {
  // expected-error@+1 {{the body of a task should be one op and plan.yield}}
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() {
    plan.yield
  }
}

// -----

plan.plan @no_yield {
  // expected-error@+1 {{the body of a task should be one op and plan.yield}}
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "v" : tensor<4xf32>
    "test.termop"() : () -> ()
  }
}

// -----

plan.plan @reads {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{the task reads (tensor<4xf32>), but its body has (tensor<4xf64>, tensor<4xf32>)}}
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf64>, %w: tensor<4xf32>):
    job.output "y", %v : tensor<4xf64>
    plan.yield
  }
}

// -----

// Of a register it is the payload that counts.
plan.plan @writes {
  %r = regst.register "r" slots 1 on <0, host> : !regst.data<tensor<8xf32>>
  // expected-error@+1 {{the task writes (tensor<8xf32>), but its body has (tensor<4xf32>)}}
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%r : !regst.data<tensor<8xf32>>) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @order {
  // expected-error@+1 {{expected integer >= 0, got -1}}
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> order -1 ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @chain {
  // expected-error@+1 {{expected integer >= 0, got -2}}
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> chain -2 ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// Streams of one name on two devices are two streams.
plan.plan @streams {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> chain 1 ins() -> tensor<4xf32> {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %y = plan.task "y" on <0, cpu:0> stream <compute, 0> chain 1 ins() -> tensor<4xf32> {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{chain 1 has tasks on two streams: 'x' and 'z'}}
  %z = plan.task "z" on <0, cpu:1> stream <compute, 0> chain 1 ins() -> tensor<4xf32> {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @no_job {
  plan.task "a" job "a" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
  // expected-error@+1 {{task 'b' belongs to no job, but others do}}
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// expected-error@+1 {{no task belongs to job 'b'}}
plan.plan @unknown_job exclusive [["a", "b"]] {
  plan.task "a" job "a" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// expected-error@+1 {{job 'a' is in two exclusive groups}}
plan.plan @two_groups exclusive [["a", "b"], ["a"]] {
  plan.task "a" job "a" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "b" job "b" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

plan.plan @hidden {
  %v = plan.task "v" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %0 = job.variable "v" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  %i = plan.task "i" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xi64> {
    %0 = job.variable "i" init <zeros> : tensor<4xi64>
    plan.yield %0 : tensor<4xi64>
  }
  // expected-error@+1 {{plan.task: op.gather can fail, so its task has to say can_fail}}
  %g = plan.task "g" on <0, cpu:0> stream <compute, 0> ins(%v, %i : tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32> {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xi64>):
    %2 = op.gather %0[%1] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
    plan.yield %2 : tensor<4xf32>
  }
}

// -----

plan.plan @no_bodies {
  // expected-error@+1 {{job.input has no bodies that plans could be of}}
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  } with {
    plan.plan @body {
    }
  }
}

// -----

plan.plan @one_branch {
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins() -> tensor<i1> {
    %0 = job.input "c" : tensor<i1>
    plan.yield %0 : tensor<i1>
  }
  // expected-error@+1 {{there should be a plan of each body of op.if, which has 2}}
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%c : tensor<i1>) {
  ^bb0(%d: tensor<i1>):
    op.if %d {
      op.yield
    } else {
      op.yield
    }
    plan.yield
  } with {
    plan.plan @then {
    }
  }
}

// -----

plan.plan @memory {
  %r = regst.register "h/memory" slots 1 on <0, host> : !regst.data<tensor<8xf32>>
  // expected-error@+1 {{the last register that a task with plans writes should be their memory, of bytes, got !regst.data<tensor<8xf32>>}}
  plan.task "h" on <0, cpu:0> stream <compute, 0> ins() outs(%r : !regst.data<tensor<8xf32>>) {
    op.loop 3 {
    ^bb0(%i: tensor<i64>):
      op.yield
    }
    plan.yield
  } with {
    plan.plan @body {
    }
  }
}
