// RUN: penstock-opt %s -p job-infer-sbp,job-insert-boxing | filecheck %s
// RUN: penstock-opt %s -p job-infer-sbp,job-insert-boxing,job-infer-sbp,job-insert-boxing | filecheck %s

!t = tensor<4x6xf32>

// On one device there is nothing to lay.

// CHECK-LABEL: job.job @one_device
// CHECK-NOT:     job.boxing
job.job @one_device placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %r = op.relu %x : !t -> !t
  job.output "y", %r : !t
}

// Inputs come from the host, and outputs go there; what lies as it is used stays.

// CHECK-LABEL: job.job @host
job.job @host placement <cuda, [2:0-1]> {
  // CHECK-NEXT: %x = job.input "x"
  // CHECK-NEXT: %x_S0 = job.boxing %x from <B> on <cpu, [2:0]> to <S(0)> on <cuda, [2:0-1]> : tensor<4x6xf32>
  %x = job.input "x" : !t
  // CHECK-NEXT: %r = op.relu %x_S0 {sbp = #job.sbp<S(0)>} :
  %r = op.relu %x : !t -> !t
  // CHECK-NEXT: %s = op.relu %r {sbp = #job.sbp<S(0)>} :
  // CHECK-NEXT: %s_cpu = job.boxing %s from <S(0)> on <cuda, [2:0-1]> to <B> on <cpu, [2:0]>
  %s = op.relu %r : !t -> !t
  // CHECK-NEXT: job.output "y", %s_cpu
  job.output "y", %s : !t
}

// All uses in a layout share one boxing, right after what is boxed, in the order of the
// first uses.

