// RUN: penstock-opt %s -p job-infer-sbp | filecheck %s --match-full-lines

// Of two devices each computes half of the rows, `S(0)`, with a whole `w`, `B`.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<8x6xf32>
  %w = job.variable "w" init <ones> : tensor<6x4xf32>
  %h = op.matmul %x, %w : tensor<8x6xf32>, tensor<6x4xf32> -> tensor<8x4xf32>
  %y = op.relu %h : tensor<8x4xf32> -> tensor<8x4xf32>
  job.output "y", %y : tensor<8x4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0-1]> {
// CHECK-NEXT:   %x = job.input "x" {sbp = #job.sbp<S(0)>} : tensor<8x6xf32>
// CHECK-NEXT:   %w = job.variable "w" init <ones> {sbp = #job.sbp<B>} : tensor<6x4xf32>
// CHECK-NEXT:   %h = op.matmul %x, %w {sbp = #job.sbp<S(0)>, operand_sbp = [#job.sbp<S(0)>, #job.sbp<B>]} : tensor<8x6xf32>, tensor<6x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT:   %y = op.relu %h {sbp = #job.sbp<S(0)>, operand_sbp = [#job.sbp<S(0)>]} : tensor<8x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT:   job.output "y", %y : tensor<8x4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
