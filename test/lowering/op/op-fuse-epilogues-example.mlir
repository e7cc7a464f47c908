// RUN: penstock-opt %s -p op-fuse-epilogues | filecheck %s --match-full-lines

// The bias is added by the kernel of the matmul, before it stores the result.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %w = job.input "w" : tensor<8x8xf32>
  %b = job.input "b" : tensor<8xf32>
  %m = op.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %y = op.add %m, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  job.output "y", %y : tensor<4x8xf32>
}
// EXAMPLE-AFTER
// CHECK:        %y = op.fused %x, %w, %b : tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32> -> tensor<4x8xf32> {
// CHECK-NEXT:   ^bb0(%x_1: tensor<4x8xf32>, %w_1: tensor<8x8xf32>, %b_1: tensor<8xf32>):
// CHECK-NEXT:     %m = op.matmul %x_1, %w_1 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:     %y_1 = op.add %m, %b_1 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:     op.yield %y_1 : tensor<4x8xf32>
// CHECK-NEXT:   }
// EXAMPLE-END
