// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p convert-kernel-to-loops | filecheck %s --check-prefix=LOOPS

// Few taps of most windows of a row are combined in a loop over these windows, and those of the
// windows at its ends behind it. Taps above an image are the nearest ones in it, which a maximum
// has anyway.
// CHECK:      launch.kernel @max
// CHECK-NEXT:   kernel.pool max window [2, 3] strides [2, 1] pads [1, 1, 0, 1] dims [2, 3] ins(%x : memref<1x2x7x8xf32>) outs(%y : memref<1x2x4x8xf32>) attributes {schedule = #launch.windows<lanes 16, lines 8>}
// LOOPS:      launch.kernel @max
// LOOPS:        ^bb0(%[[P:.+]]: index, %[[R:.+]]: index):
// LOOPS:          %[[ABOVE:.+]] = arith.minsi
// LOOPS:          scf.for %[[C:.+]] = %{{.+}} to %{{.+}} step %{{.+}} {
// LOOPS:            %[[A:.+]] = memref.load %{{.+}}[%[[P]], %[[ABOVE]], %{{.+}}] : memref<2x7x8xf32>
// LOOPS:            %[[M:.+]] = arith.maximumf %[[A]], %{{.+}} : f32
// LOOPS:            memref.store %{{.+}}, %{{.+}}[%[[P]], %[[R]], %[[C]]] : memref<2x4x8xf32>
// LOOPS:          }
// LOOPS-COUNT-2:  memref.store
launch.kernel @max target "cpu" (%x: memref<1x2x7x8xf32>, %y: memref<1x2x4x8xf32>) {
  kernel.pool max window [2, 3] strides [2, 1] pads [1, 1, 0, 1] dims [2, 3] ins(%x : memref<1x2x7x8xf32>) outs(%y : memref<1x2x4x8xf32>) attributes {schedule = #launch.windows<lanes 16, lines 8>}
}

// Other windows have loops over those taps that lie in the buffer: along one dimension here. The
// result has room for a last window that ends behind the pads.
// CHECK:      launch.kernel @mean
// CHECK-NEXT:   kernel.pool mean window [3] strides [2] dilations [2] pads [1, 2] counted dims [1] ins(%x : memref<4x9x5xf16>) outs(%y : memref<4x5x5xf16>)
// LOOPS:      launch.kernel @mean
// LOOPS:        ^bb0(%[[A:.+]]: index, %[[B:.+]]: index, %[[C:.+]]: index):
// LOOPS:          %[[S:.+]] = scf.for %{{.+}} = %{{.+}} to %{{.+}} step %{{.+}} iter_args(%[[T:.+]] = %{{.+}}) -> (f32) {
// LOOPS:            %[[H:.+]] = memref.load %x[%[[A]], %{{.+}}, %[[C]]] : memref<4x9x5xf16>
// LOOPS-NEXT:       %[[E:.+]] = arith.extf %[[H]] : f16 to f32
// LOOPS-NEXT:       %[[N:.+]] = arith.addf %[[T]], %[[E]] : f32
// LOOPS-NEXT:       scf.yield %[[N]] : f32
// LOOPS-NEXT:     }
// LOOPS:          %[[Q:.+]] = arith.divf %[[S]], %{{.+}} : f32
launch.kernel @mean target "cpu" (%x: memref<4x9x5xf16>, %y: memref<4x5x5xf16>) {
  kernel.pool mean window [3] strides [2] dilations [2] pads [1, 2] counted dims [1] ins(%x : memref<4x9x5xf16>) outs(%y : memref<4x5x5xf16>)
}

// Bytes may have no sign.
// CHECK:      launch.kernel @bytes
// CHECK-NEXT:   kernel.pool max window [2, 2, 2] unsigned dims [0, 1, 3] ins(%x : memref<3x4x5x6xi8>) outs(%y : memref<2x3x5x5xi8>)
// LOOPS:      launch.kernel @bytes
// LOOPS:        arith.maxui
launch.kernel @bytes target "cpu" (%x: memref<3x4x5x6xi8>, %y: memref<2x3x5x5xi8>) {
  kernel.pool max window [2, 2, 2] unsigned dims [0, 1, 3] ins(%x : memref<3x4x5x6xi8>) outs(%y : memref<2x3x5x5xi8>)
}
