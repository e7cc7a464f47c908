// RUN: penstock-opt %s -t numba | filecheck %s

// An index is read and checked once for a row of elements.
// CHECK-LABEL: # kernel rows
// CHECK:       for i0 in range(3):
// CHECK-NEXT:      v0 = ids[i0]
// CHECK-NEXT:      v1 = v0 >= i64(0)
// CHECK-NEXT:      if not v1:
// CHECK-NEXT:          return 1
// CHECK-NEXT:      v2 = i64(v0)
// CHECK-NEXT:      for i1 in range(8):
// CHECK-NEXT:          v3 = table[v2 * 8 + i1]
// CHECK-NEXT:          out[i0 * 8 + i1] = v3
launch.kernel @rows target "cpu" (%table: memref<5x8xf32>, %ids: memref<3xi64>, %out: memref<3x8xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %rows = arith.constant 3 : index
  %columns = arith.constant 8 : index
  "scf.parallel"(%zero, %zero, %rows, %columns, %one, %one) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%r: index, %c: index):
    %id = memref.load %ids[%r] : memref<3xi64>
    %none = arith.constant 0 : i64
    %is_there = arith.cmpi sge, %id, %none : i64
    cf.assert %is_there, "no such row"
    %at = arith.index_cast %id : i64 to index
    %e = memref.load %table[%at, %c] : memref<5x8xf32>
    memref.store %e, %out[%r, %c] : memref<3x8xf32>
    scf.reduce
  }) : (index, index, index, index, index, index) -> ()
}

// Rows that are written in order: the loop over them is around that over elements.
// CHECK-LABEL: # kernel in_order
// CHECK:       for i0 in range(3):
// CHECK-NEXT:      v0 = ids[i0]
// CHECK-NEXT:      v1 = i64(v0)
// CHECK-NEXT:      for i1 in range(8):
// CHECK-NEXT:          v2 = rows[i0 * 8 + i1]
// CHECK-NEXT:          out[v1 * 8 + i1] = v2
launch.kernel @in_order target "cpu" (%rows: memref<3x8xf32>, %ids: memref<3xi64>, %out: memref<5x8xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %columns = arith.constant 8 : index
  "scf.parallel"(%zero, %columns, %one) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%c: index):
    %count = arith.constant 3 : index
    scf.for %r = %zero to %count step %one {
      %id = memref.load %ids[%r] : memref<3xi64>
      %at = arith.index_cast %id : i64 to index
      %e = memref.load %rows[%r, %c] : memref<3x8xf32>
      memref.store %e, %out[%at, %c] : memref<5x8xf32>
    }
    scf.reduce
  }) : (index, index, index) -> ()
}

// A load of what turns write stays where it is.
// CHECK-LABEL: # kernel written
// CHECK:       for i0 in range(3):
// CHECK-NEXT:      for i1 in range(8):
// CHECK-NEXT:          v0 = out[i0 * 8]
launch.kernel @written target "cpu" (%out: memref<3x8xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %rows = arith.constant 3 : index
  %columns = arith.constant 8 : index
  "scf.parallel"(%zero, %zero, %rows, %columns, %one, %one) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%r: index, %c: index):
    %e = memref.load %out[%r, %zero] : memref<3x8xf32>
    memref.store %e, %out[%r, %c] : memref<3x8xf32>
    scf.reduce
  }) : (index, index, index, index, index, index) -> ()
}
