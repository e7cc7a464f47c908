// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Phases may read zeros around a memref that lie nowhere.
// CHECK-LABEL: launch.kernel @copied
launch.kernel @copied target "cpu" (%x: memref<3x4xf32>, %o: memref<3x7xf32>) {
  // CHECK: %[[P:.+]] = kernel.padded %x low [0, 1] high [0, 2] {acme.note} : memref<3x4xf32> to memref<3x7xf32>
  %p = kernel.padded %x low [0, 1] high [0, 2] {acme.note} : memref<3x4xf32> to memref<3x7xf32>
  // CHECK: ins(%[[P]] : memref<3x7xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : memref<3x7xf32>) outs(%o : memref<3x7xf32>) {
  ^bb0(%a: f32, %s: f32):
    linalg.yield %a : f32
  }
}
