// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=64}' | filecheck %s
// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=64},launch-schedule-contractions{vector-bytes=32}' | filecheck %s
// RUN: penstock-opt %s -p 'raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=64 panels=false}' | filecheck %s --check-prefix=USUAL

// USUAL-NOT: panels

// A weight that one kernel reads in one place lies in panels as tiles read it: of 8 rows,
// and as many terms as fit 32 KiB with 49 columns. These are 3 vectors and an edge.
// CHECK-LABEL: launch.program @left
// CHECK:         launch.variable @w in @v at 0 init <ones> panels <[1, 512, 2048], axis 1, width 8, depth 103> : memref<512x2048xf32>
// CHECK:         launch.kernel @k target "cpu" ({{.*}}) attributes {panels = [#launch.panels<[1, 512, 2048], axis 1, width 8, depth 103>, unit, unit]}
// CHECK:         #launch.contraction<outer, tile [8, 3, 16], block [512, 103], packed, edge 1, panels a>
launch.program @left rank 0 {
  launch.chunk @v on <0, host> size 8388608
  launch.chunk @c on <0, host> size 2097152
  launch.variable @w in @v at 0 init <ones> : memref<512x2048xf32>
  launch.register @x in @c at 0 slots 1 : memref<2048x49xf32>
  launch.register @y in @c at 1048576 slots 1 : memref<512x49xf32>
  launch.kernel @k target "cpu" (%a: memref<512x2048xf32>, %b: memref<2048x49xf32>, %o: memref<512x49xf32>) {
    linalg.matmul ins(%a, %b : memref<512x2048xf32>, memref<2048x49xf32>) outs(%o : memref<512x49xf32>)
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    launch.call @k [@w, @x, @y]
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@y] writes [] {
    launch.fetch "y" from @y
  }
}

