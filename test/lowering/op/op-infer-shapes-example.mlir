// RUN: penstock-opt %s -p op-infer-shapes | filecheck %s --match-full-lines

// The shape of the input decides all others, -1 included.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x3xf32>
  %r = op.reshape %x to [2, -1] : tensor<4x3xf32> -> tensor<?x?xf32>
  %t = op.transpose %r by [1, 0] : tensor<?x?xf32> -> tensor<?x?xf32>
  job.output "y", %t : tensor<?x?xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<4x3xf32>
// CHECK-NEXT:   %r = op.reshape %x to [2, -1] : tensor<4x3xf32> -> tensor<2x6xf32>
// CHECK-NEXT:   %t = op.transpose %r by [1, 0] : tensor<2x6xf32> -> tensor<6x2xf32>
// CHECK-NEXT:   job.output "y", %t : tensor<6x2xf32>
// CHECK-NEXT: }
// EXAMPLE-END
