// RUN: penstock-opt %s --split-input-file --verify-diagnostics

launch.kernel @k target "cpu" (%a: memref<4x6xf32>, %e: memref<4x6xf64>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %z: memref<6x9xf32>, %n: memref<6x6x2x9xf32>, %y: memref<9x4x4xf32>) {
  // expected-error@+1 {{kernel.tile_transform: there are 5 operands to index, got 4 maps}}
  kernel.tile_transform indexing_maps = [affine_map<(i, j, t, k, l) -> (i, k)>, affine_map<(i, j, t, k, l) -> (j, l)>, affine_map<(i, j, t, k, l) -> (k, l, t)>, affine_map<(i, j, t, k, l) -> (t, i, j)>] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) start(%c : memref<9xf32>)
}

// -----

launch.kernel @k target "cpu" (%a: memref<4x6xf32>, %e: memref<4x6xf64>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %z: memref<6x9xf32>, %n: memref<6x6x2x9xf32>, %y: memref<9x4x4xf32>) {
  // expected-error@+1 {{kernel.tile_transform: there should be a loop of rows, of p and the result only, got 0}}
  kernel.tile_transform indexing_maps = [affine_map<(j, t, k, l) -> (0, k)>, affine_map<(j, t, k, l) -> (j, l)>, affine_map<(j, t, k, l) -> (k, l, t)>, affine_map<(j, t, k, l) -> (t, 0, j)>, affine_map<(j, t, k, l) -> (t)>] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) start(%c : memref<9xf32>)
}

// -----

launch.kernel @k target "cpu" (%a: memref<4x6xf32>, %e: memref<4x6xf64>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %z: memref<6x9xf32>, %n: memref<6x6x2x9xf32>, %y: memref<9x4x4xf32>) {
  // expected-error@+1 {{kernel.tile_transform: there should be a loop of terms of rows, of p and the tiles only, got 0}}
  kernel.tile_transform indexing_maps = [affine_map<(i, j, t, l) -> (i, 0)>, affine_map<(i, j, t, l) -> (j, l)>, affine_map<(i, j, t, l) -> (0, l, t)>, affine_map<(i, j, t, l) -> (t, i, j)>, affine_map<(i, j, t, l) -> (t)>] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) start(%c : memref<9xf32>)
}

// -----

launch.kernel @k target "cpu" (%a: memref<4x6xf32>, %e: memref<4x6xf64>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %z: memref<6x9xf32>, %n: memref<6x6x2x9xf32>, %y: memref<9x4x4xf32>) {
  // expected-error@+1 {{kernel.tile_transform: there should be a loop of columns, of q and the result only, got 0}}
  kernel.tile_transform indexing_maps = [affine_map<(i, t, k, l) -> (i, k)>, affine_map<(i, t, k, l) -> (0, l)>, affine_map<(i, t, k, l) -> (k, l, t)>, affine_map<(i, t, k, l) -> (t, i, 0)>, affine_map<(i, t, k, l) -> (t)>] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) start(%c : memref<9xf32>)
}

// -----

launch.kernel @k target "cpu" (%a: memref<4x6xf32>, %e: memref<4x6xf64>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %z: memref<6x9xf32>, %n: memref<6x6x2x9xf32>, %y: memref<9x4x4xf32>) {
  // expected-error@+1 {{kernel.tile_transform: there should be a loop of terms of columns, of q and the tiles only, got 0}}
  kernel.tile_transform indexing_maps = [affine_map<(i, j, t, k) -> (i, k)>, affine_map<(i, j, t, k) -> (j, 0)>, affine_map<(i, j, t, k) -> (k, 0, t)>, affine_map<(i, j, t, k) -> (t, i, j)>, affine_map<(i, j, t, k) -> (t)>] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) start(%c : memref<9xf32>)
}

// -----

launch.kernel @k target "cpu" (%a: memref<4x6xf32>, %e: memref<4x6xf64>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %z: memref<6x9xf32>, %n: memref<6x6x2x9xf32>, %y: memref<9x4x4xf32>) {
  // expected-error@+1 {{kernel.tile_transform: loop 5 is none of rows, columns, their terms or tiles}}
  kernel.tile_transform indexing_maps = [affine_map<(i, j, t, k, l, u) -> (i, k)>, affine_map<(i, j, t, k, l, u) -> (j, l)>, affine_map<(i, j, t, k, l, u) -> (k, l, u, t)>, affine_map<(i, j, t, k, l, u) -> (t, i, j)>, affine_map<(i, j, t, k, l, u) -> (t)>] ins(%a, %a, %n : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x2x9xf32>) outs(%y : memref<9x4x4xf32>) start(%c : memref<9xf32>)
}

// -----

