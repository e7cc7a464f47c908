// RUN: penstock-opt %s -p op-fuse-attention | filecheck %s --match-full-lines

// Two matmuls with a softmax between them are one op, which never stores the 24 x 32
// scores.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<24x8xf32>
  %k = job.input "k" : tensor<32x8xf32>
  %v = job.input "v" : tensor<32x8xf32>
  %p = op.matmul %q, %k transpose_b : tensor<24x8xf32>, tensor<32x8xf32> -> tensor<24x32xf32>
  %s = op.softmax %p axis 1 : tensor<24x32xf32> -> tensor<24x32xf32>
  %y = op.matmul %s, %v : tensor<24x32xf32>, tensor<32x8xf32> -> tensor<24x8xf32>
  job.output "y", %y : tensor<24x8xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %q = job.input "q" : tensor<24x8xf32>
// CHECK-NEXT:   %k = job.input "k" : tensor<32x8xf32>
// CHECK-NEXT:   %v = job.input "v" : tensor<32x8xf32>
// CHECK-NEXT:   %y = op.attention %q, %k, %v : tensor<24x8xf32>, tensor<32x8xf32>, tensor<32x8xf32> -> tensor<24x8xf32>
// CHECK-NEXT:   job.output "y", %y : tensor<24x8xf32>
// CHECK-NEXT: }
// EXAMPLE-END
