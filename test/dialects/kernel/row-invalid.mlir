// RUN: penstock-opt %s --verify-diagnostics --split-input-file

launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<3xf32>) {
  // expected-error@+1 {{kernel.row: the loops of a row are one or several, in order, got []}}
  kernel.row along [] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<3x4xf32>) outs(%y : memref<3xf32>) {
  ^bb0(%a: f32):
    %s = kernel.all_reduce add %a : f32
    kernel.yield %s : f32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.row: the loops of a row are one or several, in order, got [1, 0]}}
  kernel.row along [1, 0] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>] ins(%x : memref<3x4xf32>) outs(%y : memref<3x4xf32>) {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.row: there are 2 loops, got rows along [2]}}
  kernel.row along [2] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>] ins(%x : memref<3x4xf32>) outs(%y : memref<3x4xf32>) {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.row: the arguments of the body are elements of the operands, f32, got f64}}
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>] ins(%x : memref<3x4xf32>) outs(%y : memref<3x4xf32>) {
  ^bb0(%a: f64):
    %b = arith.truncf %a : f64 to f32
    kernel.yield %b : f32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.row: the body yields an element of each result, f32, got nothing}}
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>] ins(%x : memref<3x4xf32>) outs(%y : memref<3x4xf32>) {
  ^bb0(%a: f32):
    kernel.yield
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.row: the body ends in kernel.yield}}
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>] ins(%x : memref<3x4xf32>) outs(%y : memref<3x4xf32>) {
  ^bb0(%a: f32):
    linalg.yield %a : f32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.row: the body computes scalars, got memref.alloc}}
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>] ins(%x : memref<3x4xf32>) outs(%y : memref<3x4xf32>) {
  ^bb0(%a: f32):
    %b = memref.alloc() : memref<4xf32>
    kernel.yield %a : f32
  }
}

// -----

// A result that one row would write after another.
launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<4xf32>) {
  // expected-error@+1 {{kernel.row: each row has elements of its own in a result, got (d0, d1) -> (d1)}}
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (e)>] ins(%x : memref<3x4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4x5xf32>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.row: a result has an element for each point of a row, or one for the row, got (d0, d1, d2) -> (d0, d1)}}
  kernel.row along [1, 2] indexing_maps = [affine_map<(r, e, f) -> (r, e, f)>, affine_map<(r, e, f) -> (r, e)>] ins(%x : memref<3x4x5xf32>) outs(%y : memref<3x4xf32>) {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<3xf32>) {
  // expected-error@+1 {{kernel.row: result 0 has one element a row, but its value is another one at each point}}
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<3x4xf32>) outs(%y : memref<3xf32>) {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  }
}

// -----

// Sums have no row in which powers could lie until they are read again.
launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<3xf32>) {
  // expected-error@+1 {{kernel.row: no result has a row in which a value of f32 can be kept}}
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<3x4xf32>) outs(%y : memref<3xf32>) {
  ^bb0(%a: f32):
    %e = math.exp %a : f32
    %p = kernel.keep %e : f32
    %s = kernel.all_reduce add %p : f32
    %d = arith.subf %p, %s : f32
    %t = kernel.all_reduce maxnumf %d : f32
    kernel.yield %t : f32
  }
}

// -----

// The second pass reads what the first one has kept powers over.
launch.kernel @k target "cpu" (%y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.row: operand 0 must not lie where result 0 does, which is written before all of it is read}}
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>] ins(%y : memref<3x4xf32>) outs(%y : memref<3x4xf32>) {
  ^bb0(%a: f32):
    %e = math.exp %a : f32
    %p = kernel.keep %e : f32
    %s = kernel.all_reduce add %p : f32
    %q = arith.mulf %p, %s : f32
    %r = arith.addf %q, %a : f32
    kernel.yield %r : f32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<3x4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<3x4xf32>) outs(%y : memref<3x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    // expected-error@+1 {{kernel.keep: expected directly in a region of kernel.row}}
    %c = kernel.keep %a : f32
    linalg.yield %c : f32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<3x4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<3x4xf32>) outs(%y : memref<3x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    // expected-error@+1 {{kernel.all_reduce: expected directly in a region of kernel.row}}
    %c = kernel.all_reduce add %a : f32
    linalg.yield %c : f32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xi32>, %y: memref<3xi32>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<3x4xi32>) outs(%y : memref<3xi32>) {
  ^bb0(%a: i32):
    // expected-error@+1 {{kernel.all_reduce: there is no fold 'maxnumf' of i32}}
    %s = kernel.all_reduce maxnumf %a : i32
    kernel.yield %s : i32
  }
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.row: each result is a memref of its own}}
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>] ins(%x : memref<3x4xf32>) outs(%y, %y : memref<3x4xf32>, memref<3x4xf32>) {
  ^bb0(%a: f32):
    kernel.yield %a, %a : f32, f32
  }
}

// -----

func.func @f(%x: memref<3x4xf32, strided<[8, 1]>>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.row: a stage of a kernel works on dense memrefs of static shape, got memref<3x4xf32, strided<[8, 1]>>}}
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>] ins(%x : memref<3x4xf32, strided<[8, 1]>>) outs(%y : memref<3x4xf32>) {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  }
  func.return
}
