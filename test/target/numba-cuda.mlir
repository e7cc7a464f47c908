// RUN: penstock-opt %s -t numba | filecheck %s

// What follows each other is written 16 bytes at once, four floats an item; where the
// buffers are not at multiples of 16 bytes, the fallback does the same one by one.
// CHECK-LABEL: # kernel product
// CHECK-NEXT:  from penstock.runtime.kernels.cuda.support import Stage, f32, first_item, fma, i32, item_step, quotient, remainder, store_4
// CHECK:       def stage_0(a, b, o, status):
// CHECK-NEXT:      e = first_item()
// CHECK-NEXT:      while e < 6:
// CHECK-NEXT:          [[I:i[0-9]+]] = e
// CHECK-NEXT:          [[I]] = i32([[I]] * 4)
// CHECK-NEXT:          store_4(o, [[I]], (f32(0.0), f32(0.0), f32(0.0), f32(0.0)))
// CHECK-NEXT:          e = i32(e + item_step())
// CHECK:       def stage_0_plain(a, b, o, status):
// CHECK-NEXT:      e = first_item()
// CHECK-NEXT:      while e < 24:
// CHECK-NEXT:          [[I:i[0-9]+]] = e
// CHECK-NEXT:          o{{\[}}[[I]]] = f32(0.0)

// A function a stage, over all parallel elements with the stride of the grid.
// CHECK:       def stage_1(a, b, o, status):
// CHECK-NEXT:      e = first_item()
// CHECK-NEXT:      while e < 24:
// CHECK-NEXT:          [[I:i[0-9]+]] = quotient(e, 6)
// CHECK-NEXT:          [[J:i[0-9]+]] = remainder(e, 6)
// CHECK-NEXT:          [[S:v[0-9]+]] = o[i32([[I]] * 6 + [[J]])]
// CHECK-NEXT:          for [[K:i[0-9]+]] in range(8):
// CHECK-NEXT:              [[X:v[0-9]+]] = a[i32([[I]] * 8 + [[K]])]
// CHECK-NEXT:              [[Y:v[0-9]+]] = b[i32([[K]] * 6 + [[J]])]
// CHECK-NEXT:              [[T:v[0-9]+]] = fma([[X]], [[Y]], [[S]])
// CHECK-NEXT:              [[S]] = [[T]]
// CHECK-NEXT:          o[i32([[I]] * 6 + [[J]])] = [[S]]
// CHECK-NEXT:          e = i32(e + item_step())
// CHECK:       PARAMETERS = ["float32", "float32", "float32"]
// CHECK-NEXT:  STAGES = [
// CHECK-NEXT:      Stage(stage_0, 6, fallback=Stage(stage_0_plain, 24)),
// CHECK-NEXT:      Stage(stage_1, 24),
// CHECK-NEXT:  ]
launch.kernel @product target "cuda" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %o: memref<4x6xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<4x6xf32>)
  linalg.matmul ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%o : memref<4x6xf32>)
}

// An assertion writes 1 + its index to the status.
// CHECK-LABEL: # kernel check
// CHECK:       while e < 4:
// CHECK-NEXT:      [[I:i[0-9]+]] = e
// CHECK-NEXT:      [[J:v[0-9]+]] = i32([[I]] * 2 + 1)
// CHECK-NEXT:      [[X:v[0-9]+]] = a{{\[}}[[J]]] != 0
// CHECK-NEXT:      if not [[X]]:
// CHECK-NEXT:          status[0] = 1
// CHECK-NEXT:          return
// CHECK:       PARAMETERS = ["uint8"]
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

// What is computed of an element is a function; what all elements of a vector share is
// loaded once.
// CHECK-LABEL: # kernel bias
// CHECK:       @on_device
// CHECK-NEXT:  def body_0(p0, p1):
// CHECK-NEXT:      [[S:v[0-9]+]] = p0 + p1
// CHECK-NEXT:      return [[S]]
// CHECK:       def stage_0(x, b, o, status):
// CHECK-NEXT:      e = first_item()
// CHECK-NEXT:      while e < 6:
// CHECK-NEXT:          [[I:i[0-9]+]] = quotient(e, 2)
// CHECK-NEXT:          [[J:i[0-9]+]] = remainder(e, 2)
// CHECK-NEXT:          [[J]] = i32([[J]] * 4)
// CHECK-NEXT:          [[X:v[0-9]+]] = load_4(x, i32([[I]] * 8 + [[J]]))
// CHECK-NEXT:          [[B:v[0-9]+]] = b{{\[}}[[I]]]
// CHECK-NEXT:          {{v[0-9]+}} = body_0([[X]][0], [[B]])
// CHECK-NEXT:          {{v[0-9]+}} = body_0([[X]][1], [[B]])
// CHECK-NEXT:          {{v[0-9]+}} = body_0([[X]][2], [[B]])
// CHECK-NEXT:          {{v[0-9]+}} = body_0([[X]][3], [[B]])
// CHECK-NEXT:          store_4(o, i32([[I]] * 8 + [[J]]), ({{v[0-9]+, v[0-9]+, v[0-9]+, v[0-9]+}}))
launch.kernel @bias target "cuda" (%x: memref<3x8xf32>, %b: memref<3xf32>, %o: memref<3x8xf32>) {
  linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x, %b : memref<3x8xf32>, memref<3xf32>) outs(%o : memref<3x8xf32>) {
  ^bb0(%p: f32, %q: f32, %r: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  }
}

