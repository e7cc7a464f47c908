// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -t numba | filecheck %s --check-prefix=SOURCE
// RUN: penstock-opt %s -p convert-kernel-to-loops | filecheck %s --check-prefix=LOOPS

// Stages may read zeros around a memref that lie nowhere.
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

// They may read another number.
// CHECK-LABEL: launch.kernel @lowest
// SOURCE-LABEL: # kernel lowest
launch.kernel @lowest target "cpu" (%x: memref<3x4xf32>, %o: memref<3x7xf32>) {
  // CHECK: kernel.padded %x low [0, 1] high [0, 2] value -2.000000e+00 : f32 : memref<3x4xf32> to memref<3x7xf32>
  // SOURCE: if 0 <= {{.*}} < 4 else f32(-2.0)
  %p = kernel.padded %x low [0, 1] high [0, 2] value -2.0 : f32 : memref<3x4xf32> to memref<3x7xf32>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : memref<3x7xf32>) outs(%o : memref<3x7xf32>) {
  ^bb0(%a: f32, %s: f32):
    linalg.yield %a : f32
  }
}

// Loops of structured ops load the nearest element, and take the number where that is another one.
// LOOPS-LABEL: launch.kernel @row
// LOOPS:         %[[OWN:.+]] = arith.subi %{{.+}}, %{{.+}} : index
// LOOPS:         %[[AT:.+]] = arith.minsi
// LOOPS:         %[[IN:.+]] = arith.cmpi eq, %[[OWN]], %[[AT]] : index
// LOOPS:         %[[E:.+]] = memref.load %x[%{{.+}}, %[[AT]]] : memref<3x4xf32>
// LOOPS:         %{{.+}} = arith.select %{{.+}}, %[[E]], %{{.+}} : f32
launch.kernel @row target "cpu" (%x: memref<3x4xf32>, %o: memref<3x7xf32>) {
  %p = kernel.padded %x low [0, 1] high [0, 2] value -2.0 : f32 : memref<3x4xf32> to memref<3x7xf32>
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r, e)>] ins(%p : memref<3x7xf32>) outs(%o : memref<3x7xf32>) {
  ^bb0(%a: f32):
    %m = kernel.all_reduce maxnumf %a : f32
    %d = arith.subf %a, %m : f32
    kernel.yield %d : f32
  }
}
