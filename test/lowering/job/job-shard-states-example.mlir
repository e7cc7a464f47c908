// RUN: penstock-opt %s -p 'job-shard-states{stage=3}' | filecheck %s --match-full-lines

// A variable of two devices, half of which each of them keeps.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4x64xf32>
  %w = job.variable "w" init <ones> : tensor<64x64xf32>
  %y = op.matmul %x, %w : tensor<4x64xf32>, tensor<64x64xf32> -> tensor<4x64xf32>
  job.output "y", %y : tensor<4x64xf32>
  %g = op.matmul %x, %y transpose_a {pass = "backward"} : tensor<4x64xf32>, tensor<4x64xf32> -> tensor<64x64xf32>
  job.update %w by %g with <momentum> : tensor<64x64xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0-1]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<4x64xf32>
// CHECK-NEXT:   %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0)>} : tensor<64x64xf32>
// CHECK-NEXT:   %w_whole = op.reshape %w to [64, 64] {sbp = #job.sbp<B>} : tensor<64x64xf32> -> tensor<64x64xf32>
// CHECK-NEXT:   %y = op.matmul %x, %w_whole : tensor<4x64xf32>, tensor<64x64xf32> -> tensor<4x64xf32>
// CHECK-NEXT:   job.output "y", %y : tensor<4x64xf32>
// CHECK-NEXT:   %g = op.matmul %x, %y transpose_a {pass = "backward"} : tensor<4x64xf32>, tensor<4x64xf32> -> tensor<64x64xf32>
// CHECK-NEXT:   %g_1 = op.reshape %g to [64, 64] {sbp = #job.sbp<S(0)>, pass = "backward"} : tensor<64x64xf32> -> tensor<64x64xf32>
// CHECK-NEXT:   job.update %w by %g_1 with <momentum> {sbp = #job.sbp<S(0)>} : tensor<64x64xf32>
// CHECK-NEXT: }
// EXAMPLE-END