// Elements after the last whole vector are moved one by one. A copy is a stage like any.
// CHECK-LABEL: # kernel rest
// CHECK:       def stage_0(a, o, status):
// CHECK-NEXT:      e = first_item()
// CHECK-NEXT:      while e < 2:
// CHECK-NEXT:          [[I:i[0-9]+]] = e
// CHECK-NEXT:          [[I]] = i32([[I]] * 8)
// CHECK-NEXT:          [[X:v[0-9]+]] = load_8(a, [[I]])
// CHECK-NEXT:          store_8(o, [[I]], ([[X]][0], [[X]][1], {{.*}}, [[X]][7]))
// CHECK-NEXT:          e = i32(e + item_step())
// CHECK-NEXT:      e = first_item()
// CHECK-NEXT:      while e < 3:
// CHECK-NEXT:          [[I]] = i32(e + 16)
// CHECK-NEXT:          [[X:v[0-9]+]] = f32(a{{\[}}[[I]]])
// CHECK-NEXT:          o{{\[}}[[I]]] = [[X]]
// CHECK:       Stage(stage_0, 2, fallback=Stage(stage_0_plain, 19)),
launch.kernel @rest target "cuda" (%a: memref<19xf16>, %o: memref<19xf16>) {
  "memref.copy"(%a, %o) : (memref<19xf16>, memref<19xf16>) -> ()
}

// Vectors that would begin at any element are none, nor are elements that do not follow
// each other.
// CHECK-LABEL: # kernel shifted
// CHECK-NOT:   load_
// CHECK-NOT:   store_
// CHECK:       Stage(stage_0, 15),
launch.kernel @shifted target "cuda" (%a: memref<3x6xf32>, %o: memref<3x5xf32>) {
  %v = memref.collapse_shape %a [[0, 1]] : memref<3x6xf32> into memref<18xf32>
  linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i * 6 + j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%v : memref<18xf32>) outs(%o : memref<3x5xf32>) {
  ^bb0(%p: f32, %r: f32):
    linalg.yield %p : f32
  }
}

// The threads of a warp share a row: elements are loaded once, and stay in registers
// between the loops over them; sums go from thread to thread. What is the same for the
// row is written by one of its threads. Warps without a row of their own do again what
// the last one does, and write nothing.
// CHECK-LABEL: # kernel centred
// CHECK:       def stage_0(x, o, m, status):
// CHECK-NEXT:      [[KEPT:kept_[0-9]+]] = cuda.local.array(4, f32)
// CHECK-NEXT:      [[NEW:kept_[0-9]+]] = cuda.local.array(4, f32)
// CHECK-NEXT:      warp = i32(thread() >> 5)
// CHECK-NEXT:      at = i32(thread() & 31)
// CHECK-NEXT:      e = block()
// CHECK-NEXT:      while e < 2:
// CHECK-NEXT:          row = i32(e * 8 + warp)
// CHECK-NEXT:          live = row < 10
// CHECK-NEXT:          row = i32(select(live, row, 9))
// CHECK-NEXT:          [[R:i[0-9]+]] = row
// CHECK-NEXT:          [[S:v[0-9]+]] = f32(0.0)
// CHECK-NEXT:          for j in range(1):
// CHECK-NEXT:              [[I:i[0-9]+]] = i32(at * 4 + j * 128)
// CHECK-NEXT:              [[V:v[0-9]+]] = load_4(x, i32([[R]] * 128 + [[I]]))
// CHECK-NEXT:              [[KEPT]][j * 4 + 0] = [[V]][0]
// CHECK:                   for k in range(4):
// CHECK-NEXT:                  [[X:v[0-9]+]] = [[KEPT]][j * 4 + k]
// CHECK-NEXT:                  [[T:v[0-9]+]] = [[S]] + [[X]]
// CHECK-NEXT:                  [[S]] = [[T]]
// CHECK-NEXT:          [[S]] = [[S]] + shuffle_xor([[S]], 16)
// CHECK-NEXT:          [[S]] = [[S]] + shuffle_xor([[S]], 8)
// CHECK-NEXT:          [[S]] = [[S]] + shuffle_xor([[S]], 4)
// CHECK-NEXT:          [[S]] = [[S]] + shuffle_xor([[S]], 2)
// CHECK-NEXT:          [[S]] = [[S]] + shuffle_xor([[S]], 1)
// CHECK-NEXT:          for j in range(1):
// CHECK-NOT:             load_
// CHECK:               store_4_if(live, o, i32([[R]] * 128 + {{i[0-9]+}}), ([[NEW]][0], [[NEW]][1], [[NEW]][2], [[NEW]][3]))
// CHECK-NEXT:          store_if(live & (at == 0), m, [[R]], [[S]])
// CHECK-NEXT:          e = i32(e + blocks())
// CHECK:       Stage(stage_0, 2, 256, blockwise=True, fallback=Stage(stage_0_plain, 10)),
launch.kernel @centred target "cuda" (%x: memref<10x128xf32>, %o: memref<10x128xf32>, %m: memref<10xf32>) {
  kernel.row along [1]
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>]
      ins(%x : memref<10x128xf32>) outs(%o, %m : memref<10x128xf32>, memref<10xf32>)
      attributes {schedule = #launch.rows<warp, threads 32, width 4, kept>} {
  ^bb0(%v: f32):
    %s = kernel.all_reduce add %v : f32
    %d = arith.subf %v, %s : f32
    kernel.yield %d, %s : f32, f32
  }
}

