// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// CHECK-LABEL: func.func @tiles
func.func @tiles(%b: tensor<6x6xf32>, %x: tensor<2x3x10x14xf32>, %a: tensor<4x6xf32>, %m: tensor<6x6x5x2x2x3xf32>, %c: tensor<5xf32>) {
  // What is left at the end of an image is in no tile.
  // CHECK-NEXT: %v = op.winograd_split %b, %x step 4 : tensor<6x6xf32>, tensor<2x3x10x14xf32> -> tensor<6x6x3x2x2x3xf32>
  %v = op.winograd_split %b, %x step 4 : tensor<6x6xf32>, tensor<2x3x10x14xf32> -> tensor<6x6x3x2x2x3xf32>
  // CHECK-NEXT: %u = op.winograd_split %b, %x step 5 : tensor<6x6xf32>, tensor<2x3x10x14xf32> -> tensor<6x6x3x2x1x2xf32>
  %u = op.winograd_split %b, %x step 5 : tensor<6x6xf32>, tensor<2x3x10x14xf32> -> tensor<6x6x3x2x1x2xf32>
  // CHECK-NEXT: %y = op.winograd_join %a, %m : tensor<4x6xf32>, tensor<6x6x5x2x2x3xf32> -> tensor<2x5x8x12xf32>
  %y = op.winograd_join %a, %m : tensor<4x6xf32>, tensor<6x6x5x2x2x3xf32> -> tensor<2x5x8x12xf32>
  // CHECK-NEXT: %z = op.winograd_join %a, %m, %c : tensor<4x6xf32>, tensor<6x6x5x2x2x3xf32>, tensor<5xf32> -> tensor<2x5x8x12xf32>
  %z = op.winograd_join %a, %m, %c : tensor<4x6xf32>, tensor<6x6x5x2x2x3xf32>, tensor<5xf32> -> tensor<2x5x8x12xf32>
  return
}
