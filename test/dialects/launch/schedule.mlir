// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// CHECK-LABEL: launch.kernel @all
// CHECK:       schedule = #launch.contraction<outer, tile [6, 4, 16], block [12, 8], packed, prefetch 2, folds [1, 0]>
launch.kernel @all target "cpu" (%a: memref<8x8xf32>, %b: memref<8x8xf32>, %o: memref<8x8xf32>) {
  linalg.matmul {schedule = #launch.contraction<outer, tile [6, 4, 16], block [12, 8], packed, prefetch 2, folds [1, 0]>} ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)
}

// What is usual is not printed.
// CHECK-LABEL: launch.kernel @least
// CHECK:       schedule = #launch.contraction<inner, tile [1, 8, 16], block [1, 8]>
launch.kernel @least target "cpu" (%a: memref<8x8xf32>, %b: memref<8x8xf32>, %o: memref<8x8xf32>) {
  linalg.matmul {schedule = #launch.contraction<inner, tile [1, 8, 16], block [1, 8], prefetch 0, folds [0, 0]>} ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)
}
