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

// Threads share the terms of products that are too small or too thin for tiles, and start
// and finish their sums before and after. Few terms are not shared.
// CHECK-LABEL: launch.kernel @row
// CHECK:         kernel.contract {{.*}}schedule = #launch.rows<grid, threads 256, width 32, kept>}
// CHECK-LABEL: launch.kernel @outer
// CHECK:         no_schedule = "64 x 256 sums of 7 terms are too few for tiles, which have at least 4 rows and columns, 256 sums and 8 terms"
// CHECK-LABEL: launch.kernel @tiny
// CHECK:         kernel.contract {{.*}}schedule = #launch.rows<grid, threads 256, width 32, kept>}
// CHECK-LABEL: launch.kernel @thin
// CHECK:         kernel.contract {{.*}}schedule = #launch.rows<grid, threads 1024, width 32, kept>}
// CHECK-LABEL: launch.kernel @vector
// CHECK:         linalg.fill
// CHECK:         kernel.contract
// CHECK-SAME:      no_finish = "start: threads add their terms to the result; finish: threads add their terms to the result", schedule = #launch.rows<warp, threads 32, width 4>}
// CHECK:         linalg.generic
// CHECK:           arith.maximumf
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
launch.kernel @vector target "cuda" (%a: memref<1x96xf32>, %b: memref<256x96xf32>, %o: memref<1x256xf32>) {
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%a, %b : memref<1x96xf32>, memref<256x96xf32>) outs(%o : memref<1x256xf32>) {
  ^bb0(%s: f32):
    %z = arith.constant 0.0 : f32
    %r = arith.maximumf %s, %z : f32
    kernel.yield %r : f32
  }
}

// What says why it has no schedule keeps that.
// CHECK-LABEL: launch.kernel @kept
// CHECK:         kernel.contract {{.*}} attributes {no_schedule = "by hand"}
launch.kernel @kept target "cuda" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>) attributes {no_schedule = "by hand"}
}

// Windows have a thread for each element, with their taps in loops if they are many.
// CHECK-LABEL: launch.kernel @pools
// CHECK:         kernel.pool max window [3, 3] {{.*}}schedule = #launch.window_threads<taps>}
// CHECK:         kernel.pool max window [7, 7] {{.*}}schedule = #launch.window_threads<loops>}
// CHECK:         kernel.pool max window [3, 3] {{.*}}schedule = #launch.window_threads<loops>}
launch.kernel @pools target "cuda" (%x: memref<4x9x9xf32>, %y: memref<4x7x7xf32>, %z: memref<4x3x3xf32>, %w: memref<4x5x5xf32>) {
  kernel.pool max window [3, 3] dims [1, 2] ins(%x : memref<4x9x9xf32>) outs(%y : memref<4x7x7xf32>)
  kernel.pool max window [7, 7] dims [1, 2] ins(%x : memref<4x9x9xf32>) outs(%z : memref<4x3x3xf32>)
  kernel.pool max window [3, 3] dilations [2, 2] dims [1, 2] ins(%x : memref<4x9x9xf32>) outs(%w : memref<4x5x5xf32>)
}

// What no printer is for says so. Other targets have their own passes.
// CHECK-LABEL: launch.kernel @gather
// CHECK:         kernel.gather {{.*}}no_schedule = "cuda has no schedule of it"
// CHECK-LABEL: launch.kernel @processor
// CHECK-NOT:     schedule
launch.kernel @gather target "cuda" (%t: memref<5x4xf32>, %i: memref<3xi64>, %y: memref<3x4xf32>) {
  kernel.gather axis 0 ins(%t, %i : memref<5x4xf32>, memref<3xi64>) outs(%y : memref<3x4xf32>)
}
launch.kernel @processor target "cpu" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  linalg.matmul ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>)
}
