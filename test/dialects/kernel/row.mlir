// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// A softmax of rows, whose powers are kept from one pass to the next.
// CHECK-LABEL: @softmax
launch.kernel @softmax target "cpu" (%x: memref<512x128xf32>, %y: memref<512x128xf32>) {
  // CHECK: kernel.row along [1] indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x : memref<512x128xf32>) outs(%y : memref<512x128xf32>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>]
      ins(%x : memref<512x128xf32>) outs(%y : memref<512x128xf32>) {
  // CHECK-NEXT: ^{{.+}}(%[[A:.+]]: f32):
  ^bb0(%a: f32):
    %one = arith.constant 1.0 : f32
    // CHECK: %{{.+}} = kernel.all_reduce maxnumf %[[A]] : f32
    %m = kernel.all_reduce maxnumf %a : f32
    %d = arith.subf %a, %m : f32
    %e = math.exp %d : f32
    // CHECK: %{{.+}} = kernel.keep %{{.+}} : f32
    %p = kernel.keep %e : f32
    %s = kernel.all_reduce add %p : f32
    %q = arith.divf %one, %s : f32
    %r = arith.mulf %p, %q : f32
    kernel.yield %r : f32
  }
}

// Sums of rows of two loops, and how far each element is from their mean: two results.
// CHECK-LABEL: @two
launch.kernel @two target "cpu" (%x: memref<4x2x8xf64>, %s: memref<4xf64>, %y: memref<4x2x8xf64>) {
  // CHECK: kernel.row along [1, 2]
  kernel.row along [1, 2]
      indexing_maps = [affine_map<(r, a, b) -> (r, a, b)>, affine_map<(r, a, b) -> (r)>, affine_map<(r, a, b) -> (r, a, b)>]
      ins(%x : memref<4x2x8xf64>) outs(%s, %y : memref<4xf64>, memref<4x2x8xf64>) {
  ^bb0(%a: f64):
    %n = arith.constant 16.0 : f64
    %t = kernel.all_reduce add %a : f64
    %m = arith.divf %t, %n : f64
    %d = arith.subf %a, %m : f64
    kernel.yield %t, %d : f64, f64
  }
}

// Numbers of places count as elements do, and there may be no operand.
// CHECK-LABEL: @places
launch.kernel @places target "cpu" (%y: memref<4x8xi64>) {
  // CHECK: kernel.row along [1] indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>] outs(%y : memref<4x8xi64>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>] outs(%y : memref<4x8xi64>) {
    %i = kernel.index 1 : index
    %n = arith.index_cast %i : index to i64
    kernel.yield %n : i64
  }
}
