// RUN: penstock-opt %s -t numba | filecheck %s

// A loop within parallel iterations, all of whose elements follow each other from one to
// the next, is done by vectors of these; what it carries stays in them.
// CHECK-LABEL: # kernel sums
// CHECK-NEXT:  from penstock.runtime.kernels.cpu.outer_vector_loop import columns
// CHECK-NEXT:  from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel
// CHECK-NEXT:  from penstock.runtime.kernels.cpu.matmul.tile import address_of
// CHECK:       def column_0(x, p0, p1):
// CHECK-NEXT:      def turn_0(i0, v0):
// CHECK-NEXT:          v1 = x.load(p0, 0, (i0, 300))
// CHECK-NEXT:          v2 = v0 + v1
// CHECK-NEXT:          x.store(v2, p1, 0, (i0, 300))
// CHECK-NEXT:          return [v2]
// CHECK-NEXT:      v3, = x.loop(0, 5, [x.f32(0.0)], turn_0)
// CHECK:       columns_0 = columns("f32", 256, column_0, at_once=8)
// CHECK-NEXT:  columns_1 = columns("f32", 44, column_0, at_once=8)
// CHECK:       for i0 in range(2):
// CHECK-NEXT:      if i0 < 1:
// CHECK-NEXT:          columns_0((address_of(in0) + i0 * 1024, address_of(out0) + i0 * 1024,))
// CHECK-NEXT:      else:
// CHECK-NEXT:          columns_1((address_of(in0) + i0 * 1024, address_of(out0) + i0 * 1024,))
launch.kernel @sums target "cpu" (%in0: memref<5x300xf32>, %out0: memref<5x300xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %rows = arith.constant 5 : index
  %columns = arith.constant 300 : index
  "scf.parallel"(%zero, %columns, %one) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%c: index):
    %none = arith.constant 0.0 : f32
    %end = scf.for %r = %zero to %rows step %one iter_args(%sum = %none) -> (f32) {
      %e = memref.load %in0[%r, %c] : memref<5x300xf32>
      %next = arith.addf %sum, %e : f32
      memref.store %next, %out0[%r, %c] : memref<5x300xf32>
      scf.yield %next : f32
    }
    scf.reduce
  }) : (index, index, index) -> ()
}

// Parallel iterations of no loop are one.
// CHECK-LABEL: # kernel sum
// CHECK:       for i0 in range(5):
launch.kernel @sum target "cpu" (%in0: memref<5xf32>, %out0: memref<5xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %rows = arith.constant 5 : index
  "scf.parallel"() <{operandSegmentSizes = array<i32: 0, 0, 0, 0>}> ({
    %none = arith.constant 0.0 : f32
    %end = scf.for %r = %zero to %rows step %one iter_args(%sum = %none) -> (f32) {
      %e = memref.load %in0[%r] : memref<5xf32>
      %next = arith.addf %sum, %e : f32
      memref.store %next, %out0[%r] : memref<5xf32>
      scf.yield %next : f32
    }
    scf.reduce
  }) : () -> ()
}
