// RUN: penstock-opt %s -t numba | filecheck %s

// A function a phase, over all parallel elements with the stride of the grid.
// CHECK-LABEL: # kernel product
// CHECK-NEXT:  from numba import cuda
// CHECK:       from penstock.runtime.cuda_support import f32, fma
// CHECK:       @cuda.jit
// CHECK-NEXT:  def phase_0(a, b, o, status):
// CHECK-NEXT:      for [[I:i[0-9]+]] in range(cuda.grid(1), 24, cuda.gridsize(1)):
// CHECK-NEXT:          o{{\[}}[[I]]] = f32(0.0)
// CHECK:       @cuda.jit
// CHECK-NEXT:  def phase_1(a, b, o, status):
// CHECK-NEXT:      for e in range(cuda.grid(1), 24, cuda.gridsize(1)):
// CHECK-NEXT:          [[I:i[0-9]+]] = e // 6
// CHECK-NEXT:          [[J:i[0-9]+]] = e % 6
// CHECK-NEXT:          [[S:v[0-9]+]] = o{{\[}}[[I]] * 6 + [[J]]]
// CHECK-NEXT:          for [[K:i[0-9]+]] in range(8):
// CHECK-NEXT:              [[X:v[0-9]+]] = a{{\[}}[[I]] * 8 + [[K]]]
// CHECK-NEXT:              [[Y:v[0-9]+]] = b{{\[}}[[K]] * 6 + [[J]]]
// CHECK-NEXT:              [[T:v[0-9]+]] = fma([[X]], [[Y]], [[S]])
// CHECK-NEXT:              [[S]] = [[T]]
// CHECK-NEXT:          o{{\[}}[[I]] * 6 + [[J]]] = [[S]]
// CHECK:       PHASES = [(phase_0, 24), (phase_1, 24)]
launch.kernel @product target "cuda" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %o: memref<4x6xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<4x6xf32>)
  linalg.matmul ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%o : memref<4x6xf32>)
}

// An assertion writes 1 + its index to the status.
// CHECK-LABEL: # kernel check
// CHECK:       for [[I:i[0-9]+]] in range(cuda.grid(1), 4, cuda.gridsize(1)):
// CHECK-NEXT:      [[J:v[0-9]+]] = [[I]] * 2 + 1
// CHECK-NEXT:      [[X:v[0-9]+]] = a{{\[}}[[J]]] != 0
// CHECK-NEXT:      if not [[X]]:
// CHECK-NEXT:          status[0] = 1
// CHECK-NEXT:          return
launch.kernel @check target "cuda" (%a: memref<9xi1>) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c9 = arith.constant 9 : index
  "scf.parallel"(%c1, %c9, %c2) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %x = memref.load %a[%i] : memref<9xi1>
    cf.assert %x, "no"
    scf.reduce
  }) : (index, index, index) -> ()
}
