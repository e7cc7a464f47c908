// RUN: penstock-opt %s -p plan-reduce-events --verify-diagnostics --split-input-file

// The order of a stream must fit to what its tasks read.

!r = !regst.data<tensor<4xf32>>

plan.plan @against_the_order {
  %x = regst.register "x" slots 1 on <0, host> : !r
  // expected-error@+1 {{plan-reduce-events: cycle x -> y -> x of registers and the order of streams}}
  plan.task "x" on <0, cpu:0> stream <compute, 0> order 1 ins() outs(%x : !r) {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> order 0 ins(%x : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.output "y", %0 : tensor<4xf32>
    plan.yield
  }
}

// -----

// Nor may tasks wait for each other anyhow, which is all that is said then.

!k = !regst.control

plan.plan @deadlock {
  %turn = regst.register "turn" slots 1 initial 1 on <0, host> : !k
  %ab = regst.register "a -> b" slots 1 on <0, host> : !k
  // expected-error@+1 {{plan-reduce-events: cycle a -> b -> a has no free slot; one more slot for register 'turn' breaks it}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 1 ins() signals(%ab, %turn : !k, !k) {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> order 0 ins() waits(%ab, %turn : !k, !k) {
    "test.op"() : () -> ()
    plan.yield
  }
}
