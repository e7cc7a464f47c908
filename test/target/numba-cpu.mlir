// RUN: penstock-opt %s -t numba | filecheck %s

// A module text per kernel: buffers by address, shapes and strides as constants.
// Loops that all operands walk alike are one loop, which is a line of vectors.
// CHECK-LABEL: # kernel add
// CHECK-NEXT:  from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel
// CHECK-NEXT:  from penstock.runtime.kernels.cpu.vector_loop import line
// CHECK-NEXT:  from penstock.runtime.kernels.cpu.matmul.tile import address_of
// CHECK:       PARTS = 1
// CHECK:       def body_0(x, p0, p1):
// CHECK-NEXT:      v0 = p0 + p1
// CHECK-NEXT:      return [v0], []
// CHECK:       line_0 = line("f32", 32, body_0, loads=2, stores=1)
// CHECK:       @c_kernel
// CHECK-NEXT:  def kernel(args, part, parts):
// CHECK-NEXT:      if part != 0:
// CHECK-NEXT:          return 0
// CHECK-NEXT:      a = buffer_f32(args, 0, 3)
// CHECK-NEXT:      b = buffer_f32(args, 1, 3)
// CHECK-NEXT:      o = buffer_f32(args, 2, 3)
// CHECK-NEXT:      line_0((address_of(a), address_of(b), address_of(o),))
// CHECK-NEXT:      return 0
launch.kernel @add target "cpu" (%a: memref<4x8xf32>, %b: memref<4x8xf32>, %o: memref<4x8xf32>) {
  linalg.add ins(%a, %b : memref<4x8xf32>, memref<4x8xf32>) outs(%o : memref<4x8xf32>)
}

// What has no vectors is a loop of scalars.
// CHECK-LABEL: # kernel add_integers
// CHECK:       for [[I:i[0-9]+]] in range(32):
// CHECK-NEXT:      [[X:v[0-9]+]] = a{{\[}}[[I]]]
// CHECK-NEXT:      [[Y:v[0-9]+]] = b{{\[}}[[I]]]
// CHECK-NEXT:      [[R:v[0-9]+]] = i32([[X]] + [[Y]])
// CHECK-NEXT:      o{{\[}}[[I]]] = [[R]]
launch.kernel @add_integers target "cpu" (%a: memref<4x8xi32>, %b: memref<4x8xi32>, %o: memref<4x8xi32>) {
  linalg.add ins(%a, %b : memref<4x8xi32>, memref<4x8xi32>) outs(%o : memref<4x8xi32>)
}

// A long loop is cut into lines, which parts share. Its extent is an argument.
// CHECK-LABEL: # kernel long
// CHECK:       PARTS = 5
// CHECK-NEXT:  ROW = ["a", "b", "o", 197512, 49]
// CHECK:       line_0 = line("f32", None, body_0, loads=2, stores=1)
// CHECK:       n0 = number(args, 3)
// CHECK-NEXT:  n1 = number(args, 4)
// CHECK-NEXT:  for [[I:i[0-9]+]] in range(n1 * part // parts, n1 * (part + 1) // parts):
// CHECK-NEXT:      line_0((address_of(a) + ([[I]] * 4096) * 4, address_of(b) + ([[I]] * 4096) * 4, address_of(o) + ([[I]] * 4096) * 4, min(4096, n0 - [[I]] * 4096),))
launch.kernel @long target "cpu" (%a: memref<8x24689xf32>, %b: memref<8x24689xf32>, %o: memref<8x24689xf32>) {
  linalg.add ins(%a, %b : memref<8x24689xf32>, memref<8x24689xf32>) outs(%o : memref<8x24689xf32>)
}

// A product runs with the contiguous loop innermost; what does not change in it is
// loaded outside of it. Its terms are rounded with the sums.
// CHECK-LABEL: # kernel product
// CHECK:       def body_0(x, p0, p1, p2):
// CHECK-NEXT:      v0 = x.fma(p2, p0, p1)
// CHECK-NEXT:      return [v0], []
// CHECK:       line_0 = line("f32", 6, body_0, loads=2, stores=1)
// CHECK:       for [[I:i[0-9]+]] in range(4):
// CHECK-NEXT:      for [[K:i[0-9]+]] in range(8):
// CHECK-NEXT:          [[X:v[0-9]+]] = a{{\[}}[[I]] * 8 + [[K]]]
// CHECK-NEXT:          line_0((address_of(b) + ([[K]] * 6) * 4, address_of(o) + ([[I]] * 6) * 4, address_of(o) + ([[I]] * 6) * 4, [[X]],))
launch.kernel @product target "cpu" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %o: memref<4x6xf32>) {
  linalg.matmul ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%o : memref<4x6xf32>)
}

