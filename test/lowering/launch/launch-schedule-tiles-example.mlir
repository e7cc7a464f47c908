// RUN: penstock-opt %s -p launch-schedule-tiles | filecheck %s --match-full-lines

// Each block of threads computes 128 x 128 elements of a matmul, 8 terms at a time, and
// each of its threads 8 x 8 of them.

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#o = affine_map<(m, n, k) -> (m, n)>
!m = memref<2048x2048xf32>

// EXAMPLE-BEFORE
launch.kernel @matmul target "cuda" (%a: !m, %b: !m, %o: !m) {
  kernel.contract indexing_maps = [#a, #b, #o] ins(%a, %b : !m, !m) outs(%o : !m) {
  ^bb0(%s: f32):
    %n = arith.negf %s : f32
    kernel.yield %n : f32
  }
}
// EXAMPLE-AFTER
// CHECK:      launch.kernel @matmul target "cuda" (%a: memref<2048x2048xf32>, %b: memref<2048x2048xf32>, %o: memref<2048x2048xf32>) {
// CHECK-NEXT:   kernel.contract indexing_maps = [{{.*}}] ins(%a, %b : memref<2048x2048xf32>, memref<2048x2048xf32>) outs(%o : memref<2048x2048xf32>) attributes {schedule = #launch.tiles<block [128, 128, 8], thread [8, 8]>} {
// CHECK-NEXT:   ^bb0(%s: f32):
// CHECK-NEXT:     %n = arith.negf %s : f32
// CHECK-NEXT:     kernel.yield %n : f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
// EXAMPLE-END
