// RUN: penstock-opt %s -p 'plan-assign-streams{streams=2},plan-create-registers,regst-plan-memory,verify-plan' --split-input-file | filecheck %s
// RUN: penstock-opt %s -p 'plan-assign-streams{streams=2},plan-create-registers,regst-plan-memory{guard=stream},verify-plan' --split-input-file | filecheck %s --check-prefix=STREAM
// RUN: penstock-opt %s -p 'plan-assign-streams{streams=1},plan-create-registers,regst-plan-memory,verify-plan' --split-input-file | filecheck %s --check-prefix=ONE

// Squares of weights are on a stream of their own, where each could be made before any is
// used: 5 registers of 64 bytes. One thread needs 3, so that 4 are allowed: the stream may be
// two tasks ahead of the list, "s1" waits for "p0" no more, but "s2" does.

!t = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @chain
// CHECK-SAME:    given_up = {free = 384 : i64, one_thread = 192 : i64, taken = 256 : i64, what = "parallelism", window = 2 : i64}
// CHECK-NEXT:    regst.chunk
// CHECK:         regst.register "p0 -> s2" slots 1
// STREAM-LABEL: plan.plan @chain
// STREAM-SAME:   given_up = {free = 384 : i64, one_thread = 192 : i64, taken = 384 : i64, what = "memory"}
// STREAM-NOT:    "p0 -> s2"
// ONE-LABEL:    plan.plan @chain {
plan.plan @chain {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.variable "w" init <ones> : !t
    plan.yield %v : !t
  }
  %s0 = plan.task "s0" on <0, cpu:0> stream <compute, 0> ins(%w : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.matmul %u, %u : !t, !t -> !t
    plan.yield %v : !t
  }
  %p0 = plan.task "p0" on <0, cpu:0> stream <compute, 0> ins(%x, %s0 : !t, !t) -> !t {
  ^bb0(%u: !t, %a: !t):
    %v = op.matmul %u, %a : !t, !t -> !t
    plan.yield %v : !t
  }
  %s1 = plan.task "s1" on <0, cpu:0> stream <compute, 0> ins(%w : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.exp %u : !t -> !t
    plan.yield %v : !t
  }
  %p1 = plan.task "p1" on <0, cpu:0> stream <compute, 0> ins(%p0, %s1 : !t, !t) -> !t {
  ^bb0(%u: !t, %a: !t):
    %v = op.matmul %u, %a : !t, !t -> !t
    plan.yield %v : !t
  }
  %s2 = plan.task "s2" on <0, cpu:0> stream <compute, 0> ins(%w : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.relu %u : !t -> !t
    plan.yield %v : !t
  }
  %p2 = plan.task "p2" on <0, cpu:0> stream <compute, 0> ins(%p1, %s2 : !t, !t) -> !t {
  ^bb0(%u: !t, %a: !t):
    %v = op.matmul %u, %a : !t, !t -> !t
    plan.yield %v : !t
  }
  %s3 = plan.task "s3" on <0, cpu:0> stream <compute, 0> ins(%w : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.tanh %u : !t -> !t
    plan.yield %v : !t
  }
  %p3 = plan.task "p3" on <0, cpu:0> stream <compute, 0> ins(%p2, %s3 : !t, !t) -> !t {
  ^bb0(%u: !t, %a: !t):
    %v = op.matmul %u, %a : !t, !t -> !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%p3 : !t) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
}

// -----

// Two branches that take little more beside each other than one after the other stay as they
// are.

!t = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @branches {
// STREAM-LABEL: plan.plan @branches {
plan.plan @branches {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.exp %u : !t -> !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%u: !t):
    %v = op.tanh %u : !t -> !t
    plan.yield %v : !t
  }
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%a, %b : !t, !t) -> !t {
  ^bb0(%u: !t, %w: !t):
    %v = op.add %u, %w : !t, !t -> !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%c : !t) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
}
