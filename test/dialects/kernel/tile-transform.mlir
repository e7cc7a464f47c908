// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p convert-kernel-to-loops | filecheck %s --check-prefix=LOOPS

#p = affine_map<(i, j, t, k, l) -> (i, k)>
#q = affine_map<(i, j, t, k, l) -> (j, l)>
#d = affine_map<(i, j, t, k, l) -> (k, l, t)>
#o = affine_map<(i, j, t, k, l) -> (t, i, j)>
#c = affine_map<(i, j, t, k, l) -> (t)>

// CHECK:      launch.kernel @started
// CHECK-NEXT:   kernel.tile_transform indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d3, d4, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d2, d0, d1)>, affine_map<(d0, d1, d2, d3, d4) -> (d2)>] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) start(%c : memref<9xf32>) attributes {schedule = #launch.transform<lanes 16>}
// The result has other dimensions in front than the loops.
// LOOPS:      launch.kernel @started
// LOOPS-NEXT:   linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : memref<9xf32>) outs(%y : memref<9x4x4xf32>) {
// LOOPS-NEXT:   ^bb0(%[[C:.+]]: f32, %{{.+}}: f32):
// LOOPS-NEXT:     linalg.yield %[[C]] : f32
// LOOPS-NEXT:   }
// LOOPS-NEXT:   linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) {
// LOOPS-NEXT:   ^bb0(%[[P:.+]]: f32, %[[Q:.+]]: f32, %[[D:.+]]: f32, %[[S:.+]]: f32):
// LOOPS-NEXT:     %[[A:.+]] = arith.mulf %[[P]], %[[Q]] : f32
// LOOPS-NEXT:     %[[B:.+]] = arith.mulf %[[A]], %[[D]] : f32
// LOOPS-NEXT:     %[[E:.+]] = arith.addf %[[S]], %[[B]] : f32
// LOOPS-NEXT:     linalg.yield %[[E]] : f32
launch.kernel @started target "cpu" (%a: memref<4x6xf32>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %y: memref<9x4x4xf32>) {
  kernel.tile_transform indexing_maps = [#p, #q, #d, #o, #c] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) start(%c : memref<9xf32>) attributes {schedule = #launch.transform<lanes 16>}
}

// Without a start sums begin with 0. Those of halves are in a register.
// CHECK:      launch.kernel @from_zero
// CHECK-NEXT:   kernel.tile_transform indexing_maps = [{{.*}}] ins(%a, %a, %m : memref<4x6xf16>, memref<4x6xf16>, memref<6x6x9xf16>) outs(%y : memref<9x4x4xf16>)
// LOOPS:      launch.kernel @from_zero
// LOOPS:        %[[Z:.+]] = arith.constant 0.000000e+00 : f32
// LOOPS:        scf.for {{.*}} iter_args(%{{.+}} = %[[Z]]) -> (f32)
// LOOPS:        %[[R:.+]] = arith.truncf %{{.+}} : f32 to f16
// LOOPS-NEXT:   memref.store %[[R]], %y
launch.kernel @from_zero target "cpu" (%a: memref<4x6xf16>, %m: memref<6x6x9xf16>, %y: memref<9x4x4xf16>) {
  kernel.tile_transform indexing_maps = [#p, #q, #d, #o] ins(%a, %a, %m : memref<4x6xf16>, memref<4x6xf16>, memref<6x6x9xf16>) outs(%y : memref<9x4x4xf16>)
}

// A region ends the sums.
// CHECK:      launch.kernel @finished
// CHECK-NEXT:   kernel.tile_transform indexing_maps = [{{.*}}] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) finish(%c : memref<9xf32>) {
// CHECK-NEXT:   ^bb0(%[[S:.+]]: f32, %[[C:.+]]: f32):
// CHECK-NEXT:     %[[P:.+]] = arith.mulf %[[S]], %[[C]] : f32
// CHECK-NEXT:     kernel.yield %[[P]] : f32
// CHECK-NEXT:   }
// LOOPS:      launch.kernel @finished
// LOOPS:        linalg.fill
// LOOPS:        linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
// LOOPS:        linalg.generic {{.*}} ins(%c : memref<9xf32>) outs(%y : memref<9x4x4xf32>) {
// LOOPS-NEXT:   ^bb0(%[[C:.+]]: f32, %[[S:.+]]: f32):
// LOOPS-NEXT:     %[[P:.+]] = arith.mulf %[[S]], %[[C]] : f32
launch.kernel @finished target "cpu" (%a: memref<4x6xf32>, %m: memref<6x6x9xf32>, %c: memref<9xf32>, %y: memref<9x4x4xf32>) {
  kernel.tile_transform indexing_maps = [#p, #q, #d, #o, #c] ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>) outs(%y : memref<9x4x4xf32>) finish(%c : memref<9xf32>) {
  ^bb0(%s: f32, %f: f32):
    %0 = arith.mulf %s, %f : f32
    kernel.yield %0 : f32
  }
}
