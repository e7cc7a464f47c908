// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p convert-kernel-to-loops | filecheck %s --check-prefix LOOPS

launch.kernel @k target "cpu" (%x: memref<5x9x4xf16>, %i: memref<2x3xi32>, %y: memref<5x2x3x4xf16>) {
  // CHECK: kernel.gather axis 1 ins(%x, %i : memref<5x9x4xf16>, memref<2x3xi32>) outs(%y : memref<5x2x3x4xf16>) attributes {acme.note}
  // LOOPS:      ^bb0(%[[A:.+]]: index, %[[B:.+]]: index, %[[C:.+]]: index, %[[D:.+]]: index):
  // LOOPS-NEXT:   %[[RAW:.+]] = memref.load %i[%[[B]], %[[C]]] : memref<2x3xi32>
  // LOOPS-NEXT:   %[[INDEX:.+]] = arith.index_cast %[[RAW]] : i32 to index
  // LOOPS-NEXT:   %[[COUNT:.+]] = arith.constant 9 : index
  // LOOPS:        %[[PLACE:.+]] = arith.select
  // LOOPS:        cf.assert %{{.+}}, "gather index out of range"
  // LOOPS-NEXT:   %[[E:.+]] = memref.load %x[%[[A]], %[[PLACE]], %[[D]]] : memref<5x9x4xf16>
  // LOOPS-NEXT:   memref.store %[[E]], %y[%[[A]], %[[B]], %[[C]], %[[D]]] : memref<5x2x3x4xf16>
  kernel.gather axis 1 ins(%x, %i : memref<5x9x4xf16>, memref<2x3xi32>) outs(%y : memref<5x2x3x4xf16>) attributes {acme.note}
}