// So does a right matrix that would be packed, here a transposed one: panels of 64 columns.
// CHECK-LABEL: launch.program @right
// CHECK:         launch.variable @w in @v at 0 init <ones> panels <[1, 512, 2048], axis 1, width {{96|64}}, depth 2048> : memref<512x2048xf32>
// CHECK:         #launch.contraction<outer, {{.*}}, panels b>
launch.program @right rank 0 {
  launch.chunk @v on <0, host> size 8388608
  launch.chunk @c on <0, host> size 2097152
  launch.variable @w in @v at 0 init <ones> : memref<512x2048xf32>
  launch.register @x in @c at 0 slots 1 : memref<49x2048xf32>
  launch.register @y in @c at 1048576 slots 1 : memref<49x512xf32>
  launch.kernel @k target "cpu" (%a: memref<49x2048xf32>, %b: memref<512x2048xf32>, %o: memref<49x512xf32>) {
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
                    iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<49x2048xf32>, memref<512x2048xf32>) outs(%o : memref<49x512xf32>) {
    ^bb0(%x: f32, %y: f32, %s: f32):
      %p = arith.mulf %x, %y : f32
      %t = arith.addf %s, %p : f32
      linalg.yield %t : f32
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

// So does a large right matrix that one row reads once: 384 KiB.
// CHECK-LABEL: launch.program @row
// CHECK:         launch.variable @w in @v at 0 init <ones> panels <[1, 128, 768], axis 2, width {{[0-9]+}}, depth 128> : memref<128x768xf32>
// CHECK:         #launch.contraction<outer, {{.*}}, panels b>
launch.program @row rank 0 {
  launch.chunk @v on <0, host> size 1048576
  launch.chunk @c on <0, host> size 8192
  launch.variable @w in @v at 0 init <ones> : memref<128x768xf32>
  launch.register @x in @c at 0 slots 1 : memref<1x128xf32>
  launch.register @y in @c at 4096 slots 1 : memref<1x768xf32>
  launch.kernel @k target "cpu" (%a: memref<1x128xf32>, %b: memref<128x768xf32>, %o: memref<1x768xf32>) {
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
                    iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x128xf32>, memref<128x768xf32>) outs(%o : memref<1x768xf32>) {
    ^bb0(%x: f32, %y: f32, %s: f32):
      %p = arith.mulf %x, %y : f32
      %t = arith.addf %s, %p : f32
      linalg.yield %t : f32
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

// So does a transposed one that one row reads, of any size, where its columns are vectors
// enough to keep the core busy: no sums of lanes are needed, and all terms are one block.
// CHECK-LABEL: launch.program @turned
// CHECK:         launch.variable @w in @v at 0 init <ones> panels <[1, 256, 512], axis 1, width 256, depth 512> : memref<256x512xf32>
// CHECK:         #launch.contraction<outer, tile [1, 16, 16], block [1, 512], panels b>
launch.program @turned rank 0 {
  launch.chunk @v on <0, host> size 1048576
  launch.chunk @c on <0, host> size 8192
  launch.variable @w in @v at 0 init <ones> : memref<256x512xf32>
  launch.register @x in @c at 0 slots 1 : memref<1x512xf32>
  launch.register @y in @c at 4096 slots 1 : memref<1x256xf32>
  launch.kernel @k target "cpu" (%a: memref<1x512xf32>, %b: memref<256x512xf32>, %o: memref<1x256xf32>) {
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
                    iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x512xf32>, memref<256x512xf32>) outs(%o : memref<1x256xf32>) {
    ^bb0(%x: f32, %y: f32, %s: f32):
      %p = arith.mulf %x, %y : f32
      %t = arith.addf %s, %p : f32
      linalg.yield %t : f32
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

// Fewer columns are sums of lanes.
// CHECK-LABEL: launch.program @few
// CHECK:         launch.variable @w in @v at 0 init <ones> : memref<112x512xf32>
// CHECK:         #launch.contraction<inner, tile [1, 8, 16], block [1, 512]>
launch.program @few rank 0 {
  launch.chunk @v on <0, host> size 1048576
  launch.chunk @c on <0, host> size 8192
  launch.variable @w in @v at 0 init <ones> : memref<112x512xf32>
  launch.register @x in @c at 0 slots 1 : memref<1x512xf32>
  launch.register @y in @c at 4096 slots 1 : memref<1x112xf32>
  launch.kernel @k target "cpu" (%a: memref<1x512xf32>, %b: memref<112x512xf32>, %o: memref<1x112xf32>) {
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
                    iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x512xf32>, memref<112x512xf32>) outs(%o : memref<1x112xf32>) {
    ^bb0(%x: f32, %y: f32, %s: f32):
      %p = arith.mulf %x, %y : f32
      %t = arith.addf %s, %p : f32
      linalg.yield %t : f32
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

// A smaller one stays in caches as it is: 192 KiB.
// CHECK-LABEL: launch.program @cached
// CHECK:         launch.variable @w in @v at 0 init <ones> : memref<64x768xf32>
launch.program @cached rank 0 {
  launch.chunk @v on <0, host> size 1048576
  launch.chunk @c on <0, host> size 8192
  launch.variable @w in @v at 0 init <ones> : memref<64x768xf32>
  launch.register @x in @c at 0 slots 1 : memref<1x64xf32>
  launch.register @y in @c at 4096 slots 1 : memref<1x768xf32>
  launch.kernel @k target "cpu" (%a: memref<1x64xf32>, %b: memref<64x768xf32>, %o: memref<1x768xf32>) {
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
                    iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x64xf32>, memref<64x768xf32>) outs(%o : memref<1x768xf32>) {
    ^bb0(%x: f32, %y: f32, %s: f32):
      %p = arith.mulf %x, %y : f32
      %t = arith.addf %s, %p : f32
      linalg.yield %t : f32
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

// Two weights of two calls of one kernel both do.
// CHECK-LABEL: launch.program @two
// CHECK:         launch.variable @w in @v at 0 init <ones> panels <[1, 512, 2048], axis 1, width 8, depth 103>
// CHECK:         launch.variable @u in @v at 4194304 init <ones> panels <[1, 512, 2048], axis 1, width 8, depth 103>
launch.program @two rank 0 {
  launch.chunk @v on <0, host> size 8388608
  launch.chunk @c on <0, host> size 2097152
  launch.variable @w in @v at 0 init <ones> : memref<512x2048xf32>
  launch.variable @u in @v at 4194304 init <ones> : memref<512x2048xf32>
  launch.register @x in @c at 0 slots 1 : memref<2048x49xf32>
  launch.register @y in @c at 1048576 slots 1 : memref<512x49xf32>
  launch.kernel @k target "cpu" (%a: memref<512x2048xf32>, %b: memref<2048x49xf32>, %o: memref<512x49xf32>) {
    linalg.matmul ins(%a, %b : memref<512x2048xf32>, memref<2048x49xf32>) outs(%o : memref<512x49xf32>)
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    launch.call @k [@w, @x, @y]
    launch.call @k [@u, @x, @y]
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@y] writes [] {
    launch.fetch "y" from @y
  }
}

// A variable that is also used in another way lies as usual.
// CHECK-LABEL: launch.program @fetched
// CHECK:         launch.variable @w in @v at 0 init <ones> : memref<512x2048xf32>
// CHECK-NOT:     panels
launch.program @fetched rank 0 {
  launch.chunk @v on <0, host> size 8388608
  launch.chunk @c on <0, host> size 2097152
  launch.variable @w in @v at 0 init <ones> : memref<512x2048xf32>
  launch.register @x in @c at 0 slots 1 : memref<2048x49xf32>
  launch.register @y in @c at 1048576 slots 1 : memref<512x49xf32>
  launch.kernel @k target "cpu" (%a: memref<512x2048xf32>, %b: memref<2048x49xf32>, %o: memref<512x49xf32>) {
    linalg.matmul ins(%a, %b : memref<512x2048xf32>, memref<2048x49xf32>) outs(%o : memref<512x49xf32>)
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    launch.call @k [@w, @x, @y]
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@y] writes [] {
    launch.fetch "y" from @y
  }
  launch.actor @show on <0, cpu:0> stream 0 reads [] writes [] {
    launch.fetch "w" from @w
  }
}

// So does one over which a register lies: another name for the same bytes.
// CHECK-LABEL: launch.program @under
// CHECK:         launch.variable @w in @v at 0 init <ones> : memref<512x2048xf32>
// CHECK-NOT:     panels
launch.program @under rank 0 {
  launch.chunk @v on <0, host> size 8388608
  launch.chunk @c on <0, host> size 2097152
  launch.variable @w in @v at 0 init <ones> : memref<512x2048xf32>
  launch.register @x in @c at 0 slots 1 : memref<2048x49xf32>
  launch.register @y in @c at 1048576 slots 1 : memref<512x49xf32>
  launch.register @r in @v at 2048 slots 1 : memref<4xf32>
  launch.kernel @k target "cpu" (%a: memref<512x2048xf32>, %b: memref<2048x49xf32>, %o: memref<512x49xf32>) {
    linalg.matmul ins(%a, %b : memref<512x2048xf32>, memref<2048x49xf32>) outs(%o : memref<512x49xf32>)
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    launch.call @k [@w, @x, @y]
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@y] writes [] {
    launch.fetch "y" from @y
  }
}

// And so does one whose kernel is also given a register in its place.
// CHECK-LABEL: launch.program @either
// CHECK:         launch.variable @w in @v at 0 init <ones> : memref<512x2048xf32>
// CHECK-NOT:     panels
launch.program @either rank 0 {
  launch.chunk @v on <0, host> size 8388608
  launch.chunk @c on <0, host> size 2097152
  launch.variable @w in @v at 0 init <ones> : memref<512x2048xf32>
  launch.register @x in @c at 0 slots 1 : memref<2048x49xf32>
  launch.register @y in @c at 1048576 slots 1 : memref<512x49xf32>
  launch.register @g in @v at 4194304 slots 1 : memref<512x2048xf32>
  launch.register @z in @c at 1572864 slots 1 : memref<512x49xf32>
  launch.kernel @k target "cpu" (%a: memref<512x2048xf32>, %b: memref<2048x49xf32>, %o: memref<512x49xf32>) {
    linalg.matmul ins(%a, %b : memref<512x2048xf32>, memref<2048x49xf32>) outs(%o : memref<512x49xf32>)
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    launch.call @k [@w, @x, @y]
  }
  launch.actor @m on <0, cpu:0> stream 0 reads [@g, @x] writes [@z] {
    launch.call @k [@g, @x, @z]
  }
  launch.actor @give on <0, cpu:0> stream 0 reads [] writes [@g] {
    launch.feed "g" to @g
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@y] writes [] {
    launch.fetch "y" from @y
  }
}

// Windows that many weights of whole vectors read stay where they lie: upright tiles of 8
// columns, two to a line, and two vectors of rows.
// CHECK-LABEL: launch.program @upright
// CHECK:         launch.variable @w in @v at 0 init <ones> panels <[1, 64, 252], axis 1, width 32, depth 252> : memref<64x28x3x3xf32>
// CHECK:         #launch.contraction<upright, tile [8, 2, 16], block [256, 252], panels a>
launch.program @upright rank 0 {
  launch.chunk @v on <0, host> size 1048576
  launch.chunk @c on <0, host> size 2097152
  launch.variable @w in @v at 0 init <ones> : memref<64x28x3x3xf32>
  launch.register @x in @c at 0 slots 1 : memref<1x28x18x18xf32>
  launch.register @y in @c at 1048576 slots 1 : memref<1x64x16x16xf32>
  launch.kernel @k target "cpu" (%x: memref<1x28x18x18xf32>, %w: memref<64x28x3x3xf32>, %o: memref<1x64x16x16xf32>) {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : memref<1x64x16x16xf32>)
    linalg.generic {indexing_maps = [affine_map<(n, m, y, x, c, p, q) -> (n, c, y + p, x + q)>, affine_map<(n, m, y, x, c, p, q) -> (m, c, p, q)>, affine_map<(n, m, y, x, c, p, q) -> (n, m, y, x)>],
                    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : memref<1x28x18x18xf32>, memref<64x28x3x3xf32>) outs(%o : memref<1x64x16x16xf32>) {
    ^bb0(%a: f32, %b: f32, %s: f32):
      %p = arith.mulf %a, %b : f32
      %t = arith.addf %s, %p : f32
      linalg.yield %t : f32
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

// Each of them would read all of its panel again. Where that is too much for the nearest
// cache (2 x 64 x 576 bytes), windows are packed.
// CHECK-LABEL: launch.program @from_afar
// CHECK:         #launch.contraction<outer, tile [4, 4, 16], block [64, 72], packed, panels a>
launch.program @from_afar rank 0 {
  launch.chunk @v on <0, host> size 1048576
  launch.chunk @c on <0, host> size 2097152
  launch.variable @w in @v at 0 init <ones> : memref<64x64x3x3xf32>
  launch.register @x in @c at 0 slots 1 : memref<1x64x18x18xf32>
  launch.register @y in @c at 1048576 slots 1 : memref<1x64x16x16xf32>
  launch.kernel @k target "cpu" (%x: memref<1x64x18x18xf32>, %w: memref<64x64x3x3xf32>, %o: memref<1x64x16x16xf32>) {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : memref<1x64x16x16xf32>)
    linalg.generic {indexing_maps = [affine_map<(n, m, y, x, c, p, q) -> (n, c, y + p, x + q)>, affine_map<(n, m, y, x, c, p, q) -> (m, c, p, q)>, affine_map<(n, m, y, x, c, p, q) -> (n, m, y, x)>],
                    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : memref<1x64x18x18xf32>, memref<64x64x3x3xf32>) outs(%o : memref<1x64x16x16xf32>) {
    ^bb0(%a: f32, %b: f32, %s: f32):
      %p = arith.mulf %a, %b : f32
      %t = arith.addf %s, %p : f32
      linalg.yield %t : f32
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

// If rows are no whole vectors, they are read line by line where lines are whole ones, and
// packed where not.
// CHECK-LABEL: launch.program @uneven
// CHECK:         #launch.contraction<outer, tile [20, 1, 16], block [40, 576], panels a>
// CHECK-LABEL: launch.program @short
// CHECK:         #launch.contraction<outer, {{.*}}, packed, panels a>
launch.program @uneven rank 0 {
  launch.chunk @v on <0, host> size 1048576
  launch.chunk @c on <0, host> size 2097152
  launch.variable @w in @v at 0 init <ones> : memref<40x64x3x3xf32>
  launch.register @x in @c at 0 slots 1 : memref<1x64x18x18xf32>
  launch.register @y in @c at 1048576 slots 1 : memref<1x40x16x16xf32>
  launch.kernel @k target "cpu" (%x: memref<1x64x18x18xf32>, %w: memref<40x64x3x3xf32>, %o: memref<1x40x16x16xf32>) {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : memref<1x40x16x16xf32>)
    linalg.generic {indexing_maps = [affine_map<(n, m, y, x, c, p, q) -> (n, c, y + p, x + q)>, affine_map<(n, m, y, x, c, p, q) -> (m, c, p, q)>, affine_map<(n, m, y, x, c, p, q) -> (n, m, y, x)>],
                    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : memref<1x64x18x18xf32>, memref<40x64x3x3xf32>) outs(%o : memref<1x40x16x16xf32>) {
    ^bb0(%a: f32, %b: f32, %s: f32):
      %p = arith.mulf %a, %b : f32
      %t = arith.addf %s, %p : f32
      linalg.yield %t : f32
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
launch.program @short rank 0 {
  launch.chunk @v on <0, host> size 1048576
  launch.chunk @c on <0, host> size 2097152
  launch.variable @w in @v at 0 init <ones> : memref<40x64x3x3xf32>
  launch.register @x in @c at 0 slots 1 : memref<1x64x18x12xf32>
  launch.register @y in @c at 1048576 slots 1 : memref<1x40x16x10xf32>
  launch.kernel @k target "cpu" (%x: memref<1x64x18x12xf32>, %w: memref<40x64x3x3xf32>, %o: memref<1x40x16x10xf32>) {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : memref<1x40x16x10xf32>)
    linalg.generic {indexing_maps = [affine_map<(n, m, y, x, c, p, q) -> (n, c, y + p, x + q)>, affine_map<(n, m, y, x, c, p, q) -> (m, c, p, q)>, affine_map<(n, m, y, x, c, p, q) -> (n, m, y, x)>],
                    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : memref<1x64x18x12xf32>, memref<40x64x3x3xf32>) outs(%o : memref<1x40x16x10xf32>) {
    ^bb0(%a: f32, %b: f32, %s: f32):
      %p = arith.mulf %a, %b : f32
      %t = arith.addf %s, %p : f32
      linalg.yield %t : f32
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

// CHECK-LABEL: launch.program @end
launch.program @end rank 0 {
  launch.chunk @c on <0, host> size 64
}

// Few columns, which would leave much of a vector empty, lie one after the other; vectors
// run along terms.
// CHECK-LABEL: launch.program @narrow
// CHECK:         launch.variable @w in @v at 0 init <ones> panels <[1, 512, 5], axis 2, width 1, depth 512> : memref<512x5xf32>
// CHECK:         #launch.contraction<inner, tile [4, 5, 16], block [128, 512], panels b>
launch.program @narrow rank 0 {
  launch.chunk @v on <0, host> size 1048576
  launch.chunk @c on <0, host> size 2097152
  launch.variable @w in @v at 0 init <ones> : memref<512x5xf32>
  launch.register @x in @c at 0 slots 1 : memref<128x512xf32>
  launch.register @y in @c at 1048576 slots 1 : memref<128x5xf32>
  launch.kernel @k target "cpu" (%a: memref<128x512xf32>, %b: memref<512x5xf32>, %o: memref<128x5xf32>) {
    linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
                    iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<128x512xf32>, memref<512x5xf32>) outs(%o : memref<128x5xf32>) {
    ^bb0(%x: f32, %y: f32, %s: f32):
      %p = arith.mulf %x, %y : f32
      %t = arith.addf %s, %p : f32
      linalg.yield %t : f32
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
