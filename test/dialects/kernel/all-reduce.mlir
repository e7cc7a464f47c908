// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p convert-kernel-to-loops | filecheck %s --check-prefix LOOPS

// The largest number of a row, and its first place.
// CHECK-LABEL: @first
// LOOPS-LABEL: @first
launch.kernel @first target "cpu" (%x: memref<4x8xf32>, %y: memref<4xi64>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>]
      ins(%x : memref<4x8xf32>) outs(%y : memref<4xi64>) {
  ^bb0(%a: f32):
    %i = kernel.index 1 : index
    %n = arith.index_cast %i : index to i64
    %low = arith.constant 0xFF800000 : f32
    %none = arith.constant 8 : i64
    // CHECK:      %{{.+}}, %[[P:.+]] = kernel.all_reduce by %{{.+}}, %{{.+}} init(%{{.+}}, %{{.+}} : f32, i64) : f32, i64 {
    // CHECK-NEXT: ^{{.+}}(%{{.+}}: f32, %{{.+}}: i64, %{{.+}}: f32, %{{.+}}: i64):
    // LOOPS: scf.for {{.*}} iter_args(%{{.+}} = %{{.+}}, %{{.+}} = %{{.+}}) -> (f32, i64) {
    // LOOPS:   arith.cmpf ogt
    // LOOPS:   scf.yield
    %m, %p = kernel.all_reduce by %a, %n init(%low, %none : f32, i64) : f32, i64 {
    ^bb1(%z: f32, %j: i64, %v: f32, %k: i64):
      %more = arith.cmpf ogt, %v, %z : f32
      %same = arith.cmpf oeq, %v, %z : f32
      %before = arith.cmpi slt, %k, %j : i64
      %first = arith.andi %same, %before : i1
      %wins = arith.ori %more, %first : i1
      %w = arith.select %wins, %v, %z : f32
      %l = arith.select %wins, %k, %j : i64
      kernel.yield %w, %l : f32, i64
    }
    // CHECK: kernel.yield %[[P]] : i64
    // LOOPS: memref.store %{{.+}}, %y
    kernel.yield %p : i64
  }
}
