// RUN: penstock-opt %s -t numba | filecheck %s

// A module text per kernel: buffers by address, shapes and strides as constants.
// Loops that all operands walk alike are one loop.
// CHECK-LABEL: # kernel add
// CHECK-NEXT:  from penstock.runtime.kernel_support import buffer_f32, c_kernel
// CHECK:       @c_kernel
// CHECK-NEXT:  def kernel(args, part, parts):
// CHECK-NEXT:      if part != 0:
// CHECK-NEXT:          return 0
// CHECK-NEXT:      a = buffer_f32(args, 0, 3)
// CHECK-NEXT:      b = buffer_f32(args, 1, 3)
// CHECK-NEXT:      o = buffer_f32(args, 2, 3)
// CHECK-NEXT:      for [[I:i[0-9]+]] in range(32):
// CHECK-NEXT:          [[X:v[0-9]+]] = a{{\[}}[[I]]]
// CHECK-NEXT:          [[Y:v[0-9]+]] = b{{\[}}[[I]]]
// CHECK-NEXT:          [[R:v[0-9]+]] = [[X]] + [[Y]]
// CHECK-NEXT:          o{{\[}}[[I]]] = [[R]]
// CHECK-NEXT:      return 0
launch.kernel @add target "cpu" (%a: memref<4x8xf32>, %b: memref<4x8xf32>, %o: memref<4x8xf32>) {
  linalg.add ins(%a, %b : memref<4x8xf32>, memref<4x8xf32>) outs(%o : memref<4x8xf32>)
}

// A product runs with the contiguous loop innermost; what does not change in it is
// loaded outside of it.
// CHECK-LABEL: # kernel product
// CHECK:       for [[I:i[0-9]+]] in range(4):
// CHECK-NEXT:      for [[K:i[0-9]+]] in range(8):
// CHECK-NEXT:          [[X:v[0-9]+]] = a{{\[}}[[I]] * 8 + [[K]]]
// CHECK-NEXT:          for [[J:i[0-9]+]] in range(6):
// CHECK-NEXT:              [[Y:v[0-9]+]] = b{{\[}}[[K]] * 6 + [[J]]]
// CHECK-NEXT:              [[S:v[0-9]+]] = o{{\[}}[[I]] * 6 + [[J]]]
// CHECK-NEXT:              [[T:v[0-9]+]] = fma([[X]], [[Y]], [[S]])
// CHECK-NEXT:              o{{\[}}[[I]] * 6 + [[J]]] = [[T]]
launch.kernel @product target "cpu" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %o: memref<4x6xf32>) {
  linalg.matmul ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%o : memref<4x6xf32>)
}

// A sum over the contiguous loop is kept in a register.
// CHECK-LABEL: # kernel sum
// CHECK:       for [[I:i[0-9]+]] in range(4):
// CHECK-NEXT:      [[S:v[0-9]+]] = o{{\[}}[[I]]]
// CHECK-NEXT:      for [[J:i[0-9]+]] in range(8):
// CHECK-NEXT:          [[X:v[0-9]+]] = a{{\[}}[[I]] * 8 + [[J]]]
// CHECK-NEXT:          [[T:v[0-9]+]] = add_reordered([[S]], [[X]])
// CHECK-NEXT:          [[S]] = [[T]]
// CHECK-NEXT:      o{{\[}}[[I]]] = [[S]]
launch.kernel @sum target "cpu" (%a: memref<4x8xf32>, %o: memref<4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%a : memref<4x8xf32>) outs(%o : memref<4xf32>) {
  ^bb0(%x: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  }
}

// Loops, branches and assertions inside scf.parallel. An assertion returns 1 + its index.
// CHECK-LABEL: # kernel loops
// CHECK:       for [[I:i[0-9]+]] in range(4):
// CHECK-NEXT:      [[C:v[0-9]+]] = f32(0.5)
// CHECK-NEXT:      for [[J:i[0-9]+]] in range(4):
// CHECK-NEXT:          [[X:v[0-9]+]] = a{{\[}}[[I]] * 4 + [[J]]]
// CHECK-NEXT:          [[N:v[0-9]+]] = maximum([[C]], [[X]])
// CHECK-NEXT:          [[C]] = [[N]]
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
