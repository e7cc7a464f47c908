// RUN: penstock-opt %s -p 'job-accumulate{count=4}' | filecheck %s --match-full-lines

// One update by the mean gradient of four pieces.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8xf32>
  %w = job.variable "w" init <ones> : tensor<8xf32>
  %g = op.mul %x, %w {pass = "backward"} : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  job.update %w by %g with <sgd> : tensor<8xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<8xf32>
// CHECK-NEXT:   %w = job.variable "w" init <ones> : tensor<8xf32>
// CHECK-NEXT:   %g = op.mul %x, %w {pass = "backward"} : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
// CHECK-NEXT:   %g_sum = op.acc %g every 4 {pass = "update"} : tensor<8xf32> -> tensor<8xf32>
// CHECK-NEXT:   %0 = op.constant {pass = "update"} dense<2.500000e-01> : tensor<f32>
// CHECK-NEXT:   %g_mean = op.mul %g_sum, %0 {pass = "update"} : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
// CHECK-NEXT:   job.update %w by %g_mean with <sgd> : tensor<8xf32>
// CHECK-NEXT: }
// EXAMPLE-END
