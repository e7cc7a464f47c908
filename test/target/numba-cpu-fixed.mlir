// RUN: penstock-opt %s -t numba | filecheck %s

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>

// The extents and strides of loops are arguments, a name for each role.
// CHECK-LABEL: # kernel free
// CHECK:       ROW = ["a", "b", "o", 20, 2000, 2000]
// CHECK:       line_0 = line("f32", None, body_0, loads=2, stores=1)
// CHECK:       for i0 in range(n0 * part // parts, n0 * (part + 1) // parts):
// CHECK-NEXT:      line_0((address_of(a) + (i0 * n2) * 4, address_of(b), address_of(o) + (i0 * n2) * 4, n1,))
launch.kernel @free target "cpu" (%a: memref<20x2000xf32>, %b: memref<2000xf32>, %o: memref<20x2000xf32>) {
  linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : memref<20x2000xf32>, memref<2000xf32>) outs(%o : memref<20x2000xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  }
}

// A loop that the schedule fixes is in the code, and so are strides as large as it.
// CHECK-LABEL: # kernel inner
// CHECK:       ROW = ["a", "b", "o", 20]
// CHECK:       line_0 = line("f32", 2000, body_0, loads=2, stores=1)
// CHECK:       for i0 in range(n0 * part // parts, n0 * (part + 1) // parts):
// CHECK-NEXT:      line_0((address_of(a) + (i0 * 2000) * 4, address_of(b), address_of(o) + (i0 * 2000) * 4,))
launch.kernel @inner target "cpu" (%a: memref<20x2000xf32>, %b: memref<2000xf32>, %o: memref<20x2000xf32>) {
  linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : memref<20x2000xf32>, memref<2000xf32>) outs(%o : memref<20x2000xf32>) attrs = {schedule = #launch.map<fixed [1]>} {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  }
}

// CHECK-LABEL: # kernel outer
// CHECK:       ROW = ["a", "b", "o", 2000, 2000]
// CHECK:       for i0 in range(20 * part // parts, 20 * (part + 1) // parts):
// CHECK-NEXT:      line_0((address_of(a) + (i0 * n1) * 4, address_of(b), address_of(o) + (i0 * n1) * 4, n0,))
launch.kernel @outer target "cpu" (%a: memref<20x2000xf32>, %b: memref<2000xf32>, %o: memref<20x2000xf32>) {
  linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : memref<20x2000xf32>, memref<2000xf32>) outs(%o : memref<20x2000xf32>) attrs = {schedule = #launch.map<fixed [0]>} {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  }
}

// A merged loop is in the code if one of its loops is.
// CHECK-LABEL: # kernel merged
// CHECK-NOT:   ROW
// CHECK:       for i0 in range(10 * part // parts, 10 * (part + 1) // parts):
launch.kernel @merged target "cpu" (%a: memref<20x2000xf32>, %o: memref<20x2000xf32>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : memref<20x2000xf32>) outs(%o : memref<20x2000xf32>) attrs = {schedule = #launch.map<fixed [0]>} {
  ^bb0(%x: f32, %z: f32):
    %s = arith.negf %x : f32
    linalg.yield %s : f32
  }
}

// CHECK-LABEL: # kernel rows
// CHECK-NOT:   ROW
// CHECK:       for i0 in range(20):
launch.kernel @rows target "cpu" (%a: memref<20x200xf32>, %o: memref<20xf32>) {
  kernel.row along [1] indexing_maps = [#id, affine_map<(i, j) -> (i)>] ins(%a : memref<20x200xf32>) outs(%o : memref<20xf32>) attributes {schedule = #launch.vector_loops<lines, fixed [0]>} {
  ^bb0(%x: f32):
    %s = kernel.all_reduce add %x : f32
    kernel.yield %s : f32
  }
}
