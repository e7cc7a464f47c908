// RUN: penstock-opt %s -p op-use-winograd | filecheck %s --match-full-lines

// 16 x 16 results of a 3 x 3 convolution are 4 x 4 tiles: 36 products each instead of
// 144, as one batched matmul.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x18x18xf32>
  %w = job.variable "w" init <ones> : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w
    : tensor<1x16x18x18xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x16x16xf32>
  job.output "y", %y : tensor<1x16x16x16xf32>
}
// EXAMPLE-AFTER
// CHECK:        %w = job.variable "w" init <ones> winograd [16, 16, 3, 3] : tensor<36x16x16xf32>
// CHECK-NEXT:   %[[SPLIT:.+]] = op.constant {{.*}} : tensor<6x6xf32>
// CHECK-NEXT:   %[[TILES:.+]] = op.winograd_split %[[SPLIT]], %x step 4 : tensor<6x6xf32>, tensor<1x16x18x18xf32> -> tensor<6x6x16x1x4x4xf32>
// CHECK-NEXT:   %[[STACK:.+]] = op.reshape %[[TILES]] to [36, 16, 16] : tensor<6x6x16x1x4x4xf32> -> tensor<36x16x16xf32>
// CHECK-NEXT:   %[[PRODUCTS:.+]] = op.matmul %w, %[[STACK]] : tensor<36x16x16xf32>, tensor<36x16x16xf32> -> tensor<36x16x16xf32>
// CHECK-NEXT:   %[[JOIN:.+]] = op.constant {{.*}} : tensor<4x6xf32>
// CHECK-NEXT:   %[[PARTS:.+]] = op.reshape %[[PRODUCTS]] to [6, 6, 16, 1, 4, 4] : tensor<36x16x16xf32> -> tensor<6x6x16x1x4x4xf32>
// CHECK-NEXT:   %y = op.winograd_join %[[JOIN]], %[[PARTS]] : tensor<4x6xf32>, tensor<6x6x16x1x4x4xf32> -> tensor<1x16x16x16xf32>
// EXAMPLE-END
