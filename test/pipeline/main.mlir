// RUN: penstock-opt %s --pipeline main -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: penstock-opt %t.mlir --pipeline main | filecheck %s
// RUN: penstock-opt %S/jobs.mlir --pipeline main | filecheck %s --check-prefix=CUDA

// Jobs become one program, which a lock keeps from using one thing at the same time: the total
// sections of "train" and "eval", and the one that pushes "x" and those that read it. A job
// on another device is linked the same way.

!x = tensor<4xf32>

// CHECK:      launch.program @main rank 0 exclusive {{\[\["train", "eval"\]\]}}
// CHECK-NOT:  launch.release
// CHECK:      launch.actor @"train/total/source" job "train" {{.*}} reads [@"System-Main/case -> train/total/source"]
// CHECK:      launch.actor @"System-Main/send" {{.*}} lists [array<i64: 0, 1, 2>, array<i64: 3, 4, 5>, array<i64: 6, 7>]
// CHECK:      launch.actor @"System-Main/lock" {{.*}} lists [array<i64: 3>, array<i64: 7>, array<i64>, array<i64: 0>, array<i64: 7>, array<i64>, array<i64>, array<i64: 1, 4>]
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.variable "w" init <ones> : !x
  %d = op.mul %w, %x : !x, !x -> !x
  %n = op.sub %w, %d : !x, !x -> !x
  job.assign %n to %w : !x
  job.output "step", %d : !x
}
job.job @eval placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.variable "w" init <ones> : !x
  %e = op.mul %x, %w : !x, !x -> !x
  job.output "y", %e : !x
}

// CUDA: launch.actor @"train/total/source" job "train" on <0, cpu:0>
// CUDA: launch.call {{.*}}
// CUDA: launch.actor @"System-Main/lock"
