// RUN: penstock-opt %s --split-input-file --verify-diagnostics

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: there are 4 operands to index, got 3 maps}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: all maps are functions of the same loops, got (d0, d1, d2, d3) -> (d0, d2) and (d0, d1) -> (d0, d1)}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(a, b) -> (a, b)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: map 1 should have 2 results, one a dimension of memref<6x4xf32>, got (d0, d1, d2, d3) -> (d1)}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: maps are sums of multiples of loops and numbers, got (d0, d1, d2, d3) -> (d1, (d2 floordiv 2))}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t floordiv 2)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: no operand says how often loop 4 runs: none is indexed by it alone}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c, z) -> (r, t)>, affine_map<(r, k, t, c, z) -> (k, t)>, affine_map<(r, k, t, c, z) -> (k, c)>, affine_map<(r, k, t, c, z) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: memref<6x5xf32> is indexed from [0, 1] to [5, 5] by (d0, d1, d2, d3) -> (d1, (d3 + 1))}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c + 1)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>, %p: memref<8x8xf32>) {
  // expected-error@+1 {{kernel.attention: each dimension of a result is indexed by a loop of its own, or by a number, got (d0, d1, d2, d3) -> (d0, d0)}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, r)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%p : memref<8x8xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: each dimension of a result is indexed by a loop of its own, or by a number, got (d0, d1, d2, d3) -> (d0, ((d3 * -1) + 4))}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c * -1 + 4)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: operand 2 must not lie where result 0 does, which is written before all of it is read}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%k, %k, %v : memref<6x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%v : memref<6x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: attention has one loop of terms, got 0}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, 0)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4x2xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: loop 4 is none of rows, keys, terms, columns or a stack}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c, z) -> (r, t, z)>, affine_map<(r, k, t, c, z) -> (k, t)>, affine_map<(r, k, t, c, z) -> (k, c)>, affine_map<(r, k, t, c, z) -> (r, c)>] ins(%q, %k, %v : memref<8x4x2xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: an operand of scores is indexed by rows, keys and the stack, got (d0, d1, d2, d3) -> (d0, d2) of memref<8x4xf32>}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) score(%q : memref<8x4xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32, %a: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: each row sees all of 6 keys with causal 6}}
  kernel.attention causal 6 indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf64>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: attention is of floats of one type, got f32, f32, f64, f32}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf64>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: a sum of f32 is no f64}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f64):
    kernel.yield %s : f64
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: the region takes the sum and ['f32'], got ['f32']}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, k)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) score(%m : memref<8x6xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: the region should yield one score of f32}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s, %s : f32, f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: #launch.tiles<block [32, 64, 16], thread [4, 4]> is no schedule of kernel.attention}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) attributes {schedule = #launch.tiles<block [32, 64, 16], thread [4, 4]>} {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %m: memref<8x6xf32>, %o: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.attention: unknown attribute 'shape' (what is not ours has a dialect's prefix, such as 'acme.shape')}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) attributes {shape = 1} {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %w: memref<8x4xf32>) {
  %p = kernel.padded %w low [0, 0] high [0, 1] : memref<8x4xf32> to memref<8x5xf32>
  // expected-error@+1 {{kernel.attention: a result must not be padded}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%p : memref<8x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %o: memref<8x5xf32>, %l: memref<5xf32>) {
  // expected-error@+1 {{kernel.attention: the sums of rows are indexed by rows and the stack, got (d0, d1, d2, d3) -> (d3)}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>, affine_map<(r, k, t, c) -> (c)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) lse(%l : memref<5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %k: memref<6x4xf32>, %v: memref<6x5xf32>, %o: memref<8x5xf32>, %l: memref<8xf64>) {
  // expected-error@+1 {{kernel.attention: the sums of rows are f32, as scores, got memref<8xf64>}}
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>, affine_map<(r, k, t, c) -> (r)>] ins(%q, %k, %v : memref<8x4xf32>, memref<6x4xf32>, memref<6x5xf32>) outs(%o : memref<8x5xf32>) lse(%l : memref<8xf64>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}
