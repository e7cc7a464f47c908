// RUN: penstock-opt %s -p job-add-gradients | filecheck %s --match-full-lines

// The gradient of a sum of products by a weight: nothing is computed for the input.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x4xf32>
  %w = job.variable "w" init <ones> : tensor<4x2xf32>
  %y = op.matmul %x, %w : tensor<8x4xf32>, tensor<4x2xf32> -> tensor<8x2xf32>
  %loss = op.reduce_sum %y axes [0, 1] : tensor<8x2xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4x2xf32>
  job.output "g", %g : tensor<4x2xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<8x4xf32>
// CHECK-NEXT:   %w = job.variable "w" init <ones> : tensor<4x2xf32>
// CHECK-NEXT:   %y = op.matmul %x, %w : tensor<8x4xf32>, tensor<4x2xf32> -> tensor<8x2xf32>
// CHECK-NEXT:   %loss = op.reduce_sum %y axes [0, 1] : tensor<8x2xf32> -> tensor<f32>
// CHECK-NEXT:   %loss_grad = op.constant {pass = "backward"} dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %0 = op.reshape %loss_grad to [1, 1] {pass = "backward"} : tensor<f32> -> tensor<1x1xf32>
// CHECK-NEXT:   %y_grad = op.expand %0 to [8, 2] {pass = "backward"} : tensor<1x1xf32> -> tensor<8x2xf32>
// CHECK-NEXT:   %w_grad = op.matmul %x, %y_grad transpose_a {pass = "backward"} : tensor<8x4xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
// CHECK-NEXT:   job.output "g", %w_grad : tensor<4x2xf32>
// CHECK-NEXT: }
// EXAMPLE-END
