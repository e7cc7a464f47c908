// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=64}' | filecheck %s
// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=32}' | filecheck %s --check-prefix=NARROW
// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=64}' | penstock-opt -p 'launch-schedule-contractions{vector-bytes=16}' | filecheck %s
// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=64 parts=3}' | filecheck %s --check-prefix=PARTS
// RUN: not penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=48}' 2>&1 | filecheck %s --check-prefix=ODD
// RUN: not penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{parts=0}' 2>&1 | filecheck %s --check-prefix=NO-PARTS

// NO-PARTS: launch-schedule-contractions: parts must be at least 1, got 0
// ODD: launch-schedule-contractions: vectors have 16, 32, 64 bytes, got 48

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#bt = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>

// A product has vectors of as many lanes as fit, and tiles that fit into 32 registers, or
// 16 where vectors are short.
// CHECK-LABEL:  launch.kernel @small
// CHECK:        kernel.contract {{.*}}schedule = #launch.contraction<outer, tile [4, 4, 16], block [64, 64]>}
// NARROW-LABEL: launch.kernel @small
// NARROW:       kernel.contract {{.*}}schedule = #launch.contraction<outer, tile [6, 2, 8], block [66, 64]>}
launch.kernel @small target "cpu" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  linalg.matmul ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>)
}

// Elements of 64 bits make vectors of half the lanes.
// CHECK-LABEL: launch.kernel @doubles
// CHECK:       kernel.contract {{.*}}schedule = #launch.contraction<outer, tile [{{[0-9]+}}, {{[0-9]+}}, 8], {{.*}}>}
launch.kernel @doubles target "cpu" (%a: memref<64x64xf64>, %b: memref<64x64xf64>, %o: memref<64x64xf64>) {
  linalg.matmul ins(%a, %b : memref<64x64xf64>, memref<64x64xf64>) outs(%o : memref<64x64xf64>)
}

// Of a large product rows are copied, too, 512 with 128 terms at a time, and all columns
// computed with the copy; by parts that share the rows and the columns.
// CHECK-LABEL: launch.kernel @large
// CHECK:       kernel.contract {{.*}}schedule = #launch.contraction<outer, tile [4, 4, 16], block [512, 128], packed, reuse 16>}
// PARTS-LABEL: launch.kernel @large
// PARTS:       kernel.contract {{.*}}schedule = #launch.contraction<outer, tile [4, 4, 16], block [344, 128], packed, reuse 4>}
launch.kernel @large target "cpu" (%a: memref<1024x1024xf32>, %b: memref<1024x1024xf32>, %o: memref<1024x1024xf32>) {
  linalg.matmul ins(%a, %b : memref<1024x1024xf32>, memref<1024x1024xf32>) outs(%o : memref<1024x1024xf32>)
}

// Rows are cut where few columns would leave parts without work: 512 x 16 columns are one
// unit, three for three parts.
// CHECK-LABEL: launch.kernel @narrow
// CHECK:       kernel.contract {{.*}}schedule = #launch.contraction<outer, tile [29, 1, 16], block [522, 64]>}
// PARTS-LABEL: launch.kernel @narrow
// PARTS:       kernel.contract {{.*}}schedule = #launch.contraction<outer, tile [29, 1, 16], block [87, 64]>}
launch.kernel @narrow target "cpu" (%a: memref<512x64xf32>, %b: memref<64x16xf32>, %o: memref<512x16xf32>) {
  linalg.matmul ins(%a, %b : memref<512x64xf32>, memref<64x16xf32>) outs(%o : memref<512x16xf32>)
}

// One row reads rows of the matrix as they lie.
// CHECK-LABEL: launch.kernel @vector
// CHECK:       kernel.contract {{.*}}schedule = #launch.contraction<outer, tile [1, 24, 16], block [1, 768]>}
launch.kernel @vector target "cpu" (%a: memref<1x768xf32>, %b: memref<768x768xf32>, %o: memref<1x768xf32>) {
  linalg.matmul ins(%a, %b : memref<1x768xf32>, memref<768x768xf32>) outs(%o : memref<1x768xf32>)
}

