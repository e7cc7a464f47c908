// RUN: penstock-opt %s -p launch-schedule-contractions,launch-schedule-tiles | filecheck %s

#point = affine_map<(n, g, c, s) -> (n, g, c, s)>
#outer = affine_map<(n, g, c, s) -> (g, c)>
#swapped = affine_map<(n, g, c, s) -> (n, g, s, c)>
#row = affine_map<(n, g, c, s) -> (n, g)>

// Threads share the points of all loops of a row; vectors are those of the innermost
// one, and what varies with the others alone is read once for each of them.
// CHECK-LABEL: @shared
// CHECK: schedule = #launch.rows<warp, threads 32, width 4>
launch.kernel @shared target "cuda" (%x: memref<2x3x4x36xf32>, %w: memref<3x4xf32>, %y: memref<2x3xf32>) {
  kernel.row along [2, 3] indexing_maps = [#point, #outer, #row]
      ins(%x, %w : memref<2x3x4x36xf32>, memref<3x4xf32>) outs(%y : memref<2x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    %s = kernel.all_reduce add %p : f32
    kernel.yield %s : f32
  }
}

// A row has as many points as all of its loops have turns.
// CHECK-LABEL: @short
// CHECK: no_schedule = "rows of fewer than 32 elements have a thread each"
launch.kernel @short target "cuda" (%x: memref<2x3x4x6xf32>, %w: memref<3x4xf32>, %y: memref<2x3xf32>) {
  kernel.row along [2, 3] indexing_maps = [#point, #outer, #row]
      ins(%x, %w : memref<2x3x4x6xf32>, memref<3x4xf32>) outs(%y : memref<2x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    %s = kernel.all_reduce add %p : f32
    kernel.yield %s : f32
  }
}

// Points of the innermost loop that lie apart have no vectors: blocks have rows side by side.
// CHECK-LABEL: @apart
// CHECK: schedule = #launch.rows<grid, threads 256, width 8>
launch.kernel @apart target "cuda" (%x: memref<2x3x36x4xf32>, %w: memref<3x4xf32>, %y: memref<2x3xf32>) {
  kernel.row along [2, 3] indexing_maps = [#swapped, #outer, #row]
      ins(%x, %w : memref<2x3x36x4xf32>, memref<3x4xf32>) outs(%y : memref<2x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    %s = kernel.all_reduce add %p : f32
    kernel.yield %s : f32
  }
}

// On a CPU the innermost loop is one of vectors.
// CHECK-LABEL: @lines
// CHECK: schedule = #launch.vector_loops<lines>
launch.kernel @lines target "cpu" (%x: memref<2x3x4x36xf32>, %w: memref<3x4xf32>, %y: memref<2x3xf32>) {
  kernel.row along [2, 3] indexing_maps = [#point, #outer, #row]
      ins(%x, %w : memref<2x3x4x36xf32>, memref<3x4xf32>) outs(%y : memref<2x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    %s = kernel.all_reduce add %p : f32
    kernel.yield %s : f32
  }
}
