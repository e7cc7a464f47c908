// RUN: penstock-opt %s -p 'regst-choose-slots{memory-limit=300 device-memory-limit=0}' --verify-diagnostics --split-input-file
// RUN: not penstock-opt %s -p 'regst-choose-slots{interval-ns=4611686018427387904}' --split-input-file 2>&1 | filecheck %s --check-prefix=INTERVAL

// INTERVAL: regst-choose-slots: interval-ns must be below 2^62, got 4611686018427387904

// What does not fit with one slot each is named, with its bytes, in each memory: here the
// variable, which is there all the time, and what "b" reads and writes; not what "c" does.

!r = !regst.data<tensor<16xf32>>
!s = !regst.data<tensor<32xf32>>

// expected-error@+2 {{regst-choose-slots: memory <0, host> takes 384 bytes with as few slots as can be, but the limit is 300; most of it is for 'b' 128, 'w' 128, 'a' 64, 'asked' 64}}
// expected-error@+1 {{regst-choose-slots: memory <0, device cuda:0> takes 512 bytes with as few slots as can be, but the limit is 0; most of it is for 'd' 512}}
plan.plan @short {
  %b = regst.register "b" slots 4 on <0, host> : !s
  %w = regst.register "w" slots 1 on <0, host> : !s
  %a = regst.register "a" slots 2 on <0, host> : !r
  %asked = regst.register "asked" slots 1 on <0, host> : !r
  %c = regst.register "c" slots 1 on <0, host> : !r
  %d = regst.register "d" slots 1 on <0, device cuda:0> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !s) {
    %v = job.variable "w" init <zeros> : tensor<32xf32>
    plan.yield %v : tensor<32xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a, %w : !r, !s) outs(%b, %asked : !s, !r) attributes {slots = 1 : i64} {
  ^bb0(%0: tensor<16xf32>, %1: tensor<32xf32>):
    %v, %u = "test.op"() : () -> (tensor<32xf32>, tensor<16xf32>)
    plan.yield %v, %u : tensor<32xf32>, tensor<16xf32>
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins() outs(%c : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "d" on <0, cuda:0> stream <compute, 0> ins() outs(%d : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// expected-error@+1 {{regst-choose-slots: tasks hand on values, run plan-create-registers first}}
plan.plan @values {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// What tasks ask for must be sound.

!r = !regst.data<tensor<16xf32>>

plan.plan @wishes {
  %a = regst.register "a" slots 1 on <0, host> : !r
  // expected-error@+1 {{regst-choose-slots: slots must be an i64 of 1 to 16384, got 0 : i64}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) attributes {slots = 0 : i64} {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// Times must be times, and tasks must not wait for each other.

!k = !regst.control

plan.plan @no_time_line {
  %turn = regst.register "turn" slots 1 initial 1 on <0, host> : !k
  // expected-error@+2 {{regst-choose-slots: time_ns must be an i64 of at least 0, got -1 : i64}}
  // expected-error@+1 {{regst-choose-slots: cycle a -> a has no free slot; one more slot for register 'turn' breaks it}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() waits(%turn : !k) signals(%turn : !k) attributes {time_ns = -1 : i64} {
    "test.op"() : () -> ()
    plan.yield
  }
}
