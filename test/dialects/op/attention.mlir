// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p op-infer-shapes | filecheck %s

// CHECK-LABEL: job.job @attention
job.job @attention placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<2x3x4xf32>
  %k = job.input "k" : tensor<2x5x4xf32>
  %v = job.input "v" : tensor<2x5x8xf32>
  %m = job.input "m" : tensor<3x5xf32>
  // CHECK: %y = op.attention %q, %k, %v : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32> -> tensor<2x3x8xf32>
  %y = op.attention %q, %k, %v : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32> -> tensor<2x3x8xf32>
  // CHECK: %z = op.attention %q, %k, %v mask %m scale 5.000000e-01 by [1, 0, 2] : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32> mask tensor<3x5xf32> -> tensor<3x2x8xf32>
  %z = op.attention %q, %k, %v mask %m scale 0.5 by [1, 0, 2] : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32> mask tensor<3x5xf32> -> tensor<3x2x8xf32>
  // CHECK: %c = op.attention %q, %k, %v mask %m causal 2 scale 5.000000e-01 : tensor
  %c = op.attention %q, %k, %v mask %m causal 2 scale 0.5 : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32> mask tensor<3x5xf32> -> tensor<2x3x8xf32>
  // CHECK: %r, %l = op.attention %q, %k, %v by [1, 0, 2] with_lse : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32> -> tensor<3x2x8xf32>, tensor<2x3xf32>
  %r, %l = op.attention %q, %k, %v by [1, 0, 2] with_lse : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32> -> tensor<3x2x8xf32>, tensor<2x3xf32>
  job.output "r", %r : tensor<3x2x8xf32>
  job.output "l", %l : tensor<2x3xf32>
  job.output "y", %y : tensor<2x3x8xf32>
  job.output "z", %z : tensor<3x2x8xf32>
  job.output "c", %c : tensor<2x3x8xf32>
}

// Stacks are broadcast, and axes may lie in another order.
// CHECK-LABEL: job.job @orders
job.job @orders placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x2x6x4xf64>
  %k = job.input "k" : tensor<4x5xf64>
  %v = job.input "v" : tensor<5x6x8xf64>
  // CHECK: %y = op.attention %q, %k, %v q_by [1, 2, 0, 3] k_by [1, 0] v_by [1, 0, 2] : tensor<3x2x6x4xf64>, tensor<4x5xf64>, tensor<5x6x8xf64> -> tensor<2x6x3x8xf64>
  %y = op.attention %q, %k, %v q_by [1, 2, 0, 3] k_by [1, 0] v_by [1, 0, 2] : tensor<3x2x6x4xf64>, tensor<4x5xf64>, tensor<5x6x8xf64> -> tensor<2x6x3x8xf64>
  job.output "y", %y : tensor<2x6x3x8xf64>
}
