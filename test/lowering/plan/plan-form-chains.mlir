// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-form-chains | filecheck %s
// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-form-chains,plan-form-chains,plan-create-registers | filecheck %s --check-prefix=KEPT
// RUN: penstock-opt %s -p plan-form-chains | filecheck %s --check-prefix=HAND
// RUN: penstock-opt %s -p plan-form-chains,plan-form-chains,plan-assign-streams | filecheck %s --check-prefix=ANEW

!t = tensor<4xf32>

// What computes and is connected is one chain, in the order of its stream; inputs and
// outputs are chains by themselves. A variable has none.

// CHECK-LABEL: plan.plan @connected
// CHECK:         "w" on <0, cpu:0> stream <compute, 0> ins()
// CHECK:         "x" on <0, cpu:0> stream <compute, 0> chain 0 order 0
// CHECK:         "a" on <0, cpu:0> stream <compute, 0> chain 1 order 1
// CHECK:         "b" on <0, cpu:0> stream <compute, 0> chain 1 order 2
// CHECK:         "c" on <0, cpu:0> stream <compute, 0> chain 1 order 3
// CHECK:         "y" on <0, cpu:0> stream <compute, 0> chain 2 order 4

// Registers do not change chains, and chains are formed once.

// KEPT-LABEL: plan.plan @connected
// KEPT:         "a" on <0, cpu:0> stream <compute, 0> chain 1 order 1 ins(%{{.*}}) outs
job.job @connected placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : !t
  %x = job.input "x" : !t
  %a = op.add %x, %w : !t, !t -> !t
  %b = op.relu %a : !t -> !t
  %c = op.add %a, %b : !t, !t -> !t
  job.output "y", %c : !t
}

// What only shares an input or a variable is not connected, and neither is what the same
// output reads: values that other tasks make do not count.

// CHECK-LABEL: plan.plan @apart
// CHECK:         "a" on <0, cpu:0> stream <compute, 0> chain 1 order 1
// CHECK:         "b" on <0, cpu:0> stream <compute, 0> chain 2 order 2
// CHECK:         "a1" on <0, cpu:0> stream <compute, 0> chain 1 order 3
// CHECK:         "b1" on <0, cpu:0> stream <compute, 0> chain 2 order 4
job.job @apart placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : !t
  %x = job.input "x" : !t
  %a = op.add %x, %w : !t, !t -> !t
  %b = op.sub %x, %w : !t, !t -> !t
  %a1 = op.relu %a : !t -> !t
  %b1 = op.relu %b : !t -> !t
  job.output "a", %a1 : !t
  job.output "b", %b1 : !t
}

// Several inputs, or constants, leave a chain whole: nothing that they wait for depends on
// the chain.

// CHECK-LABEL: plan.plan @inputs
// CHECK:         "a" on <0, cpu:0> stream <compute, 0> chain [[CHAIN:[0-9]+]] order
// CHECK:         "b" on <0, cpu:0> stream <compute, 0> chain [[CHAIN]] order
job.job @inputs placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %z = job.input "z" : !t
  %b = op.add %a, %z : !t, !t -> !t
  job.output "b", %b : !t
}

// Copies are chains by themselves. "c" reads from "a", but waits for what the processor
// makes of it as well: it is not in the chain of "a", which goes on with "b".

// CHECK-LABEL: plan.plan @there_and_back
// CHECK:         "up" on <0, cuda:0> stream <copy_h2d, 0> chain 1 order 0
// CHECK:         "a" on <0, cuda:0> stream <compute, 0> chain 2 order 0
// CHECK:         "down" on <0, cuda:0> stream <copy_d2h, 0> chain 3 order 0
// CHECK:         "host" on <0, cpu:0> stream <compute, 0> chain 4 order 1
// CHECK:         "up2" on <0, cuda:0> stream <copy_h2d, 0> chain 5 order 1
// CHECK:         "b" on <0, cuda:0> stream <compute, 0> chain 2 order 1
// CHECK:         "c" on <0, cuda:0> stream <compute, 0> chain 6 order 2
// CHECK:         "d" on <0, cuda:0> stream <compute, 0> chain 6 order 3
job.job @there_and_back placement <cuda, [0:0]> {
  %x = job.input "x" : !t
  %up = job.copy %x to <0, cuda:0> : !t
  %a = op.relu %up : !t -> !t
  %down = job.copy %a to <0, cpu:0> : !t
  %host = op.relu %down {placement = #job.placement<cpu, [0:0]>} : !t -> !t
  %up2 = job.copy %host to <0, cuda:0> : !t
  %b = op.tanh %a : !t -> !t
  %c = op.add %b, %up2 : !t, !t -> !t
  %d = op.relu %c : !t -> !t
}

// A task whose result has several slots can be acts ahead of those that read it, so it is a
// chain by itself, and divides what lies before it from what lies behind it.

// CHECK-LABEL: plan.plan @slots
// CHECK:         "a" on <0, cpu:0> stream <compute, 0> chain 1
// CHECK:         "b" on <0, cpu:0> stream <compute, 0> chain 2
// CHECK:         "c" on <0, cpu:0> stream <compute, 0> chain 3
job.job @slots placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %b = op.relu %a {slots = 2 : i64} : !t -> !t
  %c = op.relu %b : !t -> !t
}

// "c" reads from "a", but also what another stream makes of it. So "c" comes after a chain
// that comes after that of "a", and is in neither of them. "d" is in the chain of "a",
// though it is listed behind "c".

// HAND-LABEL: plan.plan @two_streams
// HAND:         "a" on <0, cpu:0> stream <compute, 0> chain 0 order 0
// HAND:         "b" on <0, cpu:0> stream <compute, 1> chain 1 order 0
// HAND:         "c" on <0, cpu:0> stream <compute, 0> chain 2 order 1
// HAND:         "d" on <0, cpu:0> stream <compute, 0> chain 0 order 2

// New streams need new chains.

// ANEW-LABEL: plan.plan @two_streams
// ANEW-NOT:     chain
// ANEW-LABEL: plan.plan @by_hand
plan.plan @two_streams {
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> order 0 ins() -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 1> order 0 ins(%a : !t) -> !t {
  ^bb0(%p: !t):
    %v = op.relu %p : !t -> !t
    plan.yield %v : !t
  }
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> order 1 ins(%a, %b : !t, !t) -> !t {
  ^bb0(%p: !t, %q: !t):
    %v = op.add %p, %q : !t, !t -> !t
    plan.yield %v : !t
  }
  %d = plan.task "d" on <0, cpu:0> stream <compute, 0> order 2 ins(%a : !t) -> !t {
  ^bb0(%p: !t):
    %v = op.relu %p : !t -> !t
    plan.yield %v : !t
  }
}

// A plan in which a task has a chain is left alone.

// HAND-LABEL: plan.plan @by_hand
// HAND:         "a" on <0, cpu:0> stream <compute, 0> ins
// HAND:         "b" on <0, cpu:0> stream <compute, 0> chain 7 ins
plan.plan @by_hand {
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> chain 7 ins() -> !t {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
}

// So is one with registers.

// HAND-LABEL: plan.plan @registers
// HAND-NOT:     chain
plan.plan @registers {
  %r = regst.register "r" slots 1 on <0, host> : !regst.data<!t>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%r : !regst.data<!t>) {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
}
