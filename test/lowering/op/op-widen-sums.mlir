// RUN: penstock-opt %s -p 'op-widen-sums{pairs=false}' --split-input-file | filecheck %s

// Sums of products of floats of 16 bits are of 32 bits, and rounded at the end.

// CHECK-LABEL: job.job @product
job.job @product placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4x5xbf16>
  %b = job.input "b" : tensor<5x3xbf16>
  // CHECK:      %a_wide = op.cast %a to f32 : tensor<4x5xbf16> -> tensor<4x5xf32>
  // CHECK-NEXT: %b_wide = op.cast %b to f32 : tensor<5x3xbf16> -> tensor<5x3xf32>
  // CHECK-NEXT: %y_wide = op.matmul %a_wide, %b_wide {acme.keep} : tensor<4x5xf32>, tensor<5x3xf32> -> tensor<4x3xf32>
  // CHECK-NEXT: %y = op.cast %y_wide to bf16 {acme.keep} : tensor<4x3xf32> -> tensor<4x3xbf16>
  %y = op.matmul %a, %b {acme.keep} : tensor<4x5xbf16>, tensor<5x3xbf16> -> tensor<4x3xbf16>
  // CHECK-NEXT: job.output "y", %y
  job.output "y", %y : tensor<4x3xbf16>
}

// -----

// A value is cast once for all sums at one placement.

// CHECK-LABEL: job.job @shared
job.job @shared placement <cpu, [0:0, 0:1]> {
  %a = job.input "a" : tensor<4x4xf16>
  // CHECK:      %[[ONE:.+]] = op.cast %a to f32 :
  // CHECK-NEXT: op.matmul %[[ONE]], %[[ONE]] :
  %x = op.matmul %a, %a : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf16>
  // CHECK:      op.reduce_sum %[[ONE]] axes [0] :
  %y = op.reduce_sum %a axes [0] : tensor<4x4xf16> -> tensor<4xf16>
  // CHECK:      %[[TWO:.+]] = op.cast %a to f32 {placement = #job.placement<cpu, [0:1]>} :
  // CHECK-NEXT: op.reduce_mean %[[TWO]] axes [0] {placement = #job.placement<cpu, [0:1]>} :
  // CHECK-NEXT: op.cast %{{.+}} to f16 {placement = #job.placement<cpu, [0:1]>} :
  %z = op.reduce_mean %a axes [0] {placement = #job.placement<cpu, [0:1]>} : tensor<4x4xf16> -> tensor<4xf16>
  job.output "x", %x : tensor<4x4xf16>
  job.output "y", %y : tensor<4xf16>
  job.output "z", %z : tensor<4xf16>
}

// -----

// What loses nothing when it is taken step by step stays, and so do wider sums.

// CHECK-LABEL: job.job @others
job.job @others placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4x4xbf16>
  %b = job.input "b" : tensor<4x4xf32>
  // CHECK-NOT: op.cast
  %x = op.reduce_max %a axes [0] : tensor<4x4xbf16> -> tensor<4xbf16>
  %y = op.matmul %b, %b : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %z = op.softmax %a axis 1 : tensor<4x4xbf16> -> tensor<4x4xbf16>
  job.output "x", %x : tensor<4xbf16>
  job.output "y", %y : tensor<4x4xf32>
  job.output "z", %z : tensor<4x4xbf16>
}

// -----

// Attention, and its gradients, have no blocks of halves on a CPU. Numbers of rows and
// gradients are f32 as they are.

// CHECK-LABEL: job.job @attention
job.job @attention placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xbf16>
  %d = job.input "d" : tensor<3xf32>
  // CHECK:      %q_wide = op.cast %q to f32
  // CHECK-NEXT: %y_wide, %l = op.attention %q_wide, %q_wide, %q_wide with_lse : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>, tensor<3xf32>
  // CHECK-NEXT: %y = op.cast %y_wide to bf16
  %y, %l = op.attention %q, %q, %q with_lse : tensor<3x4xbf16>, tensor<3x4xbf16>, tensor<3x4xbf16> -> tensor<3x4xbf16>, tensor<3xf32>
  // CHECK-NEXT: %[[G:.+]] = op.cast %y to f32
  // CHECK-NEXT: %x, %{{.+}}, %{{.+}} = op.attention_gradient %q_wide, %q_wide, %q_wide, %[[G]], %l, %d : {{.*}} -> tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  // CHECK-NEXT: job.output "x", %x
  %x, %x2, %x3 = op.attention_gradient %q, %q, %q, %y, %l, %d : tensor<3x4xbf16>, tensor<3x4xbf16>, tensor<3x4xbf16>, tensor<3x4xbf16>, tensor<3xf32>, tensor<3xf32> -> tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  job.output "x", %x : tensor<3x4xf32>
}

// -----

// A GPU computes them in f32.

// CHECK-LABEL: job.job @attention_on_cuda
// CHECK-NOT:   op.cast
job.job @attention_on_cuda placement <cuda, [0:0]> {
  %q = job.input "q" : tensor<3x4xbf16>
  %y = op.attention %q, %q, %q : tensor<3x4xbf16>, tensor<3x4xbf16>, tensor<3x4xbf16> -> tensor<3x4xbf16>
  job.output "y", %y : tensor<3x4xbf16>
}
