// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p convert-kernel-to-loops | filecheck %s --check-prefix LOOPS

launch.kernel @k target "cpu" (%i: memref<2x3xi32>, %g: memref<5x2x3x4xf16>, %y: memref<5x9x4xf16>) {
  // CHECK:      kernel.scatter axis 1 ins(%i, %g : memref<2x3xi32>, memref<5x2x3x4xf16>) outs(%y : memref<5x9x4xf16>) attributes {acme.note} {
  // CHECK-NEXT: ^bb0(%[[NEW:.+]]: f16, %[[OLD:.+]]: f16):
  // CHECK-NEXT:   %[[MORE:.+]] = arith.maximumf %[[OLD]], %[[NEW]] : f16
  // CHECK-NEXT:   kernel.yield %[[MORE]] : f16
  // CHECK-NEXT: }
  // Places are taken in their order, inside of a loop over what they do not share.
  // LOOPS:      ^bb0(%[[A:.+]]: index, %[[D:.+]]: index):
  // LOOPS:        scf.for %[[B:.+]] =
  // LOOPS:          scf.for %[[C:.+]] =
  // LOOPS-NEXT:       %[[RAW:.+]] = memref.load %i[%[[B]], %[[C]]] : memref<2x3xi32>
  // LOOPS:            %[[PLACE:.+]] = arith.select
  // LOOPS:            cf.assert %{{.+}}, "gather index out of range"
  // LOOPS-NEXT:       %[[O:.+]] = memref.load %y[%[[A]], %[[PLACE]], %[[D]]] : memref<5x9x4xf16>
  // LOOPS-NEXT:       %[[OLD:.+]] = arith.extf %[[O]]
  // LOOPS-NEXT:       %[[N:.+]] = memref.load %g[%[[A]], %[[B]], %[[C]], %[[D]]] : memref<5x2x3x4xf16>
  // LOOPS-NEXT:       %[[NEW:.+]] = arith.extf %[[N]]
  // LOOPS-NEXT:       %[[MORE:.+]] = arith.maximumf %[[OLD]], %[[NEW]] : f32
  // LOOPS-NEXT:       %[[R:.+]] = arith.truncf %[[MORE]]
  // LOOPS-NEXT:       memref.store %[[R]], %y[%[[A]], %[[PLACE]], %[[D]]] : memref<5x9x4xf16>
  kernel.scatter axis 1 ins(%i, %g : memref<2x3xi32>, memref<5x2x3x4xf16>) outs(%y : memref<5x9x4xf16>) attributes {acme.note} {
  ^bb0(%new: f16, %old: f16):
    %0 = arith.maximumf %old, %new : f16
    kernel.yield %0 : f16
  }
}
