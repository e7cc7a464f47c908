// RUN: penstock-opt %s -p job-add-updates | filecheck %s --match-full-lines

// A variable is updated by a group of ops.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %g = job.input "g" : tensor<4xf32>
  %rate = job.input "rate" : tensor<f32>
  job.update %w by %g with <sgd> rate %rate : tensor<4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %w = job.variable "w" init <ones> : tensor<4xf32>
// CHECK-NEXT:   %g = job.input "g" : tensor<4xf32>
// CHECK-NEXT:   %rate = job.input "rate" : tensor<f32>
// CHECK-NEXT:   %0 = op.cast %rate to f64 {pass = "update"} : tensor<f32> -> tensor<f64>
// CHECK-NEXT:   %1 = op.cast %0 to f32 {pass = "update"} : tensor<f64> -> tensor<f32>
// CHECK-NEXT:   %w_next = op.fused %w, %g, %1 : tensor<4xf32>, tensor<4xf32>, tensor<f32> -> tensor<4xf32> attributes {pass = "update"} {
// CHECK-NEXT:   ^bb0(%w_1: tensor<4xf32>, %g_1: tensor<4xf32>, %2: tensor<f32>):
// CHECK-NEXT:     %3 = op.mul %g_1, %2 : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
// CHECK-NEXT:     %4 = op.sub %w_1, %3 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:     op.yield %4 : tensor<4xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   job.assign %w_next to %w {pass = "update"} : tensor<4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
