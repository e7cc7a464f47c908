// RUN: penstock-opt %s -p job-add-updates | filecheck %s --match-full-lines

// A variable and its momentum are updated by one group of ops.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %g = job.input "g" : tensor<4xf32>
  job.update %w by %g with <momentum, rate = 0.5> : tensor<4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %w = job.variable "w" init <ones> : tensor<4xf32>
// CHECK-NEXT:   %g = job.input "g" : tensor<4xf32>
// CHECK-NEXT:   %w_buffer = job.variable "w/momentum/buffer" init <zeros> {pass = "update"} : tensor<4xf32>
// CHECK-NEXT:   %0 = op.constant {pass = "update"} dense<5.000000e-01> : tensor<f64>
// CHECK-NEXT:   %1 = op.cast %0 to f32 {pass = "update"} : tensor<f64> -> tensor<f32>
// CHECK-NEXT:   %w_next, %w_buffer_next = op.fused %w, %g, %w_buffer, %1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32> -> tensor<4xf32>, tensor<4xf32> attributes {pass = "update"} {
// CHECK-NEXT:   ^bb0(%w_1: tensor<4xf32>, %g_1: tensor<4xf32>, %w_buffer_1: tensor<4xf32>, %2: tensor<f32>):
// CHECK-NEXT:     %3 = op.constant dense<9.000000e-01> : tensor<f32>
// CHECK-NEXT:     %4 = op.mul %w_buffer_1, %3 : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
// CHECK-NEXT:     %5 = op.add %4, %g_1 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:     %6 = op.mul %5, %2 : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
// CHECK-NEXT:     %7 = op.sub %w_1, %6 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:     op.yield %7, %5 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   job.assign %w_next to %w {pass = "update"} : tensor<4xf32>
// CHECK-NEXT:   job.assign %w_buffer_next to %w_buffer {pass = "update"} : tensor<4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
