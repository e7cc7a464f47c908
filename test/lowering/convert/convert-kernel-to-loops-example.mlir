// RUN: penstock-opt %s -p 'convert-kernel-to-loops' | filecheck %s

// A row of the result is a loop over keys, which carries the largest score and the sum of
// powers so far.

// EXAMPLE-BEFORE
launch.kernel @attention_0 target "cpu" (%q: memref<2x2xf32>, %k: memref<3x2xf32>, %v: memref<3x4xf32>, %o: memref<2x4xf32>) {
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>] ins(%q, %k, %v : memref<2x2xf32>, memref<3x2xf32>, memref<3x4xf32>) outs(%o : memref<2x4xf32>) attributes {no_schedule = "there are too few terms"} {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}
// EXAMPLE-AFTER
// CHECK: launch.kernel @attention_0 target "cpu" ({{.*}}) attributes {plain_loops = ["kernel.attention: there are too few terms"]} {
// CHECK:   "scf.parallel"
// CHECK:     scf.for
// CHECK:       memref.store
// CHECK:     scf.for {{.*}} iter_args
// CHECK:       scf.for {{.*}} iter_args
// CHECK:         arith.mulf
// CHECK:         arith.addf
// CHECK:       arith.maxnumf
// CHECK:       math.exp
// CHECK:       scf.for
// CHECK:     arith.divf
// CHECK:     scf.reduce
// CHECK-NOT: kernel.attention
// EXAMPLE-END