// Columns whose terms follow each other are packed for many rows, and vectors run along
// the terms for few.
// CHECK-LABEL: launch.kernel @transposed
// CHECK:       kernel.contract {{.*}}attributes {schedule = #launch.contraction<outer, {{.*}}, packed>}
// CHECK-LABEL: launch.kernel @rows
// CHECK:       kernel.contract {{.*}}attributes {schedule = #launch.contraction<inner, tile [2, 8, 16], block [2, 64]>}
launch.kernel @transposed target "cpu" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  linalg.generic {indexing_maps = [#a, #bt, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
}
launch.kernel @rows target "cpu" (%a: memref<2x64xf32>, %b: memref<64x64xf32>, %o: memref<2x64xf32>) {
  linalg.generic {indexing_maps = [#a, #bt, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<2x64xf32>, memref<64x64xf32>) outs(%o : memref<2x64xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %y, %x : f32
    %t = arith.addf %p, %s : f32
    linalg.yield %t : f32
  }
}

// Windows of a convolution are packed, so many channels at a time that a panel has whole
// windows, unless lines fill vectors: then they are read where they lie. Windows of one tap
// at each place are a product.
// CHECK-LABEL: launch.kernel @short_lines
// CHECK:       kernel.contract {{.*}}attributes {schedule = #launch.contraction<outer, tile [8, 3, 16], block [64, 468], packed>}
// CHECK-LABEL: launch.kernel @windows
// CHECK:       kernel.contract {{.*}}attributes {schedule = #launch.contraction<outer, tile [13, 2, 16], block [65, 936]>}
// CHECK-LABEL: launch.kernel @one_tap
// CHECK:       kernel.contract {{.*}}attributes {schedule = #launch.contraction<outer, tile [4, 4, 16], block [64, 64]>}
launch.kernel @short_lines target "cpu" (%w: memref<64x104x3x3xf32>, %x: memref<1x104x42x26xf32>, %o: memref<1x64x40x24xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, o, y, x, c, p, q) -> (o, c, p, q)>, affine_map<(i, o, y, x, c, p, q) -> (i, c, y + p, x + q)>, affine_map<(i, o, y, x, c, p, q) -> (i, o, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%w, %x : memref<64x104x3x3xf32>, memref<1x104x42x26xf32>) outs(%o : memref<1x64x40x24xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
}
launch.kernel @windows target "cpu" (%w: memref<64x104x3x3xf32>, %x: memref<1x104x34x34xf32>, %o: memref<1x64x32x32xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, o, y, x, c, p, q) -> (o, c, p, q)>, affine_map<(i, o, y, x, c, p, q) -> (i, c, y + p, x + q)>, affine_map<(i, o, y, x, c, p, q) -> (i, o, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%w, %x : memref<64x104x3x3xf32>, memref<1x104x34x34xf32>) outs(%o : memref<1x64x32x32xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
}
launch.kernel @one_tap target "cpu" (%w: memref<64x64x1x1xf32>, %x: memref<1x64x8x8xf32>, %o: memref<1x64x8x8xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, o, y, x, c, p, q) -> (o, c, p, q)>, affine_map<(i, o, y, x, c, p, q) -> (i, c, y + p, x + q)>, affine_map<(i, o, y, x, c, p, q) -> (i, o, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%w, %x : memref<64x64x1x1xf32>, memref<1x64x8x8xf32>) outs(%o : memref<1x64x8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
}

// A panel has at least all terms of one channel; there may be as many as a panel of one
// vector holds, also where windows are two elements apart and cannot be read where they lie.
// CHECK-LABEL: launch.kernel @large_windows
// CHECK:       kernel.contract {{.*}}attributes {schedule = #launch.contraction<outer, tile [4, 1, 16], block [8, 2025], packed>}
// CHECK-LABEL: launch.kernel @too_large
// CHECK:       kernel.contract {{.*}}attributes {no_schedule = "windows of 2116 terms do not fit into panels"}
launch.kernel @large_windows target "cpu" (%w: memref<8x2x45x45xf32>, %x: memref<2x107x107xf32>, %o: memref<8x32x32xf32>) {
  linalg.generic {indexing_maps = [affine_map<(o, y, x, c, p, q) -> (o, c, p, q)>, affine_map<(o, y, x, c, p, q) -> (c, 2 * y + p, 2 * x + q)>, affine_map<(o, y, x, c, p, q) -> (o, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%w, %x : memref<8x2x45x45xf32>, memref<2x107x107xf32>) outs(%o : memref<8x32x32xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
}
launch.kernel @too_large target "cpu" (%w: memref<8x2x46x46xf32>, %x: memref<2x108x108xf32>, %o: memref<8x32x32xf32>) {
  linalg.generic {indexing_maps = [affine_map<(o, y, x, c, p, q) -> (o, c, p, q)>, affine_map<(o, y, x, c, p, q) -> (c, 2 * y + p, 2 * x + q)>, affine_map<(o, y, x, c, p, q) -> (o, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%w, %x : memref<8x2x46x46xf32>, memref<2x108x108xf32>) outs(%o : memref<8x32x32xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
}

// A finish that has other ops than those of vectors is a stage after the tiles.
// CHECK-LABEL: launch.kernel @finished
// CHECK:       kernel.contract {{.*}}attributes {no_finish = "finish: its ops have no vectors of f32", schedule = #launch.contraction<outer, tile [8, 1, 16], block [8, 8]>}
// CHECK-NEXT:  linalg.generic
launch.kernel @finished target "cpu" (%a: memref<8x8xf32>, %b: memref<8x8xf32>, %c: memref<8xf32>, %o: memref<8x8xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<8x8xf32>)
  linalg.matmul ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)
  linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%c : memref<8xf32>) outs(%o : memref<8x8xf32>) {
  ^bb0(%x: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  }
  linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%o : memref<8x8xf32>) {
  ^bb0(%s: f32):
    %i = arith.fptosi %s : f32 to i32
    %t = arith.sitofp %i : i32 to f32
    linalg.yield %t : f32
  }
}

// A contraction after which the result is read in other places, or with padding, has its
// schedule without these stages.
// CHECK-LABEL: launch.kernel @apart
// CHECK:       kernel.contract {{.*}}schedule = #launch.contraction<outer, tile [8, 1, 16], block [8, 8]>}
// CHECK-LABEL: launch.kernel @other
// CHECK:       kernel.contract {{.*}}schedule = #launch.contraction<outer, tile [8, 1, 16], block [8, 8]>}
// CHECK-LABEL: launch.kernel @padded
// CHECK:       kernel.contract {{.*}}schedule = #launch.contraction<outer, tile [8, 1, 16], block [8, 8]>}
launch.kernel @apart target "cpu" (%a: memref<8x8xf32>, %b: memref<8x8xf32>, %o: memref<8x8xf32>) {
  linalg.matmul ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, #id], iterator_types = ["parallel", "parallel"]} ins(%o : memref<8x8xf32>) outs(%o : memref<8x8xf32>) {
  ^bb0(%x: f32, %s: f32):
    linalg.yield %x : f32
  }
}
launch.kernel @other target "cpu" (%a: memref<8x8xf32>, %b: memref<8x8xf32>, %o: memref<8x8xf32>, %p: memref<8x8xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%p : memref<8x8xf32>)
  linalg.matmul ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%o : memref<8x8xf32>) outs(%p : memref<8x8xf32>) {
  ^bb0(%x: f32, %s: f32):
    linalg.yield %x : f32
  }
}
launch.kernel @padded target "cpu" (%a: memref<8x8xf32>, %b: memref<8x8xf32>, %c: memref<8x7xf32>, %o: memref<8x8xf32>) {
  %p = kernel.padded %c low [0, 1] high [0, 0] : memref<8x7xf32> to memref<8x8xf32>
  linalg.matmul ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : memref<8x8xf32>) outs(%o : memref<8x8xf32>) {
  ^bb0(%x: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  }
}

// Where tiles compute no sum of products, it says why.
// CHECK-LABEL: launch.kernel @refused
// CHECK:       kernel.contract {{.*}}attributes {no_schedule = "both factors depend on the loop along the result"}
// CHECK:       kernel.contract {{.*}}attributes {no_schedule = "the terms of a factor are not equally far apart"}
launch.kernel @refused target "cpu" (%a: memref<4x8xf32>, %b: memref<4x8xf32>, %c: memref<8x4x8xf32>, %d: memref<8x4xf32>, %o: memref<8xf32>) {
  linalg.generic {indexing_maps = [affine_map<(j, k) -> (k, j)>, affine_map<(j, k) -> (k, j)>, affine_map<(j, k) -> (j)>], iterator_types = ["parallel", "reduction"]} ins(%a, %b : memref<4x8xf32>, memref<4x8xf32>) outs(%o : memref<8xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, k, l) -> (l, k, i)>, affine_map<(i, k, l) -> (l, k)>, affine_map<(i, k, l) -> (i)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%c, %d : memref<8x4x8xf32>, memref<8x4xf32>) outs(%o : memref<8xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
}

// Integers of 8 bits say that there are no tiles that store them. Other ops than
// contractions, and kernels for other devices, are left alone.
// CHECK-LABEL: launch.kernel @integers
// CHECK:       kernel.contract {{.*}}schedule = #launch.contraction<outer
// CHECK-LABEL: launch.kernel @bytes
// CHECK:       kernel.contract {{.*}}no_schedule = "there are no tiles that sum products of i8 in i8"
// CHECK-NOT:   schedule
launch.kernel @integers target "cpu" (%a: memref<8x8xi32>, %b: memref<8x8xi32>, %o: memref<8x8xi32>) {
  linalg.matmul ins(%a, %b : memref<8x8xi32>, memref<8x8xi32>) outs(%o : memref<8x8xi32>)
}
launch.kernel @bytes target "cpu" (%a: memref<8x8xi8>, %b: memref<8x8xi8>, %o: memref<8x8xi8>) {
  linalg.matmul ins(%a, %b : memref<8x8xi8>, memref<8x8xi8>) outs(%o : memref<8x8xi8>)
}
launch.kernel @sums target "cpu" (%a: memref<8x8xf32>, %o: memref<8xf32>) {
  linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%a : memref<8x8xf32>) outs(%o : memref<8xf32>) {
  ^bb0(%x: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  }
}
launch.kernel @device target "cuda" (%a: memref<8x8xf32>, %b: memref<8x8xf32>, %o: memref<8x8xf32>) {
  linalg.matmul ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)
}

// -----

// So is a small matrix that many rows read, if its rows begin within lines of 64 bytes:
// 4 x 52 bytes do, 4 x 64 bytes do not. Few rows are not worth it.

// CHECK-LABEL: launch.kernel @lines
// CHECK:       kernel.contract {{.*}}schedule = #launch.contraction<outer, {{.*}}, packed>}
// CHECK:       kernel.contract {{.*}}schedule = #launch.contraction<outer, tile {{[^a-z]*}} block {{[^a-z]*}}>}
// CHECK:       kernel.contract {{.*}}schedule = #launch.contraction<outer, tile {{[^a-z]*}} block {{[^a-z]*}}>}
launch.kernel @lines target "cpu"
  (%a: memref<96x8xf32>, %b: memref<8x52xf32>, %c: memref<8x64xf32>, %d: memref<63x8xf32>,
   %x: memref<96x52xf32>, %y: memref<96x64xf32>, %z: memref<63x52xf32>) {
  linalg.matmul ins(%a, %b : memref<96x8xf32>, memref<8x52xf32>) outs(%x : memref<96x52xf32>)
  linalg.matmul ins(%a, %c : memref<96x8xf32>, memref<8x64xf32>) outs(%y : memref<96x64xf32>)
  linalg.matmul ins(%d, %b : memref<63x8xf32>, memref<8x52xf32>) outs(%z : memref<63x52xf32>)
}

// -----

// Where columns are packed, too, parts may have as few as 64 rows: each packs them anew.

// CHECK-LABEL: launch.kernel @packed
// CHECK:       kernel.contract {{.*}}schedule = #launch.contraction<outer, {{.*}} block [192, 64], packed>}
// PARTS-LABEL: launch.kernel @packed
// PARTS:       kernel.contract {{.*}}schedule = #launch.contraction<outer, {{.*}} block [6{{[4-9]}}, 64], packed>}
launch.kernel @packed target "cpu" (%a: memref<192x64xf32>, %b: memref<64x49xf32>, %o: memref<192x49xf32>) {
  linalg.matmul ins(%a, %b : memref<192x64xf32>, memref<64x49xf32>) outs(%o : memref<192x49xf32>)
}
