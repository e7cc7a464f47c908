// RUN: penstock-opt %s -p launch-schedule-tiles | filecheck %s --match-full-lines

// Each block of threads computes 128 x 128 elements of a matmul, 8 terms at a time, and
// each of its threads 8 x 8 of them.

!m = memref<2048x2048xf32>

// EXAMPLE-BEFORE
launch.kernel @matmul target "cuda" (%a: !m, %b: !m, %o: !m) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : !m)
  linalg.matmul ins(%a, %b : !m, !m) outs(%o : !m)
}
// EXAMPLE-AFTER
// CHECK:      launch.kernel @matmul target "cuda" (%a: memref<2048x2048xf32>, %b: memref<2048x2048xf32>, %o: memref<2048x2048xf32>) {
// CHECK-NEXT:   %z = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   linalg.fill ins(%z : f32) outs(%o : memref<2048x2048xf32>)
// CHECK-NEXT:   linalg.matmul {schedule = #launch.tiles<block [128, 128, 8], thread [8, 8], folds [1, 0]>} ins(%a, %b : memref<2048x2048xf32>, memref<2048x2048xf32>) outs(%o : memref<2048x2048xf32>)
// CHECK-NEXT: }
// EXAMPLE-END
