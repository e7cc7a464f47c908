// RUN: penstock-opt %s -p 'launch-schedule-contractions{vector-bytes=64}' | filecheck %s --match-full-lines

// A matmul is computed in tiles of 4 rows and 4 vectors of 16 columns that stay in
// registers, from packed blocks of 512 x 128.

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#o = affine_map<(m, n, k) -> (m, n)>
!m = memref<512x512xf32>

// EXAMPLE-BEFORE
launch.kernel @matmul target "cpu" (%a: !m, %b: !m, %o: !m) {
  kernel.contract indexing_maps = [#a, #b, #o] ins(%a, %b : !m, !m) outs(%o : !m) {
  ^bb0(%s: f32):
    %n = arith.negf %s : f32
    kernel.yield %n : f32
  }
}
// EXAMPLE-AFTER
// CHECK:      launch.kernel @matmul target "cpu" (%a: memref<512x512xf32>, %b: memref<512x512xf32>, %o: memref<512x512xf32>) {
// CHECK-NEXT:   kernel.contract indexing_maps = [{{.*}}] ins(%a, %b : memref<512x512xf32>, memref<512x512xf32>) outs(%o : memref<512x512xf32>) attributes {schedule = #launch.contraction<outer, tile [4, 4, 16], block [512, 128], packed, reuse 8>} {
// CHECK-NEXT:   ^bb0(%s: f32):
// CHECK-NEXT:     %n = arith.negf %s : f32
// CHECK-NEXT:     kernel.yield %n : f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
// EXAMPLE-END
