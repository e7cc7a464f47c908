// RUN: penstock-opt %s -p op-raise-patterns | filecheck %s --match-full-lines

// A softmax written from primitives is one op.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %m = op.reduce_max %x axes [1] keepdims : tensor<4x8xf32> -> tensor<4x1xf32>
  %d = op.sub %x, %m : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  %e = op.exp %d : tensor<4x8xf32> -> tensor<4x8xf32>
  %s = op.reduce_sum %e axes [1] keepdims : tensor<4x8xf32> -> tensor<4x1xf32>
  %y = op.div %e, %s : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  job.output "y", %y : tensor<4x8xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<4x8xf32>
// CHECK-NEXT:   %y = op.softmax %x axis 1 : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:   job.output "y", %y : tensor<4x8xf32>
// CHECK-NEXT: }
// EXAMPLE-END
