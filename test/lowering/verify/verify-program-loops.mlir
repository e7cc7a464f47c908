// RUN: penstock-opt %s -p verify-program | filecheck %s

// CHECK: launch.loop 4 {
// A scan: values are written before they are read, also those that are carried, and under
// another name of the same row.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @h in @c at 64 slots 1 : memref<2xf32>
  launch.register @y in @c at 128 slots 1 : memref<4x2xf32>
  launch.register @b in @c at 192 slots 1 : memref<64xi8>
  launch.register @t in @c at 256 slots 1 : memref<i1>
  launch.register @g in @c at 320 slots 1 : memref<2xf32>
  launch.register @m in @c at 384 slots 1 : memref<64xi8>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @t] {
    launch.feed "x" to @x
    launch.feed "t" to @t
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x, @t] writes [@h, @y, @b] {
    launch.subview @x0 of @x at 0 : memref<2xf32>
    launch.copy @x0 to @h
    launch.loop 4 {
      launch.subview @xi of @x at 0 step 8 : memref<2xf32>
      launch.subview @yi of @y at 0 step 8 : memref<2xf32>
      launch.subview @p of @b at 8 : memref<2xf32>
      launch.subview @q of @b at 8 : memref<2xf32>
      launch.carry @before to @after in [@h at 0, @b at 0] : memref<2xf32>
      launch.call @k [@xi, @p]
      launch.subview @yj of @y at 0 step 8 : memref<2xf32>
      launch.call @k [@p, @yi]
      launch.call @k [@yj, @q]
      launch.call @k [@before, @q]
      launch.call @k [@q, @after]
    }
    launch.if @t {
      launch.copy @x to @y
    } else {
    }
  }
  // Rows that an iteration writes whole, and a loop within it reads part by part, or
  // carries on in, by turns with other bytes; and a loop without iterations.
  launch.actor @rows on <0, cpu:0> stream 0 reads [@x] writes [@g, @m] {
    launch.loop 3 {
      launch.subview @row of @m at 0 step 16 : memref<2x2xf32>
      launch.subview @two of @x at 0 : memref<2x2xf32>
      launch.copy @two to @row
      launch.loop 2 {
        launch.subview @part of @row at 0 step 8 : memref<2xf32>
        launch.call @k [@part, @g]
      }
      launch.loop 2 {
        launch.carry @from to @to in [@row at 0, @m at 48] : memref<2xf32>
        launch.call @k [@from, @to]
      }
      launch.loop 0 {
        launch.subview @none of @m at 48 step 8 : memref<2xf32>
        launch.call @k [@none, @g]
      }
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y, @g] writes [] {
    launch.fetch "g" from @g
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}
