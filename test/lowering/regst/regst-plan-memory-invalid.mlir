// RUN: penstock-opt %s -p regst-plan-memory --verify-diagnostics --split-input-file

// expected-error@+1 {{regst-plan-memory: tasks hand on values, run plan-create-registers first}}
plan.plan @values {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @unwritten {
  // expected-error@+1 {{regst-plan-memory: no task writes register 'x'}}
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  // expected-error@+1 {{regst-plan-memory: no task writes register 'k'}}
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
}

// -----

// Each register is small enough, but not all of them together: 2 x 2^61 bytes.
// expected-error@+1 {{regst-plan-memory: the registers must take less than 2^62 bytes, got 4611686018427387904}}
plan.plan @beyond_integers {
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<2305843009213693952xi8>>
  %y = regst.register "y" slots 1 on <0, host> : !regst.data<tensor<2305843009213693952xi8>>
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x, %y : !regst.data<tensor<2305843009213693952xi8>>, !regst.data<tensor<2305843009213693952xi8>>) {
    %v, %w = "test.op"() : () -> (tensor<2305843009213693952xi8>, tensor<2305843009213693952xi8>)
    plan.yield %v, %w : tensor<2305843009213693952xi8>, tensor<2305843009213693952xi8>
  }
}

// -----

plan.plan @some_ordered {
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 0 ins() {
    "test.op"() : () -> ()
    plan.yield
  }
  // expected-error@+1 {{regst-plan-memory: task 'b' has no order, but others of its stream have one}}
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
  // A variable has none, and another stream is on its own.
  %w = regst.register "w" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !regst.data<tensor<4xf32>>) {
    %v = job.variable "w" init <zeros> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "c" on <0, cpu:0> stream <compute, 1> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// Control counts, but for slots that are full at the start.

plan.plan @too_early {
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  %turn = regst.register "turn" slots 1 initial 1 on <0, host> : !regst.control
  // expected-error@+1 {{regst-plan-memory: task 'a' is before or at 'x' in its stream, but reads from it}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 0 ins(%x : !regst.data<tensor<4xf32>>) waits(%turn : !regst.control) {
  ^bb0(%v: tensor<4xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> order 1 ins() outs(%x : !regst.data<tensor<4xf32>>) signals(%turn : !regst.control) {
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{regst-plan-memory: task 'self' is before or at 'self' in its stream, but waits for it}}
  plan.task "self" on <0, cpu:0> stream <compute, 0> order 2 ins() waits(%k : !regst.control) signals(%k : !regst.control) {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// Registers alone could be served, but not in the order of the guarded stream.

!r = !regst.data<tensor<4xf32>>

plan.plan @crosswise {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  %g = regst.register "g" slots 1 on <0, host> : !r
  %h = regst.register "h" slots 1 on <0, host> : !r
  // expected-error@+1 {{regst-plan-memory: registers and the order of streams have tasks wait for each other: 'b' -> 'a' -> 'd' -> 'b'}}
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%y : !r) outs(%h : !r) {
  ^bb0(%v: tensor<4xf32>):
    %w = "test.op"(%v) : (tensor<4xf32>) -> tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x, %g : !r, !r) {
    %v, %w = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>)
    plan.yield %v, %w : tensor<4xf32>, tensor<4xf32>
  }
  plan.task "d" on <0, cpu:0> stream <compute, 1> ins(%x : !r) outs(%y : !r) {
  ^bb0(%v: tensor<4xf32>):
    %w = "test.op"(%v) : (tensor<4xf32>) -> tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
}

// -----

// All registers of a plan get places, or none does.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @some {
  %c = regst.chunk on <0, host> size 16
  %m = regst.block in %c at 0 size 16
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  // expected-error@+1 {{regst-plan-memory: register 'y' has no place, but the plan has blocks; this pass gives all registers places, or none}}
  %y = regst.register "y" slots 1 on <0, host> : !r
  %z = regst.register "z" alias %x : !r slots 1 on <0, host> : !r
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
}
