// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-select-kernels{refusals=true}' | filecheck %s
// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-select-kernels,launch-schedule-tiles' | filecheck %s --check-prefix=TILES

// A library is only taken where it was measured; without that, the rules are.
// CHECK-LABEL: launch.kernel @product
// CHECK-SAME:  selected = "rules: nothing else is offered"
// CHECK-SAME:  "cudnn: it is a product of matrices"
// CHECK-SAME:  "cublas: was not measured"
// TILES-LABEL: launch.kernel @product
// TILES:       schedule = #launch.tiles
launch.kernel @product target "cuda" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  linalg.matmul ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>)
}

// Products are for one library, convolutions for another.
// CHECK-LABEL: launch.kernel @convolution
// CHECK-SAME:  "cublas: it is a convolution"
// CHECK-SAME:  "cudnn: was not measured"
launch.kernel @convolution target "cuda" (%x: memref<1x16x14x14xf32>, %w: memref<16x16x3x3xf32>, %o: memref<1x16x12x12xf32>) {
  linalg.generic {
    indexing_maps = [
      affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2 + d5, d3 + d6)>,
      affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>,
      affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
    ],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]
  } ins(%x, %w : memref<1x16x14x14xf32>, memref<16x16x3x3xf32>) outs(%o : memref<1x16x12x12xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
}

// Images whose channels are last are convolutions, too; results of such ones are not.
// CHECK-LABEL: launch.kernel @input_last
// CHECK-SAME:  "cudnn: was not measured"
launch.kernel @input_last target "cuda" (%x: memref<1x14x14x16xf32>, %w: memref<16x16x3x3xf32>, %o: memref<1x16x12x12xf32>) {
  linalg.generic {
    indexing_maps = [
      affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d2 + d5, d3 + d6, d4)>,
      affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>,
      affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
    ],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]
  } ins(%x, %w : memref<1x14x14x16xf32>, memref<16x16x3x3xf32>) outs(%o : memref<1x16x12x12xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
}
// CHECK-LABEL: launch.kernel @result_last
// CHECK-SAME:  "cudnn: the terms of a factor are not equally far apart"
launch.kernel @result_last target "cuda" (%x: memref<1x14x14x16xf32>, %w: memref<16x16x3x3xf32>, %o: memref<1x12x12x16xf32>) {
  linalg.generic {
    indexing_maps = [
      affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d2 + d5, d3 + d6, d4)>,
      affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>,
      affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d2, d3, d1)>
    ],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]
  } ins(%x, %w : memref<1x14x14x16xf32>, memref<16x16x3x3xf32>) outs(%o : memref<1x12x12x16xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
}

// It refuses what is small.
// CHECK-LABEL: launch.kernel @small
// CHECK-SAME:  "cublas: 512 products are too few for a library"
launch.kernel @small target "cuda" (%a: memref<8x8xf32>, %b: memref<8x8xf32>, %o: memref<8x8xf32>) {
  linalg.matmul ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)
}

// What it cannot compute it refuses with a reason.
// CHECK-LABEL: launch.kernel @fill
// CHECK-SAME:  "cublas: it has 0 sums of products, not one"
launch.kernel @fill target "cuda" (%o: memref<64x64xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<64x64xf32>)
}

// What has a schedule keeps it: this one is a library by hand, which the pass that
// schedules leaves alone.
// CHECK-LABEL: launch.kernel @chosen
// CHECK-SAME:  "cublas: it has a schedule already"
// TILES-LABEL: launch.kernel @chosen
// TILES:       schedule = #launch.library<"cublas">
launch.kernel @chosen target "cuda" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  linalg.matmul {schedule = #launch.library<"cublas">} ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>)
}
