// RUN: penstock-opt %s -p job-place,convert-job-to-plan,plan-split-ranks,plan-assign-streams,plan-create-registers,regst-plan-memory,verify-plan | filecheck %s

!t = tensor<16x16xf32>

// Rank 0 has one slot for "a", which is free once rank 1 has sent "d" back. So "d" acts
// between two acts of "q": on rank 1 all of "q" and "s" cannot come before all of "d",
// though nothing of rank 1 alone says so.

// CHECK-LABEL: plan.plan @there_1 rank 1 attributes {unguarded = ["<1, cpu:0> <compute, 0>"]}
// CHECK-NOT:   "s -> r"
// CHECK:       plan.task
job.job @there placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %k = job.input "k" {placement = #job.placement<cpu, [1:0]>} : !t
  %p = op.repeat %x times 4 : !t -> !t
  %a = op.tanh %p : !t -> !t
  %o = op.exp %a {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %q = op.relu %o {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %s = op.acc %q every 4 {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %r = op.repeat %k times 4 {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %b = op.add %a, %r {placement = #job.placement<cpu, [1:0]>} : !t, !t -> !t
  %c = op.exp %b {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %d = op.relu %c {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %e = op.mul %d, %a : !t, !t -> !t
  %z = op.acc %e every 4 : !t -> !t
  job.output "s", %s {placement = #job.placement<cpu, [1:0]>} : !t
  job.output "z", %z : !t
}