// CHECK-LABEL: job.job @shared
job.job @shared placement <cpu, [0:0-1]> {
  // CHECK:      %w = job.variable "w"
  // CHECK-NEXT: %w_S1 = job.boxing %w from <B> on <cpu, [0:0-1]> to <S(1)> on <cpu, [0:0-1]>
  // CHECK-NEXT: %w_S0 = job.boxing %w from <B> on <cpu, [0:0-1]> to <S(0)> on <cpu, [0:0-1]>
  // CHECK-NOT:  job.boxing
  %w = job.variable "w" init <zeros> : !t
  // CHECK: op.relu %w_S1
  %a = op.relu %w {sbp = #job.sbp<S(1)>} : !t -> !t
  // CHECK: op.relu %w_S0
  %b = op.relu %w {sbp = #job.sbp<S(0)>} : !t -> !t
  // CHECK: op.add %w_S1, %w_S1
  %c = op.add %w, %w {sbp = #job.sbp<S(1)>} : !t, !t -> !t
  // CHECK: op.relu %w {
  %d = op.relu %w {sbp = #job.sbp<B>} : !t -> !t
}

// From group to group, and to single devices among them.

// CHECK-LABEL: job.job @groups
job.job @groups placement <cpu, [0:0-1]> {
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<S(0)>} : !t
  // CHECK: %w_S0 = job.boxing %w from <S(0)> on <cpu, [0:0-1]> to <S(0)> on <cuda, [0:0-2]>
  // CHECK: %[[ONE:.+]] = job.boxing %w from <S(0)> on <cpu, [0:0-1]> to <B> on <cuda, [0:5]>
  // CHECK: %[[MESH:.+]] = job.boxing %w from <S(0)> on <cpu, [0:0-1]> to <S(0), S(1)> on <cpu, [0:0-3], hierarchy = [2, 2]>
  // CHECK: op.relu %w_S0
  %a = op.relu %w {placement = #job.placement<cuda, [0:0-2]>} : !t -> !t
  // CHECK: op.relu %[[ONE]] {placement = #job.placement<cuda, [0:5]>}
  %b = op.relu %w {placement = #job.placement<cuda, [0:5]>} : !t -> !t
  // CHECK: op.relu %[[MESH]]
  %c = op.relu %w {sbp = #job.sbp<S(0), S(1)>, placement = #job.placement<cpu, [0:0-3], hierarchy = [2, 2]>} : !t -> !t
}

// Partial sums are added where they are used.

// CHECK-LABEL: job.job @sums
job.job @sums placement <cpu, [0:0-1]> {
  %x = job.input "x" : !t
  // CHECK: %s = op.reduce_sum
  // CHECK-NEXT: %s_B = job.boxing %s from <P> on <cpu, [0:0-1]> to <B> on <cpu, [0:0-1]> : tensor<1x6xf32>
  %s = op.reduce_sum %x axes [0] keepdims : !t -> tensor<1x6xf32>
  // CHECK: op.sub %x_S0, %s_B
  %d = op.sub %x, %s : !t, tensor<1x6xf32> -> !t
  // CHECK: op.neg %s {sbp = #job.sbp<P>}
  %n = op.neg %s : tensor<1x6xf32> -> tensor<1x6xf32>
}

// There is one constant for each layout; the first one stands where it stood.

// CHECK-LABEL: job.job @constant
job.job @constant placement <cpu, [0:0-1]> {
  // CHECK-NEXT: %[[S0:.+]] = op.constant {sbp = #job.sbp<S(0)>} dense<1.0
  // CHECK-NEXT: %[[CUDA:.+]] = op.constant {placement = #job.placement<cuda, [0:0]>} dense<1.0
  // CHECK-NEXT: %[[HOST:.+]] = op.constant {placement = #job.placement<cpu, [0:0]>} dense<1.0
  // CHECK-NOT:  op.constant
  // CHECK-NOT:  job.boxing %c
  %c = op.constant dense<1.0> : !t
  %x = job.input "x" : !t
  // CHECK: op.add %{{.+}}, %[[S0]]
  %a = op.add %x, %c : !t, !t -> !t
  // CHECK: op.mul %{{.+}}, %[[S0]]
  %b = op.mul %a, %c : !t, !t -> !t
  // CHECK: op.relu %[[CUDA]]
  %d = op.relu %c {placement = #job.placement<cuda, [0:0]>} : !t -> !t
  // CHECK: job.output "c", %[[HOST]]
  job.output "c", %c : !t
}

// A constant is no sum: its terms are made by boxing.

// CHECK-LABEL: job.job @terms_of_a_constant
job.job @terms_of_a_constant placement <cpu, [0:0-1]> {
  // CHECK-NEXT: %c = op.constant {sbp = #job.sbp<S(0)>} dense<1.0
  // CHECK-NEXT: %c_P = job.boxing %c from <S(0)> on <cpu, [0:0-1]> to <P> on <cpu, [0:0-1]>
  %c = op.constant dense<1.0> : !t
  // CHECK-NEXT: op.neg %c_P
  %n = op.neg %c {sbp = #job.sbp<P>} : !t -> !t
}

// A boxing that a person wrote serves the uses after it.

// CHECK-LABEL: job.job @hand_written
job.job @hand_written placement <cpu, [0:0-1]> {
  %x = job.input "x" : !t
  // CHECK: %h = job.boxing %x
  // CHECK-NOT: job.boxing
  %h = job.boxing %x from <B> on <cpu, [0:0]> to <S(1)> on <cpu, [0:0-1]> : !t
  // CHECK: op.relu %h
  %a = op.relu %x {sbp = #job.sbp<S(1)>} : !t -> !t
  // CHECK: op.relu %h
  %b = op.relu %h : !t -> !t
}

// A copy of what lies on several devices is one of the whole.

// CHECK-LABEL: job.job @copy
job.job @copy placement <cpu, [0:0-1]> {
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<S(0)>} : !t
  // CHECK: %[[W:.+]] = job.boxing %w from <S(0)> on <cpu, [0:0-1]> to <B> on <cuda, [0:0]>
  // CHECK: job.copy %[[W]] to <0, cuda:0>
  %c = job.copy %w to <0, cuda:0> : !t
}

// A hierarchy of one device is one device.

// CHECK-LABEL: job.job @single_mesh
// CHECK-NOT:     job.boxing
job.job @single_mesh placement <cpu, [0:0], hierarchy = [1, 1]> {
  %x = job.input "x" : !t
  %r = op.relu %x {placement = #job.placement<cpu, [0:0]>} : !t -> !t
  job.output "y", %r : !t
}