// A sum over the contiguous loop is a line that is given and gives a number.
// CHECK-LABEL: # kernel sum
// CHECK:       def body_0(x, p0):
// CHECK-NEXT:      return [], [p0]
// CHECK:       line_0 = line("f32", 8, body_0, loads=1, folds=["add"])
// CHECK:       for [[I:i[0-9]+]] in range(4):
// CHECK-NEXT:      [[S:v[0-9]+]] = o{{\[}}[[I]]]
// CHECK-NEXT:      [[S]], = line_0((address_of(a) + ([[I]] * 8) * 4, [[S]],))
// CHECK-NEXT:      o{{\[}}[[I]]] = [[S]]
launch.kernel @sum target "cpu" (%a: memref<4x8xf32>, %o: memref<4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%a : memref<4x8xf32>) outs(%o : memref<4xf32>) {
  ^bb0(%x: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  }
}

// Lines and assertions inside scf.parallel. An assertion returns 1 + its index.
// CHECK-LABEL: # kernel loops
// CHECK:       line_0 = line("f32", 4, body_0, loads=1, folds=["maximum"])
// CHECK:       for [[I:i[0-9]+]] in range(4):
// CHECK-NEXT:      [[C:v[0-9]+]], = line_0((address_of(a) + ([[I]] * 4) * 4, f32(0.5),))
// CHECK-NEXT:      [[OK:v[0-9]+]] = [[C]] < f32(9.0)
// CHECK-NEXT:      if not [[OK]]:
// CHECK-NEXT:          return 1
// CHECK-NEXT:      o{{\[}}[[I]]] = u8([[OK]])
launch.kernel @loops target "cpu" (%a: memref<4x4xf32>, %o: memref<4xi1>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %half = arith.constant 0.5 : f32
  %nine = arith.constant 9.0 : f32
  "scf.parallel"(%c0, %c4, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %m = scf.for %j = %c0 to %c4 step %c1 iter_args(%c = %half) -> (f32) {
      %x = memref.load %a[%i, %j] : memref<4x4xf32>
      %n = arith.maximumf %c, %x : f32
      scf.yield %n : f32
    }
    %ok = arith.cmpf olt, %m, %nine : f32
    cf.assert %ok, "too large"
    memref.store %ok, %o[%i] : memref<4xi1>
    scf.reduce
  }) : (index, index, index) -> ()
}

// A sum in a loop keeps its order, unless it says that its terms may be reordered.
// CHECK-LABEL: # kernel in_order
// CHECK:       for [[I:i[0-9]+]] in range(4):
// CHECK-NEXT:      [[C:v[0-9]+]] = f32(0.0)
// CHECK-NEXT:      for [[J:i[0-9]+]] in range(4):
// CHECK-NEXT:          [[X:v[0-9]+]] = a{{\[}}[[I]] * 4 + [[J]]]
// CHECK-NEXT:          [[N:v[0-9]+]] = [[C]] + [[X]]
// CHECK-NEXT:          [[C]] = [[N]]
// CHECK-NEXT:      o{{\[}}[[I]]] = [[C]]
launch.kernel @in_order target "cpu" (%a: memref<4x4xf32>, %o: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  "scf.parallel"(%c0, %c4, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %m = scf.for %j = %c0 to %c4 step %c1 iter_args(%c = %zero) -> (f32) {
      %x = memref.load %a[%i, %j] : memref<4x4xf32>
      %n = arith.addf %c, %x : f32
      scf.yield %n : f32
    }
    memref.store %m, %o[%i] : memref<4xf32>
    scf.reduce
  }) : (index, index, index) -> ()
}

// A sum whose terms may be reordered says so; others keep their order.
// CHECK-LABEL: # kernel order
// CHECK:       [[X:v[0-9]+]] = a[0]
// CHECK-NEXT:  [[S:v[0-9]+]] = add_reordered([[X]], [[X]])
// CHECK-NEXT:  [[T:v[0-9]+]] = [[S]] + [[X]]
launch.kernel @order target "cpu" (%a: memref<1xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  "scf.parallel"(%c0, %c1, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %x = memref.load %a[%c0] : memref<1xf32>
    %s = arith.addf %x, %x fastmath<reassoc> : f32
    %t = arith.addf %s, %x : f32
    memref.store %t, %a[%c0] : memref<1xf32>
    scf.reduce
  }) : (index, index, index) -> ()
}

