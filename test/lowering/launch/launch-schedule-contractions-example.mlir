// RUN: penstock-opt %s -p 'launch-schedule-contractions{vector-bytes=64}' | filecheck %s --match-full-lines

// A matmul is computed in tiles of 6 rows and 4 vectors of 16 columns that stay in
// registers, from packed blocks of 174 x 128; the zeros that it begins with are folded
// into it.

!m = memref<512x512xf32>

// EXAMPLE-BEFORE
launch.kernel @matmul target "cpu" (%a: !m, %b: !m, %o: !m) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : !m)
  linalg.matmul ins(%a, %b : !m, !m) outs(%o : !m)
}
// EXAMPLE-AFTER
// CHECK:      launch.kernel @matmul target "cpu" (%a: memref<512x512xf32>, %b: memref<512x512xf32>, %o: memref<512x512xf32>) {
// CHECK-NEXT:   %z = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   linalg.fill ins(%z : f32) outs(%o : memref<512x512xf32>)
// CHECK-NEXT:   linalg.matmul {schedule = #launch.contraction<outer, tile [6, 4, 16], block [174, 128], packed, folds [1, 0], reuse 8>} ins(%a, %b : memref<512x512xf32>, memref<512x512xf32>) outs(%o : memref<512x512xf32>)
// CHECK-NEXT: }
// EXAMPLE-END
