// RUN: penstock-opt %s -p raise-linalg-to-kernel -t numba | filecheck %s

// A contraction is a loop over units, each a strip of tiles; its start and finish are a
// function of vectors. Columns that do not fill a tile have a strip of their
// own. As many parts as there is work for share the units. Extents and strides are
// arguments: 3 units, 2 of which are whole, of 100 rows and 90 terms, and 6 columns left.
// CHECK-LABEL: # kernel product
// CHECK-NEXT:  from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel, number
// CHECK-NEXT:  from penstock.runtime.kernels.cpu.matmul.tile import address_of, outer_micro_kernel
// CHECK-NEXT:  from penstock.runtime.kernels.cpu.simd import Argument
// CHECK-EMPTY:
// CHECK-NEXT:  PARTS = 3
// CHECK-NEXT:  ROW = ["a", "b", "d", "o", 90, 150, 150, 3, 2, 90, 100, 6]
// CHECK:       def finish_0(x, s, p0):
// CHECK-NEXT:      [[V:v[0-9]+]] = s + p0
// CHECK-NEXT:      [[W:v[0-9]+]] = x.maximum([[V]], x.f32(0.0))
// CHECK-NEXT:      return [[W]]
// CHECK:       micro_kernel_0 = outer_micro_kernel("f32", 6, 4, 16, a=(Argument(0), 1), b=Argument(1), c=Argument(2), rest=4, inputs=[(0, 1)], finish=finish_0)
// CHECK-NEXT:  micro_kernel_0_tail = outer_micro_kernel("f32", 6, 2, 16, a=(Argument(0), 1), b=Argument(1), c=Argument(2), rest=4, masked=True, inputs=[(0, 1)], finish=finish_0)
// CHECK:       def kernel(args, part, parts):
// CHECK-NOT:       return 0
// CHECK:           [[A:v[0-9]+]] = address_of(a)
// CHECK-NEXT:      [[B:v[0-9]+]] = address_of(b)
// CHECK-NEXT:      [[O:v[0-9]+]] = address_of(o)
// CHECK-NEXT:      [[D:v[0-9]+]] = address_of(d)
// CHECK-NEXT:      for [[I:i[0-9]+]] in range(n3 * part // parts, n3 * (part + 1) // parts):
// CHECK-NEXT:          if [[I]] < n4:
// CHECK-NEXT:              micro_kernel_0([[A]], [[B]] + [[I]] * 256, [[O]] + [[I]] * 256, n6, 16, n5, 1, 1, ([[D]] + [[I]] * 256,), (n0, n1, n2))
// CHECK-NEXT:          else:
// CHECK-NEXT:              micro_kernel_0_tail([[A]], [[B]] + [[I]] * 256, [[O]] + [[I]] * 256, n6, n7, n5, 1, 1, ([[D]] + [[I]] * 256,), (n0, n1, n2))
// CHECK-NEXT:      return 0
launch.kernel @product target "cpu" (%a: memref<100x90xf32>, %b: memref<90x150xf32>, %d: memref<150xf32>, %o: memref<100x150xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<100x150xf32>)
  linalg.matmul {schedule = #launch.contraction<outer, tile [6, 4, 16], block [102, 90]>} ins(%a, %b : memref<100x90xf32>, memref<90x150xf32>) outs(%o : memref<100x150xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%d : memref<150xf32>) outs(%o : memref<100x150xf32>) {
  ^bb0(%x: f32, %s: f32):
    %zero = arith.constant 0.0 : f32
    %t = arith.addf %s, %x : f32
    %u = arith.maximumf %t, %zero : f32
    linalg.yield %u : f32
  }
}

// Blocks of terms are packed one after the other, and add to the result, which holds
// the sums so far: no call is the first one, at -1. Another stage makes part 0 do all the
// work.
// CHECK-LABEL: # kernel blocks
// CHECK:       from penstock.runtime.kernels.cpu.matmul.packing import pack, scratch
// CHECK:       PARTS = 1
// CHECK:       ROW = ["a", "b", "o", "p", 30, 16, 16, 768, 2, 30, 12, 480, 256, 64, -1, 8, 4, 128]
// CHECK:       micro_kernel_0 = outer_micro_kernel("f32", 4, 1, 16, a=(Argument(0), 1), b=16, c=Argument(1), rest=0, blocked=True, fetch=True)
// CHECK-NEXT:  pack_0 = pack("f32", 1, 16, (Argument(0), 1))
// CHECK:       def kernel(args, part, parts):
// CHECK-NEXT:      if part != 0:
// CHECK-NEXT:          return 0
// CHECK:           [[P:panel_0]] = scratch(n3)
// CHECK-NEXT:      for [[I:i[0-9]+]] in range(n4):
// CHECK-NEXT:          for [[K:i[0-9]+]] in range(0, n5, n6):
// CHECK-NEXT:              [[N:v[0-9]+]] = min(n6, n5 - [[K]])
// CHECK-NEXT:              pack_0([[B:v[0-9]+]] + [[K]] * n9, [[P]], 16, [[N]], (n2,))
// CHECK-NEXT:              micro_kernel_0([[A:v[0-9]+]] + [[I]] * n7 + [[K]] * 4, [[P]], [[O:v[0-9]+]] + [[I]] * n8, min(n12, n11 - [[I]] * n12), 16, [[N]], [[K]] == n10, [[K]] + [[N]] == n5, (), (n0, n1))
// CHECK:           line_0((address_of(o), address_of(p), n13,))
launch.kernel @blocks target "cpu" (%a: memref<8x30xf32>, %b: memref<30x16xf32>, %o: memref<8x16xf32>, %p: memref<8x16xf32>) {
  linalg.matmul {schedule = #launch.contraction<outer, tile [4, 1, 16], block [4, 12], packed>} ins(%a, %b : memref<8x30xf32>, memref<30x16xf32>) outs(%o : memref<8x16xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%o : memref<8x16xf32>) outs(%p : memref<8x16xf32>) {
  ^bb0(%s: f32, %old: f32):
    %t = arith.negf %s : f32
    linalg.yield %t : f32
  }
}

