// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p op-infer-shapes | filecheck %s

// CHECK-LABEL: job.job @gradient
job.job @gradient placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<2x3x4xf32>
  %k = job.input "k" : tensor<2x5x4xf32>
  %v = job.input "v" : tensor<2x5x8xf32>
  %g = job.input "g" : tensor<2x3x8xf32>
  %l = job.input "l" : tensor<2x3xf32>
  %d = job.input "d" : tensor<2x3xf32>
  // CHECK: %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d causal 0 scale 5.000000e-01 : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>, tensor<2x3x8xf32>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>
  %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d causal 0 scale 5.000000e-01 : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>, tensor<2x3x8xf32>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>
  job.output "x", %x : tensor<2x3x4xf32>
  job.output "y", %y : tensor<2x5x4xf32>
  job.output "z", %z : tensor<2x5x8xf32>
}

// Gradients of halves, and numbers of rows, have 32 bits; each lies as its operand does.
// CHECK-LABEL: job.job @halves
job.job @halves placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x2x4xbf16>
  %k = job.input "k" : tensor<4x5xbf16>
  %v = job.input "v" : tensor<5x2x8xbf16>
  %g = job.input "g" : tensor<3x2x8xbf16>
  %l = job.input "l" : tensor<2x3xf32>
  %d = job.input "d" : tensor<2x3xf32>
  %m = job.input "m" : tensor<3x5xbf16>
  // CHECK: %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d mask %m q_by [1, 0, 2] k_by [1, 0] v_by [1, 0, 2] by [1, 0, 2] : tensor<3x2x4xbf16>, tensor<4x5xbf16>, tensor<5x2x8xbf16>, tensor<3x2x8xbf16>, tensor<2x3xf32>, tensor<2x3xf32> mask tensor<3x5xbf16> -> tensor<3x2x4xf32>, tensor<4x5xf32>, tensor<5x2x8xf32>
  %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d mask %m q_by [1, 0, 2] k_by [1, 0] v_by [1, 0, 2] by [1, 0, 2] : tensor<3x2x4xbf16>, tensor<4x5xbf16>, tensor<5x2x8xbf16>, tensor<3x2x8xbf16>, tensor<2x3xf32>, tensor<2x3xf32> mask tensor<3x5xbf16> -> tensor<3x2x4xf32>, tensor<4x5xf32>, tensor<5x2x8xf32>
  job.output "x", %x : tensor<3x2x4xf32>
  job.output "y", %y : tensor<4x5xf32>
  job.output "z", %z : tensor<5x2x8xf32>
}