launch.kernel @k target "cpu" (%a: memref<4x6xf32>, %e: memref<4x6xf64>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %z: memref<6x9xf32>, %n: memref<6x6x2x9xf32>, %y: memref<9x4x4xf32>) {
  // expected-error@+1 {{kernel.tile_transform: operand 4 should not change from term to term, got (d0, d1, d2, d3, d4) -> (d3, d2)}}
  kernel.tile_transform indexing_maps = [affine_map<(i, j, t, k, l) -> (i, k)>, affine_map<(i, j, t, k, l) -> (j, l)>, affine_map<(i, j, t, k, l) -> (k, l, t)>, affine_map<(i, j, t, k, l) -> (t, i, j)>, affine_map<(i, j, t, k, l) -> (k, t)>] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) start(%z : memref<6x9xf32>)
}

// -----

launch.kernel @k target "cpu" (%a: memref<4x6xf32>, %e: memref<4x6xf64>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %z: memref<6x9xf32>, %n: memref<6x6x2x9xf32>, %y: memref<9x4x4xf32>) {
  // expected-error@+1 {{kernel.tile_transform: tiles are of floats of one type, got f32, f64, f32, f32, f32}}
  kernel.tile_transform indexing_maps = [affine_map<(i, j, t, k, l) -> (i, k)>, affine_map<(i, j, t, k, l) -> (j, l)>, affine_map<(i, j, t, k, l) -> (k, l, t)>, affine_map<(i, j, t, k, l) -> (t, i, j)>, affine_map<(i, j, t, k, l) -> (t)>] ins(%a, %e, %m : memref<4x6xf32>, memref<4x6xf64>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) start(%c : memref<9xf32>)
}

// -----

launch.kernel @k target "cpu" (%a: memref<4x6xf32>, %e: memref<4x6xf64>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %z: memref<6x9xf32>, %n: memref<6x6x2x9xf32>, %y: memref<9x4x4xf32>) {
  // expected-error@+1 {{kernel.tile_transform: operand 4 must not lie where result 0 does, which is written before all of it is read}}
  kernel.tile_transform indexing_maps = [affine_map<(i, j, t, k, l) -> (i, k)>, affine_map<(i, j, t, k, l) -> (j, l)>, affine_map<(i, j, t, k, l) -> (k, l, t)>, affine_map<(i, j, t, k, l) -> (t, i, j)>, affine_map<(i, j, t, k, l) -> (t, i, j)>] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) start(%y : memref<9x4x4xf32>)
}

// -----

launch.kernel @k target "cpu" (%a: memref<4x6xf32>, %e: memref<4x6xf64>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %z: memref<6x9xf32>, %n: memref<6x6x2x9xf32>, %y: memref<9x4x4xf32>) {
  // expected-error@+1 {{kernel.tile_transform: #launch.windows<lanes 16, lines 8> is no schedule of kernel.tile_transform}}
  kernel.tile_transform indexing_maps = [affine_map<(i, j, t, k, l) -> (i, k)>, affine_map<(i, j, t, k, l) -> (j, l)>, affine_map<(i, j, t, k, l) -> (k, l, t)>, affine_map<(i, j, t, k, l) -> (t, i, j)>, affine_map<(i, j, t, k, l) -> (t)>] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) start(%c : memref<9xf32>) attributes {schedule = #launch.windows<lanes 16, lines 8>}
}

// -----

launch.kernel @k target "cpu" (%a: memref<4x6xf32>, %e: memref<4x6xf64>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %z: memref<6x9xf32>, %n: memref<6x6x2x9xf32>, %y: memref<9x4x4xf32>) {
  // expected-error@+1 {{kernel.tile_transform: unknown attribute 'shape' (what is not ours has a dialect's prefix, such as 'acme.shape')}}
  kernel.tile_transform indexing_maps = [affine_map<(i, j, t, k, l) -> (i, k)>, affine_map<(i, j, t, k, l) -> (j, l)>, affine_map<(i, j, t, k, l) -> (k, l, t)>, affine_map<(i, j, t, k, l) -> (t, i, j)>, affine_map<(i, j, t, k, l) -> (t)>] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) start(%c : memref<9xf32>) attributes {shape = 1}
}

// -----

launch.kernel @k target "cpu" (%a: memref<4x6xf32>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %y: memref<9x4x4xf32>) {
  // expected-error@+1 {{kernel.tile_transform: the region takes f32, f32, got f32}}
  kernel.tile_transform indexing_maps = [affine_map<(i, j, t, k, l) -> (i, k)>, affine_map<(i, j, t, k, l) -> (j, l)>, affine_map<(i, j, t, k, l) -> (k, l, t)>, affine_map<(i, j, t, k, l) -> (t, i, j)>, affine_map<(i, j, t, k, l) -> (t)>] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) finish(%c : memref<9xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}
