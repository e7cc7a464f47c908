// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// A fold `by` is one of a region.
launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %y: memref<4xf32>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<4x8xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32):
    // expected-error@+1 {{kernel.all_reduce: a fold 'by' has a region}}
    %m = kernel.all_reduce by %a : f32
    kernel.yield %m : f32
  }
}

// -----

// Any other is none.
launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %y: memref<4xf32>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<4x8xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32):
    %z = arith.constant 0.0 : f32
    // expected-error@+1 {{kernel.all_reduce: a fold 'add' has no region}}
    %m = kernel.all_reduce add %a init(%z : f32) : f32 {
    ^bb1(%p: f32, %q: f32):
      kernel.yield %p : f32
    }
    kernel.yield %m : f32
  }
}

// -----

// It is of one value, and starts from its neutral number.
launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %y: memref<4xf32>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<4x8xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32):
    %z = arith.constant 0.0 : f32
    // expected-error@+1 {{kernel.all_reduce: a fold 'add' is of one value, without init, got 1 and 1}}
    %m = kernel.all_reduce add %a init(%z : f32) : f32
    kernel.yield %m : f32
  }
}

// -----

// There is an init for each value.
launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %y: memref<4xf32>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<4x8xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32):
    %z = arith.constant 0.0 : f64
    // expected-error@+1 {{kernel.all_reduce: a fold starts from one of each value, f32, got f64}}
    %m = kernel.all_reduce by %a init(%z : f64) : f32 {
    ^bb1(%p: f32, %q: f32):
      kernel.yield %p : f32
    }
    kernel.yield %m : f32
  }
}

// -----

// The region combines two sets.
launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %y: memref<4xf32>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<4x8xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32):
    %z = arith.constant 0.0 : f32
    // expected-error@+1 {{kernel.all_reduce: the arguments of the region are the values so far, then others, f32, f32, got f32}}
    %m = kernel.all_reduce by %a init(%z : f32) : f32 {
    ^bb1(%p: f32):
      kernel.yield %p : f32
    }
    kernel.yield %m : f32
  }
}

// -----

// It gives one.
launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %y: memref<4xf32>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<4x8xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32):
    %z = arith.constant 0.0 : f32
    // expected-error@+1 {{kernel.all_reduce: the region yields f32}}
    %m = kernel.all_reduce by %a init(%z : f32) : f32 {
    ^bb1(%p: f32, %q: f32):
      kernel.yield %p, %q : f32, f32
    }
    kernel.yield %m : f32
  }
}

// -----

// Folds are not of folds' regions.
launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %y: memref<4xf32>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<4x8xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32):
    %z = arith.constant 0.0 : f32
    // expected-error@+1 {{kernel.all_reduce: the region combines scalars, got memref.alloc}}
    %m = kernel.all_reduce by %a init(%z : f32) : f32 {
    ^bb1(%p: f32, %q: f32):
      %r = memref.alloc() : memref<f32>
      kernel.yield %p : f32
    }
    kernel.yield %m : f32
  }
}

// -----

// The region uses its own values alone, so that threads can share points.
launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %y: memref<4xf32>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<4x8xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32):
    %z = arith.constant 0.0 : f32
    // expected-error@+1 {{kernel.all_reduce: the region uses its own values alone, got one of arith.addf}}
    %m = kernel.all_reduce by %a init(%z : f32) : f32 {
    ^bb1(%p: f32, %q: f32):
      %r = arith.addf %p, %a : f32
      kernel.yield %r : f32
    }
    kernel.yield %m : f32
  }
}

// -----

// All points of a row start from the same number.
launch.kernel @k target "cpu" (%x: memref<4x8xf32>, %y: memref<4xf32>) {
  // expected-error@+1 {{kernel.row: a fold starts from numbers that all points of a row share}}
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<4x8xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32):
    %m = kernel.all_reduce by %a init(%a : f32) : f32 {
    ^bb1(%p: f32, %q: f32):
      kernel.yield %p : f32
    }
    kernel.yield %m : f32
  }
}
