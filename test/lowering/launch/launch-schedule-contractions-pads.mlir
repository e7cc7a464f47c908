// RUN: penstock-opt %s -p 'launch-schedule-contractions{vector-bytes=64}' | filecheck %s

#id = affine_map<(c, y, x) -> (c, y, x)>
#turn = affine_map<(c, y, x) -> (c, x, y)>

// A copy of an image with few numbers at both ends of rows is loops over these. Both
// numbers stand without a loop, and the row is the nearest one.
// CHECK-LABEL: launch.kernel @image
// CHECK-NOT:     kernel.padded
// CHECK-NOT:     linalg.generic
// CHECK:         "scf.parallel"
// CHECK:           %[[N:.+]] = arith.constant -1.500000e+00 : f32
// CHECK:           memref.store %[[N]], %y
// CHECK:           memref.store %[[N]], %y
// CHECK:           scf.for %[[X:.+]] =
// CHECK-NEXT:        %[[E:.+]] = memref.load %x
// CHECK-NOT:         arith.constant
// CHECK:             arith.select %{{.+}}, %[[E]], %[[N]] : f32
// CHECK-NOT:         arith.constant
// CHECK:             memref.store
// CHECK:         linalg.fill
launch.kernel @image target "cpu" (%x: memref<2x5x6xf32>, %y: memref<2x6x10xf32>) {
  %p = kernel.padded %x low [0, 1, 3] high [0, 0, 1] value -1.5 : f32 : memref<2x5x6xf32> to memref<2x6x10xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : memref<2x6x10xf32>) outs(%y : memref<2x6x10xf32>) {
  ^bb0(%v: f32, %old: f32):
    linalg.yield %v : f32
  }
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%x : memref<2x5x6xf32>)
}

// Without numbers in front nothing is added to a place, as dumps are canonical.
// CHECK-LABEL: launch.kernel @behind
// CHECK:         "scf.parallel"
// CHECK-NOT:       arith.addi
// CHECK:           scf.for %[[X:.+]] =
// CHECK-NOT:         arith.addi
// CHECK:             memref.store %{{.+}}, %y[%{{.+}}, %{{.+}}, %[[X]]]
launch.kernel @behind target "cpu" (%x: memref<2x5x6xf32>, %y: memref<2x6x7xf32>) {
  %p = kernel.padded %x low [0, 0, 0] high [0, 1, 1] : memref<2x5x6xf32> to memref<2x6x7xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : memref<2x6x7xf32>) outs(%y : memref<2x6x7xf32>) {
  ^bb0(%v: f32, %old: f32):
    linalg.yield %v : f32
  }
}

// Other stages stay: where there are numbers around channels, rows are short, elements
// have 16 bits, or something is computed or turned.
// CHECK-LABEL: launch.kernel @channels
// CHECK:         linalg.generic
launch.kernel @channels target "cpu" (%x: memref<2x5x6xf32>, %y: memref<3x5x6xf32>) {
  %p = kernel.padded %x low [1, 0, 0] high [0, 0, 0] : memref<2x5x6xf32> to memref<3x5x6xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : memref<3x5x6xf32>) outs(%y : memref<3x5x6xf32>) {
  ^bb0(%v: f32, %old: f32):
    linalg.yield %v : f32
  }
}
// CHECK-LABEL: launch.kernel @short
// CHECK:         linalg.generic
launch.kernel @short target "cpu" (%x: memref<2x5x3xf32>, %y: memref<2x5x4xf32>) {
  %p = kernel.padded %x low [0, 0, 1] high [0, 0, 0] : memref<2x5x3xf32> to memref<2x5x4xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : memref<2x5x4xf32>) outs(%y : memref<2x5x4xf32>) {
  ^bb0(%v: f32, %old: f32):
    linalg.yield %v : f32
  }
}
// CHECK-LABEL: launch.kernel @halves
// CHECK:         linalg.generic
launch.kernel @halves target "cpu" (%x: memref<2x5x6xf16>, %y: memref<2x5x7xf16>) {
  %p = kernel.padded %x low [0, 0, 1] high [0, 0, 0] : memref<2x5x6xf16> to memref<2x5x7xf16>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : memref<2x5x7xf16>) outs(%y : memref<2x5x7xf16>) {
  ^bb0(%v: f16, %old: f16):
    linalg.yield %v : f16
  }
}
// CHECK-LABEL: launch.kernel @computed
// CHECK:         linalg.generic
launch.kernel @computed target "cpu" (%x: memref<2x5x6xf32>, %y: memref<2x5x7xf32>) {
  %p = kernel.padded %x low [0, 0, 1] high [0, 0, 0] : memref<2x5x6xf32> to memref<2x5x7xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : memref<2x5x7xf32>) outs(%y : memref<2x5x7xf32>) {
  ^bb0(%v: f32, %old: f32):
    %n = arith.negf %v : f32
    linalg.yield %n : f32
  }
}
// CHECK-LABEL: launch.kernel @turned
// CHECK:         linalg.generic
launch.kernel @turned target "cpu" (%x: memref<2x5x6xf32>, %y: memref<2x7x5xf32>) {
  %p = kernel.padded %x low [0, 0, 1] high [0, 0, 0] : memref<2x5x6xf32> to memref<2x5x7xf32>
  linalg.generic {indexing_maps = [#turn, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : memref<2x5x7xf32>) outs(%y : memref<2x7x5xf32>) {
  ^bb0(%v: f32, %old: f32):
    linalg.yield %v : f32
  }
}
