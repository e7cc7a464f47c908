// RUN: penstock-opt %s --split-input-file --verify-diagnostics

%a = "test.op"() : () -> f32
// expected-error@+1 {{kernel.all_reduce: expected directly in a region of kernel.row}}
%m = kernel.all_reduce maxnumf %a : f32

// -----

%a = "test.op"() : () -> f32
// expected-error@+1 {{kernel.keep: expected directly in a region of kernel.row}}
%m = kernel.keep %a : f32

// -----

// expected-error@+1 {{kernel.index: expected directly in a region of a structured op}}
%i = kernel.index 0 : index

// -----

launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %o: memref<8x4xf32>) {
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %q, %q : memref<8x4xf32>, memref<8x4xf32>, memref<8x4xf32>) outs(%o : memref<8x4xf32>) {
  ^bb0(%s: f32):
    // expected-error@+1 {{kernel.index: kernel.attention has 4 loops, got number 4}}
    %i = kernel.index 4 : index
    kernel.yield %s : f32
  }
}

// -----

// A score is that of all columns.
launch.kernel @k target "cpu" (%q: memref<8x4xf32>, %o: memref<8x4xf32>) {
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %q, %q : memref<8x4xf32>, memref<8x4xf32>, memref<8x4xf32>) outs(%o : memref<8x4xf32>) {
  ^bb0(%s: f32):
    // expected-error@+1 {{kernel.index: the region of kernel.attention is not computed for each turn of loop 3}}
    %i = kernel.index 3 : index
    kernel.yield %s : f32
  }
}

// -----

// A sum is that of all terms.
launch.kernel @k target "cpu" (%x: memref<4x4xf32>, %y: memref<4x4xf32>) {
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %x : memref<4x4xf32>, memref<4x4xf32>) outs(%y : memref<4x4xf32>) {
  ^bb0(%s: f32):
    // expected-error@+1 {{kernel.index: the region of kernel.contract is not computed for each turn of loop 2}}
    %i = kernel.index 2 : index
    kernel.yield %s : f32
  }
}
