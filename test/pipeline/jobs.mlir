// RUN: penstock-opt %s -p 'job-add-push-pull,verify-jobs,op-infer-shapes,job-place,job-infer-sbp,job-insert-boxing,op-fuse-elementwise,job-clean,convert-job-to-plan,plan-order-tasks,plan-assign-streams,plan-create-registers,regst-mark-interfaces,regst-alias-registers,regst-plan-memory,plan-merge-jobs,verify-plan,verify-deadlock' -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: penstock-opt %t.mlir -p plan-merge-jobs,verify-plan | filecheck %s
// RUN: penstock-opt %t.mlir --pipeline cuda | filecheck %s --check-prefix=LAUNCH
// RUN: penstock-opt %s --pipeline jobs -o %t.jobs.mlir
// RUN: filecheck %s --check-prefix=JOBS < %t.jobs.mlir
// RUN: penstock-opt %t.jobs.mlir --pipeline jobs | filecheck %s --check-prefix=JOBS

// Training and evaluation, and what brings their data in and out, from jobs to one plan. What
// is pushed lies where both of them find it, and what is pulled where it was made.

// LAUNCH: launch.program @main rank 0 exclusive {{\[\["train", "eval"\]\]}}
// LAUNCH: launch.actor @"train/x" job "train" {{.*}} writes [@"train/x/out"] {
// LAUNCH-NEXT: }
// LAUNCH: launch.actor @"System-Push-x/x" job "System-Push-x"
// LAUNCH-NEXT: launch.feed "ForeignInput-System-Push-x"
// LAUNCH: launch.release @"train/x/out"

// The standard pipeline leaves what only one job has to that job.
// JOBS: launch.program @main rank 0 exclusive {{\[\["train", "eval"\]\]}}
// JOBS: launch.actor @"train/x" job "train" {{.*}} writes [@"train/x/out"] {
// JOBS-NEXT: }
// JOBS: launch.fetch "loss" from
// JOBS: launch.fetch "y" from
// JOBS: launch.feed "ForeignInput-System-Push-x"
// JOBS-NOT: System-Pull

!x = tensor<16x8xf32>
!w = tensor<8x4xf32>
!y = tensor<16x4xf32>

// CHECK:     plan.plan @main exclusive {{\[\["train", "eval"\]\]}} attributes {jobs = {train = {{.*}}, "System-Push-x" = {system
// CHECK:     %[[DEVICE:.+]] = regst.chunk on <0, device cuda:0> size 128
// CHECK:     %[[W:.+]] = regst.block in %[[DEVICE]] at 0 size 128
// CHECK:     %[[HOST:.+]] = regst.chunk on <0, pinned cuda:0> size 832
// CHECK:     %[[X:.+]] = regst.block in %[[HOST]] at 0 size 512
// CHECK:     %[[LOSS:.+]] = regst.block in %[[HOST]] at 512 size 64
// CHECK:     %[[Y:.+]] = regst.block in %[[HOST]] at 576 size 256

// CHECK:     regst.register "train/x/out" in %[[X]] at 0 slots 1 interface "x"
// CHECK:     regst.register "w/out" in %[[W]] at 0
// CHECK:     regst.register "train/s_cpu/out" in %[[LOSS]] at 0 slots 1 interface "loss"
job.job @train placement <cuda, [0:0]> {
  %x = job.input "x" : !x
  %w = job.variable "w" init <xavier_uniform, seed = 7> : !w
  %h = op.matmul %x, %w : !x, !w -> !y
  %s = op.reduce_sum %h axes [1] : !y -> tensor<16xf32>
  job.output "loss", %s : tensor<16xf32>
}

// CHECK:     regst.register "eval/x/out" in %[[X]] at 0 slots 1 interface "x"
// CHECK:     regst.register "eval/r_cpu/out" in %[[Y]] at 0 slots 1 interface "y"
// CHECK:     regst.register "System-Push-x/x/out" in %[[X]] at 0 slots 1 interface "x"
// CHECK:     regst.register "System-Pull-loss/loss/out" in %[[LOSS]] at 0 slots 1 interface "loss"
// CHECK:     regst.register "System-Pull-y/y/out" in %[[Y]] at 0 slots 1 interface "y"
// CHECK:     plan.task "System-Push-x/x" job "System-Push-x" on <0, cpu:0>
// CHECK:     plan.task "System-Pull-y/ForeignOutput-System-Pull-y" job "System-Pull-y" on <0, cpu:0>
job.job @eval placement <cuda, [0:0]> {
  %x = job.input "x" : !x
  %w = job.variable "w" init <xavier_uniform, seed = 7> : !w
  %h = op.matmul %x, %w : !x, !w -> !y
  %r = op.relu %h : !y -> !y
  job.output "y", %r : !y
}