// Windows are packed from the first column and term on. Taps are in the code.
// CHECK-LABEL: # kernel windows
// CHECK:       pack_0 = pack_windows("f32", 1, 16, (Argument(0), ((2, Argument(1)), (2, 1)), ((Argument(2), Argument(3)), (Argument(4), 1))), masked=True)
// CHECK:           for [[I:i[0-9]+]] in range([[UNITS:n[0-9]+]]):
// CHECK-NEXT:          for [[K:i[0-9]+]] in range(0, [[TERMS:n[0-9]+]], [[DEPTH:n[0-9]+]]):
// CHECK-NEXT:              [[N:v[0-9]+]] = min([[DEPTH]], [[TERMS]] - [[K]])
// CHECK-NEXT:              pack_0([[B:v[0-9]+]], panel_0, [[USED:n[0-9]+]] if [[I]] == [[LAST:n[0-9]+]] else 16, [[N]], [[I]] * 16, [[K]], (n2, n3, n4, n5, n6))
launch.kernel @windows target "cpu" (%w: memref<4x5x2x2xf32>, %x: memref<5x6x6xf32>, %o: memref<4x5x5xf32>) {
  linalg.generic {indexing_maps = [affine_map<(o, y, x, c, p, q) -> (o, c, p, q)>, affine_map<(o, y, x, c, p, q) -> (c, y + p, x + q)>, affine_map<(o, y, x, c, p, q) -> (o, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%w, %x : memref<4x5x2x2xf32>, memref<5x6x6xf32>) outs(%o : memref<4x5x5xf32>) attrs = {schedule = #launch.contraction<outer, tile [4, 1, 16], block [4, 8], packed>} {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
}

// Upright tiles read windows where they lie, two to a line of 6 here, for two panels of
// weights; the last block ends with the line that is left over.
// CHECK-LABEL: # kernel upright
// CHECK:       from penstock.runtime.kernels.cpu.matmul.transposed_tile import transposed_micro_kernel
// CHECK:       micro_kernel_0 = transposed_micro_kernel("f32", 1, 16, terms=((3, 64), (3, 8), (3, 1)), tiles=((1, 2, 6),), steps=(8, 1), turn=16, c=30, tail=(1, 6))
// CHECK:           for [[I:i[0-9]+]] in range(4):
// CHECK-NEXT:          [[PANEL:v[0-9]+]] = [[I]] % 2
// CHECK-NEXT:          [[BLOCK:v[0-9]+]] = [[I]] // 2
// CHECK-NEXT:          micro_kernel_0([[W:v[0-9]+]] + [[PANEL]] * 1728, [[X:v[0-9]+]] + [[BLOCK]] * 128, [[O:v[0-9]+]] + [[PANEL]] * 1920 + [[BLOCK]] * 96, min(2, 2 - [[BLOCK]] * 2), [[BLOCK]] == 1, ())
launch.kernel @upright target "cpu" (%x: memref<3x8x8xf32>, %w: memref<32x3x3x3xf32>, %o: memref<32x5x6xf32>) attributes {panels = [unit, #launch.panels<[1, 32, 27], axis 1, width 16, depth 27>, unit]} {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<32x5x6xf32>)
  linalg.generic {indexing_maps = [affine_map<(m, y, x, c, p, q) -> (c, y + p, x + q)>, affine_map<(m, y, x, c, p, q) -> (m, c, p, q)>, affine_map<(m, y, x, c, p, q) -> (m, y, x)>],
                  iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : memref<3x8x8xf32>, memref<32x3x3x3xf32>) outs(%o : memref<32x5x6xf32>) attrs = {schedule = #launch.contraction<upright, tile [12, 1, 16], block [24, 27], panels a>} {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
}

// What is out of an image is not read where windows are packed: the bounds of lines and of
// columns are their extent, where the first element is, and what terms and columns add.
// The first of all is a line (6) and two columns before the image, which is 32 bytes.
// CHECK-LABEL: # kernel padded_windows
// CHECK:       ROW = [{{.*}}, 2, -32, -1, 4]
// CHECK:       micro_kernel_0 = outer_micro_kernel("f32", 4, 1, 16, a=(Argument(0), 1), b=16
// CHECK-NEXT:  pack_0 = pack_windows("f32", 1, 16, (Argument(0), ((3, Argument(1)), (3, 1)), ((Argument(2), Argument(3)), (Argument(4), 1))), masked=True, bounds=[(Argument(5), -1, (0, 1, 0), (1, 0)), (Argument(6), -2, (0, 0, 1), (0, 1))])
// CHECK:       pack_0({{v[0-9]+}} + n{{[0-9]+}}, panel_0
launch.kernel @padded_windows target "cpu" (%w: memref<4x5x3x3xf32>, %x: memref<5x6x6xf32>, %o: memref<4x5x7xf32>) {
  %p = kernel.padded %x low [0, 1, 2] high [0, 0, 1] : memref<5x6x6xf32> to memref<5x7x9xf32>
  linalg.generic {indexing_maps = [affine_map<(o, y, x, c, p, q) -> (o, c, p, q)>, affine_map<(o, y, x, c, p, q) -> (c, y + p, x + q)>, affine_map<(o, y, x, c, p, q) -> (o, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%w, %p : memref<4x5x3x3xf32>, memref<5x7x9xf32>) outs(%o : memref<4x5x7xf32>) attrs = {schedule = #launch.contraction<outer, tile [4, 1, 16], block [4, 18], packed>} {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %u = arith.mulf %a, %b : f32
    %t = arith.addf %s, %u : f32
    linalg.yield %t : f32
  }
}

// Threads share the larger factor: a has more rows than b has columns, so that each
// thread has rows of its own, and reads all columns with these.
// CHECK-LABEL: # kernel rows
// CHECK:       ROW = ["a", "b", "o", 30, 32, 32, 10, 2, 30,
// CHECK:           for [[I:i[0-9]+]] in range(n3):
// CHECK-NEXT:          [[PANEL:v[0-9]+]] = [[I]] % n4
// CHECK-NEXT:          [[BLOCK:v[0-9]+]] = [[I]] // n4
// CHECK:               micro_kernel_0([[A:v[0-9]+]] + [[BLOCK]] * [[N7:n[0-9]+]] + {{.*}}, [[B:v[0-9]+]] + [[PANEL]] * 64 + {{.*}}, [[O:v[0-9]+]] + [[PANEL]] * 64 + [[BLOCK]] * [[N8:n[0-9]+]],
launch.kernel @rows target "cpu" (%a: memref<40x30xf32>, %b: memref<30x32xf32>, %o: memref<40x32xf32>) {
  linalg.matmul {schedule = #launch.contraction<outer, tile [4, 1, 16], block [8, 30]>} ins(%a, %b : memref<40x30xf32>, memref<30x32xf32>) outs(%o : memref<40x32xf32>)
}

// The other way around.
// CHECK-LABEL: # kernel columns
// CHECK:       ROW = ["a", "b", "o", 30, 32, 32, 6, 3, 30,
// CHECK:           for [[I:i[0-9]+]] in range(n3):
// CHECK-NEXT:          [[BLOCK:v[0-9]+]] = [[I]] % n4
// CHECK-NEXT:          [[PANEL:v[0-9]+]] = [[I]] // n4
// CHECK:               micro_kernel_0([[A:v[0-9]+]] + [[BLOCK]] * [[N7:n[0-9]+]] + {{.*}}, [[B:v[0-9]+]] + [[PANEL]] * 64 + {{.*}}, [[O:v[0-9]+]] + [[PANEL]] * 64 + [[BLOCK]] * [[N8:n[0-9]+]],
launch.kernel @columns target "cpu" (%a: memref<24x30xf32>, %b: memref<30x32xf32>, %o: memref<24x32xf32>) {
  linalg.matmul {schedule = #launch.contraction<outer, tile [4, 1, 16], block [8, 30]>} ins(%a, %b : memref<24x30xf32>, memref<30x32xf32>) outs(%o : memref<24x32xf32>)
}

// A loop that the schedule fixes has its extents and strides in the code: the terms here.
// CHECK-LABEL: # kernel fixed_terms
// CHECK:       ROW = ["a", "b", "o", 30, 32, 10, 2,
// CHECK:       micro_kernel_0 = outer_micro_kernel("f32", 4, 1, 16, a=(Argument(0), 1), b=32, c=Argument(1),
// CHECK:               for [[K:i[0-9]+]] in range(0, 30, 10):
launch.kernel @fixed_terms target "cpu" (%a: memref<40x30xf32>, %b: memref<30x32xf32>, %o: memref<40x32xf32>) {
  linalg.matmul {schedule = #launch.contraction<outer, tile [4, 1, 16], block [8, 10], fixed [2]>} ins(%a, %b : memref<40x30xf32>, memref<30x32xf32>) outs(%o : memref<40x32xf32>)
}
