// RUN: penstock-opt %s -p job-place,convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-mark-interfaces,regst-alias-registers,regst-plan-memory,plan-merge-jobs,verify-plan --split-input-file | filecheck %s

// What several jobs share lies in memory that serves as that of each: "far" sends parts
// of "x" and "w" to another rank, so that both are registered for transfers in all jobs.

!t = tensor<8x4xf32>
!h = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @main
// CHECK-DAG:     %[[W:.+]] = regst.register "w/out" in %{{.+}} slots 1 on <0, network>
// CHECK-DAG:     regst.register "near/x/out" in %[[X:.+]] at 0 slots 1 interface "x" on <0, network>
// CHECK-DAG:     regst.register "near/v/out" alias %[[W]] : {{.*}} on <0, network>
// CHECK-DAG:     %[[F:.+]] = regst.register "far/x/out" in %[[X]] at 0 slots 1 interface "x" on <0, network>
// CHECK-DAG:     regst.register "far/a/out" alias %[[F]] : {{.*}} on <0, network>
// CHECK-DAG:     regst.register "far/b/out" alias %[[W]] : {{.*}} at 64 slots 1 on <0, network>
job.job @near placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> : !t
  %v = op.reshape %w to [4, 8] : !t -> tensor<4x8xf32>
  %p = op.matmul %x, %v : !t, tensor<4x8xf32> -> tensor<8x8xf32>
  job.output "p", %p : tensor<8x8xf32>
}
job.job @far placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> : !t
  %a = op.slice %x from [0, 0] to [4, 4] by [1, 1] : !t -> !h
  %b = op.slice %w from [4, 0] to [8, 4] by [1, 1] : !t -> !h
  %c = op.add %a, %b {placement = #job.placement<cpu, [1:0]>} : !h, !h -> !h
  job.output "c", %c : !h
}

// -----

// The header of what has its shape at run time comes along.

!d = !regst.data<tensor<?xf32>, max [4]>
!s = !regst.data<tensor<1xi64>>
!t = tensor<?xf32>

// CHECK-LABEL: plan.plan @main
// CHECK-DAG:     regst.register "one/x" in {{.*}} interface "x" on <0, network>
// CHECK-DAG:     regst.register "one/h" in {{.*}} header "one/x" on <0, network>
// CHECK-DAG:     regst.register "two/x" in {{.*}} interface "x" on <0, network>
// CHECK-DAG:     regst.register "two/h" in {{.*}} header "two/x" on <0, network>
plan.plan @one {
  %c = regst.chunk on <0, host> size 72
  %m = regst.block in %c at 0 size 72
  %x = regst.register "x" in %m at 0 slots 1 interface "x" on <0, host> : !d
  %h = regst.register "h" in %m at 64 slots 1 header "x" on <0, host> : !s
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !d) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
}
plan.plan @two {
  %c = regst.chunk on <0, network> size 72
  %m = regst.block in %c at 0 size 72
  %x = regst.register "x" in %m at 0 slots 1 interface "x" on <0, network> : !d
  %h = regst.register "h" in %m at 64 slots 1 header "x" on <0, network> : !s
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !d) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
}
