// RUN: penstock-opt %s -p raise-linalg-to-kernel -t numba --split-input-file --verify-diagnostics

// Indices have 32 bits.
// expected-error@+1 {{kernel @large: a has more than 2146435072 elements: memref<65536x32768xf32>}}
launch.kernel @large target "cuda" (%a: memref<65536x32768xf32>, %o: memref<4xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<4xf32>)
}

// -----

!m = memref<64x64xf32>
launch.kernel @k target "cuda" (%a: !m, %b: !m, %o: !m) {
  %z = arith.constant 0.0 : f32
  // expected-error@+1 {{kernel @k: linalg.fill cannot be computed by #launch.tiles<block [64, 64, 8], thread [8, 8]> here, as it is no kernel.contract: it is no sum of products}}
  linalg.fill {schedule = #launch.tiles<block [64, 64, 8], thread [8, 8]>} ins(%z : f32) outs(%o : !m)
  // expected-error@+1 {{kernel @k: linalg.matmul cannot be computed by #launch.tiles<block [64, 64, 8], thread [8, 8]> here, as it is no kernel.contract: the result is one of the factors}}
  linalg.matmul {schedule = #launch.tiles<block [64, 64, 8], thread [8, 8]>} ins(%a, %b : !m, !m) outs(%a : !m)
  // expected-error@+1 {{kernel @k: kernel.contract cannot be computed by #launch.contraction<outer, tile [4, 1, 16], block [4, 8], packed> here}}
  linalg.matmul {schedule = #launch.contraction<outer, tile [4, 1, 16], block [4, 8], packed>} ins(%a, %b : !m, !m) outs(%o : !m)
}

// -----

!m = memref<64x64xf64>
launch.kernel @k target "cuda" (%a: !m, %b: !m, %o: !m) {
  // expected-error@+1 {{kernel @k: #launch.tiles<block [128, 128, 16], thread [8, 8]> does not fit into shared memory for f64}}
  linalg.matmul {schedule = #launch.tiles<block [128, 128, 16], thread [8, 8]>} ins(%a, %b : !m, !m) outs(%o : !m)
  // expected-error@+1 {{kernel @k: there are no tiles of f64 on tensor cores}}
  linalg.matmul {schedule = #launch.tiles<block [64, 64, 32], warp [32, 32], stages 4>} ins(%a, %b : !m, !m) outs(%o : !m)
}

// -----

// The code has no taps of dilated windows, too many of them, or none.
launch.kernel @k target "cuda" (%x: memref<40x40xf32>, %y: memref<20x20xf32>, %z: memref<38x38xf32>, %e: memref<0x9xf32>, %o: memref<1x10xf32>) {
  // expected-error@+1 {{kernel @k: the nearest element is no tap of a dilated window}}
  kernel.pool max window [2, 2] dilations [2, 2] dims [0, 1] ins(%x : memref<40x40xf32>) outs(%z : memref<38x38xf32>) attributes {schedule = #launch.window_threads<taps>}
  // expected-error@+1 {{kernel @k: 441 taps are in loops}}
  kernel.pool max window [21, 21] dims [0, 1] ins(%x : memref<40x40xf32>) outs(%y : memref<20x20xf32>) attributes {schedule = #launch.window_threads<taps>}
  // expected-error@+1 {{kernel @k: windows have no taps}}
  kernel.pool max window [2, 2] pads [1, 1, 1, 1] dims [0, 1] ins(%e : memref<0x9xf32>) outs(%o : memref<1x10xf32>) attributes {schedule = #launch.window_threads<taps>}
}

// -----

// Threads that share terms add them to a result; blocks have no rows of terms.
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#o = affine_map<(m, n, k) -> (m, n)>
#f = affine_map<(m, n, k, l) -> (m + k, n + l)>
#w = affine_map<(m, n, k, l) -> (k, l)>
#r = affine_map<(m, n, k, l) -> (m, n)>
!m = memref<64x64xf32>
launch.kernel @k target "cuda" (%a: !m, %b: !m, %c: !m, %o: !m, %h: memref<64x64xf64>, %s: memref<3x3xf32>) {
  // expected-error@+1 {{kernel @k: #launch.window_threads<taps> is for depthwise convolutions, which this is none of}}
  kernel.contract indexing_maps = [#a, #b, #o] ins(%a, %b : !m, !m) outs(%o : !m) attributes {schedule = #launch.window_threads<taps>}
  // expected-error@+1 {{kernel @k: #launch.rows<grid, threads 64, width 32> is for other sums: threads add their terms to the result}}
  kernel.contract indexing_maps = [#a, #b, #o] ins(%a, %b : !m, !m) outs(%o : !m) attributes {schedule = #launch.rows<grid, threads 64, width 32>}
  // expected-error@+1 {{kernel @k: #launch.rows<block, threads 64, width 4> is for other sums: a block has a row of points that follow each other}}
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%a, %b : !m, !m) outs(%o : !m) start(%o : !m) attributes {schedule = #launch.rows<block, threads 64, width 4>}
  // expected-error@+1 {{kernel @k: #launch.rows<warp, threads 32, width 1> is for other sums: its folds are not those of warps}}
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%a, %b : !m, !m) outs(%o : !m) start(%o : !m) attributes {schedule = #launch.rows<warp, threads 32, width 1>}
  %p = kernel.padded %a low [1, 1] high [1, 1] : !m to memref<66x66xf32>
  // expected-error@+1 {{kernel @k: #launch.rows<grid, threads 64, width 32> is for other sums: a factor has padding around it}}
  kernel.contract indexing_maps = [#f, #w, #r, #r] ins(%p, %s : memref<66x66xf32>, memref<3x3xf32>) outs(%o : !m) start(%o : !m) attributes {schedule = #launch.rows<grid, threads 64, width 32>}
}

// -----

// A library starts sums at zero, and stores them; it multiplies floats.
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#o = affine_map<(m, n, k) -> (m, n)>
!m = memref<64x64xf32>
launch.kernel @k target "cuda" (%a: !m, %b: !m, %c: !m, %o: !m, %i: memref<64x64xi32>, %j: memref<64x64xi32>, %k: memref<64x64xi32>) {
  // expected-error@+1 {{kernel @k: no library computes kernel.contract: a library starts at zero}}
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%a, %b : !m, !m) outs(%o : !m) start(%c : !m) attributes {schedule = #launch.library<"cublas">}
  // expected-error@+1 {{kernel @k: no library computes kernel.contract: a library stores sums}}
  kernel.contract indexing_maps = [#a, #b, #o] ins(%a, %b : !m, !m) outs(%o : !m) attributes {schedule = #launch.library<"cublas">} {
  ^bb0(%s: f32):
    %n = arith.negf %s : f32
    kernel.yield %n : f32
  }
  // expected-error@+1 {{kernel @k: no library computes kernel.contract: there are no tiles that sum products of i32 in i32}}
  kernel.contract indexing_maps = [#a, #b, #o] ins(%i, %j : memref<64x64xi32>, memref<64x64xi32>) outs(%k : memref<64x64xi32>) attributes {schedule = #launch.library<"cublas">}
}

// -----

// expected-error@+1 {{kernel @k: elements of i3 have no source}}
launch.kernel @k target "cuda" (%a: memref<4xi3>) {
}

// -----

!m = memref<64x64xf32>
launch.kernel @k target "cuda" (%a: !m, %o: !m) {
  // expected-error@+1 {{kernel @k: #launch.queries<warps, queries 64, keys 64> is not for rows of 64 f32 as they lie}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%a, %a, %a : !m, !m, !m) outs(%o : !m) attributes {schedule = #launch.queries<warps, queries 64, keys 64>} {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

!m = memref<64x64xf32>
launch.kernel @k target "cuda" (%a: !m, %o: !m) {
  // expected-error@+1 {{kernel @k: kernel.attention cannot be computed by #launch.attention<rows, tile [4, 1, 16], mix [1, 4], keys 64> here}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%a, %a, %a : !m, !m, !m) outs(%o : !m) attributes {schedule = #launch.attention<rows, tile [4, 1, 16], mix [1, 4], keys 64>} {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cuda" (%x: memref<9x6xf32>, %y: memref<8x5xf32>) {
  // expected-error@+1 {{kernel @k: kernel.pool cannot be computed by #launch.windows<lanes 16, lines 8> here}}
  kernel.pool max window [2, 2] dims [0, 1] ins(%x : memref<9x6xf32>) outs(%y : memref<8x5xf32>) attributes {schedule = #launch.windows<lanes 16, lines 8>}
}

// -----

launch.kernel @k target "cuda" (%a: memref<64x60xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  %p = kernel.padded %a low [0, 4] high [0, 0] : memref<64x60xf32> to memref<64x64xf32>
  // expected-error@+1 {{kernel @k: no tiles compute kernel.contract: a factor has padding around it}}
  linalg.matmul {schedule = #launch.tiles<block [16, 64, 16], thread [2, 4]>} ins(%b, %p : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>)
}

// -----

// Rows whose elements do not lie so cannot be shared, nor moved by vectors.
launch.kernel @columns target "cuda" (%x: memref<64x32xf32>, %o: memref<32xf32>) {
  // expected-error@+1 {{kernel @columns: #launch.rows<warp, threads 32, width 1> is for other rows: its folds are not those of warps}}
  kernel.row along [0] indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>]
      ins(%x : memref<64x32xf32>) outs(%o : memref<32xf32>) attributes {schedule = #launch.rows<warp, threads 32, width 1>} {
  ^bb0(%v: f32):
    %s = kernel.all_reduce add %v : f32
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @apart target "cuda" (%x: memref<64x32xf32>, %o: memref<32xf32>) {
  // expected-error@+1 {{kernel @apart: #launch.rows<block, threads 256, width 1> is for other rows: a block has a row of points that follow each other}}
  kernel.row along [0] indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>]
      ins(%x : memref<64x32xf32>) outs(%o : memref<32xf32>) attributes {schedule = #launch.rows<block, threads 256, width 1>} {
  ^bb0(%v: f32):
    %s = kernel.all_reduce add %v : f32
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @vary target "cuda" (%x: memref<64x32xf32>, %o: memref<32xf32>) {
  // expected-error@+1 {{kernel @vary: #launch.rows<grid, threads 256, width 32, kept> is for other rows: all operands vary from row to row}}
  kernel.row along [0] indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>]
      ins(%x : memref<64x32xf32>) outs(%o : memref<32xf32>) attributes {schedule = #launch.rows<grid, threads 256, width 32, kept>} {
  ^bb0(%v: f32):
    %s = kernel.all_reduce add %v : f32
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @integers target "cuda" (%x: memref<64x32xi32>, %o: memref<32xi32>) {
  // expected-error@+1 {{kernel @integers: #launch.rows<grid, threads 256, width 32> is for other rows: its folds are not those of blocks}}
  kernel.row along [0] indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>]
      ins(%x : memref<64x32xi32>) outs(%o : memref<32xi32>) attributes {schedule = #launch.rows<grid, threads 256, width 32>} {
  ^bb0(%v: i32):
    %s = kernel.all_reduce add %v : i32
    kernel.yield %s : i32
  }
}

// -----

launch.kernel @wide target "cuda" (%x: memref<64x16x32xf32>, %w: memref<64x32xf32>, %o: memref<16x32xf32>) {
  // expected-error@+1 {{kernel @wide: #launch.rows<grid, threads 1024, width 32, kept> is for other rows: the sums of 1024 threads take more than 49152 bytes}}
  kernel.row along [0] indexing_maps = [affine_map<(i, r, j) -> (i, r, j)>, affine_map<(i, r, j) -> (i, j)>, affine_map<(i, r, j) -> (r, j)>]
      ins(%x, %w : memref<64x16x32xf32>, memref<64x32xf32>) outs(%o : memref<16x32xf32>) attributes {schedule = #launch.rows<grid, threads 1024, width 32, kept>} {
  ^bb0(%v: f32, %b: f32):
    %p = arith.mulf %v, %b : f32
    %s = kernel.all_reduce add %p : f32
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @moves target "cuda" (%x: memref<6x33xf32>, %o: memref<6xf32>) {
  // expected-error@+1 {{kernel @moves: #launch.rows<warp, threads 32, width 2> is for other rows: a thread moves 2 terms at once, but 1 lie so}}
  kernel.row along [0] indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (j)>]
      ins(%x : memref<6x33xf32>) outs(%o : memref<6xf32>) attributes {schedule = #launch.rows<warp, threads 32, width 2>} {
  ^bb0(%v: f32):
    %s = kernel.all_reduce add %v : f32
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @region target "cuda" (%x: memref<4x64xf32>, %o: memref<4xf32>) {
  // expected-error@+1 {{kernel @region: #launch.rows<block, threads 64, width 1> is for other rows: a warp joins folds by a region}}
  kernel.row along [1] indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>]
      ins(%x : memref<4x64xf32>) outs(%o : memref<4xf32>) attributes {schedule = #launch.rows<block, threads 64, width 1>} {
  ^bb0(%v: f32):
    %z = arith.constant 0.0 : f32
    %s = kernel.all_reduce by %v init(%z : f32) : f32 {
    ^bb1(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    }
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @odd target "cuda" (%x: memref<64x33xf32>, %o: memref<64xf32>) {
  // expected-error@+1 {{kernel @odd: #launch.rows<warp, threads 32, width 4> moves 4 elements, but 1 lie so}}
  kernel.row along [1] indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>]
      ins(%x : memref<64x33xf32>) outs(%o : memref<64xf32>) attributes {schedule = #launch.rows<warp, threads 32, width 4>} {
  ^bb0(%v: f32):
    %s = kernel.all_reduce add %v : f32
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @beside target "cuda" (%x: memref<64x4xf32>, %o: memref<4xf32>) {
  // expected-error@+1 {{kernel @beside: #launch.rows<grid, threads 64, width 4> is for other rows: a warp joins folds by a region}}
  kernel.row along [0] indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>]
      ins(%x : memref<64x4xf32>) outs(%o : memref<4xf32>) attributes {schedule = #launch.rows<grid, threads 64, width 4>} {
  ^bb0(%v: f32):
    %z = arith.constant 0.0 : f32
    %s = kernel.all_reduce by %v init(%z : f32) : f32 {
    ^bb1(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    }
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @rows_apart target "cuda" (%x: memref<64x32xf32>, %o: memref<64x32xf32>) {
  // expected-error@+1 {{kernel @rows_apart: #launch.rows<block, threads 256, width 1> is for other rows: the elements of a row are not contiguous}}
  kernel.row along [0] indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>]
      ins(%x : memref<64x32xf32>) outs(%o : memref<64x32xf32>) attributes {schedule = #launch.rows<block, threads 256, width 1>} {
  ^bb0(%v: f32):
    %s = kernel.all_reduce add %v : f32
    %q = arith.divf %v, %s : f32
    kernel.yield %q : f32
  }
}

// -----

launch.kernel @many_sums target "cuda" (%x: memref<64x32xf64>, %o: memref<32xf64>) {
  // expected-error@+1 {{kernel @many_sums: #launch.rows<grid, threads 1024, width 32> is for other rows: the sums of 1024 threads take more than 49152 bytes}}
  kernel.row along [0] indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>]
      ins(%x : memref<64x32xf64>) outs(%o : memref<32xf64>) attributes {schedule = #launch.rows<grid, threads 1024, width 32>} {
  ^bb0(%v: f64):
    %p0 = arith.mulf %v, %v : f64
    %s0 = kernel.all_reduce add %p0 : f64
    %p1 = arith.mulf %p0, %v : f64
    %s1 = kernel.all_reduce add %p1 : f64
    %p2 = arith.mulf %p1, %v : f64
    %s2 = kernel.all_reduce add %p2 : f64
    %p3 = arith.mulf %p2, %v : f64
    %s3 = kernel.all_reduce add %p3 : f64
    %p4 = arith.mulf %p3, %v : f64
    %s4 = kernel.all_reduce add %p4 : f64
    %p5 = arith.mulf %p4, %v : f64
    %s5 = kernel.all_reduce add %p5 : f64
    %p6 = arith.mulf %p5, %v : f64
    %s6 = kernel.all_reduce add %p6 : f64
    %t1 = arith.addf %s0, %s1 : f64
    %t2 = arith.addf %t1, %s2 : f64
    %t3 = arith.addf %t2, %s3 : f64
    %t4 = arith.addf %t3, %s4 : f64
    %t5 = arith.addf %t4, %s5 : f64
    %t6 = arith.addf %t5, %s6 : f64
    kernel.yield %t6 : f64
  }
}
