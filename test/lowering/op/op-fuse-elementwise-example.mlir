// RUN: penstock-opt %s -p op-fuse-elementwise | filecheck %s --match-full-lines

// Three elementwise ops become one loop, without tensors between them.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %b = job.input "b" : tensor<8xf32>
  %s = op.add %x, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %r = op.relu %s : tensor<4x8xf32> -> tensor<4x8xf32>
  %y = op.mul %r, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  job.output "y", %y : tensor<4x8xf32>
}
// EXAMPLE-AFTER
// CHECK:        %y = op.fused %x, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32> {
// CHECK-NEXT:   ^bb0(%x_1: tensor<4x8xf32>, %b_1: tensor<8xf32>):
// CHECK-NEXT:     %s = op.add %x_1, %b_1 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:     %r = op.relu %s : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:     %y_1 = op.mul %r, %x_1 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:     op.yield %y_1 : tensor<4x8xf32>
// CHECK-NEXT:   }
// EXAMPLE-END