// A line that reads a row again fetches the next row meanwhile.
// CHECK-LABEL: # kernel again
// CHECK:       line_0 = line("f32", 40, body_0, loads=1, folds=["maximum"])
// CHECK:       line_1 = line("f32", 40, body_1, loads=1, ahead=[40], stores=1)
launch.kernel @again target "cpu" (%a: memref<4x40xf32>, %o: memref<4x40xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c40 = arith.constant 40 : index
  %zero = arith.constant 0.0 : f32
  "scf.parallel"(%c0, %c4, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %m = scf.for %j = %c0 to %c40 step %c1 iter_args(%c = %zero) -> (f32) {
      %x = memref.load %a[%i, %j] : memref<4x40xf32>
      %n = arith.maximumf %c, %x : f32
      scf.yield %n : f32
    }
    scf.for %j = %c0 to %c40 step %c1 {
      %x = memref.load %a[%i, %j] : memref<4x40xf32>
      %d = arith.subf %x, %m : f32
      memref.store %d, %o[%i, %j] : memref<4x40xf32>
    }
    scf.reduce
  }) : (index, index, index) -> ()
}

// What only the first line of a row reads, the second one fetches for the next row.
// CHECK-LABEL: # kernel once
// CHECK:       line_0 = line("f32", 40, body_0, loads=1, stores=1)
// CHECK:       def body_1(x, p0, p1):
// CHECK-NEXT:      v0 = p0 * p0
// CHECK:       line_1 = line("f32", 40, body_1, loads=2, ahead=[0, 40], stores=1)
launch.kernel @once target "cpu" (%a: memref<4x40xf32>, %o: memref<4x40xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c40 = arith.constant 40 : index
  "scf.parallel"(%c0, %c4, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    scf.for %j = %c0 to %c40 step %c1 {
      %x = memref.load %a[%i, %j] : memref<4x40xf32>
      %d = arith.addf %x, %x : f32
      memref.store %d, %o[%i, %j] : memref<4x40xf32>
    }
    scf.for %j = %c0 to %c40 step %c1 {
      %x = memref.load %o[%i, %j] : memref<4x40xf32>
      %d = arith.mulf %x, %x : f32
      memref.store %d, %o[%i, %j] : memref<4x40xf32>
    }
    scf.reduce
  }) : (index, index, index) -> ()
}

// What is read of zeros around a memref is none of its elements. Loops over them are not
// made one.
// CHECK-LABEL: # kernel padded
// CHECK:       for i0 in range(3):
// CHECK-NEXT:      for i1 in range(7):
// CHECK-NEXT:          v0 = x[i0 * 4 + i1 - 1] if 0 <= i1 - 1 < 4 else f32(0.0)
// CHECK-NEXT:          o[i0 * 7 + i1] = v0
launch.kernel @padded target "cpu" (%x: memref<3x4xf32>, %o: memref<3x7xf32>) {
  %p = kernel.padded %x low [0, 1] high [0, 2] : memref<3x4xf32> to memref<3x7xf32>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : memref<3x7xf32>) outs(%o : memref<3x7xf32>) {
  ^bb0(%a: f32, %s: f32):
    linalg.yield %a : f32
  }
}

// Elements of several outputs are computed together, after what they are written over is
// read; lines store all of them, loops too.
// CHECK-LABEL: # kernel several
// CHECK:       def body_0(x, p0, p1):
// CHECK-NEXT:      v0 = p0 + p1
// CHECK-NEXT:      v1 = p0 * p1
// CHECK-NEXT:      return [v0, v1], []
// CHECK:       line_0 = line("f32", 40, body_0, loads=2, stores=2)
// CHECK:       for i1 in range(3):
// CHECK-NEXT:      v0 = a[i1]
// CHECK-NEXT:      v1 = b[i1]
// CHECK-NEXT:      v2 = i64(u64(v0) + u64(v1))
// CHECK-NEXT:      a[i1] = v2
// CHECK-NEXT:      b[i1] = v0
launch.kernel @several target "cpu" (%x: memref<40xf32>, %y: memref<40xf32>, %o: memref<40xf32>, %p: memref<40xf32>, %a: memref<3xi64>, %b: memref<3xi64>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x, %y : memref<40xf32>, memref<40xf32>) outs(%o, %p : memref<40xf32>, memref<40xf32>) {
  ^bb0(%c: f32, %d: f32, %e: f32, %f: f32):
    %s = arith.addf %c, %d : f32
    %t = arith.mulf %c, %d : f32
    linalg.yield %s, %t : f32, f32
  }
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%a, %b : memref<3xi64>, memref<3xi64>) {
  ^bb0(%c: i64, %d: i64):
    %s = arith.addi %c, %d : i64
    linalg.yield %s, %c : i64, i64
  }
}
