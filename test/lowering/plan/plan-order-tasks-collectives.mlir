// RUN: penstock-opt %s -p plan-order-tasks | filecheck %s
// RUN: penstock-opt %s -p 'plan-order-tasks{policy=overlap}' | filecheck %s
// RUN: penstock-opt %s -p 'plan-order-tasks{policy=source}' | filecheck %s
// RUN: not penstock-opt %s -p plan-order-tasks,plan-split-ranks,plan-assign-streams,plan-create-registers,regst-plan-memory,verify-plan 2>&1 | filecheck %s --check-prefix=PROVEN

!t = tensor<4xf32>

// The parts of a collective act at once, so they are listed together: in the order that
// is given, rank 0 would wait in "sum" for rank 1, and that in "far" for rank 0. What a
// part waits for comes before all parts, and after them what reads one.

// CHECK-LABEL: plan.plan @crossed
// CHECK:         plan.task "far@1.cpu.0"
// CHECK-NEXT:      job.collective
// CHECK-NEXT:      plan.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    plan.task "far.collective@0.cpu.0"
// CHECK:         plan.task "late"
// CHECK:         plan.task "sum@0.cpu.0"
// CHECK-NEXT:      ^
// CHECK-NEXT:      job.collective
// CHECK-NEXT:      plan.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    plan.task "sum@1.cpu.0"
// CHECK:         plan.task "y"
// PROVEN-NOT:  'sum
plan.plan @crossed {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %s0 = plan.task "sum@0.cpu.0" on <0, cpu:0> stream <network, 0> ins(%x : !t) -> !t {
  ^bb0(%p: !t):
    %v = job.collective "all_reduce" by "ring" over [0, 1] tag 1 ins(%p : !t) -> !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%s0 : !t) {
  ^bb0(%p: !t):
    job.output "y", %p : !t
    plan.yield
  }
  %f = plan.task "far@1.cpu.0" on <1, cpu:0> stream <network, 0> ins() -> !t {
    %v = job.collective "broadcast" by "ring" over [0, 1] tag 0 ins() -> !t
    plan.yield %v : !t
  }
  %l = plan.task "late" on <1, cpu:0> stream <compute, 0> ins(%f : !t) -> !t {
  ^bb0(%p: !t):
    %v = op.relu %p : !t -> !t
    plan.yield %v : !t
  }
  %s1 = plan.task "sum@1.cpu.0" on <1, cpu:0> stream <network, 0> ins(%l : !t) -> !t {
  ^bb0(%p: !t):
    %v = job.collective "all_reduce" by "ring" over [0, 1] tag 1 ins(%p : !t) -> !t
    plan.yield %v : !t
  }
  plan.task "far.collective@0.cpu.0" on <0, cpu:0> stream <network, 0> ins(%x : !t) {
  ^bb0(%p: !t):
    job.collective "broadcast" by "ring" over [0, 1] tag 0 ins(%p : !t)
    plan.yield
  }
}

// Parts that cannot act at once stay as they are listed; verify-plan says why.

// PROVEN:      ranks wait for each other: 'a@0.cpu.0' of rank 0 -> 'b@0.cpu.0' of rank 0 -> 'b@1.cpu.0' of rank 1 -> 'a@1.cpu.0' of rank 1 -> 'a@0.cpu.0' of rank 0; no slots break the cycle
// PROVEN-NOT:  'sum
// CHECK-LABEL: plan.plan @twice
// CHECK:         plan.task "a@0.cpu.0"
// CHECK:         plan.task "b@0.cpu.0"
// CHECK:         plan.task "b@1.cpu.0"
// CHECK:         plan.task "a@1.cpu.0"
plan.plan @twice {
  %a0 = plan.task "a@0.cpu.0" on <0, cpu:0> stream <network, 0> ins() -> !t {
    %v = job.collective "broadcast" by "ring" over [1, 0] tag 0 ins() -> !t
    plan.yield %v : !t
  }
  plan.task "b@0.cpu.0" on <0, cpu:0> stream <network, 0> ins(%a0 : !t) {
  ^bb0(%p: !t):
    job.collective "broadcast" by "ring" over [0, 1] tag 1 ins(%p : !t)
    plan.yield
  }
  %b1 = plan.task "b@1.cpu.0" on <1, cpu:0> stream <network, 0> ins() -> !t {
    %v = job.collective "broadcast" by "ring" over [0, 1] tag 1 ins() -> !t
    plan.yield %v : !t
  }
  plan.task "a@1.cpu.0" on <1, cpu:0> stream <network, 0> ins(%b1 : !t) {
  ^bb0(%p: !t):
    job.collective "broadcast" by "ring" over [1, 0] tag 0 ins(%p : !t)
    plan.yield
  }
}