// Each element of a copy of a padded view has a thread.
// CHECK-LABEL: # kernel padded
// CHECK:       while e < 330:
// CHECK-NEXT:      [[I:i[0-9]+]] = quotient(e, 33)
// CHECK-NEXT:      [[J:i[0-9]+]] = remainder(e, 33)
// CHECK-NEXT:      [[X:v[0-9]+]] = x[i32([[I]] * 32 + [[J]] - 1)] if 0 <= i32([[J]] - 1) < 32 else f32(2.5)
// CHECK-NEXT:      o[i32([[I]] * 33 + [[J]])] = [[X]]
// CHECK-NEXT:      e = i32(e + item_step())
// CHECK:       Stage(stage_0, 330),
#id = affine_map<(i, j) -> (i, j)>
launch.kernel @padded target "cuda" (%x: memref<10x32xf32>, %o: memref<10x33xf32>) {
  %p = kernel.padded %x low [0, 1] high [0, 0] value 2.5 : f32 : memref<10x32xf32> to memref<10x33xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : memref<10x33xf32>) outs(%o : memref<10x33xf32>) {
  ^bb0(%v: f32, %old: f32):
    linalg.yield %v : f32
  }
}

// They are not where one turn writes what another one writes, or what it reads, where
// the place of an element is not known, or where there are few turns.
// CHECK-LABEL: # kernel together
// CHECK:       Stage(stage_0, 10),
// CHECK-NEXT:  Stage(stage_1, 9),
// CHECK-NEXT:  Stage(stage_2, 10),
// CHECK-NEXT:  Stage(stage_3, 10),
launch.kernel @together target "cuda" (%x: memref<10x32xf32>, %o: memref<10x32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c5 = arith.constant 5 : index
  %c9 = arith.constant 9 : index
  %c10 = arith.constant 10 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  "scf.parallel"(%c0, %c10, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    memref.store %zero, %o[%i, %c5] : memref<10x32xf32>
    scf.for %j = %c0 to %c32 step %c1 {
      %v = memref.load %x[%i, %j] : memref<10x32xf32>
      memref.store %v, %o[%i, %j] : memref<10x32xf32>
    }
    scf.reduce
  }) : (index, index, index) -> ()
  "scf.parallel"(%c0, %c9, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %next = arith.addi %i, %c1 : index
    scf.for %j = %c0 to %c32 step %c1 {
      %v = memref.load %x[%next, %j] : memref<10x32xf32>
      memref.store %v, %x[%i, %j] : memref<10x32xf32>
    }
    scf.reduce
  }) : (index, index, index) -> ()
  "scf.parallel"(%c0, %c10, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    scf.for %j = %c0 to %c16 step %c1 {
      %v = memref.load %x[%i, %j] : memref<10x32xf32>
      %n = arith.muli %j, %c2 : index
      memref.store %v, %o[%i, %n] : memref<10x32xf32>
    }
    scf.reduce
  }) : (index, index, index) -> ()
  "scf.parallel"(%c0, %c10, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    scf.for %j = %c0 to %c5 step %c1 {
      %v = memref.load %x[%i, %j] : memref<10x32xf32>
      memref.store %v, %o[%i, %j] : memref<10x32xf32>
    }
    scf.reduce
  }) : (index, index, index) -> ()
}

