// RUN: penstock-opt %s -p job-fuse-boxings | filecheck %s --match-full-lines

// Two sums over two ranks are one.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0, 1:0]> {
  %a = job.variable "a" init <ones> {sbp = #job.sbp<P>} : tensor<4xf32>
  %a_B = job.boxing %a from <P> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> : tensor<4xf32>
  %b = job.variable "b" init <ones> {sbp = #job.sbp<P>} : tensor<2x3xf32>
  %b_B = job.boxing %b from <P> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> : tensor<2x3xf32>
  %c = op.relu %a_B {sbp = #job.sbp<B>} : tensor<4xf32> -> tensor<4xf32>
  %d = op.relu %b_B {sbp = #job.sbp<B>} : tensor<2x3xf32> -> tensor<2x3xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0, 1:0]> {
// CHECK-NEXT:   %a = job.variable "a" init <ones> {sbp = #job.sbp<P>} : tensor<4xf32>
// CHECK-NEXT:   %b = job.variable "b" init <ones> {sbp = #job.sbp<P>} : tensor<2x3xf32>
// CHECK-NEXT:   %b_B = op.reshape %b to [6] {sbp = #job.sbp<P>} : tensor<2x3xf32> -> tensor<6xf32>
// CHECK-NEXT:   %b_B_1 = op.concat %a, %b_B axis 0 {sbp = #job.sbp<P>} : tensor<4xf32>, tensor<6xf32> -> tensor<10xf32>
// CHECK-NEXT:   %b_B_2 = job.boxing %b_B_1 from <P> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> : tensor<10xf32>
// CHECK-NEXT:   %a_B = op.slice %b_B_2 from [0] to [4] by [1] {sbp = #job.sbp<B>} : tensor<10xf32> -> tensor<4xf32>
// CHECK-NEXT:   %b_B_3 = op.slice %b_B_2 from [4] to [10] by [1] {sbp = #job.sbp<B>} : tensor<10xf32> -> tensor<6xf32>
// CHECK-NEXT:   %b_B_4 = op.reshape %b_B_3 to [2, 3] {sbp = #job.sbp<B>} : tensor<6xf32> -> tensor<2x3xf32>
// CHECK-NEXT:   %c = op.relu %a_B {sbp = #job.sbp<B>} : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:   %d = op.relu %b_B_4 {sbp = #job.sbp<B>} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT: }
// EXAMPLE-END
