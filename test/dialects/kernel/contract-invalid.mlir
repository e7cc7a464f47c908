// RUN: penstock-opt %s --verify-diagnostics --split-input-file

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: sums have a result}}
  "kernel.contract"(%x, %w) <{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (memref<4x8xf32>, memref<8x6xf32>) -> ()
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: loop 2 should be one of two of a, b and the result at least}}
  kernel.contract indexing_maps = [affine_map<(m, n, k, l) -> (m, k)>, affine_map<(m, n, k, l) -> (l, n)>, affine_map<(m, n, k, l) -> (m, n)>] ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: a loop of terms, of a and b only, is missing}}
  kernel.contract indexing_maps = [affine_map<(m, n) -> (m, 0)>, affine_map<(m, n) -> (0, n)>, affine_map<(m, n) -> (m, n)>] ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: operand 3 should not change from term to term, got (d0, d1, d2) -> (d2)}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (k)>] ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>) start(%c : memref<8xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: results are indexed by the same loops, got (d0, d1, d2) -> (d0, 0) for one of them}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (m, 0)>] ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%y, %i : memref<4x6xf32>, memref<4x6xi32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %y: memref<9x6xf32>) {
  // expected-error@+1 {{kernel.contract: each element of a result is a sum, got some of memref<9x6xf32> by (d0, d1, d2) -> ((d0 * 2), d1)}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m * 2, n)>] ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<9x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: factors are of one type, got f32 and f16}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %h : memref<4x8xf32>, memref<8x6xf16>) outs(%y : memref<4x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: products of f32 cannot be summed in i32}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%i : memref<4x6xi32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: only integers may have no sign, got f32}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] unsigned_a ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: sums in f32 cannot start from f64}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>) start(%s : memref<4x6xf64>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: operands of finish are read by a region}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>) finish(%s : memref<4x6xf64>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: without a region there is one result, of f64, got f32}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] accumulate f64 ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: the region takes f32, f64, got f32}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>) finish(%s : memref<4x6xf64>) {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: the region ends in kernel.yield}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>) {
  ^bb0(%sum: f32):
    linalg.yield %sum : f32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %w: memref<8x6xf32>, %h: memref<8x6xf16>, %s: memref<4x6xf64>, %c: memref<8xf32>, %y: memref<4x6xf32>, %z: memref<6x4xf32>, %i: memref<4x6xi32>) {
  // expected-error@+1 {{kernel.contract: the region yields f32, got f32, f32}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>) {
  ^bb0(%sum: f32):
    kernel.yield %sum, %sum : f32, f32
  }
}

// -----

launch.kernel @k target "cpu" (%y: memref<4x4xf32>, %x: memref<4x4xf32>) {
  // expected-error@+1 {{kernel.contract: operand 0 must not lie where result 0 does, which is written before all of it is read}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%y, %x : memref<4x4xf32>, memref<4x4xf32>) outs(%y : memref<4x4xf32>)
}

// -----

launch.kernel @k target "cpu" (%y: memref<4x4xf32>, %x: memref<4x4xf32>, %w: memref<4x4xf32>, %s: memref<2x4xf32>) {
  %p = kernel.padded %s low [1, 0] high [1, 0] : memref<2x4xf32> to memref<4x4xf32>
  // expected-error@+1 {{kernel.contract: only a and b may be padded}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %w : memref<4x4xf32>, memref<4x4xf32>) outs(%y : memref<4x4xf32>) start(%p : memref<4x4xf32>)
}

// -----

// What lies where the result does has to be read at the same place.
launch.kernel @k target "cpu" (%y: memref<4x4xf32>, %x: memref<4x4xf32>, %w: memref<4x4xf32>) {
  // expected-error@+1 {{kernel.contract: operand 3 must not lie where result 0 does, which is written before all of it is read}}
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (n, m)>] ins(%x, %w : memref<4x4xf32>, memref<4x4xf32>) outs(%y : memref<4x4xf32>) start(%y : memref<4x4xf32>)
}