// The threads of a warp share a sum whose terms follow each other, four a thread and
// turn; one of them adds it to what is there. Sums of few terms, or of terms that do not
// follow each other, are not shared.
// CHECK-LABEL: # kernel dots
// CHECK:       while e < 2:
// CHECK-NEXT:      row = i32(e * 8 + warp)
// CHECK-NEXT:      live = row < 9
// CHECK-NEXT:      row = i32(select(live, row, 8))
// CHECK:           [[S:v[0-9]+]] = f32(0.0)
// CHECK-NEXT:      for j in range(2):
// CHECK-NEXT:          [[K:i[0-9]+]] = i32(at * 4 + j * 128)
// CHECK-NEXT:          inside = [[K]] < 144
// CHECK-NEXT:          [[K]] = i32(select(inside, [[K]], 0))
// CHECK-NEXT:          [[A:v[0-9]+]] = load_4(a, [[K]])
// CHECK-NEXT:          [[B:v[0-9]+]] = load_4(b, i32([[I:i[0-9]+]] * 144 + [[K]]))
// CHECK-NEXT:          [[T:v[0-9]+]] = fma([[A]][0], [[B]][0], [[S]])
// CHECK-NEXT:          [[S]] = select(inside, [[T]], [[S]])
// CHECK:           [[S]] = [[S]] + shuffle_xor([[S]], 1)
// CHECK-NEXT:      store_if(live & (at == 0), o, [[I]], o{{\[}}[[I]]] + [[S]])
// CHECK:       Stage(stage_0, 2, 256, blockwise=True, fallback=Stage(stage_0_plain, 9)),
// CHECK-NEXT:  Stage(stage_1, 9),
// CHECK-NEXT:  Stage(stage_2, 144),
launch.kernel @dots target "cuda" (%a: memref<144xf32>, %b: memref<9x144xf32>, %c: memref<9x31xf32>, %o: memref<9xf32>, %p: memref<144xf32>) {
  linalg.generic {
    indexing_maps = [affine_map<(n, k) -> (k)>, affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%a, %b : memref<144xf32>, memref<9x144xf32>) outs(%o : memref<9xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %m = arith.mulf %x, %y : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  }
  linalg.generic {
    indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%c : memref<9x31xf32>) outs(%o : memref<9xf32>) {
  ^bb0(%x: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  }
  linalg.generic {
    indexing_maps = [affine_map<(n, k) -> (k, n)>, affine_map<(n, k) -> (n)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%b : memref<9x144xf32>) outs(%p : memref<144xf32>) {
  ^bb0(%x: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  }
}

// What is read of zeros around a memref is read element by element: neither in vectors,
// nor in dots, nor in sums of blocks, and its products are in no tiles.
// CHECK-LABEL: # kernel padding
// CHECK:       v0 = x[i32(i0 * 144 + i1 - 8)] if 0 <= i32(i1 - 8) < 144 else f32(0.0)
// CHECK:       Stage(stage_0, 1440),
// CHECK-NEXT:  Stage(stage_1, 9),
// CHECK-NEXT:  Stage(stage_2, 9),
launch.kernel @padding target "cuda" (%x: memref<9x144xf32>, %b: memref<9x160xf32>, %o: memref<9x160xf32>, %d: memref<9xf32>) {
  %p = kernel.padded %x low [0, 8] high [0, 8] : memref<9x144xf32> to memref<9x160xf32>
  linalg.generic {
    indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n, k)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%p : memref<9x160xf32>) outs(%o : memref<9x160xf32>) {
  ^bb0(%a: f32, %s: f32):
    linalg.yield %a : f32
  }
  linalg.generic {
    indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%p, %b : memref<9x160xf32>, memref<9x160xf32>) outs(%d : memref<9xf32>) {
  ^bb0(%a: f32, %c: f32, %s: f32):
    %m = arith.mulf %a, %c : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  }
  linalg.generic {
    indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%p : memref<9x160xf32>) outs(%d : memref<9xf32>) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %s, %a : f32
    linalg.yield %t : f32
  }
}

// A vector of each of several outputs is stored once all are computed.
// CHECK-LABEL: # kernel several
// CHECK:       def body_0(p0):
// CHECK-NEXT:      v0 = p0 + p0
// CHECK-NEXT:      return v0, p0
// CHECK:       v1 = load_4(x, i0)
// CHECK-NEXT:  v2, v3 = body_0(v1[0])
// CHECK:       store_4(o, i0, (v2, v4, v6, v8))
// CHECK-NEXT:  store_4(p, i0, (v3, v5, v7, v9))
// CHECK:       o[i1] = {{v.+}}
// CHECK-NEXT:  p[i1] = {{v.+}}
launch.kernel @several target "cuda" (%x: memref<40xf32>, %o: memref<40xf32>, %p: memref<40xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : memref<40xf32>) outs(%o, %p : memref<40xf32>, memref<40xf32>) {
  ^bb0(%c: f32, %e: f32, %f: f32):
    %s = arith.addf %c, %c : f32
    linalg.yield %s, %c : f32, f32
  }
}
