// RUN: penstock-opt %s -t numba --split-input-file --verify-diagnostics

#x = affine_map<(g, y, x, i, j) -> (g, y + i, x + j)>
#w = affine_map<(g, y, x, i, j) -> (g, i, j)>
#y = affine_map<(g, y, x, i, j) -> (g, y, x)>
launch.kernel @k target "cpu" (%x: memref<2x6x9xf32>, %w: memref<2x3x3xf32>, %y: memref<2x4x7xf32>) {
  // expected-error@+1 {{kernel @k: windows are multiplied without a finish}}
  kernel.contract indexing_maps = [#x, #w, #y] ins(%x, %w : memref<2x6x9xf32>, memref<2x3x3xf32>) outs(%y : memref<2x4x7xf32>) attributes {schedule = #launch.windows<lanes 4, lines 4>} {
  ^bb0(%s: f32):
    %0 = arith.negf %s : f32
    kernel.yield %0 : f32
  }
}

// -----

#x = affine_map<(g, y, x, i, j) -> (g, y + i, x + j)>
#w = affine_map<(g, y, x, i, j) -> (g, i, j)>
#y = affine_map<(g, y, x, i, j) -> (g, y, x)>
launch.kernel @k target "cpu" (%x: memref<2x6x9xi32>, %w: memref<2x3x3xi32>, %y: memref<2x4x7xi32>) {
  // expected-error@+1 {{kernel @k: windows of i32 are not computed in vectors}}
  kernel.contract indexing_maps = [#x, #w, #y] ins(%x, %w : memref<2x6x9xi32>, memref<2x3x3xi32>) outs(%y : memref<2x4x7xi32>) attributes {schedule = #launch.windows<lanes 4, lines 4>}
}

// -----

// A tile has no schedule of windows, and windows none of tiles.
#x = affine_map<(y, x, i, j) -> (y + i, x + j)>
#w = affine_map<(y, x, i, j) -> (i, j)>
#y = affine_map<(y, x, i, j) -> (y, x)>
launch.kernel @k target "cpu" (%x: memref<6x9xf32>, %w: memref<3x3xf32>, %y: memref<4x7xf32>) {
  // expected-error@+1 {{kernel @k: #launch.windows<lanes 4, lines 4> is for depthwise convolutions, which this is none of}}
  kernel.contract indexing_maps = [#x, #w, #y] ins(%x, %w : memref<6x9xf32>, memref<3x3xf32>) outs(%y : memref<4x7xf32>) attributes {schedule = #launch.windows<lanes 4, lines 4>}
}

// -----

#x = affine_map<(g, y, x, i, j) -> (g, y + i, x + j)>
#w = affine_map<(g, y, x, i, j) -> (g, i, j)>
#y = affine_map<(g, y, x, i, j) -> (g, y, x)>
launch.kernel @k target "cpu" (%x: memref<2x6x9xf32>, %w: memref<2x3x3xf32>, %y: memref<2x4x7xf32>) {
  // expected-error@+1 {{kernel @k: no tiles compute kernel.contract: each channel is multiplied by weights of its own}}
  kernel.contract indexing_maps = [#x, #w, #y] ins(%x, %w : memref<2x6x9xf32>, memref<2x3x3xf32>) outs(%y : memref<2x4x7xf32>) attributes {schedule = #launch.contraction<outer, tile [4, 1, 4], block [4, 8]>}
}
