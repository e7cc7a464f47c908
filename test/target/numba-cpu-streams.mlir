// RUN: penstock-opt %s -t numba | filecheck %s

// Of kernels that read and write 24 MiB results are written past the caches.
// CHECK-LABEL: # kernel large
// CHECK:       from penstock.runtime.kernels.cpu.vector_loop import end_streams, line
// CHECK:       line_0 = line({{.*}}, stores=1, streamed=True)
// CHECK:           end_streams()
// CHECK-NEXT:      return 0
launch.kernel @large target "cpu" (%x: memref<3145728xf32>, %o: memref<3145728xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : memref<3145728xf32>) outs(%o : memref<3145728xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
}

// Smaller ones have a result that the next kernel finds in the last cache.
// CHECK-LABEL: # kernel smaller
// CHECK-NOT:   stream
launch.kernel @smaller target "cpu" (%x: memref<3145600xf32>, %o: memref<3145600xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : memref<3145600xf32>) outs(%o : memref<3145600xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
}

// Elementary functions take longer than memory does.
// CHECK-LABEL: # kernel computed
// CHECK-NOT:   stream
launch.kernel @computed target "cpu" (%x: memref<3145728xf32>, %o: memref<3145728xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : memref<3145728xf32>) outs(%o : memref<3145728xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  }
}

// What a stage adds to, or another stage reads, stays in the caches.
// CHECK-LABEL: # kernel added
// CHECK-NOT:   stream
launch.kernel @added target "cpu" (%x: memref<3145728xf32>, %o: memref<3145728xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : memref<3145728xf32>) outs(%o : memref<3145728xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  }
}

// CHECK-LABEL: # kernel read
// CHECK:       stores=1)
// CHECK:       stores=1, streamed=True)
launch.kernel @read target "cpu" (%x: memref<3145728xf32>, %y: memref<3145728xf32>, %o: memref<3145728xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : memref<3145728xf32>) outs(%y : memref<3145728xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%y : memref<3145728xf32>) outs(%o : memref<3145728xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %a : f32
    linalg.yield %r : f32
  }
}
