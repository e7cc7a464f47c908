// RUN: penstock-opt %s -p op-fuse-rows | filecheck %s --match-full-lines

// A sum before a softmax and a ReLU after it are computed row by row with it.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %m = job.input "m" : tensor<4x8xf32>
  %s = op.add %x, %m : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %n = op.softmax %s axis 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  %y = op.relu %n : tensor<4x8xf32> -> tensor<4x8xf32>
  job.output "y", %y : tensor<4x8xf32>
}
// EXAMPLE-AFTER
// CHECK:        %y = op.fused %x, %m : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32> {
// CHECK-NEXT:   ^bb0(%x_1: tensor<4x8xf32>, %m_1: tensor<4x8xf32>):
// CHECK-NEXT:     %s = op.add %x_1, %m_1 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:     %n = op.softmax %s axis 1 : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:     %y_1 = op.relu %n : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:     op.yield %y_1 : tensor<4x8xf32>
// CHECK-NEXT:   }
// EXAMPLE-END
