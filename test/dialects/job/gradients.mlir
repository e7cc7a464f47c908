// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --mlir-print-op-generic | penstock-opt | filecheck %s

job.job @train placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %s = op.stop_gradient %w : tensor<4xf32> -> tensor<4xf32>
  %y = op.mul %w, %s : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %loss = op.reduce_sum %y axes [0] : tensor<4xf32> -> tensor<f32>
  %g, %h = job.gradients of %loss by %w, %y : tensor<f32>, tensor<4xf32>, tensor<4xf32>
  %k = job.gradients of %loss by %w scale %loss : tensor<f32>, tensor<4xf32>
}

// CHECK:      %s = op.stop_gradient %w : tensor<4xf32> -> tensor<4xf32>
// CHECK:      %g, %h = job.gradients of %loss by %w, %y : tensor<f32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: %k = job.gradients of %loss by %w scale %loss : tensor<f32>, tensor<4xf32>
