// RUN: penstock-opt %s -p 'job-recompute{policy=min-cut}' | filecheck %s --match-full-lines

// Both functions are computed again of %y: one tensor is kept in place of two.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x4xf32>
  %w = job.variable "w" init <ones> : tensor<4x4xf32>
  %y = op.matmul %x, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %z = op.sigmoid %y : tensor<8x4xf32> -> tensor<8x4xf32>
  %u = op.tanh %y : tensor<8x4xf32> -> tensor<8x4xf32>
  %g = op.matmul %x, %w {pass = "backward"} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %a = op.mul %g, %z {pass = "backward"} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %b = op.mul %a, %u {pass = "backward"} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  job.output "b", %b : tensor<8x4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<8x4xf32>
// CHECK-NEXT:   %w = job.variable "w" init <ones> : tensor<4x4xf32>
// CHECK-NEXT:   %y = op.matmul %x, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT:   %z = op.sigmoid %y : tensor<8x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT:   %u = op.tanh %y : tensor<8x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT:   %g = op.matmul %x, %w {pass = "backward"} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT:   %0 = job.after %y, %g : tensor<8x4xf32>, tensor<8x4xf32>
// CHECK-NEXT:   %z_1 = op.sigmoid %0 {pass = "recompute"} : tensor<8x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT:   %a = op.mul %g, %z_1 {pass = "backward"} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT:   %u_1 = op.tanh %0 {pass = "recompute"} : tensor<8x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT:   %b = op.mul %a, %u_1 {pass = "backward"} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT:   job.output "b", %b : tensor<8x4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
