// RUN: penstock-opt %s --split-input-file --verify-diagnostics

launch.kernel @k target "cpu" (%q: memref<2x8x4xf32>, %k: memref<2x6x4xf32>, %v: memref<2x6x5xf32>, %g: memref<2x8x5xf32>, %l: memref<2x8xf32>, %d: memref<2x6xf32>, %m: memref<6xf32>, %x: memref<2x8x4xf32>, %y: memref<2x6x4xf32>, %z: memref<2x6x5xf32>) {
  // expected-error@+1 {{kernel.attention_gradient: numbers of rows are indexed by rows and the stack, got (d0, d1, d2, d3, d4) -> (d0, d2)}}
  kernel.attention_gradient indexing_maps = [affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>, affine_map<(s, r, k, t, c) -> (s, r, c)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, k)>, affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>] ins(%q, %k, %v, %g : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>, memref<2x8x5xf32>) rows(%l, %d : memref<2x8xf32>, memref<2x6xf32>) outs(%x, %y, %z : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s, %s : f32, f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<2x8x4xf32>, %k: memref<2x6x4xf32>, %v: memref<2x6x5xf32>, %g: memref<2x8x5xf32>, %l: memref<2x8xf32>, %d: memref<2x8xf32>, %m: memref<6xf32>, %x: memref<2x8x4xf32>, %y: memref<2x6x5xf32>, %z: memref<2x6x5xf32>) {
  // expected-error@+1 {{kernel.attention_gradient: a gradient is indexed by keys, terms and the stack, got (d0, d1, d2, d3, d4) -> (d0, d2, d4)}}
  kernel.attention_gradient indexing_maps = [affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>, affine_map<(s, r, k, t, c) -> (s, r, c)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>, affine_map<(s, r, k, t, c) -> (s, k, c)>] ins(%q, %k, %v, %g : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>, memref<2x8x5xf32>) rows(%l, %d : memref<2x8xf32>, memref<2x8xf32>) outs(%x, %y, %z : memref<2x8x4xf32>, memref<2x6x5xf32>, memref<2x6x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s, %s : f32, f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<2x8x4x2xf32>, %k: memref<2x6x4x2xf32>, %v: memref<2x6x5xf32>, %g: memref<2x8x5xf32>, %l: memref<2x8xf32>, %d: memref<2x8xf32>, %m: memref<6xf32>, %x: memref<2x8x4x2xf32>, %y: memref<2x6x4x2xf32>, %z: memref<2x6x5xf32>) {
  // expected-error@+1 {{kernel.attention_gradient: attention has one loop of terms, got 2}}
  kernel.attention_gradient indexing_maps = [affine_map<(s, r, k, t, c, u) -> (s, r, t, u)>, affine_map<(s, r, k, t, c, u) -> (s, k, t, u)>, affine_map<(s, r, k, t, c, u) -> (s, k, c)>, affine_map<(s, r, k, t, c, u) -> (s, r, c)>, affine_map<(s, r, k, t, c, u) -> (s, r)>, affine_map<(s, r, k, t, c, u) -> (s, r)>, affine_map<(s, r, k, t, c, u) -> (s, r, t, u)>, affine_map<(s, r, k, t, c, u) -> (s, k, t, u)>, affine_map<(s, r, k, t, c, u) -> (s, k, c)>] ins(%q, %k, %v, %g : memref<2x8x4x2xf32>, memref<2x6x4x2xf32>, memref<2x6x5xf32>, memref<2x8x5xf32>) rows(%l, %d : memref<2x8xf32>, memref<2x8xf32>) outs(%x, %y, %z : memref<2x8x4x2xf32>, memref<2x6x4x2xf32>, memref<2x6x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s, %s : f32, f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<2x8x4xf32>, %k: memref<2x6x4xf32>, %v: memref<2x6x5xf32>, %g: memref<2x8x5xf32>, %l: memref<2x8xf32>, %d: memref<2x8xf32>, %m: memref<4xf32>, %x: memref<2x8x4xf32>, %y: memref<2x6x4xf32>, %z: memref<2x6x5xf32>) {
  // expected-error@+1 {{kernel.attention_gradient: an operand of scores is indexed by rows, keys and the stack, got (d0, d1, d2, d3, d4) -> (d3) of memref<4xf32>}}
  kernel.attention_gradient indexing_maps = [affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>, affine_map<(s, r, k, t, c) -> (s, r, c)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (t)>, affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>] ins(%q, %k, %v, %g : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>, memref<2x8x5xf32>) rows(%l, %d : memref<2x8xf32>, memref<2x8xf32>) score(%m : memref<4xf32>) outs(%x, %y, %z : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>) {
  ^bb0(%s: f32, %a: f32):
    kernel.yield %s, %s : f32, f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<2x8x4xf32>, %k: memref<2x6x4xf32>, %v: memref<2x6x5xf32>, %g: memref<2x8x5xf32>, %l: memref<2x8xf32>, %d: memref<2x8xf32>, %m: memref<6xf32>, %x: memref<2x8x4xf32>, %y: memref<2x6x4xf32>, %z: memref<2x6x5xf32>) {
  // expected-error@+1 {{kernel.attention_gradient: each row sees all of 6 keys with causal 6}}
  kernel.attention_gradient causal 6 indexing_maps = [affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>, affine_map<(s, r, k, t, c) -> (s, r, c)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>] ins(%q, %k, %v, %g : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>, memref<2x8x5xf32>) rows(%l, %d : memref<2x8xf32>, memref<2x8xf32>) outs(%x, %y, %z : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s, %s : f32, f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<2x8x4xf32>, %k: memref<2x6x4xf32>, %v: memref<2x6x5xf64>, %g: memref<2x8x5xf32>, %l: memref<2x8xf32>, %d: memref<2x8xf32>, %m: memref<6xf32>, %x: memref<2x8x4xf32>, %y: memref<2x6x4xf32>, %z: memref<2x6x5xf32>) {
  // expected-error@+1 {{kernel.attention_gradient: attention is of floats of one type, got f32, f32, f64, f32}}
  kernel.attention_gradient indexing_maps = [affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>, affine_map<(s, r, k, t, c) -> (s, r, c)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>] ins(%q, %k, %v, %g : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf64>, memref<2x8x5xf32>) rows(%l, %d : memref<2x8xf32>, memref<2x8xf32>) outs(%x, %y, %z : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s, %s : f32, f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<2x8x4xf32>, %k: memref<2x6x4xf32>, %v: memref<2x6x5xf32>, %g: memref<2x8x5xf32>, %l: memref<2x8xf32>, %d: memref<2x8xf32>, %m: memref<6xf32>, %x: memref<2x8x4xf64>, %y: memref<2x6x4xf32>, %z: memref<2x6x5xf32>) {
  // expected-error@+1 {{kernel.attention_gradient: numbers of rows and gradients are f32, as scores, got memref<2x8x4xf64>}}
  kernel.attention_gradient indexing_maps = [affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>, affine_map<(s, r, k, t, c) -> (s, r, c)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>] ins(%q, %k, %v, %g : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>, memref<2x8x5xf32>) rows(%l, %d : memref<2x8xf32>, memref<2x8xf32>) outs(%x, %y, %z : memref<2x8x4xf64>, memref<2x6x4xf32>, memref<2x6x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s, %s : f32, f32
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<2x8x4xf32>, %k: memref<2x6x4xf32>, %v: memref<2x6x5xf32>, %g: memref<2x8x5xf32>, %l: memref<2x8xf32>, %d: memref<2x8xf32>, %m: memref<6xf32>, %x: memref<2x8x4xf32>, %y: memref<2x6x4xf32>, %z: memref<2x6x5xf32>) {
  // expected-error@+1 {{kernel.attention_gradient: the region takes ['f32'], got ['f64']}}
  kernel.attention_gradient indexing_maps = [affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>, affine_map<(s, r, k, t, c) -> (s, r, c)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>] ins(%q, %k, %v, %g : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>, memref<2x8x5xf32>) rows(%l, %d : memref<2x8xf32>, memref<2x8xf32>) outs(%x, %y, %z : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>) {
  ^bb0(%s: f64):
    kernel.yield %s, %s : f64, f64
  }
}

// -----

launch.kernel @k target "cpu" (%q: memref<2x8x4xf32>, %k: memref<2x6x4xf32>, %v: memref<2x6x5xf32>, %g: memref<2x8x5xf32>, %l: memref<2x8xf32>, %d: memref<2x8xf32>, %m: memref<6xf32>, %x: memref<2x8x4xf32>, %y: memref<2x6x4xf32>, %z: memref<2x6x5xf32>) {
  // expected-error@+1 {{kernel.attention_gradient: the region should yield a score of f32 and its derivative}}
  kernel.attention_gradient indexing_maps = [affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>, affine_map<(s, r, k, t, c) -> (s, r, c)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r)>, affine_map<(s, r, k, t, c) -> (s, r, t)>, affine_map<(s, r, k, t, c) -> (s, k, t)>, affine_map<(s, r, k, t, c) -> (s, k, c)>] ins(%q, %k, %v, %g : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>, memref<2x8x5xf32>) rows(%l, %d : memref<2x8xf32>, memref<2x8xf32>) outs(%x, %y, %z : memref<2x8x4xf32>, memref<2x6x4xf32>, memref<2x6x5xf32>) {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}
