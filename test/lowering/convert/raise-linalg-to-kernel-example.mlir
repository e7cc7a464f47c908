// RUN: penstock-opt %s -p raise-linalg-to-kernel | filecheck %s --match-full-lines

// A sum of products and the zeros that it starts from become one op.

// EXAMPLE-BEFORE
launch.kernel @finished target "cpu" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %y: memref<4x6xf32>, %c: memref<6xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%y : memref<4x6xf32>)
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
}
// EXAMPLE-AFTER
// CHECK:      launch.kernel @finished target "cpu" ({{.*}}) {
// CHECK-NEXT:   kernel.contract indexing_maps = [{{.*}}] ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>)
// CHECK-NEXT: }
// CHECK-NEXT: }
// EXAMPLE-END
