// RUN: penstock-opt %s -p 'job-infer-sbp,job-insert-boxing' | filecheck %s --match-full-lines

// An input is on the host: one boxing splits its rows for two GPUs, another one joins
// the rows of the result there.

// EXAMPLE-BEFORE
job.job @example placement <cuda, [0:0-1]> {
  %x = job.input "x" : tensor<4x6xf32>
  %y = op.relu %x : tensor<4x6xf32> -> tensor<4x6xf32>
  job.output "y", %y : tensor<4x6xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cuda, [0:0-1]> {
// CHECK-NEXT:   %x = job.input "x" {sbp = #job.sbp<S(0)>} : tensor<4x6xf32>
// CHECK-NEXT:   %x_S0 = job.boxing %x from <B> on <cpu, [0:0]> to <S(0)> on <cuda, [0:0-1]> : tensor<4x6xf32>
// CHECK-NEXT:   %y = op.relu %x_S0 {sbp = #job.sbp<S(0)>} : tensor<4x6xf32> -> tensor<4x6xf32>
// CHECK-NEXT:   %y_cpu = job.boxing %y from <S(0)> on <cuda, [0:0-1]> to <B> on <cpu, [0:0]> : tensor<4x6xf32>
// CHECK-NEXT:   job.output "y", %y_cpu : tensor<4x6xf32>
// CHECK-NEXT: }
// EXAMPLE-END
