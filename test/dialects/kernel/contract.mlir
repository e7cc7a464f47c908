// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p convert-kernel-to-loops | filecheck %s --check-prefix=LOOPS

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#o = affine_map<(m, n, k) -> (m, n)>
#n = affine_map<(m, n, k) -> (n)>

// CHECK-LABEL: launch.kernel @matmul
launch.kernel @matmul target "cpu" (%x: memref<64x784xf32>, %w: memref<784x256xf32>, %y: memref<64x256xf32>) {
  // CHECK: kernel.contract indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>] ins(%x, %w : memref<64x784xf32>, memref<784x256xf32>) outs(%y : memref<64x256xf32>)
  kernel.contract indexing_maps = [#a, #b, #o] ins(%x, %w : memref<64x784xf32>, memref<784x256xf32>) outs(%y : memref<64x256xf32>)
}

// Sums may be finished, started, and have more bits than the result.
// CHECK-LABEL: launch.kernel @finished
launch.kernel @finished target "cpu" (%x: memref<64x784xi8>, %w: memref<784x256xi8>, %s: memref<256xi32>, %c: memref<256xf32>, %y: memref<64x256xf32>) {
  // CHECK: kernel.contract indexing_maps = [{{.*}}, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d1)>] accumulate i32 unsigned_a ins(%x, %w : memref<64x784xi8>, memref<784x256xi8>) outs(%y : memref<64x256xf32>) start(%s : memref<256xi32>) finish(%c : memref<256xf32>) attributes {no_schedule = "for now"} {
  // CHECK-NEXT: ^bb0(%[[SUM:.+]]: i32, %[[C:.+]]: f32):
  // CHECK: kernel.yield %{{.+}} : f32
  kernel.contract indexing_maps = [#a, #b, #o, #n, #n] accumulate i32 unsigned_a
      ins(%x, %w : memref<64x784xi8>, memref<784x256xi8>) outs(%y : memref<64x256xf32>)
      start(%s : memref<256xi32>) finish(%c : memref<256xf32>) attributes {no_schedule = "for now"} {
  ^bb0(%sum: i32, %scale: f32):
    %0 = arith.sitofp %sum : i32 to f32
    %1 = arith.mulf %0, %scale : f32
    kernel.yield %1 : f32
  }
}

// A convolution reads windows of a padded image; a second result is written at once.
// CHECK-LABEL: launch.kernel @convolution
launch.kernel @convolution target "cpu" (%x: memref<2x8x16x16xf32>, %w: memref<4x8x3x3xf32>, %y: memref<2x4x8x8xf32>, %z: memref<2x4x8x8xf32>) {
  // CHECK: outs(%y, %z : memref<2x4x8x8xf32>, memref<2x4x8x8xf32>) {
  %p = kernel.padded %x low [0, 0, 1, 1] high [0, 0, 1, 1] : memref<2x8x16x16xf32> to memref<2x8x18x18xf32>
  kernel.contract indexing_maps = [
      affine_map<(n, f, y, x, c, i, j) -> (f, c, i, j)>,
      affine_map<(n, f, y, x, c, i, j) -> (n, c, y * 2 + i, x * 2 + j)>,
      affine_map<(n, f, y, x, c, i, j) -> (n, f, y, x)>,
      affine_map<(n, f, y, x, c, i, j) -> (n, f, y, x)>]
      ins(%w, %p : memref<4x8x3x3xf32>, memref<2x8x18x18xf32>) outs(%y, %z : memref<2x4x8x8xf32>, memref<2x4x8x8xf32>) {
  ^bb0(%sum: f32):
    %0 = arith.negf %sum : f32
    kernel.yield %sum, %0 : f32, f32
  }
}

// What lies where the result does is read before.
// CHECK-LABEL: launch.kernel @in_place
launch.kernel @in_place target "cpu" (%x: memref<4x8xf16>, %w: memref<8x6xf16>, %y: memref<4x6xf16>) {
  // CHECK: outs(%y : memref<4x6xf16>) start(%y : memref<4x6xf16>)
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%x, %w : memref<4x8xf16>, memref<8x6xf16>) outs(%y : memref<4x6xf16>) start(%y : memref<4x6xf16>)
}

// A depthwise convolution has a batch loop over channels, and windows. Its loops have no loop over
// taps: those of a row are unrolled, and elements of lines above and below an image count as 0.
// CHECK-LABEL: launch.kernel @depthwise
// CHECK:         kernel.contract {{.*}} attributes {schedule = #launch.windows<lanes 8, lines 4>}
// LOOPS-LABEL: launch.kernel @depthwise
// LOOPS:         ^bb0(%[[N:.+]]: index, %[[C:.+]]: index, %[[R:.+]]: index):
// LOOPS:           %[[S:.+]] = memref.load %b[%[[C]]] : memref<3xf32>
// LOOPS:           scf.for %[[X:.+]] = %{{.+}} to %{{.+}} step %{{.+}} {
// LOOPS-COUNT-9:     arith.mulf
// LOOPS:             memref.store %{{.+}}, %y[%[[N]], %[[C]], %[[R]], %[[X]]] : memref<2x3x8x8xf32>
// LOOPS-NOT:         scf.for
launch.kernel @depthwise target "cpu" (%x: memref<2x3x8x8xf32>, %w: memref<3x3x3xf32>, %b: memref<3xf32>, %y: memref<2x3x8x8xf32>) {
  %p = kernel.padded %x low [0, 0, 1, 1] high [0, 0, 1, 1] : memref<2x3x8x8xf32> to memref<2x3x10x10xf32>
  kernel.contract indexing_maps = [
      affine_map<(n, c, y, x, i, j) -> (n, c, y + i, x + j)>, affine_map<(n, c, y, x, i, j) -> (c, i, j)>,
      affine_map<(n, c, y, x, i, j) -> (n, c, y, x)>, affine_map<(n, c, y, x, i, j) -> (c)>]
      ins(%p, %w : memref<2x3x10x10xf32>, memref<3x3x3xf32>) outs(%y : memref<2x3x8x8xf32>) start(%b : memref<3xf32>)
      attributes {schedule = #launch.windows<lanes 8, lines 4>}
}
