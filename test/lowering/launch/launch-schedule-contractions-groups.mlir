// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=64}' | filecheck %s
// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=64},launch-schedule-contractions{vector-bytes=32}' | filecheck %s
// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=32}' | filecheck %s --check-prefix=NARROW
// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=64 panels=false}' | filecheck %s --check-prefix=USUAL
// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=64 matrices=true}' | filecheck %s --check-prefix=MATRICES
// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=32 matrices=true}' | filecheck %s --check-prefix=NARROW

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#o = affine_map<(m, n, k) -> (m, n)>

// USUAL-NOT: panels

// Bytes, of any sign, are multiplied four terms at once. A weight lies in panels of
// such groups, and rows are copied.
// CHECK-LABEL:  launch.program @weights
// CHECK:          launch.variable @w in @v at 0 init <ones> panels <[1, 768, 768], axis 2, width {{[0-9]+}}, depth 768, group 4> : memref<768x768xi8>
// CHECK:          #launch.contraction<outer, tile [{{[0-9]+}}, {{[0-9]+}}, 16], block [{{[0-9]+}}, {{768|384}}], group 4, reuse {{[0-9]+}}, panels b>
// MATRICES-LABEL: launch.program @weights
// MATRICES:       launch.variable @w {{.*}} panels <[1, 768, 768], axis 2, width 32, depth 768, group 4>
// MATRICES:       #launch.contraction<outer, tile [32, 2, 16], block [{{[0-9]+}}, 768], matrices, reuse {{[0-9]+}}, panels b>
// NARROW-LABEL: launch.program @weights
// NARROW:         #launch.contraction<outer, tile [{{[0-9]+}}, {{[0-9]+}}, 8], block [{{[0-9]+}}, {{768|384}}], group 4, reuse {{[0-9]+}}, panels b>
launch.program @weights rank 0 {
  launch.chunk @v on <0, host> size 589824
  launch.chunk @c on <0, host> size 589824
  launch.variable @w in @v at 0 init <ones> : memref<768x768xi8>
  launch.register @x in @c at 0 slots 1 : memref<128x768xi8>
  launch.register @y in @c at 98304 slots 1 : memref<128x768xi32>
  launch.kernel @k target "cpu" (%a: memref<128x768xi8>, %b: memref<768x768xi8>, %o: memref<128x768xi32>) {
    linalg.generic {indexing_maps = [#a, #b, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<128x768xi8>, memref<768x768xi8>) outs(%o : memref<128x768xi32>) {
    ^bb0(%x: i8, %y: i8, %s: i32):
      %p = arith.extui %x : i8 to i32
      %q = arith.extsi %y : i8 to i32
      %r = arith.muli %p, %q : i32
      %t = arith.addi %s, %r : i32
      linalg.yield %t : i32
    }
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    launch.call @k [@x, @w, @y]
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@y] writes [] {
    launch.fetch "y" from @y
  }
}

// What is no constant is packed; a block has whole groups, also of an odd number of terms.
// Fewer than 16 rows are not worth registers of matrices.
// MATRICES-LABEL: launch.kernel @packed
// MATRICES:         #launch.contraction<outer, tile [5, 1, 16], block [5, 16], group 4, packed, reuse 1>
// CHECK-LABEL: launch.kernel @packed
// CHECK:         #launch.contraction<outer, tile [5, 1, 16], block [5, 16], group 4, packed, reuse 1>
launch.kernel @packed target "cpu" (%a: memref<5x13xi8>, %b: memref<13x7xi8>, %o: memref<5x7xi32>) {
  linalg.generic {indexing_maps = [#a, #b, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<5x13xi8>, memref<13x7xi8>) outs(%o : memref<5x7xi32>) {
  ^bb0(%x: i8, %y: i8, %s: i32):
    %p = arith.extui %x : i8 to i32
    %q = arith.extui %y : i8 to i32
    %r = arith.muli %p, %q : i32
    %t = arith.addi %r, %s : i32
    linalg.yield %t : i32
  }
}

// So are windows, however few rows share them, if all of them are there.
// CHECK-LABEL: launch.kernel @windows
// CHECK:         #launch.contraction<outer, tile [4, {{[0-9]+}}, 16], block [4, 28], group 4, packed, reuse {{[0-9]+}}>
// CHECK-LABEL: launch.kernel @few
// CHECK:         #launch.contraction<outer, tile [3, {{[0-9]+}}, 16], block [3, 28], group 4, packed, reuse {{[0-9]+}}>
// CHECK-LABEL: launch.kernel @padded
// CHECK:         no_schedule = "a factor that is narrower than its sums has padding around it"
launch.kernel @windows target "cpu" (%w: memref<4x3x3x3xi8>, %x: memref<3x10x10xi8>, %o: memref<4x8x8xi32>) {
  linalg.generic {indexing_maps = [affine_map<(o, y, x, c, p, q) -> (o, c, p, q)>, affine_map<(o, y, x, c, p, q) -> (c, y + p, x + q)>, affine_map<(o, y, x, c, p, q) -> (o, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%w, %x : memref<4x3x3x3xi8>, memref<3x10x10xi8>) outs(%o : memref<4x8x8xi32>) {
  ^bb0(%x_: i8, %y_: i8, %s: i32):
    %p = arith.extsi %x_ : i8 to i32
    %q = arith.extsi %y_ : i8 to i32
    %r = arith.muli %p, %q : i32
    %t = arith.addi %s, %r : i32
    linalg.yield %t : i32
  }
}
launch.kernel @few target "cpu" (%w: memref<3x3x3x3xi8>, %x: memref<3x10x10xi8>, %o: memref<3x8x8xi32>) {
  linalg.generic {indexing_maps = [affine_map<(o, y, x, c, p, q) -> (o, c, p, q)>, affine_map<(o, y, x, c, p, q) -> (c, y + p, x + q)>, affine_map<(o, y, x, c, p, q) -> (o, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%w, %x : memref<3x3x3x3xi8>, memref<3x10x10xi8>) outs(%o : memref<3x8x8xi32>) {
  ^bb0(%x_: i8, %y_: i8, %s: i32):
    %p = arith.extsi %x_ : i8 to i32
    %q = arith.extsi %y_ : i8 to i32
    %r = arith.muli %p, %q : i32
    %t = arith.addi %s, %r : i32
    linalg.yield %t : i32
  }
}
launch.kernel @padded target "cpu" (%w: memref<4x3x3x3xi8>, %x: memref<3x9x10xi8>, %o: memref<4x8x8xi32>) {
  %v = kernel.padded %x low [0, 1, 0] high [0, 0, 0] : memref<3x9x10xi8> to memref<3x10x10xi8>
  linalg.generic {indexing_maps = [affine_map<(o, y, x, c, p, q) -> (o, c, p, q)>, affine_map<(o, y, x, c, p, q) -> (c, y + p, x + q)>, affine_map<(o, y, x, c, p, q) -> (o, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%w, %v : memref<4x3x3x3xi8>, memref<3x10x10xi8>) outs(%o : memref<4x8x8xi32>) {
  ^bb0(%x_: i8, %y_: i8, %s: i32):
    %p = arith.extsi %x_ : i8 to i32
    %q = arith.extsi %y_ : i8 to i32
    %r = arith.muli %p, %q : i32
    %t = arith.addi %s, %r : i32
    linalg.yield %t : i32
  }
}

// A tile may have one register of rows, and of columns; a block has whole chunks of 64.
// MATRICES-LABEL: launch.kernel @chunks
// MATRICES:         #launch.contraction<outer, tile [16, 1, 16], block [16, 128], matrices, packed, reuse 1>
launch.kernel @chunks target "cpu" (%a: memref<16x70xi8>, %b: memref<70x9xi8>, %o: memref<16x9xi32>) {
  linalg.generic {indexing_maps = [#a, #b, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<16x70xi8>, memref<70x9xi8>) outs(%o : memref<16x9xi32>) {
  ^bb0(%x: i8, %y: i8, %s: i32):
    %p = arith.extui %x : i8 to i32
    %q = arith.extui %y : i8 to i32
    %r = arith.muli %p, %q : i32
    %t = arith.addi %r, %s : i32
    linalg.yield %t : i32
  }
}

// Pairs of bf16 with sums in f32 are multiplied at once; a block has whole pairs.
// CHECK-LABEL: launch.kernel @pairs
// CHECK:         #launch.contraction<outer, tile [8, 3, 16], block [256, 256], group 2, packed, reuse 8>
// CHECK-LABEL: launch.kernel @odd
// CHECK:         #launch.contraction<outer, tile [5, 1, 16], block [5, 14], group 2, packed, reuse 1>
// MATRICES-LABEL: launch.kernel @pairs
// MATRICES:         #launch.contraction<outer, tile [8, 3, 16], block [256, 256], group 2, packed, reuse 8>
launch.kernel @pairs target "cpu" (%a: memref<256x512xbf16>, %b: memref<512x384xbf16>, %o: memref<256x384xf32>) {
  kernel.contract indexing_maps = [#a, #b, #o] ins(%a, %b : memref<256x512xbf16>, memref<512x384xbf16>) outs(%o : memref<256x384xf32>)
}
launch.kernel @odd target "cpu" (%a: memref<5x13xbf16>, %b: memref<13x7xbf16>, %o: memref<5x7xf32>) {
  kernel.contract indexing_maps = [#a, #b, #o] ins(%a, %b : memref<5x13xbf16>, memref<13x7xbf16>) outs(%o : memref<5x7xf32>)
}
