// RUN: penstock-opt %s -p raise-linalg-to-kernel,launch-schedule-tiles | filecheck %s
// RUN: penstock-opt %s -p raise-linalg-to-kernel,launch-schedule-tiles,launch-schedule-tiles | filecheck %s
// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-tiles{processors=2}' | filecheck %s --check-prefix FEW
// RUN: not penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-tiles{processors=0}' 2>&1 | filecheck %s --check-prefix NONE

// NONE: error: launch-schedule-tiles: processors must be at least 1, got 0

// Where there are as many tiles as processors, they are the largest ones.
// CHECK-LABEL: launch.kernel @large
// CHECK:         kernel.contract {{.*}}schedule = #launch.tiles<block [128, 128, 8], thread [8, 8]>}
launch.kernel @large target "cuda" (%a: memref<4096x64xf32>, %b: memref<64x4096xf32>, %o: memref<4096x4096xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<4096x4096xf32>)
  linalg.matmul ins(%a, %b : memref<4096x64xf32>, memref<64x4096xf32>) outs(%o : memref<4096x4096xf32>)
}

// Few elements are divided into smaller tiles, so that more processors have some; two
// processors are busy with large ones. What has a schedule keeps it.
// CHECK-LABEL: launch.kernel @small
// CHECK:         kernel.contract {{.*}}schedule = #launch.tiles<block [16, 64, 16], thread [2, 4]>}
// CHECK:         kernel.contract {{.*}}schedule = #launch.tiles<block [64, 64, 8], thread [8, 8]>}
// FEW-LABEL:   launch.kernel @small
// FEW:           kernel.contract {{.*}}schedule = #launch.tiles<block [128, 128, 8], thread [8, 8]>}
launch.kernel @small target "cuda" (%a: memref<256x64xf32>, %b: memref<64x256xf32>, %o: memref<256x256xf32>) {
  linalg.matmul ins(%a, %b : memref<256x64xf32>, memref<64x256xf32>) outs(%o : memref<256x256xf32>)
  linalg.matmul {schedule = #launch.tiles<block [64, 64, 8], thread [8, 8]>}
    ins(%a, %b : memref<256x64xf32>, memref<64x256xf32>) outs(%o : memref<256x256xf32>)
}

// Tiles of f64 are smaller. Floats of 16 bits are multiplied by tensor cores.
// CHECK-LABEL: launch.kernel @double
// CHECK:         kernel.contract {{.*}}schedule = #launch.tiles<block [16, 64, 16], thread [2, 4]>}
launch.kernel @double target "cuda" (%a: memref<64x64xf64>, %b: memref<64x64xf64>, %o: memref<64x64xf64>) {
  linalg.matmul ins(%a, %b : memref<64x64xf64>, memref<64x64xf64>) outs(%o : memref<64x64xf64>)
}
// CHECK-LABEL: launch.kernel @half
// CHECK:         kernel.contract
// CHECK-SAME:      schedule = #launch.tiles<block [128, 128, 32], warp [64, 32], stages 4>
launch.kernel @half target "cuda" (%a: memref<4096x64xbf16>, %b: memref<64x4096xbf16>, %o: memref<4096x4096xbf16>) {
  linalg.generic {
    indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  } ins(%a, %b : memref<4096x64xbf16>, memref<64x4096xbf16>) outs(%o : memref<4096x4096xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %s: bf16):
    %u = arith.extf %x : bf16 to f32
    %v = arith.extf %y : bf16 to f32
    %w = arith.extf %s : bf16 to f32
    %p = arith.mulf %u, %v : f32
    %t = arith.addf %w, %p : f32
    %r = arith.truncf %t : f32 to bf16
    linalg.yield %r : bf16
  }
}

// Products of few rows or terms, and for the processor have no tiles.
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
launch.kernel @thin target "cuda" (%a: memref<8x512xf32>, %b: memref<512x256xf32>, %o: memref<8x256xf32>) {
  linalg.matmul ins(%a, %b : memref<8x512xf32>, memref<512x256xf32>) outs(%o : memref<8x256xf32>)
}
launch.kernel @processor target "cpu" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  linalg.matmul ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>)
}
