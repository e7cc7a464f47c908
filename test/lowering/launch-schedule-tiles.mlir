// RUN: penstock-opt %s -p launch-schedule-tiles | filecheck %s
// RUN: penstock-opt %s -p launch-schedule-tiles,launch-schedule-tiles | filecheck %s
// RUN: penstock-opt %s -p 'launch-schedule-tiles{processors=2}' | filecheck %s --check-prefix FEW
// RUN: not penstock-opt %s -p 'launch-schedule-tiles{processors=0}' 2>&1 | filecheck %s --check-prefix NONE

// NONE: error: launch-schedule-tiles: processors must be at least 1, got 0

// Where there are as many tiles as processors, they are the largest ones; the phase that
// begins the sums is folded.
// CHECK-LABEL: launch.kernel @large
// CHECK:         linalg.matmul {schedule = #launch.tiles<block [128, 128, 8], thread [8, 8], folds [1, 0]>}
launch.kernel @large target "cuda" (%a: memref<4096x64xf32>, %b: memref<64x4096xf32>, %o: memref<4096x4096xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<4096x4096xf32>)
  linalg.matmul ins(%a, %b : memref<4096x64xf32>, memref<64x4096xf32>) outs(%o : memref<4096x4096xf32>)
}

// Few elements are divided into smaller tiles, so that more processors have some; two
// processors are busy with large ones. What has a schedule keeps it.
// CHECK-LABEL: launch.kernel @small
// CHECK:         linalg.matmul {schedule = #launch.tiles<block [16, 64, 16], thread [2, 4]>}
// CHECK:         linalg.matmul {schedule = #launch.tiles<block [64, 64, 8], thread [8, 8]>}
// FEW-LABEL:   launch.kernel @small
// FEW:           linalg.matmul {schedule = #launch.tiles<block [128, 128, 8], thread [8, 8]>}
launch.kernel @small target "cuda" (%a: memref<256x64xf32>, %b: memref<64x256xf32>, %o: memref<256x256xf32>) {
  linalg.matmul ins(%a, %b : memref<256x64xf32>, memref<64x256xf32>) outs(%o : memref<256x256xf32>)
  linalg.matmul {schedule = #launch.tiles<block [64, 64, 8], thread [8, 8]>}
    ins(%a, %b : memref<256x64xf32>, memref<64x256xf32>) outs(%o : memref<256x256xf32>)
}

// Products of few rows or terms, of other types, and for the processor have no tiles.
// CHECK-LABEL: launch.kernel @row
// CHECK-NOT:   schedule
launch.kernel @row target "cuda" (%a: memref<3x64xf32>, %b: memref<64x256xf32>, %o: memref<3x256xf32>) {
  linalg.matmul ins(%a, %b : memref<3x64xf32>, memref<64x256xf32>) outs(%o : memref<3x256xf32>)
}
launch.kernel @outer target "cuda" (%a: memref<64x7xf32>, %b: memref<7x256xf32>, %o: memref<64x256xf32>) {
  linalg.matmul ins(%a, %b : memref<64x7xf32>, memref<7x256xf32>) outs(%o : memref<64x256xf32>)
}
launch.kernel @tiny target "cuda" (%a: memref<15x64xf32>, %b: memref<64x17xf32>, %o: memref<15x17xf32>) {
  linalg.matmul ins(%a, %b : memref<15x64xf32>, memref<64x17xf32>) outs(%o : memref<15x17xf32>)
}
launch.kernel @double target "cuda" (%a: memref<64x64xf64>, %b: memref<64x64xf64>, %o: memref<64x64xf64>) {
  linalg.matmul ins(%a, %b : memref<64x64xf64>, memref<64x64xf64>) outs(%o : memref<64x64xf64>)
}
launch.kernel @processor target "cpu" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  linalg.matmul ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>)
}
