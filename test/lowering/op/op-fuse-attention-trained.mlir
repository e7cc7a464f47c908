// RUN: penstock-opt %s -p 'op-fuse-attention{trained=true}' | filecheck %s
// RUN: penstock-opt %s -p 'op-fuse-attention{trained=true device=cuda}' | filecheck %s --check-prefix=CUDA

!q = tensor<24x8xf32>
!s = tensor<24x24xf32>

// Before gradients are made, jobs that ask for them compute attention as one op.
// CHECK-LABEL: job.job @asks
// CHECK:         op.attention %q, %q, %q
job.job @asks placement <cpu, [0:0]> {
  %q = job.variable "q" init <ones> : !q
  %p = op.matmul %q, %q transpose_b : !q, !q -> !s
  %s = op.softmax %p axis 1 : !s -> !s
  %y = op.matmul %s, %q : !s, !q -> !q
  %l = op.reduce_sum %y axes [0, 1] : !q -> tensor<f32>
  %g = job.gradients of %l by %q : tensor<f32>, !q
  job.output "g", %g : !q
}

// Other jobs come later, when it is known how they are cut.
// CHECK-LABEL: job.job @asks_for_nothing
// CHECK-NOT:     op.attention
job.job @asks_for_nothing placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %p = op.matmul %q, %q transpose_b : !q, !q -> !s
  %s = op.softmax %p axis 1 : !s -> !s
  %y = op.matmul %s, %q : !s, !q -> !q
  job.output "y", %y : !q
}

// So do those on several devices.
// CHECK-LABEL: job.job @several
// CHECK-NOT:     op.attention
job.job @several placement <cpu, [0:0, 0:1]> {
  %q = job.variable "q" init <ones> : !q
  %p = op.matmul %q, %q transpose_b : !q, !q -> !s
  %s = op.softmax %p axis 1 : !s -> !s
  %y = op.matmul %s, %q : !s, !q -> !q
  %l = op.reduce_sum %y axes [0, 1] : !q -> tensor<f32>
  %g = job.gradients of %l by %q : tensor<f32>, !q
  job.output "g", %g : !q
}

// Halves have blocks on the device that a job will be moved to.
// CHECK-LABEL: job.job @halves
// CHECK-NOT:     op.attention
// CUDA-LABEL:  job.job @halves
// CUDA:          op.attention %q, %q, %q
job.job @halves placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : !q
  %q = op.cast %w to bf16 : !q -> tensor<24x8xbf16>
  %p = op.matmul %q, %q transpose_b : tensor<24x8xbf16>, tensor<24x8xbf16> -> tensor<24x24xbf16>
  %s = op.softmax %p axis 1 : tensor<24x24xbf16> -> tensor<24x24xbf16>
  %y = op.matmul %s, %q : tensor<24x24xbf16>, tensor<24x8xbf16> -> tensor<24x8xbf16>
  %z = op.cast %y to f32 : tensor<24x8xbf16> -> !q
  %l = op.reduce_sum %z axes [0, 1] : !q -> tensor<f32>
  %g = job.gradients of %l by %w : tensor<f32>, !q
  job.output "g", %g : !q
}
