// RUN: penstock-opt %s --pipeline model | filecheck %s
// RUN: penstock-opt %s --pipeline model | penstock-opt --pipeline model | filecheck %s

// A variable is one for the job that trains and the three jobs of the system. Those that
// set it hold one tensor at a time, in the memory of the jobs that they exclude; saving
// takes none but the caller's.

!a = tensor<8x4xf32>
!b = tensor<100xf32>

// CHECK-LABEL: launch.program @main rank 0 exclusive
// CHECK-SAME:  "train", "System-ModelInit", "System-ModelLoad"
job.job @train placement <cpu, [0:0]> {
  // CHECK-DAG: launch.chunk @[[W:.+]] on <0, host> size 528 {memory = {bound = 0 : i64, peak = 0 : i64, sum = 0 : i64, variables = 528 : i64}}
  // CHECK-DAG: launch.variable @[[A:.+]] in @[[W]] at 0 init <ones> : memref<8x4xf32>
  // CHECK-DAG: launch.variable @[[B:.+]] in @[[W]] at 128 init <zeros> : memref<100xf32>
  %x = job.input "x" : !a
  %a = job.variable "a" init <ones> : !a
  %b = job.variable "b" init <zeros> : !b
  %n = op.add %a, %x : !a, !a -> !a
  %e = op.exp %b : !b -> !b
  // CHECK: launch.actor @"train/n" job "train" {{.*}} updates [@[[A]] as @"train/n/out"]
  job.assign %n to %a : !a
  job.output "e", %e : !b
}
// CHECK:      launch.actor @{{.+}} job "System-ModelInit" on <0, cpu:0>
// CHECK-NEXT:   launch.feed "ForeignInput-System-ModelInit-a" to @[[FED:.+]]
// CHECK:        launch.copy @[[FED]] to @[[A]]
// CHECK:      launch.actor @{{.+}} job "System-ModelLoad" on <0, cpu:0>
// CHECK-NEXT:   launch.feed "ForeignInput-System-ModelLoad-a" to @[[READ:.+]]
// CHECK:        launch.copy @[[READ]] to @[[A]]
// CHECK:      launch.actor @{{.+}} job "System-ModelSave" on <0, cpu:0> stream {{.+}} reads [] writes [] {
// CHECK-NEXT:   launch.fetch "ForeignOutput-System-ModelSave-a" from @[[A]]
// CHECK:        launch.fetch "ForeignOutput-System-ModelSave-b" from @[[B]]
