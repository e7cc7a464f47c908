// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p op-infer-shapes | filecheck %s

// CHECK-LABEL: job.job @triangles
job.job @triangles placement <cpu, [0:0]> {
  %zero = op.constant dense<0.0> : tensor<f32>
  %one = op.constant dense<1.0> : tensor<f32>
  // CHECK: %x = op.triangle %zero, %one to [3, 5] offset 2 : tensor<f32>, tensor<f32> -> tensor<3x5xf32>
  %x = op.triangle %zero, %one to [3, 5] offset 2 : tensor<f32>, tensor<f32> -> tensor<3x5xf32>
  // CHECK: %y = op.triangle %zero, %one to [1, 4, 3] offset -1 : tensor<f32>, tensor<f32> -> tensor<1x4x3xf32>
  %y = op.triangle %zero, %one to [1, 4, 3] offset -1 : tensor<f32>, tensor<f32> -> tensor<1x4x3xf32>
  // CHECK: %z = op.triangle %x, %one to [3, 5] offset 0 : tensor<3x5xf32>, tensor<f32> -> tensor<3x5xf32>
  %z = op.triangle %x, %one to [3, 5] offset 0 : tensor<3x5xf32>, tensor<f32> -> tensor<3x5xf32>
  job.output "x", %x : tensor<3x5xf32>
  job.output "y", %y : tensor<1x4x3xf32>
  job.output "z", %z : tensor<3x5xf32>
}
