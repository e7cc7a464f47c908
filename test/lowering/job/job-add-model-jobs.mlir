// RUN: penstock-opt %s -p job-add-model-jobs --split-input-file | filecheck %s
// RUN: penstock-opt %s -p job-add-model-jobs,job-add-model-jobs --split-input-file | filecheck %s

// All variables are in each of the three jobs, once each, with what jobs say of them; the
// buffers are on the first of their devices' hosts.

!t = tensor<4xf32>
!s = tensor<8x2xf64>

// CHECK: job.job @train
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <normal, seed = 3, std = 0.5> : !t
  %y = op.add %x, %w : !t, !t -> !t
  job.output "y", %y : !t
}

// CHECK: job.job @eval
job.job @eval placement <cuda, [0:1]> {
  %w = job.variable "w" init <normal, seed = 3, std = 0.5> {placement = #job.placement<cpu, [0:0]>} : !t
  %b = job.variable "bias" init <zeros> : !s
  job.output "b", %b : !s
}

"test.op"() : () -> ()

// CHECK:      job.job @"System-ModelInit" placement <cpu, [0:0]> attributes {system} {
// CHECK-NEXT:   %[[W:.+]] = job.variable "w" init <normal, seed = 3, std = 0.5> : tensor<4xf32>
// CHECK-NEXT:   %[[NEW:.+]] = job.foreign_input "ForeignInput-System-ModelInit-w" : tensor<4xf32>
// CHECK-NEXT:   job.assign %[[NEW]] to %[[W]] : tensor<4xf32>
// CHECK-NEXT:   %[[B:.+]] = job.variable "bias" init <zeros> {placement = #job.placement<cuda, [0:1]>} : tensor<8x2xf64>
// CHECK-NEXT:   %[[NEXT:.+]] = job.foreign_input "ForeignInput-System-ModelInit-bias" {placement = #job.placement<cuda, [0:1]>}
// CHECK-NEXT:   job.assign %[[NEXT]] to %[[B]] : tensor<8x2xf64>
// CHECK-NEXT: }
// CHECK-NEXT: job.job @"System-ModelLoad" placement <cpu, [0:0]> attributes {system} {
// CHECK-NEXT:   %[[V:.+]] = job.variable "w"
// CHECK-NEXT:   %[[READ:.+]] = job.foreign_input "ForeignInput-System-ModelLoad-w" : tensor<4xf32>
// CHECK-NEXT:   job.assign %[[READ]] to %[[V]] : tensor<4xf32>
// CHECK:      job.job @"System-ModelSave" placement <cpu, [0:0]> attributes {system} {
// CHECK-NEXT:   %[[S:.+]] = job.variable "w"
// CHECK-NEXT:   job.foreign_output "ForeignOutput-System-ModelSave-w", %[[S]] : tensor<4xf32>
// CHECK-NEXT:   %[[T:.+]] = job.variable "bias"
// CHECK-NEXT:   job.foreign_output "ForeignOutput-System-ModelSave-bias", %[[T]] {placement = #job.placement<cuda, [0:1]>}
// CHECK-NEXT: }
// CHECK-NOT:  System-Model
// CHECK:      "test.op"

// -----

// The sbp that a variable on several devices asks for is that of the jobs, too.

// CHECK-LABEL: job.job @parts
job.job @parts placement <cpu, [0:0-1]> {
  %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0)>} : tensor<8xf32>
  job.output "w0", %w : tensor<8xf32>
}
// CHECK: job.variable "w" init <ones> {sbp = #job.sbp<S(0)>, placement = #job.placement<cpu, [0:0-1]>} : tensor<8xf32>

// -----

// Jobs of the system have no variables of their own, and without variables there is
// nothing to add.

// CHECK-LABEL: job.job @plain
// CHECK: job.job @mine
// CHECK-NOT: job.job
job.job @plain placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "y", %x : tensor<4xf32>
}
job.job @mine placement <cpu, [0:0]> attributes {system} {
  %w = job.variable "w" init <ones> : tensor<8xf32>
  job.foreign_output "w", %w : tensor<8xf32>
}
