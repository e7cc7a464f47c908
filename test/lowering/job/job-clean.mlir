// RUN: penstock-opt %s -p job-clean | filecheck %s

!t = tensor<4x3xf32>

// Identities fold, equal ops are computed once, and what nobody uses goes.

// CHECK-LABEL: job.job @folds
job.job @folds placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  // CHECK:      %[[X:.+]] = job.input "x"
  // CHECK-NEXT: %[[R:.+]] = op.relu %[[X]]
  // CHECK-NEXT: job.output "a", %[[R]]
  // CHECK-NEXT: job.output "b", %[[R]]
  %same = op.reshape %x to [4, 3] : !t -> !t
  %a = op.relu %x : !t -> !t
  %b = op.relu %same : !t -> !t
  %unused = op.neg %x : !t -> !t
  job.output "a", %a : !t
  job.output "b", %b : !t
}

// A task keeps its op, though a job would not.

// CHECK-LABEL: plan.plan @keeps
plan.plan @keeps {
  // CHECK: op.reshape
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %y = plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%v: !t):
    %w = op.reshape %v to [4, 3] : !t -> !t
    plan.yield %w : !t
  }
}

// Jobs stay in order.

// CHECK-LABEL: job.job @first
job.job @first placement <cpu, [0:0]> {
  %x = job.input "x" : !t
}
// CHECK-LABEL: job.job @last
job.job @last placement <cpu, [0:0]> {
  %x = job.input "x" : !t
}
