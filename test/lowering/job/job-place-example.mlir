// RUN: penstock-opt %s -p job-place | filecheck %s --match-full-lines

// Inputs and outputs are on the host, so that the GPU needs a copy in and a copy out.

// EXAMPLE-BEFORE
job.job @example placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cuda, [0:0]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<4xf32>
// CHECK-NEXT:   %x_cuda = job.copy %x to <0, cuda:0> : tensor<4xf32>
// CHECK-NEXT:   %y = op.relu %x_cuda : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:   %y_cpu = job.copy %y to <0, cpu:0> : tensor<4xf32>
// CHECK-NEXT:   job.output "y", %y_cpu : tensor<4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
