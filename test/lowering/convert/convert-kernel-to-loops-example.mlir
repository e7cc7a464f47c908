// RUN: penstock-opt %s -p 'convert-kernel-to-loops' | filecheck %s --match-full-lines

// The sum of a row is a loop over its points.

// EXAMPLE-BEFORE
launch.kernel @sums target "cpu" (%x: memref<4x8xf32>, %y: memref<4xf32>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>] ins(%x : memref<4x8xf32>) outs(%y : memref<4xf32>) attributes {no_schedule = "rows are short"} {
  ^bb0(%a: f32):
    %s = kernel.all_reduce add %a : f32
    kernel.yield %s : f32
  }
}
// EXAMPLE-AFTER
// CHECK:      launch.kernel @sums target "cpu" (%x: memref<4x8xf32>, %y: memref<4xf32>) attributes {plain_loops = ["kernel.row: rows are short"]} {
// CHECK:        "scf.parallel"({{.*}}) <{{.*}}> ({
// CHECK:            %{{.*}} = scf.for {{.*}} {
// CHECK:              %{{.*}} = arith.addf {{.*}} : f32
// CHECK:            memref.store %{{.*}}, %y[%{{.*}}] : memref<4xf32>
// EXAMPLE-END
